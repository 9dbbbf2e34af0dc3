import json
import os
from pathlib import Path

import pytest

from captioning.data.formats import FORMATS, read_captions, recognize
from captioning.errors import DataError

FILES = {
    "tokens.txt": ("flickr8k", "a.jpg#0\ta board\n"),
    "tokens.csv": ("flickr8k", "\na.jpg#0\ta board\n"),
    "commas.txt": ("flickr8k", "image,caption\na.jpg,a board\n"),
    "commas.csv": ("table", "image,caption\na.jpg,a board\n"),
    "tabs.txt": ("table", "image\tcaption\na.jpg\ta board\n"),
    "lines.jsonl": ("table", '{"image": "a.jpg", "captions": ["a board"]}\n'),
    "karpathy.json": (
        "karpathy",
        json.dumps({"images": [{"filename": "a.jpg", "split": "train", "sentences": [{"raw": "a board"}]}]}),
    ),
    "coco.json": (
        "coco",
        json.dumps(
            {
                "annotations": [{"image_id": 1, "caption": "a board"}],
                "images": [{"id": 1, "file_name": "a.jpg"}],
            }
        ),
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_known_by_what_it_holds(tmp_path: Path, name: str) -> None:
    expected, text = FILES[name]
    (tmp_path / "a.jpg").touch()
    path = tmp_path / name
    path.write_text(text)
    assert recognize(path) == expected
    assert read_captions(path).captions == read_captions(path, format_name=expected).captions == ("a board",)


def test_every_format_is_recognized_by_some_file() -> None:
    no_files = {"folder", "huggingface", "webdataset"}
    assert {expected for expected, _ in FILES.values()} | no_files == set(FORMATS)


def test_a_named_format_wins(tmp_path: Path) -> None:
    path = tmp_path / "captions.csv"
    path.write_text("image,caption\na.jpg,A boy , a girl\n")
    (tmp_path / "a.jpg").touch()
    assert read_captions(path, format_name="flickr8k").captions == ("A boy , a girl",)
    with pytest.raises(DataError, match="or read the file as flickr8k"):
        read_captions(path)


def test_unknown_formats_and_lists_that_do_not_apply_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "captions.csv"
    path.write_text("a.jpg,a board\n")
    with pytest.raises(
        DataError, match="expected one of flickr8k, karpathy, coco, table, folder, huggingface, webdataset, got 'excel'"
    ):
        read_captions(path, format_name="excel")
    with pytest.raises(DataError, match="split lists go with the format flickr8k, not with table"):
        read_captions(path, split_lists={"train": path})


@pytest.mark.shared
def test_the_awkward_files_give_the_records_that_their_manifest_states() -> None:
    if "CAPTIONING_SHARED" not in os.environ:
        pytest.skip("CAPTIONING_SHARED does not point to the shared data")
    folder = Path(os.environ["CAPTIONING_SHARED"]) / "cases" / "files"
    files = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["files"]
    stated = [file for file in files if file["file"].startswith("captions/") and "records" in file["expect"]]
    assert len(stated) >= 10
    for file in stated:
        captions = read_captions(folder / file["file"], images=folder / "images")
        found = [[record.path.name, caption] for record in captions.records for caption in record.captions]
        assert found == file["expect"]["records"], file["file"]
