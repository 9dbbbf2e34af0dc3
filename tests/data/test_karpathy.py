import json
from pathlib import Path
from typing import Any

import pytest

from captioning.data.coco import read_coco
from captioning.data.karpathy import read_karpathy
from captioning.errors import DataError


def entry(number: int, split: str, **more: Any) -> dict[str, Any]:
    sentences = [{"raw": f"Board {number}.", "tokens": ["board", str(number)]}]
    return {"filename": f"{number}.jpg", "imgid": number, "split": split, "sentences": sentences, **more}


def write(folder: Path, content: Any) -> Path:
    path = folder / "captions.json"
    path.write_text("\ufeff" + json.dumps(content), encoding="utf-8")
    return path


def karpathy(folder: Path, *entries: dict[str, Any]) -> Path:
    return write(folder, {"dataset": "coco", "images": list(entries)})


FOUR = [entry(0, "train"), entry(1, "restval"), entry(2, "val"), entry(3, "test")]


def test_restval_joins_train_unless_told_otherwise(tmp_path: Path) -> None:
    path = karpathy(tmp_path, *FOUR)
    joined = read_karpathy(path, check_files=False).counts()
    assert {split: count.images for split, count in joined.items()} == {"train": 2, "val": 1, "test": 1}
    apart = read_karpathy(path, restval="restval", check_files=False)
    assert {split: count.images for split, count in apart.counts().items()} == {
        "train": 1,
        "val": 1,
        "test": 1,
    }
    assert apart.notes == ("split 'restval' is none of train, val, test: 1 images left out",)


def test_an_unknown_split_is_reported(tmp_path: Path) -> None:
    captions = read_karpathy(karpathy(tmp_path, *FOUR, entry(4, "spare")), check_files=False)
    assert captions.notes == ("split 'spare' is none of train, val, test: 1 images left out",)


def test_the_id_is_cocos_own_where_there_is_one_else_the_name(tmp_path: Path) -> None:
    captions = read_karpathy(karpathy(tmp_path, entry(0, "train", cocoid=391895), entry(1, "val")), check_files=False)
    assert [record.image_id for record in captions.records] == ["391895", "1.jpg"]


def test_pictures_lie_in_their_folder_or_beside_it(tmp_path: Path) -> None:
    images = tmp_path / "images"
    (images / "val2014").mkdir(parents=True)
    (images / "val2014" / "0.jpg").touch()
    (images / "1.jpg").touch()
    path = karpathy(tmp_path, *(entry(number, "train", filepath="val2014") for number in range(3)))
    captions = read_karpathy(path, images=images)
    assert [record.path for record in captions.records] == [images / "val2014" / "0.jpg", images / "1.jpg"]
    assert captions.notes == (f"1 pictures not found: {images / '2.jpg'}",)


def test_an_image_without_sentences_is_kept_for_prediction(tmp_path: Path) -> None:
    captions = read_karpathy(karpathy(tmp_path, *FOUR, entry(4, "train", sentences=[])), check_files=False)
    assert captions.counts()["uncaptioned"] == (1, 0)
    assert captions.notes == ("1 images without captions, good for prediction only: 4.jpg",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], r"captions\.json: expected 'images' as list, got none"),
        ({"images": {}}, r"captions\.json: expected 'images' as list, got dict"),
        ({"images": [{"split": "train"}]}, r"captions\.json, image 1: expected 'filename' as str, got none"),
        ({"images": [entry(0, "train", sentences=[{}])]}, r"image 1: expected 'raw' as str, got none"),
        ({"images": [entry(0, "train", cocoid=1.5)]}, r"image 1: expected an id as number or text, got 1\.5"),
        ({"images": [entry(0, "train"), entry(0, "val")]}, r"image id '0\.jpg': expected once, got 2"),
    ],
)
def test_another_form_is_told_with_its_place(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_karpathy(write(tmp_path, content), check_files=False)


def test_broken_json_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "captions.json"
    path.write_text('{"images": [\n{"filename": }]}')
    with pytest.raises(DataError, match=r"captions\.json, line 2: expected JSON, got Expecting value"):
        read_karpathy(path)


def coco(folder: Path, ids: list[Any], annotations: list[tuple[Any, str]]) -> Path:
    images = [{"id": image_id, "file_name": f"{image_id}.jpg"} for image_id in ids]
    return write(
        folder,
        {
            "images": images,
            "annotations": [{"image_id": image_id, "caption": text} for image_id, text in annotations],
        },
    )


def test_cocos_own_file_joins_by_id_and_counts_images_without_captions(tmp_path: Path) -> None:
    path = coco(tmp_path, [1, 2, 3, 4], [(1, "a red board"), (2, "four colours"), (1, "a board")])
    captions = read_coco(path, fractions={"val": 1.0}, check_files=False)
    assert captions.split("val").references == {"1": ["a red board", "a board"], "2": ["four colours"]}
    assert captions.counts() == {"val": (2, 3), "uncaptioned": (2, 0)}
    assert captions.notes == ("2 images without captions, good for prediction only: 3, 4",)


def test_ids_stay_text(tmp_path: Path) -> None:
    path = coco(tmp_path, ["board_a", "007"], [("007", "a board"), ("board_a", "a red board")])
    assert set(read_coco(path, check_files=False).references) == {"board_a", "007"}


def test_ids_that_do_not_fit_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"annotation 1: expected the id of an image, got '9', which no image has"):
        read_coco(coco(tmp_path, [1], [(9, "a board")]))
    with pytest.raises(DataError, match=r"image 2: expected a new id, got '1'"):
        read_coco(coco(tmp_path, [1, 1], []))
