import pytest
import torch

from captioning.data.batch import CaptionBatch, collate
from captioning.errors import ShapeError
from captioning.features.image_features import ImageFeatures
from captioning.text.vocabulary import END, PAD, START

IDS = ("a.jpg", "b.jpg", "c.jpg")
CAPTIONS = [[[START, 7, 8, END]], [], [[START, 9, END], [START, 4, 5, 6, 7, END]]]


def features(images: int) -> ImageFeatures:
    return ImageFeatures(torch.randn(images, 10, 7), 2, 5, torch.ones(images, 10, dtype=torch.bool))


def test_captions_stand_in_the_rows_of_their_image_and_the_rest_is_padding() -> None:
    batch = collate(IDS, features(3), CAPTIONS)
    assert batch.words.shape == (3, 2, 6)
    assert batch.words[0].tolist() == [[START, 7, 8, END, PAD, PAD], [PAD] * 6]
    assert batch.words[1].tolist() == [[PAD] * 6] * 2
    assert batch.words[2].tolist() == [[START, 9, END, PAD, PAD, PAD], [START, 4, 5, 6, 7, END]]
    assert batch.captions == 3


def test_targets_are_the_inputs_one_word_on_and_the_end_is_a_word() -> None:
    batch = collate(IDS, features(3), CAPTIONS)
    assert torch.equal(batch.inputs[..., 1:], batch.targets[..., :-1])
    assert batch.targets[2, 0].tolist() == [9, END, PAD, PAD, PAD]
    assert batch.is_word.sum(dim=-1).tolist() == [[3, 0], [0, 0], [2, 5]]


def test_a_batch_of_one_image_and_one_of_none_with_captions_keep_their_axes() -> None:
    one = collate(["a.jpg"], torch.zeros(1, 3, 4, 4), [[[START, 5, END]]])
    assert one.words.shape == (1, 1, 3)
    assert one.features is None
    wordless = collate(IDS, features(3), [[], [], []])
    assert wordless.targets.shape == (3, 0, 0)
    assert wordless.captions == 0


def test_every_tensor_moves_with_the_batch() -> None:
    moved = collate(IDS, features(3), CAPTIONS).to("meta")
    assert moved.features is not None
    assert moved.features.mask is not None
    assert {moved.words.device.type, moved.features.regions.device.type, moved.features.mask.device.type} == {"meta"}
    pixels = collate(IDS, torch.zeros(3, 3, 4, 4), CAPTIONS).to("meta").pixels
    assert pixels is not None
    assert pixels.device.type == "meta"


def test_shapes_that_do_not_fit_are_told() -> None:
    with pytest.raises(ShapeError, match="a picture for each of 3 ids, got 2"):
        collate(IDS, features(2), CAPTIONS)
    with pytest.raises(ShapeError, match="one list for each of 3 ids, got 1"):
        collate(IDS, features(3), [[]])
    with pytest.raises(ShapeError, match="either features or pixels, got neither"):
        CaptionBatch(IDS, None, None, torch.zeros(3, 1, 2, dtype=torch.int64))
    with pytest.raises(ShapeError, match=r"words: expected \(B, M, T\+1\) int64 with B = 3, got \(3, 2\)"):
        CaptionBatch(IDS, features(3), None, torch.zeros(3, 2, dtype=torch.int64))
