"""`captioning evaluate` on files: any results JSON, what is missing or double, and all that it writes."""

import json
import re

import numpy as np
import pytest

from captioning.metrics import DocumentFrequencies, score
from tests.cli.conftest import call

REFERENCES = {1: ["a cat on a mat"], 2: ["two dogs play in the snow"], 3: ["a red bus on a street", "a bus"]}
SAID = {1: "a cat\non a mat", 2: "two dogs ||| run in the snow", 3: "a bus on a street"}
METRICS = ["--metrics", "[BLEU-4,ROUGE-L,CIDEr-D]", "--resamples", "50"]
NAMES = ("BLEU-4", "ROUGE-L", "CIDEr-D")


@pytest.fixture
def captions(tmp_path):
    """References as COCO JSON; no picture is there, and none is needed."""
    content = {
        "images": [{"id": image, "file_name": f"{image}.jpg"} for image in REFERENCES],
        "annotations": [{"image_id": image, "caption": text} for image, texts in REFERENCES.items() for text in texts],
    }
    path = tmp_path / "références 1.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture
def results(tmp_path):
    def write(rows):
        path = tmp_path / "results.json"
        path.write_text(json.dumps([{"image_id": image, "caption": text} for image, text in rows]), encoding="utf-8")
        return path

    return write


def expected(said=SAID, **options):
    return score({str(k): v for k, v in said.items()}, {str(k): v for k, v in REFERENCES.items()}, NAMES, **options)


def test_scores_are_those_of_the_function_in_every_file(captions, results, tmp_path, capsys):
    output = tmp_path / "out"
    predictions = results(SAID.items())
    assert call("evaluate", "--predictions", predictions, "--captions", captions, *METRICS, "--output", output) == 0
    scores = expected(resamples=50)
    stored = json.loads((output / "scores.json").read_text(encoding="utf-8"))
    assert stored["scores"] == scores.corpus
    assert stored["intervals"] == {name: list(interval) for name, interval in scores.intervals.items()}
    assert stored["statistics"] == {"captions": 3, "distinct": 1.0, "words_used": 13, "mean_length": 19 / 3}
    assert (stored["images"], stored["missing"], stored["split"]) == (3, 0, "all")
    images = json.loads((output / "per_image.json").read_text(encoding="utf-8"))
    assert images == {image: {name: scores.per_image[name][image] for name in NAMES} for image in map(str, REFERENCES)}
    printed = capsys.readouterr().out
    assert printed.strip() in (output / "scores.md").read_text(encoding="utf-8")
    assert re.search(rf"\| BLEU-4 +\| +{100 * scores.corpus['BLEU-4']:.2f} \|", printed)


def test_order_and_kind_of_ids_change_nothing(captions, results, tmp_path):
    rows = [(str(image), SAID[image]) for image in (3, 1, 2)]
    output = tmp_path / "out"
    assert call("evaluate", "--predictions", results(rows), "--captions", captions, *METRICS, "--output", output) == 0
    assert json.loads((output / "scores.json").read_text(encoding="utf-8"))["scores"] == expected().corpus


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "nothing to score"),
        ([*SAID.items(), (99, "a ghost")], "'99'"),
        ([*SAID.items(), ("1", "again")], r"one caption an image.*'1'.*--several"),
        (list(SAID.items())[:2], r"'3'.*scored as empty"),
    ],
)
def test_what_does_not_fit_is_named_in_one_line(captions, results, capsys, rows, message):
    assert call("evaluate", "--predictions", results(rows), "--captions", captions, *METRICS) == 2
    complaint = capsys.readouterr().err.strip()
    assert re.search(message, complaint)
    assert len(complaint.splitlines()) == 1


def test_missing_captions_may_be_scored_as_empty_and_are_counted(captions, results, tmp_path):
    output = tmp_path / "out"
    said = {image: SAID[image] for image in (1, 2)}
    options = [*METRICS, "--missing", "empty", "--output", output]
    assert call("evaluate", "--predictions", results(said.items()), "--captions", captions, *options) == 0
    stored = json.loads((output / "scores.json").read_text(encoding="utf-8"))
    assert stored["scores"] == expected(said, missing_as_empty=True).corpus
    assert stored["missing"] == 1


def test_one_image_takes_frequencies_from_a_file(captions, results, tmp_path, capsys):
    whole, alone = tmp_path / "whole.npz", tmp_path / "one.csv"
    predictions = results(SAID.items())
    saving = [*METRICS, "--save_frequencies", whole]
    assert call("evaluate", "--predictions", predictions, "--captions", captions, *saving) == 0
    assert DocumentFrequencies.load(whole).documents == 3
    alone.write_text("image,caption\n1.jpg,a cat on a mat\n", encoding="utf-8")
    one = results([("1.jpg", "a cat on a mat")])
    capsys.readouterr()
    assert call("evaluate", "--predictions", one, "--captions", alone, *METRICS) == 0
    assert "CIDEr-D n/a: document frequencies: expected the references of at least 2 images" in capsys.readouterr().out
    assert call("evaluate", "--predictions", one, "--captions", alone, *METRICS, "--frequencies", whole) == 0
    assert re.search(r"\| CIDEr-D +\| +10\.0000 \|", capsys.readouterr().out)


def test_several_captions_an_image_are_described(captions, results, tmp_path, capsys):
    rows = [(image, text) for image in REFERENCES for text in (SAID[image], "a cat")]
    output = tmp_path / "out"
    options = ["--several", "--metrics", "[CIDEr-D]", "--output", output]
    assert call("evaluate", "--predictions", results(rows), "--captions", captions, *options) == 0
    stored = json.loads((output / "diversity.json").read_text(encoding="utf-8"))
    assert stored["captions_per_image"] == 2
    assert stored["oracle"]["CIDEr-D"] == pytest.approx(
        np.mean([max(expected().per_image["CIDEr-D"][str(image)], 0) for image in REFERENCES])
    )
    assert "best of 2 captions by each metric" in capsys.readouterr().out


def test_splits_are_those_of_the_file_or_all_of_it(results, tmp_path, capsys):
    table = tmp_path / "captions.csv"
    lines = ["image,caption,split", "1.jpg,a cat on a mat,train", "2.jpg,two dogs,val", "3.jpg,a bus,val"]
    table.write_text("\n".join(lines), encoding="utf-8")
    files = ["--captions", table, *METRICS]
    assert call("evaluate", "--predictions", results([("2.jpg", "two dogs"), ("3.jpg", "a cat on a mat")]), *files) == 0
    assert "novel 0.5," in capsys.readouterr().out
    everything = results([(f"{image}.jpg", "a bus") for image in (1, 2, 3)])
    assert call("evaluate", "--predictions", everything, *files, "--split", "all") == 0
    assert call("evaluate", "--predictions", everything, *files, "--split", "test") == 2
    assert "split 'test'" in capsys.readouterr().err


def test_a_wrong_call_is_told(captions, capsys):
    assert call("evaluate", "--captions", captions) == 2
    assert "either a MODEL or --predictions" in capsys.readouterr().err
    assert call("evaluate", "model", "--captions", captions, "--several") == 2
    assert "--several is about --predictions" in capsys.readouterr().err
    assert call("evaluate", "--predictions", "none.json", "--captions", captions, "--metrics", "[Bleu]") == 2


def test_training_keeps_the_frequencies_of_its_captions(trained):
    assert DocumentFrequencies.load(trained / "model" / "document_frequencies.npz").documents == 24


def test_batch_size_changes_no_score(trained, drawn, tmp_path):
    scores = []
    for size in (1, 3, 64):
        output = tmp_path / str(size)
        options = ["--split", "test", "--output", output, "--batch_size", size, *METRICS]
        cache = ["--feature_cache", tmp_path / "features"]
        assert call("evaluate", trained, "--captions", drawn / "captions.jsonl", *options, *cache) == 0
        scores.append(json.loads((output / "scores.json").read_text(encoding="utf-8"))["scores"])
    assert scores[0] == scores[1] == scores[2]
