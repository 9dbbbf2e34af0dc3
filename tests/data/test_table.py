import json
from pathlib import Path

import pytest

from captioning.data.records import CaptionSet
from captioning.data.table import read_table
from captioning.errors import DataError

PLAIN = [("a.jpg", "a red board"), ("b.jpg", "a board")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.jpg", "b.jpg", "Dog in snow (1).JPG"):
        (tmp_path / name).touch()
    return tmp_path


def read(folder: Path, text: str, name: str = "captions.csv") -> CaptionSet:
    path = folder / name
    path.write_bytes(text.encode())
    return read_table(path)


def pairs(captions: CaptionSet) -> list[tuple[str, str]]:
    return [(record.image_id, caption) for record in captions.records for caption in record.captions]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain.csv", "image,caption\na.jpg,a red board\nb.jpg,a board\n"),
        ("headerless.csv", "a.jpg,a red board\nb.jpg,a board\n"),
        ("windows.csv", "\ufeffimage,caption\r\na.jpg,a red board\r\nb.jpg,a board\r\n"),
        ("blank.csv", "\n image , Caption \na.jpg,a red board\n\n   \nb.jpg,a board\n\n"),
        ("tabs.tsv", "image_id\tcaptions\na.jpg\ta red board\nb.jpg\ta board\n"),
        ("headerless.tsv", "a.jpg\ta red board\nb.jpg\ta board\n"),
        ("swapped.csv", "number,text,file_name\n1,a red board,a.jpg\n2,a board,b.jpg\n"),
        (
            "lines.jsonl",
            '\ufeff{"image": "a.jpg", "caption": "a red board"}\r\n\n{"caption": "a board", "image": "b.jpg"}\r\n',
        ),
        (
            "lists.jsonl",
            '{"image": "a.jpg", "captions": ["a red board"]}\n{"image": "b.jpg", "captions": ["a board"]}',
        ),
    ],
)
def test_one_table_in_many_forms(folder: Path, name: str, text: str) -> None:
    assert pairs(read(folder, text, name)) == PLAIN


def test_quoted_commas_and_quotes_are_read_by_the_rules_of_csv(folder: Path) -> None:
    rows = [
        'a.jpg,"A red, green and blue board"',
        'a.jpg,"A sign that says ""STOP"", in red"',
        "b.jpg,Two dogs",
    ]
    expected = [
        ("a.jpg", "A red, green and blue board"),
        ("a.jpg", 'A sign that says "STOP", in red'),
        ("b.jpg", "Two dogs"),
    ]
    assert pairs(read(folder, "\n".join(["image,caption", *rows]))) == expected


def test_every_field_stays_the_text_that_it_is(folder: Path) -> None:
    words = ["null", "None", "NA", "nan", "TRUE", "007", "1e5"]
    captions = read(folder, "image,caption\n" + "".join(f"a.jpg,{word}\n" for word in words))
    assert list(captions.captions) == words


def test_unicodes_own_line_separators_do_not_end_a_row(folder: Path) -> None:
    caption = "a board\u2028in two\x85parts"
    assert read(folder, f"image,caption\na.jpg,{caption}\n").captions == (caption,)
    line = json.dumps({"image": "a.jpg", "caption": caption}, ensure_ascii=False)
    assert read(folder, line, "lines.jsonl").captions == (caption,)


def test_lists_of_captions_keep_their_image(folder: Path) -> None:
    lines = ['{"image": "b.jpg", "captions": ["one", "two"]}', '{"image": "a.jpg", "captions": ["three"]}']
    captions = read(folder, "\n".join(lines), "lists.jsonl")
    assert captions.references == {"b.jpg": ["one", "two"], "a.jpg": ["three"]}


def test_an_empty_field_is_a_missing_caption_and_is_counted(folder: Path) -> None:
    captions = read(folder, 'image,caption\na.jpg,\na.jpg,a board\nb.jpg,""\n')
    assert pairs(captions) == [("a.jpg", "a board")]
    assert captions.notes[0] == "2 captions without a word left out"
    lines = '{"image": "a.jpg", "caption": null}\n{"image": "b.jpg", "captions": ["a board"]}'
    assert pairs(read(folder, lines, "lines.jsonl")) == [("b.jpg", "a board")]


def test_both_unicode_forms_of_a_name_and_a_word_are_one(folder: Path) -> None:
    (folder / "caf\u00e9.jpg").touch()
    rows = [("caf\u00e9.jpg", "a caf\u00e9 table"), ("cafe\u0301.jpg", "a cafe\u0301 table")]
    captions = read(folder, "\n".join(json.dumps({"image": i, "caption": c}) for i, c in rows), "lines.jsonl")
    assert captions.references == {"caf\u00e9.jpg": ["a caf\u00e9 table"] * 2}


def test_a_stated_split_is_taken_under_its_common_names(folder: Path) -> None:
    captions = read(folder, "image,caption,split\na.jpg,a board,Training\na.jpg,a red board,train\nb.jpg,a board,dev\n")
    assert {record.image_id: record.split for record in captions.records} == {
        "a.jpg": "train",
        "b.jpg": "val",
    }


def test_without_a_split_the_pictures_are_split_alike_whatever_their_order(folder: Path) -> None:
    names = [f"{number}.jpg" for number in range(40)]
    for name in names:
        (folder / name).touch()
    forward = read(folder, "".join(f"{name},a board\n" for name in names))
    backward = read(folder, "".join(f"{name},a board\n" for name in reversed(names[:30])))
    splits = {record.image_id: record.split for record in forward.records}
    assert all(splits[record.image_id] == record.split for record in backward.records)
    assert len(set(splits.values())) > 1


@pytest.mark.parametrize("name", ["", " ", ".", "/"])
def test_a_row_without_a_pictures_name_is_told(folder: Path, name: str) -> None:
    with pytest.raises(DataError, match="line 3: expected the name of a picture, got"):
        read(folder, f"image,caption\na.jpg,a board\n{name},a dog\n")


def test_two_splits_of_one_picture_are_refused_with_their_lines(folder: Path) -> None:
    with pytest.raises(DataError, match=r"expected one split for a\.jpg, got train \(line 2\), test \(line 3\)"):
        read(folder, "image,caption,split\na.jpg,a board,train\na.jpg,a red board,test\n")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "t.csv",
            "image,caption\na.jpg,a boy, a girl\n",
            r"t\.csv, line 2: expected 2 fields, got 3; put quotes",
        ),
        ("t.csv", "image,caption\n\na.jpg\n", r"t\.csv, line 3: expected 2 fields, got 1"),
        (
            "t.csv",
            'image,caption\na.jpg,"a board\nb.jpg,x\n',
            r"t\.csv, line 2: expected a row by the rules of CSV",
        ),
        (
            "t.jsonl",
            '{"image": "a.jpg", "caption": "x"}\n{"image": ',
            r"t\.jsonl, line 2: expected one JSON object",
        ),
        ("t.jsonl", '{"picture": "a.jpg"}', r"t\.jsonl, line 1: expected an object with image and caption"),
        ("t.jsonl", '{"image": "a.jpg", "caption": 7}', r"t\.jsonl, line 1: expected text, got 7"),
        ("t.csv", "", r"none is left"),
    ],
)
def test_a_row_of_another_form_is_told_with_its_line(folder: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(folder, text, name)


def test_a_name_in_another_case_is_reported_and_blanks_in_names_are_kept(folder: Path) -> None:
    captions = read(folder, "image,caption\nDog in snow (1).JPG,a dog\nA.JPG,a board\na.jpg,a board\na.jpg,a board\n")
    if (folder / "A.JPG").exists():
        pytest.skip("this file system takes A.JPG for a.jpg")
    assert [record.image_id for record in captions.records] == ["Dog in snow (1).JPG", "a.jpg"]
    assert any("A.JPG" in note for note in captions.notes)
    assert any("duplicates" in note for note in captions.notes)
