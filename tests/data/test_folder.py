from pathlib import Path

import pytest
from PIL import Image

from captioning.data.faults import MISSING
from captioning.data.formats import read_captions, recognize
from captioning.errors import DataError


def put(folder: Path, name: str, *captions: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4)).save(path)
    if captions:
        path.with_suffix(".txt").write_text("\n".join(captions), encoding="utf-8")


def test_texts_beside_pictures_are_their_captions_line_by_line(tmp_path: Path) -> None:
    put(tmp_path, "train/a.jpg", "a red board", "", "  ", "a board, and a sign")
    put(tmp_path, "dev/b.PNG", "two dogs")
    put(tmp_path, "test/deep/c.webp", "一只狗")
    put(tmp_path, "test/d.png")
    (tmp_path / "notes.txt").write_text("no picture")
    assert recognize(tmp_path) == "folder"
    faults: list = []
    captions = read_captions(tmp_path, faults=faults)
    found = {record.image_id: (record.split, record.captions) for record in captions.records}
    assert found == {
        "a.jpg": ("train", ("a red board", "a board, and a sign")),
        "b.PNG": ("val", ("two dogs",)),
        "c.webp": ("test", ("一只狗",)),
        "d.png": ("uncaptioned", ()),
    }
    assert captions.notes == (
        "1 text files without a picture: notes.txt",
        "1 images without captions, good for prediction only: d.png",
    )
    assert [fault.image for fault in faults if fault.kind == MISSING] == ["notes.txt"]


def test_pictures_and_texts_may_lie_apart_and_are_split_by_their_id(tmp_path: Path) -> None:
    for number in range(40):
        put(tmp_path / "photos", f"{number}.png")
        (tmp_path / f"{number}.txt").write_text(f"picture {number}")
    captions = read_captions(tmp_path, format_name="folder", images=tmp_path / "photos")
    assert len(captions) == 40
    assert captions.counts()["train"].images > 20
    again = read_captions(tmp_path, format_name="folder", images=tmp_path / "photos")
    assert again.records == captions.records


def test_a_folder_without_pictures_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a dog")
    with pytest.raises(DataError, match=r"expected pictures .* found none"):
        read_captions(tmp_path)
