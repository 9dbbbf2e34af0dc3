"""`captioning inspect` and `captioning reproduce`, as a user calls them."""

import json

import pytest

from captioning.data.drawn.scenes import SHAPES
from captioning.data.synthetic import read_word_cells
from tests.cli.conftest import call

FEW = ("--words", 4, "--attributions", "[input_x_gradient]", "--beam_size", 1)


@pytest.fixture(scope="module")
def instances(drawn, tmp_path_factory):
    """The drawn shapes as COCO's instances, from the true cells."""
    images, annotations = [], []
    for number, (name, cells) in enumerate(read_word_cells(drawn / "captions.jsonl").items()):
        images.append({"id": number, "file_name": name, "width": 96, "height": 96})
        words = captions_of(drawn)[name].split()
        for word, cell in zip(words, cells, strict=True):
            if word in SHAPES:
                box = [16 * (cell % 6), 16 * (cell // 6), 16, 16]
                annotations.append({"image_id": number, "category_id": SHAPES.index(word), "bbox": box})
    categories = [{"id": number, "name": name} for number, name in enumerate(SHAPES)]
    path = tmp_path_factory.mktemp("instances") / "instances.json"
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    return path


def captions_of(drawn):
    rows = [json.loads(line) for line in (drawn / "captions.jsonl").read_text(encoding="utf-8").splitlines()]
    return {row["image"]: row["caption"] for row in rows}


def test_inspect_takes_the_runs_data_and_says_what_maps_can_be_used_for(trained, instances, tmp_path, capsys):
    output = tmp_path / "page"
    assert call("inspect", trained, "--regions", instances, "--output", output, *FEW) == 0
    told = capsys.readouterr()
    assert told.out.startswith("can be used for\n")
    assert "can't be used for\n" in told.out
    assert f"see {output / 'index.html'}" in told.err
    found = json.loads((output / "inspection.json").read_text(encoding="utf-8"))
    assert found["facts"]["data"].endswith("captions.jsonl, split test")
    assert found["images"] == 5
    assert found["located"]["hit"]["uniform"]["value"] == pytest.approx(1 / 36, rel=1)
    assert set(found["removal"]["drop"]) == {"attention", "random", "input_x_gradient"}
    assert (output / "charts" / "removal.svg").is_file()


def test_inspect_of_a_model_folder_alone_asks_for_data(trained, tmp_path, capsys):
    elsewhere = tmp_path / "model"
    elsewhere.mkdir()
    for path in (trained / "model").iterdir():
        (elsewhere / path.name).write_bytes(path.read_bytes())
    assert call("inspect", elsewhere) == 2
    assert "data.captions: expected the caption file, got none" in capsys.readouterr().err
    drawn = ("--data.format", "drawn", "--data.drawn_train", 1, "--data.drawn_test", 6)
    assert call("inspect", elsewhere, *drawn, "--images", 3, *FEW) == 0
    found = json.loads((elsewhere / "inspection" / "inspection.json").read_text(encoding="utf-8"))
    assert (found["images"], found["located"]["words"]) == (3, 12)
    assert found["facts"]["places"] == "true cells"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--attributions", "[saliency]"], "attributions: expected some of"),
        (["--images", "0"], "expected images and words to look at, got 0"),
        (["--regions", "nowhere.json"], "expected a file, found nothing there"),
        (["--split", "training"], "split 'training': expected at least one image, got none"),
        (["--data.captoins", "x"], "did you mean"),
    ],
)
def test_wrong_calls_of_inspect_are_one_line(trained, options, message, capsys):
    assert call("inspect", trained, *options) == 2
    complaint = capsys.readouterr().err.strip().splitlines()[-1]
    assert message in complaint


def test_reproduce_prints_a_model_beside_table_1(trained, drawn, tmp_path, capsys):
    options = ("--captions", drawn / "captions.jsonl", "--output", tmp_path, "--feature_cache", tmp_path / "features")
    assert call("reproduce", "flickr8k", trained, *options, "--split", "val") == 0
    told = capsys.readouterr().out
    rows = [line for line in told.splitlines() if str(trained) in line]
    assert len(rows) == 2
    assert all("**not comparable**: dev images" in row and "CIDEr-D" in row for row in rows)
    assert told in (tmp_path / "reproduction.md").read_text(encoding="utf-8")
    assert call("reproduce", "flickr8k", trained, *options[:2], *options[4:]) == 0
    assert "with rows of the same brevity penalty" in capsys.readouterr().out


def test_reproduce_without_models_is_what_was_published(capsys):
    assert call("reproduce", "coco") == 0
    assert "23.04" in capsys.readouterr().out
    assert call("reproduce", "flickr9k") == 2
    assert call("reproduce", "flickr8k", "model", "--split", "train", "--captions", "nowhere.txt") == 2
