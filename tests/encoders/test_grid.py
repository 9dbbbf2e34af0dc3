from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torchvision
from torch import Tensor, nn

from captioning.encoders import torchvision_networks
from captioning.encoders.cut import map_shape
from captioning.encoders.grid import GridEncoder
from captioning.encoders.make import make_encoder
from captioning.errors import ConfigError, ShapeError
from captioning.features.image_features import ImageFeatures

SIZE = 67


def noise(count: int, size: int = SIZE) -> Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(count))


def random_network(name: str) -> nn.Module:
    """A whole network with batch statistics that are not those of a fresh one."""
    torch.manual_seed(0)
    network = torchvision.models.get_model(name, weights=None)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
    return network.eval()


HEADS: dict[str, Callable[[nn.Module, Tensor], Tensor]] = {
    "resnet18": lambda network, maps: network.fc(maps.mean(dim=(2, 3))),
    "densenet121": lambda network, maps: network.classifier(maps.mean(dim=(2, 3))),
    "mobilenet_v3_small": lambda network, maps: network.classifier(maps.mean(dim=(2, 3))),
    "regnet_x_400mf": lambda network, maps: network.fc(maps.mean(dim=(2, 3))),
    "shufflenet_v2_x0_5": lambda network, maps: network.fc(maps.mean(dim=(2, 3))),
    "squeezenet1_1": lambda network, maps: network.classifier(maps).flatten(1),
    "convnext_tiny": lambda network, maps: network.classifier(network.avgpool(maps)),
}


@pytest.mark.parametrize("name", HEADS)
def test_the_rest_of_the_network_turns_the_regions_into_its_logits(name: str, tmp_path: Path) -> None:
    network = random_network(name)
    torch.save(network.state_dict(), tmp_path / "weights.pth")
    encoder = make_encoder(name, weights=str(tmp_path / "weights.pth"), image_size=SIZE)
    features = encoder(noise(2))
    maps = features.regions.transpose(1, 2).unflatten(2, (features.rows, features.columns))
    assert maps.shape == (2, encoder.width, encoder.rows, encoder.columns)
    torch.testing.assert_close(HEADS[name](network, maps), network(noise(2)), rtol=1e-3, atol=1e-4)


def test_vgg19_gives_the_grid_of_the_paper() -> None:
    with torch.device("meta"):
        network, _ = torchvision_networks.build("vgg19", image_size=None, pretrained=False)
        cut = torchvision_networks.cut(network, None)
    assert map_shape(cut.trunk, 224) == (1, 512, 14, 14)
    assert torchvision_networks.preprocessing("vgg19").size == 224


@pytest.mark.parametrize(("pixel_row", "pixel_column"), [(0, 31), (31, 0), (12, 20)])
def test_regions_run_row_by_row(pixel_row: int, pixel_column: int) -> None:
    encoder = make_encoder("resnet18", image_size=32, layer="conv1")
    before = noise(1, 32)
    after = before.clone()
    after[..., pixel_row, pixel_column] += 5.0
    changed = (encoder(after).regions != encoder(before).regions).any(dim=2).squeeze(0)
    cells = {(index // encoder.columns, index % encoder.columns) for index in changed.nonzero().flatten().tolist()}
    assert (pixel_row // 2, pixel_column // 2) in cells
    assert all(abs(row - pixel_row / 2) <= 2 and abs(column - pixel_column / 2) <= 2 for row, column in cells)


def test_a_layer_in_the_middle_gives_the_networks_own_map(tmp_path: Path) -> None:
    network = random_network("resnet18")
    torch.save(network.state_dict(), tmp_path / "weights.pth")
    encoder = make_encoder("resnet18", weights=str(tmp_path / "weights.pth"), image_size=SIZE, layer="layer3")
    seen: list[Tensor] = []
    network.layer3.register_forward_hook(lambda module, inputs, output: seen.append(output))
    network(noise(2))
    torch.testing.assert_close(encoder(noise(2)).regions, seen[0].flatten(2).transpose(1, 2), rtol=1e-4, atol=1e-4)
    assert (encoder.layer, encoder.width) == ("layer3", 256)


class Captioner(nn.Module):
    """A parent that learns, as training has it."""

    def __init__(self, encoder: GridEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.readout = nn.Linear(encoder.width, 1)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.readout(self.encoder(pixels).regions).square().mean()


def train_a_little(captioner: Captioner, steps: int = 3) -> None:
    optimizer = torch.optim.SGD([p for p in captioner.parameters() if p.requires_grad], lr=0.1)
    for step in range(steps):
        captioner.train()
        loss = captioner(noise(3 + step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def test_a_frozen_encoder_keeps_weights_buffers_and_mode() -> None:
    captioner = Captioner(make_encoder("resnet18", image_size=SIZE))
    encoder, pixels = captioner.encoder, noise(5)
    before, features = encoder.fingerprint(), encoder(pixels).regions
    train_a_little(captioner)
    assert encoder.fingerprint() == before
    assert torch.equal(encoder(pixels).regions, features)
    assert not any(module.training for module in encoder.trunk.modules())
    torch.testing.assert_close(encoder(pixels[2:3]).regions, features[2:3], rtol=1e-3, atol=1e-4)
    assert encoder.parameters_to_tune() == []
    assert not encoder(pixels).regions.requires_grad


def test_tuning_moves_the_named_stage_and_what_follows_and_nothing_before() -> None:
    captioner = Captioner(make_encoder("resnet18", image_size=SIZE, tune_from="layer3"))
    encoder = captioner.encoder
    before = {name: tensor.clone() for name, tensor in encoder.trunk.state_dict().items()}
    train_a_little(captioner)
    after = encoder.trunk.state_dict()
    moved = {name.split(".")[0] for name in before if not torch.equal(before[name], after[name])}
    assert moved == {"layer3", "layer4"}
    learning = {name.split(".")[0] for name, parameter in encoder.trunk.named_parameters() if parameter.requires_grad}
    assert learning == {"layer3", "layer4"}
    tuned = [*encoder.trunk.layer3.parameters(), *encoder.trunk.layer4.parameters()]
    assert [id(parameter) for parameter in encoder.parameters_to_tune()] == [id(parameter) for parameter in tuned]
    training = {name for name, module in encoder.trunk.named_children() if module.training}
    assert training == {"layer3", "layer4"}
    captioner.eval()
    assert not any(module.training for module in encoder.modules())


@pytest.mark.parametrize(
    ("name", "tune_from", "stored"),
    [
        ("resnet18", "layer3", "layer2"),
        ("mobilenet_v3_small", "features.9", "features.8"),
        ("resnet18", None, "layer4"),
    ],
)
def test_stored_maps_of_the_frozen_part_go_on_to_the_same_regions(name, tune_from, stored) -> None:
    torch.manual_seed(0)
    encoder = make_encoder(name, image_size=SIZE, tune_from=tune_from).eval()
    whole = make_encoder(name, image_size=SIZE)
    whole.load_state_dict(encoder.state_dict())
    assert encoder.stored_layer == stored
    kept = encoder.frozen_part(noise(2))
    assert not kept.regions.requires_grad
    again = ImageFeatures(kept.regions.clone(), kept.rows, kept.columns)
    torch.testing.assert_close(encoder.tuned_part(again).regions, whole(noise(2)).regions, rtol=1e-4, atol=1e-5)
    assert encoder.tuned_part(again).regions.requires_grad == (tune_from is not None)


def test_the_stored_fingerprint_is_that_of_the_frozen_part() -> None:
    torch.manual_seed(0)
    encoder = make_encoder("resnet18", image_size=SIZE, tune_from="layer3")
    torch.manual_seed(0)
    cut_there = make_encoder("resnet18", image_size=SIZE, layer="layer2")
    assert encoder.stored_fingerprint() == cut_there.fingerprint() == cut_there.stored_fingerprint()
    captioner = Captioner(encoder)
    before = encoder.stored_fingerprint()
    train_a_little(captioner)
    assert encoder.stored_fingerprint() == before != encoder.fingerprint()


def test_a_network_tuned_from_its_first_stage_has_nothing_to_store() -> None:
    encoder = make_encoder("resnet18", image_size=SIZE, tune_from="conv1")
    assert encoder.stored_layer is None
    assert encoder(noise(2)).regions.requires_grad
    with pytest.raises(ConfigError, match="resnet18: tuned from its first stage, so it has nothing to store"):
        encoder.stored_fingerprint()


@pytest.mark.parametrize("tune_statistics", [False, True])
def test_batch_norm_of_tuned_stages_keeps_its_statistics_unless_asked(tune_statistics: bool) -> None:
    settings = {"tune_from": "layer4", "tune_statistics": tune_statistics}
    captioner = Captioner(make_encoder("resnet18", image_size=SIZE, **settings))
    norm = captioner.encoder.trunk.layer4[0].bn1
    statistics, weight = norm.running_mean.clone(), norm.weight.detach().clone()
    train_a_little(captioner)
    assert torch.equal(norm.running_mean, statistics) != tune_statistics
    assert not torch.equal(norm.weight, weight)
    assert captioner.encoder.to_dict()["tune_statistics"] == tune_statistics


def test_fingerprint_tells_weights_apart_but_not_memory_formats() -> None:
    torch.manual_seed(0)
    encoder = make_encoder("mobilenet_v3_small", image_size=SIZE)
    torch.manual_seed(0)
    again = make_encoder("mobilenet_v3_small", image_size=SIZE)
    again.trunk.to(memory_format=torch.contiguous_format)
    assert encoder.fingerprint() == again.fingerprint()
    statistics = next(m for m in again.trunk.modules() if isinstance(m, nn.BatchNorm2d)).running_mean
    statistics[0] += 1e-6
    assert encoder.fingerprint() != again.fingerprint()


def test_fingerprint_tells_layers_apart_that_hold_the_same_weights() -> None:
    fingerprints = set()
    for layer in ("bn1", "relu", "maxpool"):
        torch.manual_seed(0)
        fingerprints.add(make_encoder("resnet18", image_size=SIZE, layer=layer).fingerprint())
    assert len(fingerprints) == 3


def test_pixels_of_another_size_are_refused() -> None:
    encoder = make_encoder("mobilenet_v3_small", image_size=SIZE)
    with pytest.raises(ShapeError, match=r"expected \(B, 3, 67, 67\), got \(2, 3, 64, 64\)"):
        encoder(noise(2, 64))


def test_a_size_too_small_for_the_network_is_refused() -> None:
    with pytest.raises(ConfigError, match="squeezenet1_1: takes no pictures of 4 x 4 pixels"):
        make_encoder("squeezenet1_1", image_size=4)
