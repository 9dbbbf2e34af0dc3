import os
from pathlib import Path

import pytest

from captioning.data.flickr8k import read_flickr8k
from captioning.errors import DataError
from captioning.text.tokenize import tokenize

TOKENS = "a.jpg#0\tA red board .\nb.jpg#0\tFour colours .\na.jpg#1\tA board .\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.jpg", "b.jpg", "Dog in snow (1).JPG"):
        (tmp_path / name).touch()
    return tmp_path


def write(folder: Path, text: str, name: str = "captions.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def records_of(path: Path, images: Path | None = None) -> list[tuple[str, str]]:
    records = read_flickr8k(path, images=images, fractions={"train": 1.0}).records
    return [(record.image_id, caption) for record in records for caption in record.captions]


def test_captions_of_one_picture_come_together(folder: Path) -> None:
    expected = [("a.jpg", "A red board ."), ("a.jpg", "A board ."), ("b.jpg", "Four colours .")]
    assert records_of(write(folder, TOKENS)) == expected


def test_only_the_first_comma_splits(folder: Path) -> None:
    path = write(folder, "image,caption\na.jpg,A boy , a girl , and a dog .\nb.jpg,A tall , thin man .\n")
    expected = [("a.jpg", "A boy , a girl , and a dog ."), ("b.jpg", "A tall , thin man .")]
    assert records_of(path) == expected
    headerless = path.read_text().removeprefix("image,caption\n")
    assert records_of(write(folder, headerless, "headerless.txt")) == expected


def test_windows_line_ends_byte_order_mark_and_blank_lines_change_nothing(folder: Path) -> None:
    clean = records_of(write(folder, TOKENS))
    windows = "\ufeff" + TOKENS.replace("\n", "\r\n") + "\r\n  \r\n"
    awkward = records_of(write(folder, windows, "windows.txt"))
    assert awkward == clean
    assert not {"\r", "\ufeff"} & {letter for _, caption in awkward for word in tokenize(caption) for letter in word}


def test_split_lists_say_where_pictures_belong(folder: Path) -> None:
    lists = {
        "train": write(folder, "b.jpg\n", "train.txt"),
        "dev": write(folder, "a.jpg\nz.jpg\n", "dev.txt"),
    }
    path = write(folder, TOKENS + "Dog in snow (1).JPG#0\tA dog .\n")
    captions = read_flickr8k(path, split_lists=lists)
    assert {record.image_id: record.split for record in captions.records} == {
        "a.jpg": "val",
        "b.jpg": "train",
    }
    assert captions.notes == (
        "1 images in no split list left out",
        "1 images of the split lists without captions left out",
    )


def test_names_with_blanks_brackets_and_accents_are_found(folder: Path) -> None:
    (folder / "caf\u00e9.jpg").touch()
    path = write(folder, "Dog in snow (1).JPG#0\tA dog .\ncafe\u0301.jpg#0\tA table .\ncaf\u00e9.jpg#1\tA room .\n")
    expected = [
        ("Dog in snow (1).JPG", "A dog ."),
        ("caf\u00e9.jpg", "A table ."),
        ("caf\u00e9.jpg", "A room ."),
    ]
    assert records_of(path) == expected


def test_pictures_of_one_name_in_two_folders_keep_their_folders_in_the_id(folder: Path) -> None:
    for name in ("left/a.jpg", "right/a.jpg", "right/c.jpg"):
        (folder / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "images" / name).touch()
    path = write(folder, "left/a.jpg#0\tLeft .\nright/a.jpg#0\tRight .\nright/c.jpg#0\tOther .\n")
    ids = [image_id for image_id, _ in records_of(path, folder / "images")]
    assert ids == ["left/a.jpg", "right/a.jpg", "c.jpg"]


def test_a_line_of_another_form_is_told_with_its_number(folder: Path) -> None:
    with pytest.raises(DataError, match=r"captions\.txt, line 4: expected name#number<TAB>caption, got 'a\.jpg A'"):
        read_flickr8k(write(folder, TOKENS + "a.jpg A\n"))
    with pytest.raises(DataError, match=r"none\.txt: expected a file, found nothing there"):
        read_flickr8k(folder / "none.txt")


def test_a_file_in_another_encoding_is_told(folder: Path) -> None:
    path = folder / "latin.txt"
    path.write_bytes("a.jpg#0\tA café .\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"latin\.txt: expected UTF-8"):
        read_flickr8k(path)


@pytest.mark.shared
def test_the_official_splits_have_the_published_sizes() -> None:
    if "CAPTIONING_SHARED" not in os.environ:
        pytest.skip("CAPTIONING_SHARED does not point to the shared data")
    flickr8k = Path(os.environ["CAPTIONING_SHARED"]) / "data" / "flickr8k"
    lists = {"train": flickr8k / "Flickr_8k.trainImages.txt", "val": flickr8k / "Flickr_8k.devImages.txt"}
    captions = read_flickr8k(flickr8k / "Flickr8k.token.txt", images=flickr8k / "images", split_lists=lists)
    assert captions.split("train").counts()["train"] == (6000, 30000)
    assert captions.split("val").counts()["val"] == (1000, 5000)
