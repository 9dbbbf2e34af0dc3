"""Cases H41 to H47 and H61: a score is right, belongs to its image, keeps its cell, and can be computed anywhere."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import captioning
from captioning.errors import DataError
from captioning.metrics import DEFAULT, Scores, score
from captioning.metrics.cider import DocumentFrequencies
from captioning.metrics.table import markdown_table, score_table
from tests.cli.conftest import call
from tests.training.small_run import fit, make

REFERENCES = {1: ["a cat on a mat"], 2: ["two dogs play in the snow"], 3: ["a red bus on a street"]}
SAID = {1: "a cat on a mat", 2: "two dogs run in the snow", 3: "a bus on a street"}
CORPUS = {"BLEU-1": 0.8807, "BLEU-2": 0.7978, "BLEU-3": 0.7105, "BLEU-4": 0.6165, "ROUGE-L": 0.9093, "CIDEr-D": 6.7349}
CIDER_D = {1: 10.0, 2: 4.2083, 3: 5.9965}


def test_H41_cider_of_one_picture_is_not_available_and_never_a_bare_zero():
    said, references = {1: SAID[1]}, {1: REFERENCES[1]}
    alone = score(said, references, ["CIDEr-D"])
    assert "CIDEr-D" not in alone.corpus
    assert "expected the references of at least 2 images, got those of 1" in alone.unavailable["CIDEr-D"]
    others = DocumentFrequencies.of([[caption.split()] for own in REFERENCES.values() for caption in own])
    assert score(said, references, ["CIDEr-D"], frequencies=others).corpus["CIDEr-D"] == pytest.approx(10)
    assert score(SAID, REFERENCES, ["CIDEr-D"]).corpus["CIDEr-D"] == pytest.approx(6.7349, abs=5e-5)


@pytest.mark.parametrize("order", [1, -1])
def test_H42_the_order_of_the_references_has_no_effect(order):
    bleu = [f"BLEU-{n}" for n in range(1, 5)]
    tie = score({1: "a b c d e"}, {1: ["a b c d", "a b c d e f"][::order]}, bleu).corpus
    assert list(tie.values()) == pytest.approx([1] * 4)
    nearest = score({1: "a dog runs on the"}, {1: ["dog", "a dog runs on the grass"][::order]}, bleu).corpus
    without = score({1: "a dog runs on the"}, {1: ["dog", "a dog runs on the grass"][::order]}, ["BLEU-1-no-penalty"])
    assert nearest["BLEU-1"] / without.corpus["BLEU-1-no-penalty"] == pytest.approx(0.8187, abs=5e-5)


def test_H43_markers_are_no_words():
    scores = score({1: "a man on a horse"}, {1: ["a man rides a horse"]}, ["BLEU-1", "BLEU-2", "BLEU-3"]).corpus
    assert list(scores.values()) == pytest.approx([0.8, 0.6325, 0.0], abs=5e-5)


def test_H43_validation_gives_what_scoring_gives():
    module, loaders = make(images=5)
    trainer = fit(module, loaders)
    expected = score(module.predictions, loaders.validation.captions.references, ["BLEU-4", "CIDEr-D"]).corpus
    for name, value in expected.items():
        assert trainer.callback_metrics[f"validation/{name}"].item() == pytest.approx(value, abs=1e-6)
    assert not any("<" in caption for caption in module.predictions.values())


def test_H44_scores_are_keyed_by_their_image():
    turned = {image: SAID[image] for image in (3, 1, 2)}
    scores = score(turned, REFERENCES, list(CORPUS))
    assert scores.corpus == pytest.approx(CORPUS, abs=5e-5)
    assert scores.per_image["CIDEr-D"] == pytest.approx(CIDER_D, abs=5e-5)


@pytest.fixture
def files(tmp_path):
    """references.json and predictions.json as others write them."""
    content = {
        "images": [{"id": image, "file_name": f"{image}.jpg"} for image in REFERENCES],
        "annotations": [{"image_id": image, "caption": own[0]} for image, own in REFERENCES.items()],
    }
    (tmp_path / "references.json").write_text(json.dumps(content))
    rows = [{"image_id": image, "caption": caption} for image, caption in SAID.items()]
    (tmp_path / "predictions.json").write_text(json.dumps(rows))
    return tmp_path


def arguments(folder, output):
    return [
        "evaluate",
        "--predictions",
        folder / "predictions.json",
        "--captions",
        folder / "references.json",
        "--output",
        output,
    ]


def assert_scores(output):
    found = json.loads((output / "scores.json").read_text())
    for name, value in CORPUS.items():
        assert found["scores"][name] == pytest.approx(value, abs=5e-5)
    assert "METEOR" in found["scores"] or "METEOR" in found["unavailable"]


def test_H45_without_java_all_that_can_be_scored_is(files, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(files / "nothing"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert call(*arguments(files, files / "out")) == 0
    assert_scores(files / "out")
    assert (files / "out" / "predictions.json").is_file()
    assert set(score(SAID, REFERENCES).corpus) | set(score(SAID, REFERENCES).unavailable) == set(DEFAULT)


@pytest.mark.parametrize("disturbed", ["a cat\non a mat", "a cat on\r\n a mat", "a cat\u2028on a mat"])
def test_H46_line_breaks_and_bars_shift_no_score(disturbed):
    said = {1: disturbed, 2: "two dogs ||| run in the snow", 3: SAID[3]}
    scores = score(said, REFERENCES, [*CORPUS, "CIDEr-plain"])
    for name, values in scores.per_image.items():
        assert values.keys() == REFERENCES.keys(), name
    assert scores.per_image["CIDEr-D"][1] == pytest.approx(10)
    assert scores.per_image["CIDEr-D"][3] == pytest.approx(CIDER_D[3], abs=5e-5)


def test_H46_rows_of_another_form_are_refused(files, capsys):
    (files / "predictions.json").write_text('[{"image_id": 1, "caption": ["a cat"]}]')
    assert call(*arguments(files, files / "out")) == 2
    assert "caption that is text" in capsys.readouterr().err
    with pytest.raises(DataError):
        score({}, REFERENCES)


def test_H47_blanks_in_paths_and_a_package_that_cannot_be_written(files, tmp_path):
    """The package runs from `my envs/x y`, where it may not write, in a folder with a blank and an accent."""
    package = tmp_path / "my envs" / "x y" / "captioning"
    shutil.copytree(Path(captioning.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    before = sorted(package.rglob("*"))
    for path in [*before, package]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    here = tmp_path / "où est"
    here.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "captioning", *map(str, arguments(files, here / "out put"))]
    done = subprocess.run(command, cwd=here, env=environment, capture_output=True, text=True, timeout=240, check=False)
    for path in [package, *before]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert done.returncode == 0, done.stderr
    assert_scores(here / "out put")
    assert sorted(package.rglob("*")) == before
    assert sorted(path.name for path in here.iterdir()) == ["out put"]


NAMES = ["soft|a", "lr=0.1|b", "a name\nin two lines", "back\\slash | and `code`"]


def test_H61_a_bar_in_a_name_keeps_its_cell():
    runs = {name: Scores({"BLEU-4": 0.125 * (1 + n), "CIDEr-D": 1.5 * n}) for n, name in enumerate(NAMES)}
    lines = list(score_table(runs).split("\n\n")[0].splitlines())
    cells = [_cells(line) for line in lines]
    assert {len(row) for row in cells} == {3}
    for row, (name, scores) in zip(cells[2:], runs.items(), strict=True):
        assert _unescaped(row[0]) == name
        assert float(row[1]) == pytest.approx(100 * scores.corpus["BLEU-4"], abs=5e-3)
        assert float(row[2]) == pytest.approx(scores.corpus["CIDEr-D"], abs=5e-5)
    assert markdown_table([["a|b"], ["c"]]).splitlines()[0].startswith("| a\\|b |")


def _cells(line):
    """The cells of a Markdown row: a bar that is not escaped parts them."""
    cells, escaped = [""], False
    for letter in line:
        if letter == "|" and not escaped:
            cells.append("")
        else:
            cells[-1] += letter
        escaped = letter == "\\" and not escaped
    return [cell.strip() for cell in cells[1:-1]]


def _unescaped(cell):
    return re.sub(r"\\(.)", r"\1", cell.replace("<br>", "\n"))
