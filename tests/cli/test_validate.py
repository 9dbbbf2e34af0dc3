"""`captioning validate`: what it lists, what it calls lost, and the cleaned list that it writes."""

import json

import numpy as np
import pytest
from PIL import Image

from captioning.data.formats import read_captions
from tests.cli.conftest import call


def noise(seed, size=(40, 50)):
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


ROWS = [
    ("good.png", "a red board", "train"),
    ("good.png", "a red board", "train"),
    ("good.png", "a board, with a sign", "train"),
    ("twin.png", "a twin of the good one", "test"),
    ("small.png", "a tiny picture", "train"),
    ("flat.png", "one colour", "train"),
    ("cut.jpg", "half a picture", "train"),
    ("page.jpg", "a web page", "val"),
    ("gone.jpg", "nothing there", "val"),
    ("val.png", "a word " * 51, "val"),
    ("val.png", "...", "val"),
    ("empty.png", "", "val"),
    ("other.png", "of no known split", "tset"),
    ("both.png", "in two splits", "train"),
    ("both.png", "in two splits, too", "test"),
]


@pytest.fixture
def awkward(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    for number, name in enumerate(["good", "val", "empty", "other", "both"]):
        noise(number).save(folder / f"{name}.png")
    (folder / "twin.png").write_bytes((folder / "good.png").read_bytes())
    noise(7, (8, 90)).save(folder / "small.png")
    Image.new("RGB", (60, 40), "red").save(folder / "flat.png")
    noise(9).save(folder / "cut.jpg")
    (folder / "cut.jpg").write_bytes((folder / "cut.jpg").read_bytes()[:900])
    (folder / "page.jpg").write_text("<html>404</html>")
    lines = [",".join((name, f'"{caption}"', split)) for name, caption, split in ROWS]
    (folder / "captions.csv").write_text("image,caption,split\n" + "\n".join(lines) + "\n")
    return folder / "captions.csv"


def told(capsys, *arguments):
    """(exit status, the report)."""
    status = call("validate", *arguments, "--json")
    return status, json.loads(capsys.readouterr().out)


def test_everything_is_listed_once_under_its_kind(awkward, capsys):
    status, report = told(capsys, awkward)
    found = {kind: [fault["image"] for fault in faults] for kind, faults in report["faults"].items()}
    assert found == {
        "broken picture": ["cut.jpg", "page.jpg"],
        "missing picture": ["gone.jpg"],
        "caption without a word": ["val.png", "empty.png"],
        "no captions": ["empty.png"],
        "unknown split": ["other.png"],
        "in more than one split": ["both.png", "good.png"],
        "duplicate picture": ["good.png"],
        "odd picture": ["small.png", "flat.png"],
        "duplicate caption": ["good.png"],
        "overlong caption": ["val.png"],
    }
    assert status == 1
    assert report["lost"] == 7
    assert report["splits"]["train"] == {
        "images": 5,
        "captions": 8,
        "captions_per_image": {"1": 3, "2": 1, "3": 1},
        "words": [2, 26 / 8, 5],
        "known": 6 / 26,  # a, of which there are six
    }


def test_the_report_for_people_names_and_counts(awkward, capsys):
    assert call("validate", awkward) == 1
    text = capsys.readouterr().out
    assert "broken picture: 2\n  cut.jpg: " in text
    assert "page.jpg: not a readable picture; it seems to be an HTML page" in text
    assert text.rstrip().endswith("7 would be lost")
    assert "check pictures" not in text


def test_the_cleaned_list_has_nothing_to_lose_and_the_original_stays(awkward, tmp_path, capsys):
    before = {path.name: path.read_bytes() for path in awkward.parent.iterdir()}
    assert call("validate", awkward, "--fix", tmp_path / "clean") == 1
    assert {path.name: path.read_bytes() for path in awkward.parent.iterdir()} == before
    cleaned = tmp_path / "clean" / "captions.csv"
    captions = read_captions(cleaned)
    found = {record.image_id: (record.split, len(record.captions)) for record in captions.records}
    assert found == {
        "twin.png": ("test", 1),  # of two equal pictures the one in test stays
        "small.png": ("train", 1),
        "flat.png": ("train", 1),
        "val.png": ("val", 1),
        "both.png": ("train", 2),
    }
    capsys.readouterr()
    status, report = told(capsys, cleaned)
    assert status == 0
    assert set(report["faults"]) == {"odd picture", "overlong caption"}
    assert call("validate", awkward, "--fix", tmp_path / "clean") == 2
    assert "captions.csv: there is one already" in capsys.readouterr().err


def test_ids_that_are_no_names_survive_the_cleaning(tmp_path, capsys):
    noise(1).save(tmp_path / "a.png")
    content = {
        "images": [{"id": "007", "file_name": "a.png"}, {"id": 8, "file_name": "gone.png"}],
        "annotations": [{"image_id": "007", "caption": "a board"}, {"image_id": 8, "caption": "a dog"}],
    }
    (tmp_path / "coco.json").write_text(json.dumps(content))
    assert call("validate", tmp_path / "coco.json", "--fix", tmp_path / "clean") == 1
    [record] = read_captions(tmp_path / "clean" / "captions.json").records
    assert (record.image_id, record.path, record.captions) == ("007", tmp_path / "a.png", ("a board",))


def test_a_sound_set_gets_status_zero_and_captions_can_be_checked_alone(tmp_path, capsys):
    noise(1).save(tmp_path / "a.png")
    (tmp_path / "rows.csv").write_text("image,caption\na.png,a board\n")
    assert call("validate", tmp_path / "rows.csv") == 0
    assert "nothing would be lost" in capsys.readouterr().out
    (tmp_path / "rows.csv").write_text("image,caption\ngone.png,a board\n")
    assert call("validate", tmp_path / "rows.csv", "--captions_only") == 0
    assert call("validate", tmp_path / "rows.csv") == 1


def test_split_lists_that_do_not_fit_are_listed(tmp_path, capsys):
    (tmp_path / "tokens.txt").write_text("a.jpg#0\ta dog\nb.jpg#0\ta cat\nc.jpg#0\ta hat\n")
    (tmp_path / "train.txt").write_text("a.jpg\nz.jpg\n")
    (tmp_path / "test.txt").write_text("a.jpg\nb.jpg\n")
    splits = "{train: train.txt, test: test.txt}"
    status, report = told(capsys, tmp_path / "tokens.txt", "--splits", splits, "--captions_only")
    assert status == 1
    assert {kind: [fault["image"] for fault in faults] for kind, faults in report["faults"].items()} == {
        "no captions": ["z.jpg"],
        "in more than one split": ["a.jpg"],
        "in no split list": ["c.jpg"],
    }


def test_a_wrong_call_is_one_line(tmp_path, capsys):
    assert call("validate", tmp_path / "nowhere.csv") == 2
    error = capsys.readouterr().err.strip()
    assert "nowhere.csv: expected a file" in error
    assert len(error.splitlines()) == 1
