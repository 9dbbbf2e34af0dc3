"""Readers of true places, on small files in the formats of Flickr30k Entities and COCO's instances."""

import json
from pathlib import Path

import pytest

from captioning.data.placed_caption import PlacedCaption
from captioning.data.places import read_places
from captioning.data.records import CaptionedImage, CaptionSet
from captioning.errors import DataError
from captioning.features.geometry import Box
from captioning.text.tokenize import tokenize

XML = """<annotation>
  <filename>36979.jpg</filename>
  <size><width>375</width><height>500</height><depth>3</depth></size>
  <object><name>7</name><bndbox><xmin>10</xmin><ymin>20</ymin><xmax>110</xmax><ymax>220</ymax></bndbox></object>
  <object><name>7</name><name>8</name>
    <bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>4</ymax></bndbox></object>
  <object><name>9</name><scene>1</scene><nobndbox>1</nobndbox></object>
</annotation>"""
SENTENCES = """[/EN#7/people Two young men] wear [/EN#8/clothing/bodyparts hats] in [/EN#9/scene a yard] .

[/EN#7/people They] see [/EN#0/notvisual it] .
"""
MEN, HATS = (Box(10, 20, 110, 220), Box(1, 2, 3, 4)), (Box(1, 2, 3, 4),)


def captions(*names, text="two men"):
    return CaptionSet(tuple(CaptionedImage(name, Path("pictures") / name, (text,), "test") for name in names))


@pytest.fixture
def entities(tmp_path):
    for name, text in (("Annotations/36979.xml", XML), ("Sentences/36979.txt", SENTENCES)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_phrases_last_word_has_its_entitys_boxes(entities):
    found = read_places(entities, captions("36979.jpg", "1.jpg"), tokenize)
    assert set(found) == {"36979.jpg"}
    first, second = found["36979.jpg"]
    assert first.words == ("two", "young", "men", "wear", "hats", "in", "a", "yard")
    assert first.boxes == ((), (), MEN, (), HATS, (), (), ())
    assert first.size == (375, 500)
    assert second.words == ("they", "see", "it")
    assert second.boxes == (MEN, (), ())
    assert list(second.boxes_of(0)) == list(MEN)
    assert second.boxes_of(3) == (), "the end of the caption has no place"


def test_a_damaged_annotation_is_named(entities):
    path = entities / "Annotations" / "36979.xml"
    for text in ("<annotation>", XML.replace("<width>375</width>", ""), XML.replace("<xmin>10</xmin>", "")):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=r"36979\.xml: expected an annotation with a size and boxes"):
            read_places(entities, captions("36979.jpg"), tokenize)


INSTANCES = {
    "images": [{"id": 5, "file_name": "5.jpg", "width": 640, "height": 480}],
    "categories": [
        {"id": 1, "name": "person"},
        {"id": 3, "name": "bus"},
        {"id": 11, "name": "fire hydrant"},
        {"id": 49, "name": "knife"},
        {"id": 18, "name": "dog"},
    ],
    "annotations": [
        {"image_id": 5, "category_id": 1, "bbox": [10, 20, 30, 40], "iscrowd": 0},
        {"image_id": 5, "category_id": 1, "bbox": [1, 2, 3, 4], "iscrowd": 1},
        {"image_id": 5, "category_id": 11, "bbox": [100, 200, 7, 9.5]},
        {"image_id": 6, "category_id": 18, "bbox": [0, 0, 1, 1]},
        {"image_id": 5, "category_id": 49, "bbox": [0, 0, 2, 2]},
    ],
}


def instances(tmp_path, **changed):
    path = tmp_path / "instances.json"
    path.write_text(json.dumps({**INSTANCES, **changed}), encoding="utf-8")
    return path


def test_words_that_name_a_category_have_its_boxes(tmp_path):
    text = "A person and people near a fire hydrant, knives, buses, a man and a dog"
    [found] = read_places(instances(tmp_path), captions("5.jpg", text=text), tokenize)["5.jpg"]
    people, hydrant = (Box(10, 20, 40, 60), Box(1, 2, 4, 6)), (Box(100, 200, 107, 209.5),)
    placed = {word: boxes for word, boxes in zip(found.words, found.boxes, strict=True) if boxes}
    knife = (Box(0, 0, 2, 2),)
    assert placed == {"person": people, "people": people, "fire": hydrant, "hydrant": hydrant, "knives": knife}
    assert found.size == (640, 480)


def test_what_is_no_file_of_places_is_told(tmp_path):
    with pytest.raises(DataError, match="expected bbox as left, top, width and height, got"):
        read_places(
            instances(tmp_path, annotations=[{"image_id": 5, "category_id": 1, "bbox": [1, 2]}]),
            captions("5.jpg"),
            tokenize,
        )
    with pytest.raises(DataError, match="expected places for some of the 1 images, found none"):
        read_places(instances(tmp_path), captions("7.jpg"), tokenize)
    with pytest.raises(DataError, match=r"found nothing there"):
        read_places(tmp_path / "nothing", captions("5.jpg"), tokenize)
    with pytest.raises(DataError, match="expected the folders Annotations and Sentences"):
        read_places(tmp_path, captions("5.jpg"), tokenize)
    with pytest.raises(DataError, match="expected boxes for each of 2 words"):
        PlacedCaption(("a", "b"), ((),), (1, 1))
