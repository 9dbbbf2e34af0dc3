"""Cases H08 to H15: a row is never split, joined, shifted, lost or garbled, and joins with its own picture."""

import json
import logging

import numpy as np
import pytest

from captioning.data.dataset import CaptionDataset
from captioning.data.formats import read_captions
from captioning.data.image_files import find_images
from captioning.data.known_sets import compare_sizes, recognize_set
from captioning.data.records import CaptionedImage, CaptionSet, build_vocabulary
from captioning.data.sampler import BatchRequest
from captioning.data.sources import PictureFiles
from captioning.errors import DataError
from captioning.features.preprocessing import Preprocessing
from captioning.metrics import score
from captioning.metrics.suite import Scorer
from captioning.text.tokenize import tokenize
from tests.cases.making import board, encoded, given, write_rows
from tests.cli.conftest import call


@pytest.fixture
def folder(tmp_path):
    """Pictures a.jpg, b.png and one with blanks and brackets in its name."""
    for name in ("a.jpg", "b.png", "Dog in snow (1).JPG"):
        (tmp_path / name).write_bytes(encoded(board()))
    return tmp_path


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def records(path, **options):
    """(picture's name, caption) for each caption."""
    options.setdefault("fractions", {"train": 1.0})
    return [(r.path.name, caption) for r in read_captions(path, **options).records for caption in r.captions]


GIVEN = ["quotes_and_commas.csv", "flickr8k_unquoted_commas.txt", "bom.csv", "crlf.token.txt", "header_as_data.tsv"]
GIVEN += ["blank_lines.csv", "null_words.csv", "list_per_image.jsonl", "coco_string_ids.json"]
GIVEN += ["coco_images_without_captions.json", "unicode_mix.jsonl", "plain.csv"]


@pytest.mark.shared
@pytest.mark.parametrize("name", GIVEN)
def test_H08_to_H15_the_given_files_give_the_records_of_their_manifest(name):
    path = given("captions", name)
    entries = {entry["file"]: entry for entry in json.loads(given("", "manifest.json").read_text())["files"]}
    expected = [tuple(pair) for pair in entries[f"captions/{name}"]["expect"]["records"]]
    assert records(path, images=given("images", "")) == expected


def test_H08_commas_and_quotes_stay_in_their_caption(folder):
    table = 'image,caption\na.jpg,"A red, green board"\na.jpg,"A sign that says ""STOP"", in red"\nb.png,Two dogs\n'
    rows = [("a.jpg", "A red, green board"), ("a.jpg", 'A sign that says "STOP", in red'), ("b.png", "Two dogs")]
    assert records(write(folder, "quoted.csv", table)) == rows
    semicolons = '"image";"caption"\na.jpg;"A red; green board"\nb.png;Two dogs, running\n'
    rows = [("a.jpg", "A red; green board"), ("b.png", "Two dogs, running")]
    assert records(write(folder, "semicolons.csv", semicolons)) == rows
    flickr = "image,caption\na.jpg,A boy , a girl , and a dog .\nb.png,A tall , thin man .\n"
    rows = [("a.jpg", "A boy , a girl , and a dog ."), ("b.png", "A tall , thin man .")]
    assert records(write(folder, "flickr.txt", flickr)) == rows
    with pytest.raises(DataError, match="line 2: expected 2 fields, got 3; put quotes around captions with commas"):
        read_captions(write(folder, "unquoted.csv", "image,caption\na.jpg,A boy, a girl\n"))


TWINS = {
    "table.csv": "image,caption\na.jpg,a café table\nb.png,two dogs\n",
    "table.tsv": "image\tcaption\na.jpg\ta café table\nb.png\ttwo dogs\n",
    "tokens.txt": "a.jpg#0\ta café table\nb.png#0\ttwo dogs\n",
    "commas.txt": "image,caption\na.jpg,a café table\nb.png,two dogs\n",
    "rows.jsonl": '{"image": "a.jpg", "caption": "a café table"}\n{"image": "b.png", "caption": "two dogs"}\n',
    "coco.json": json.dumps(
        {
            "images": [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "b.png"}],
            "annotations": [{"image_id": 1, "caption": "a café table"}, {"image_id": 2, "caption": "two dogs"}],
        },
        indent=1,
    ),
    "karpathy.json": json.dumps(
        {
            "images": [
                {"filename": "a.jpg", "split": "train", "sentences": [{"raw": "a café table"}]},
                {"filename": "b.png", "split": "train", "sentences": [{"raw": "two dogs"}]},
            ]
        },
        indent=1,
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_H09_a_byte_order_mark_and_windows_line_ends_change_nothing(folder, name):
    twin = write(folder, name, TWINS[name])
    awkward = write(folder, f"windows_{name}", ("\ufeff" + TWINS[name]).replace("\n", "\r\n"))
    assert records(awkward) == records(twin) == [("a.jpg", "a café table"), ("b.png", "two dogs")]
    vocabularies = [
        build_vocabulary(read_captions(p, fractions={"train": 1.0}), minimum_count=1) for p in (awkward, twin)
    ]
    assert vocabularies[0] == vocabularies[1]
    assert not {"\ufeff", "\r"} & set("".join(vocabularies[0].words))


def test_H09_a_line_end_inside_a_caption_becomes_a_blank(folder):
    path = write(folder, "rows.jsonl", json.dumps({"image": "a.jpg", "caption": "two dogs\r\nin the\r snow\n"}))
    assert records(path) == [("a.jpg", "two dogs in the snow")]


def test_H09_another_encoding_is_told(folder):
    with pytest.raises(DataError, match=r"expected UTF-8.*save it as UTF-8"):
        read_captions(write(folder, "utf16.csv", TWINS["table.csv"].encode("utf-16")))


@pytest.mark.parametrize("header", ["image\tcaption", "image_id\tcaptions", "FILE_NAME\tText", "filename\tsentence"])
def test_H10_a_header_is_no_picture_and_blank_lines_are_no_rows(folder, header):
    rows = "a.jpg\ta red board\n\n   \nb.png\ta board\n\n"
    with_header, without = write(folder, "headed.tsv", f"\n{header}\n{rows}"), write(folder, "headless.tsv", rows)
    assert records(with_header) == records(without) == [("a.jpg", "a red board"), ("b.png", "a board")]


def test_H11_words_for_nothing_are_captions(folder):
    words = ["null", "None", "NA", "nan", "TRUE", "007", "1e5", "N/A", "inf", "#N/A", "-"]
    as_csv = write(folder, "words.csv", "image,caption\n" + "".join(f"a.jpg,{word}\n" for word in words))
    as_jsonl = write_rows(folder / "words.jsonl", *[("a.jpg", word) for word in words])
    for path in (as_csv, as_jsonl):
        captions = read_captions(path, fractions={"train": 1.0})
        assert list(captions.captions) == words[:-1]  # the dash is no word
        assert captions.notes == ("1 captions without a word left out",)
    empty = read_captions(write(folder, "empty.csv", "image,caption\na.jpg,\na.jpg,dog\n"))
    assert empty.notes == ("1 captions without a word left out",)


def karpathy(folder, **splits):
    images = [
        {"filename": f"{name}.jpg", "split": split, "sentences": [{"raw": "a board"}]} for name, split in splits.items()
    ]
    return write(folder, "karpathy.json", json.dumps({"images": images}))


def test_H12_restval_joins_train_and_the_sizes_are_told(folder, caplog):
    path = karpathy(folder, one="train", two="restval", three="val", four="test", five="tset")
    captions = read_captions(path, check_files=False)
    assert {split: count.images for split, count in captions.counts().items()} == {"train": 2, "val": 1, "test": 1}
    alone = read_captions(path, restval="restval", check_files=False)
    assert alone.counts()["train"].images == 1
    assert any("split 'tset' is none of train, val, test: 1 images left out" in note for note in captions.notes)
    with caplog.at_level(logging.WARNING, logger="captioning"):
        call("evaluate", "--predictions", folder / "none.json", "--captions", path)
    assert "train 2 images, 2 captions; val 1 images, 1 captions; test 1 images, 1 captions" in caplog.text


def test_H12_a_public_set_with_a_part_missing_is_noticed():
    def coco(**sizes):
        one = {split: CaptionedImage("1", "COCO_train2014_000000000001.jpg", ("a dog",) * 5, split) for split in sizes}
        return CaptionSet(tuple(one[split] for split, images in sizes.items() for _ in range(images)))

    without_restval = coco(train=82783, val=5000, test=5000)
    assert recognize_set(without_restval).name == "COCO, Karpathy's splits"
    [train, *_] = compare_sizes(without_restval)
    assert "train has 82783 images" in train
    assert "113287 and 566747 as published (exactly restval's 30504 images are missing)" in train
    assert recognize_set(CaptionSet((CaptionedImage("mine.jpg", "mine.jpg", ("a dog",), "train"),))) is None


@pytest.mark.shared
def test_H12_the_given_file_has_the_published_splits():
    counts = read_captions(given("captions", "karpathy_restval.json"), check_files=False).counts()
    assert {split: count.images for split, count in counts.items()} == {"train": 2, "val": 1, "test": 1}


def test_H13_images_without_captions_are_left_out_of_training_with_a_count(folder):
    images = [{"id": n, "file_name": name} for n, name in enumerate(["a.jpg", "b.png", "Dog in snow (1).JPG", "c.jpg"])]
    (folder / "c.jpg").write_bytes(encoded(board()))
    annotations = [
        {"image_id": n, "caption": caption} for n, caption in [(0, "a red board"), (0, "a board"), (1, "x y")]
    ]
    path = write(folder, "coco.json", json.dumps({"images": images, "annotations": annotations}))
    captions = read_captions(path, fractions={"train": 1.0})
    train = captions.split("train")
    assert (len(train), len(train.captions)) == (2, 3)
    assert captions.notes == ("2 images without captions, good for prediction only: 2, 3",)
    assert [record.image_id for record in captions.split("uncaptioned").records] == ["2", "3"]
    pictures = PictureFiles(Preprocessing(size=4, fit="squash"))
    dataset = CaptionDataset(captions, build_vocabulary(captions, minimum_count=1), pictures, captions_per_image=1)
    for epoch in range(10):
        assert dataset[BatchRequest((0, 1, 2, 3), epoch)].captions == 2


def test_H14_seven_five_and_one_captions_stay_with_their_image(folder):
    numbers = {"a.jpg": 7, "b.png": 5, "Dog in snow (1).JPG": 1}
    said = {name: [f"caption {n} of {name[0]}" for n in range(most)] for name, most in numbers.items()}
    lists = [json.dumps({"image": name, "captions": captions}) for name, captions in said.items()]
    rows = [(name, caption) for turn in range(7) for name, own in said.items() for caption in own[turn : turn + 1]]
    paths = [write(folder, "lists.jsonl", "\n".join(lists)), write_rows(folder / "rows.jsonl", *rows)]
    for path in paths:
        captions = read_captions(path, fractions={"train": 1.0})
        assert {record.path.name: list(record.captions) for record in captions.records} == said
        assert captions.references == said
        scorer = Scorer(captions.references, ("BLEU-1",))
        assert sorted(len(own) for own in scorer.references.values()) == [1, 5, 7]
        assert captions.notes == ()
    assert find_images([folder / "Dog in snow (1).JPG"]) == [folder / "Dog in snow (1).JPG"]


def results(folder, *rows, name="predictions.json"):
    return write(folder, name, json.dumps([{"image_id": i, "caption": c} for i, c in rows]))


@pytest.fixture
def references(folder):
    said = {1: "a cat on a mat", 2: "two dogs play in the snow", 3: "a red bus on a street"}
    content = {
        "images": [{"id": n, "file_name": f"{n}.jpg"} for n in said],
        "annotations": [{"image_id": n, "caption": caption} for n, caption in said.items()],
    }
    return write(folder, "references.json", json.dumps(content))


SAID = [(1, "a cat on a mat"), (2, "two dogs run in the snow"), (3, "a bus on a street")]


def evaluate(predictions, references, output):
    fractions = ("--format", "coco", "--captions", references, "--output", output)
    return call("evaluate", "--predictions", predictions, *fractions)


def test_H15_ids_stay_text_from_end_to_end(folder, references, capsys):
    content = {
        "images": [{"id": "board_a", "file_name": "a.jpg"}, {"id": "007", "file_name": "b.png"}],
        "annotations": [{"image_id": "board_a", "caption": "a red board"}, {"image_id": "007", "caption": "a board"}],
    }
    captions = read_captions(write(folder, "ids.json", json.dumps(content)), fractions={"train": 1.0})
    assert [record.image_id for record in captions.records] == ["board_a", "007"]
    found = []
    for number, rows in enumerate([SAID, [(str(n), caption) for n, caption in SAID]]):
        assert evaluate(results(folder, *rows), references, folder / f"scores{number}") == 0
        found.append(json.loads((folder / f"scores{number}" / "scores.json").read_text())["scores"])
    assert found[0] == found[1]
    assert found[0]["CIDEr-D"] == pytest.approx(6.7349, abs=5e-5)


def test_H15_nothing_to_score_and_strange_ids_are_told(folder, references, capsys):
    assert evaluate(results(folder), references, folder / "out") == 2
    assert "nothing to score" in capsys.readouterr().err
    assert evaluate(results(folder, *SAID, (99, "a ghost")), references, folder / "out") == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert "'99'" in error
    assert "('1', '2', '3')" in error
    with pytest.raises(DataError, match=r"of different types \(int, str\): write them alike"):
        score({"1": "a cat"}, {1: ["a cat"]})


def test_H15_duplicates_are_kept_and_counted_and_other_cases_are_missing(folder):
    text = "image,caption\na.jpg,a red board\na.jpg,a red board\na.jpg,a board\nA.JPG,a board\n"
    captions = read_captions(write(folder, "duplicates.csv", text))
    assert captions.captions == ("a red board", "a red board", "a board")
    assert len(captions.notes) == 2
    assert "A.JPG" in captions.notes[0]
    assert captions.notes[1] == "1 captions are duplicates within their image; they are kept"
    assert tokenize("a board") == ["a", "board"]
    assert np.array(captions.references["a.jpg"]).shape == (3,)
