from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from captioning.encoders.make import make_encoder
from captioning.errors import ConfigError, WeightsError

timm = pytest.importorskip("timm", reason="needs the timm extra")


def noise(size: int) -> torch.Tensor:
    return torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", ["resnet18", "convnext_atto", "mobilenetv2_035"])
def test_convolutional_networks_give_what_their_head_pools(name: str, tmp_path: Path) -> None:
    network = timm.create_model(name).eval()
    torch.save(network.state_dict(), tmp_path / "weights.pth")
    encoder = make_encoder(f"timm/{name}", weights=str(tmp_path / "weights.pth"), image_size=97)
    features = encoder(noise(97))
    maps = features.regions.transpose(1, 2).unflatten(2, (features.rows, features.columns))
    with torch.no_grad():
        logits = network.forward_head(maps)
        torch.testing.assert_close(logits, network(noise(97)), rtol=1e-4, atol=1e-5)


def test_a_transformer_gives_its_patches_as_a_grid(tmp_path: Path) -> None:
    network = timm.create_model("vit_tiny_patch16_224", img_size=64).eval()
    torch.save(network.state_dict(), tmp_path / "weights.pth")
    encoder = make_encoder("timm/vit_tiny_patch16_224", weights=str(tmp_path / "weights.pth"), image_size=64)
    assert (encoder.rows, encoder.columns, encoder.width) == (4, 4, 192)
    with torch.no_grad():
        tokens = network.forward_features(noise(64))  # the class token, then the patches
    torch.testing.assert_close(encoder(noise(64)).regions, tokens[:, 1:], rtol=1e-4, atol=1e-5)


def test_a_stage_in_the_middle_is_the_networks_own_map(tmp_path: Path) -> None:
    network = timm.create_model("resnet18").eval()
    torch.save(network.state_dict(), tmp_path / "weights.pth")
    encoder = make_encoder(
        "timm/resnet18",
        weights=str(tmp_path / "weights.pth"),
        image_size=67,
        layer="layer2",
        tune_from="layer2",
    )
    encoder.eval()
    seen: list[torch.Tensor] = []
    network.layer2.register_forward_hook(lambda module, inputs, output: seen.append(output))
    with torch.no_grad():
        network(noise(67))
    torch.testing.assert_close(encoder(noise(67)).regions, seen[0].flatten(2).transpose(1, 2), rtol=1e-4, atol=1e-5)
    assert not any("layer3" in name for name, _ in encoder.named_parameters())
    assert len(encoder.parameters_to_tune()) == len(list(network.layer2.parameters()))


def test_preprocessing_is_the_librarys() -> None:
    published = timm.get_pretrained_cfg("convnext_atto")
    read = make_encoder("timm/convnext_atto").preprocessing
    assert (read.size, read.mean, read.deviation) == (224, published.mean, published.std)
    assert (read.interpolation, read.crop_fraction) == (published.interpolation, published.crop_pct)


def test_an_unknown_tag_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"timm/resnet18\.nonsense: .*nonsense"):
        make_encoder("timm/resnet18.nonsense")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of resnet18's weights in the library's cache, empty, on a machine without a network."""
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--timm--resnet18.a1_in1k"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0" * 40)
    (folder / "snapshots" / ("0" * 40)).mkdir(parents=True)
    return folder / "snapshots" / ("0" * 40)


def test_without_a_network_the_way_out_is_named(cache: Path) -> None:
    with pytest.raises(WeightsError, match=r"can't be downloaded .*give a local file"):
        make_encoder("timm/resnet18", weights="library")


def test_a_broken_file_in_the_cache_is_named(cache: Path) -> None:
    (cache / "model.safetensors").write_bytes(b"half of it")
    with pytest.raises(WeightsError, match=r"snapshots.*model\.safetensors: damaged or cut off"):
        make_encoder("timm/resnet18", weights="library")


def test_a_whole_file_in_the_cache_is_enough(cache: Path) -> None:
    network = timm.create_model("resnet18")
    save_file(network.state_dict(), cache / "model.safetensors")
    encoder = make_encoder("timm/resnet18", weights="library", image_size=67)
    assert torch.equal(encoder.trunk.network.conv1.weight, network.conv1.weight)
    assert "weights: timm timm/resnet18.a1_in1k" in encoder.describe()
