from collections.abc import Sequence
from pathlib import Path

import pytest

from captioning.data.records import CaptionedImage, CaptionSet, build_vocabulary, clean
from captioning.data.splits import UNCAPTIONED, read_split_lists, split_by_hash
from captioning.errors import DataError


def image(image_id: str, captions: Sequence[str] = ("a board",), split: str = "train") -> CaptionedImage:
    return CaptionedImage(image_id, Path("pictures") / image_id, tuple(captions), split)


def clean_unseen(images: Sequence[CaptionedImage]) -> CaptionSet:
    return clean(images, check_files=False)


def test_captions_without_a_word_are_dropped_and_counted() -> None:
    captions = clean_unseen([image("a.jpg", ["", "   ", "...", "!!!", "—", "a board"])])
    assert captions.captions == ("a board",)
    assert captions.notes == ("5 captions without a word left out",)


def test_images_without_captions_are_kept_for_prediction_and_left_out_of_training() -> None:
    captions = clean_unseen([image("a.jpg", ["a red board", "a board"]), image("b.jpg", []), image("c.jpg", ["?"])])
    assert captions.counts() == {"train": (1, 2), UNCAPTIONED: (2, 0)}
    assert [record.image_id for record in captions.split("train").records] == ["a.jpg"]
    assert [record.image_id for record in captions.split(UNCAPTIONED).records] == ["b.jpg", "c.jpg"]
    assert "2 images without captions, good for prediction only: b.jpg, c.jpg" in captions.notes


def test_an_id_that_comes_twice_is_refused_by_name() -> None:
    with pytest.raises(DataError, match=r"image id 'b\.jpg': expected once, got 2 images"):
        clean_unseen([image("a.jpg"), image("b.jpg"), image("b.jpg")])


def test_an_unknown_split_is_left_out_and_reported() -> None:
    captions = clean_unseen([image("a.jpg"), image("b.jpg", split="spare"), image("c.jpg", split="spare")])
    assert captions.counts() == {"train": (1, 1)}
    assert captions.notes == ("split 'spare' is none of train, val, test: 2 images left out",)


def test_missing_pictures_are_left_out_by_name(tmp_path: Path) -> None:
    there = CaptionedImage("a.jpg", tmp_path / "a.jpg", ("a board",), "train")
    there.path.touch()
    gone = CaptionedImage("b.jpg", tmp_path / "b.jpg", ("a board",), "train")
    assert clean([there, gone]).records == (there,)
    assert clean([there, gone]).notes == (f"1 pictures not found: {gone.path}",)
    with pytest.raises(DataError, match=r"none is left: 1 pictures not found: .*b\.jpg"):
        clean([gone])


def test_a_caption_that_comes_twice_is_kept_and_counted() -> None:
    captions = clean_unseen([image("a.jpg", ["a red board", "a red board", "a board"])])
    assert len(captions.captions) == 3
    assert captions.notes == ("1 captions are duplicates within their image; they are kept",)


def test_captions_come_in_composed_form_without_surrounding_blanks() -> None:
    captions = clean_unseen([image("a.jpg", ["  a cafe\u0301 table\r"])])
    assert captions.captions == ("a caf\u00e9 table",)


@pytest.mark.parametrize("text", ["null", "None", "NA", "nan", "TRUE", "007", "一只狗在雪地里", "एक कुत्ता"])
def test_words_that_others_take_for_missing_values_stay_text(text: str) -> None:
    assert clean_unseen([image("a.jpg", [text])]).captions == (text,)


def test_captions_stay_with_their_image_whatever_their_number() -> None:
    captions = clean_unseen([image(f"{n}.jpg", [f"board {n} {i}" for i in range(n)]) for n in (7, 5, 1)])
    assert {key: len(value) for key, value in captions.references.items()} == {
        "7.jpg": 7,
        "5.jpg": 5,
        "1.jpg": 1,
    }
    assert all(caption.startswith(f"board {key[0]}") for key, own in captions.references.items() for caption in own)


def test_only_training_words_enter_the_vocabulary() -> None:
    train = image("a.jpg", ["a red board"] * 5)
    others = [image("b.jpg", ["a zebra crossing"] * 5, "test"), image("c.jpg", ["a blue whale"] * 5, "val")]
    vocabulary = build_vocabulary(clean_unseen([train, *others]), minimum_count=1)
    assert len(vocabulary) == 4 + 3
    assert "zebra" not in vocabulary
    assert "board" in vocabulary


def test_asking_for_a_split_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(DataError, match=r"split 'test': expected at least one image, got none; there is train, val"):
        clean_unseen([image("a.jpg"), image("b.jpg", split="val")]).split("test")


def test_the_hash_splits_by_the_fractions_and_by_the_id_alone() -> None:
    fractions = {"train": 0.5, "dev": 0.25, "test": 0.25}
    splits = [split_by_hash(f"{n}.jpg", fractions) for n in range(4000)]
    assert splits == [split_by_hash(f"{n}.jpg", fractions) for n in range(4000)]
    # Five deviations of a binomial count: sqrt(4000 / 4) = 31.6 is the most that one can have.
    assert abs(splits.count("train") - 2000) < 158
    assert abs(splits.count("val") - 1000) < 158
    assert {split_by_hash(f"{n}.jpg", {"train": 0.0, "test": 1.0}) for n in range(50)} == {"test"}
    with pytest.raises(DataError, match="sum to 1"):
        split_by_hash("a.jpg", {"train": 0.5, "test": 0.6})


def test_a_picture_in_two_split_lists_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a.jpg\n\nb.jpg\n")
    (tmp_path / "dev.txt").write_text("c.jpg\r\nb.jpg\r\n")
    with pytest.raises(DataError, match=r"dev\.txt, line 2: b\.jpg is in val, and in train too"):
        read_split_lists({"train": tmp_path / "train.txt", "dev": tmp_path / "dev.txt"})
