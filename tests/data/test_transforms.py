"""The square that the encoder sees, and the placement that overlays invert."""

import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import functional as judge

from captioning.data.transforms import ImageTransform, fit_square
from captioning.errors import ImageError
from captioning.features.geometry import Box
from captioning.features.preprocessing import Preprocessing

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def smooth_picture(width: int, height: int) -> Image.Image:
    """Slow waves: what any good resampling keeps."""
    y, x = np.mgrid[0:height, 0:width]
    waves = np.stack([np.sin(x / 23), np.cos(y / 19), np.sin((x + y) / 29)], axis=-1)
    return Image.fromarray(np.uint8(np.rint(127.5 + 100 * waves)))


def dot_at(width: int, height: int, x: float, y: float) -> Image.Image:
    """A white blob on black whose centre of mass is (x, y)."""
    rows, columns = np.mgrid[0:height, 0:width] + 0.5
    blob = 255 * np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / (2 * 6.0**2))
    return Image.fromarray(np.uint8(blob)).convert("RGB")


def centre_of_mass(square: Image.Image) -> tuple[float, float]:
    light = np.asarray(square.convert("L"), dtype=float)
    light[light < 20] = 0
    rows, columns = np.indices(light.shape) + 0.5
    return float((columns * light).sum() / light.sum()), float((rows * light).sum() / light.sum())


def test_crop_is_what_torchvision_does_by_resizing_and_cropping() -> None:
    picture = smooth_picture(512, 384)
    preprocessing = Preprocessing(size=168, crop_fraction=0.875)
    square, placement = fit_square(picture, preprocessing)
    expected = judge.center_crop(judge.resize(picture, 192), [168, 168])
    assert np.abs(np.asarray(square, int) - np.asarray(expected, int)).max() <= 2
    assert placement.box == Box(88.0, 24.0, 424.0, 360.0)


def test_squash_is_the_whole_picture_resized() -> None:
    picture = smooth_picture(211, 137)
    square, placement = fit_square(picture, Preprocessing(size=61, fit="squash", interpolation="bicubic"))
    expected = picture.resize((61, 61), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(np.asarray(square), np.asarray(expected))
    assert placement.box == Box(0, 0, 211, 137)
    assert (placement.width, placement.height) == (211, 137)


def test_pad_keeps_proportions_on_a_square_of_the_mean_colour() -> None:
    picture = Image.new("RGB", (300, 200), (255, 255, 255))
    square, placement = fit_square(picture, Preprocessing(size=60, fit="pad"))
    assert square.getpixel((30, 9)) == (124, 116, 104)
    assert square.getpixel((30, 10)) == square.getpixel((0, 49)) == (255, 255, 255)
    assert square.getpixel((30, 50)) == (124, 116, 104)
    assert placement.box == Box(0, -50, 300, 250)


@pytest.mark.parametrize("fit", ["crop", "squash", "pad"])
@pytest.mark.parametrize("size", [(307, 211), (211, 307), (97, 89), (409, 101)])
def test_the_placement_says_where_the_square_lies(fit: str, size: tuple[int, int]) -> None:
    width, height = size
    x, y = width / 2 + 17.25, height / 2 - 21.5
    square, placement = fit_square(dot_at(width, height, x, y), Preprocessing(size=113, fit=fit, mean=(0, 0, 0)))
    seen_x, seen_y = centre_of_mass(square)
    left, top, right, bottom = placement.box
    assert left + seen_x * (right - left) / 113 == pytest.approx(x, abs=0.6)
    assert top + seen_y * (bottom - top) / 113 == pytest.approx(y, abs=0.6)


@pytest.mark.parametrize("fit", ["crop", "squash", "pad"])
@pytest.mark.parametrize("size", [(1, 1), (1000, 1), (1, 1000), (3, 2)])
def test_tiny_pictures_and_strips_keep_their_colour_and_channels(fit: str, size: tuple[int, int]) -> None:
    preprocessing = Preprocessing(size=31, fit=fit)
    tensor, placement = ImageTransform(preprocessing)(Image.new("RGB", size, (30, 180, 30)))
    assert tensor.shape == (3, 31, 31)
    middle = tensor[:, 15, 15] * torch.tensor(DEVIATION) + torch.tensor(MEAN)
    torch.testing.assert_close(middle, torch.tensor([30, 180, 30]) / 255, rtol=0, atol=1e-3)
    assert placement.box.right > placement.box.left
    assert placement.box.bottom > placement.box.top
    if fit != "pad":
        assert (tensor.amax((1, 2)) - tensor.amin((1, 2))).max() == 0


def test_the_tensor_is_normalized_as_torchvision_does_it() -> None:
    preprocessing = Preprocessing(size=43, mean=(0.1, 0.2, 0.3), deviation=(0.5, 0.6, 0.7))
    picture = smooth_picture(43, 43)
    tensor, _ = ImageTransform(preprocessing)(picture)
    expected = judge.normalize(judge.to_tensor(picture), [0.1, 0.2, 0.3], [0.5, 0.6, 0.7])
    assert tensor.dtype == torch.float32
    assert tensor.is_contiguous()
    torch.testing.assert_close(tensor, expected, rtol=0, atol=1e-6)


def test_a_picture_that_was_not_loaded_by_the_loader_is_refused() -> None:
    with pytest.raises(ImageError, match="expected mode RGB, got L; read it with load_image"):
        fit_square(Image.new("L", (5, 5)), Preprocessing(size=7))


def test_a_transform_can_be_sent_to_a_worker() -> None:
    transform = ImageTransform(Preprocessing(size=7))
    assert pickle.loads(pickle.dumps(transform)) == transform
