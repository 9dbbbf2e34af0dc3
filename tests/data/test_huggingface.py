import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from captioning.data.formats import read_captions, recognize
from captioning.errors import DataError

datasets = pytest.importorskip("datasets")
COLORS = {"a": (220, 30, 30), "b": (30, 180, 30), "c": (30, 30, 220)}


def table(names: str, captions: list[Any], column: str = "caption", **more: list[Any]) -> Any:
    pictures = [Image.new("RGB", (6, 5), COLORS[name]) for name in names]
    features = {"image": pictures, column: captions, **more}
    made = datasets.Dataset.from_dict(features, features=None)
    return made.cast_column("image", datasets.Image())


def test_a_dict_of_splits_with_lists_and_objects_of_captions() -> None:
    splits = datasets.DatasetDict(
        train=table("ab", [["a red board", "a board"], ["a green board"]], "captions", image_id=[7, 8]),
        validation=table("c", [[{"raw": "a blue board"}]], "sentences", image_id=["007"]),
    )
    assert recognize(splits) == "huggingface"
    captions = read_captions(splits)
    assert {record.image_id: (record.split, record.captions) for record in captions.records} == {
        "7": ("train", ("a red board", "a board")),
        "8": ("train", ("a green board",)),
        "007": ("val", ("a blue board",)),
    }
    for record, name in zip(captions.records, "abc", strict=True):
        assert record.load().size == (6, 5)
        assert np.asarray(record.load())[0, 0].tolist() == list(COLORS[name])
        assert np.asarray(pickle.loads(pickle.dumps(record)).load())[0, 0].tolist() == list(COLORS[name])


def test_a_saved_table_is_known_by_its_folder_and_null_stays_text(tmp_path: Path) -> None:
    table("abc", ["null", "", "a dog"], split=["train", "train", "dev"]).save_to_disk(tmp_path / "saved")
    assert recognize(tmp_path / "saved") == "huggingface"
    captions = read_captions(tmp_path / "saved")
    assert [(record.split, record.captions) for record in captions.records] == [
        ("train", ("null",)),
        ("uncaptioned", ()),
        ("val", ("a dog",)),
    ]
    assert captions.notes[0] == "1 captions without a word left out"
    assert [record.image_id for record in captions.records] == ["row-000000", "row-000001", "row-000002"]


def test_what_is_no_captioned_data_set_is_told() -> None:
    with pytest.raises(DataError, match=r"expected a datasets\.Dataset or DatasetDict, got dict"):
        read_captions({"train": []}, format_name="huggingface")
    with pytest.raises(DataError, match=r"expected one column of pictures and a caption column .* got image, label"):
        read_captions(table("a", [3], "label"))
    with pytest.raises(DataError, match="row 0: expected captions as text, got 3"):
        read_captions(table("a", [3]))
