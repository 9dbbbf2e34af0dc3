import json

import pytest
import torch

from captioning.encoders.make import make_encoder, rebuild_encoder
from captioning.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("resnet5", "resnet50"),
        ("efficientnet_lite", "efficientnet_lite"),
        ("vgg-19", "vgg19"),
        ("timm/resnet19", "timm/resnet18"),
    ],
)
def test_an_unknown_name_gets_the_nearest_ones(name: str, nearest: str) -> None:
    if name.startswith("timm/"):
        pytest.importorskip("timm", reason="needs the timm extra")
    with pytest.raises(ConfigError, match=f"encoder '{name}': unknown; .*nearest: .*{nearest}"):
        make_encoder(name)


@pytest.mark.parametrize("option", ["layer", "tune_from"])
def test_an_unknown_stage_gets_the_nearest_ones(option: str) -> None:
    with pytest.raises(ConfigError, match="stage 'layr3': unknown; nearest: layer3"):
        make_encoder("resnet18", **{option: "layr3"})


def test_a_stage_after_the_cut_cannot_be_tuned() -> None:
    with pytest.raises(ConfigError, match="stage 'layer4': unknown"):
        make_encoder("resnet18", layer="layer3", tune_from="layer4")


def test_an_unknown_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match="fit: expected one of crop, squash, pad, got 'stretch'"):
        make_encoder("resnet18", fit="stretch")


def test_preprocessing_is_read_from_the_library_and_overridden_by_name() -> None:
    native = make_encoder("efficientnet_b0").preprocessing
    assert (native.size, native.interpolation, native.crop_fraction) == (224, "bicubic", 0.875)
    chosen = make_encoder("efficientnet_b0", image_size=97, fit="squash")
    assert (chosen.preprocessing.size, chosen.preprocessing.fit) == (97, "squash")
    assert (chosen.rows, chosen.columns) == (4, 4)


def test_networks_that_rescale_inside_get_their_input_in_one_step() -> None:
    assert make_encoder("googlenet", image_size=64).preprocessing.mean == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("name", ["resnet18", "densenet121", "efficientnet_lite0", "timm/resnet18"])
def test_an_encoder_is_rebuilt_from_plain_types_and_its_tensors(name: str) -> None:
    if name.startswith("timm/"):
        pytest.importorskip("timm", reason="needs the timm extra")
    encoder = make_encoder(name, image_size=67, fit="pad")
    told = json.loads(json.dumps(encoder.to_dict()))
    torch.manual_seed(1)
    again = rebuild_encoder(told)
    assert again.fingerprint() != encoder.fingerprint()
    again.load_state_dict(encoder.state_dict())
    assert again.fingerprint() == encoder.fingerprint()
    assert again.to_dict() == encoder.to_dict()
    pixels = torch.rand(2, 3, 67, 67)
    assert torch.equal(again(pixels).regions, encoder(pixels).regions)


def test_a_rebuilt_encoder_tunes_as_before() -> None:
    encoder = make_encoder("resnet18", image_size=67, layer="layer3", tune_from="layer2")
    again = rebuild_encoder(encoder.to_dict())
    assert len(again.parameters_to_tune()) == len(encoder.parameters_to_tune()) > 0
    assert again.describe() == encoder.describe()
