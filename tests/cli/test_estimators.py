"""`captioning estimators` on its toy and on a captioner, and what it refuses."""

import json

import pytest

from tests.cli.conftest import call


def test_the_toy_without_a_model(capsys, tmp_path):
    few = ("--estimators", "[score_function,straight_through]", "--draws", 3)
    assert call("estimators", *few, "--words", 2, "--output", tmp_path) == 0
    told = capsys.readouterr().out
    assert "model toy, images 2, words 2, choices 5, draws 3" in told
    assert told.count("| score_function ") == 2 * 12
    assert (tmp_path / "estimators.md").read_text() in told
    found = json.loads((tmp_path / "estimators.json").read_text())
    assert (found["paths"], len(found["rows"])) == (25, 13)
    assert sorted(path.name for path in tmp_path.glob("*.png")) == [
        "estimators_score_network.png",
        "estimators_whole_decoder.png",
    ]


def test_a_captioner_and_as_many_words_as_can_be_listed(drawn, trained, capsys):
    few = ("--estimators", "[straight_through,expected_context]", "--draws", 2, "--pictures", 1)
    assert call("estimators", trained, "--captions", drawn / "captions.jsonl", *few) == 0
    assert "images 1, words 2, choices 36" in capsys.readouterr().out
    assert call("estimators", trained, "--format", "drawn", "--words", 0, *few) == 0
    told = capsys.readouterr().out
    assert "words 8," in told or "words 9," in told
    assert "the exact gradient and with it any bias is unknown here" in told


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--draws", 1), "--draws: expected at least 2, got 1"),
        (("--format", "drawn"), "expected a MODEL with --captions or --format drawn, got none"),
        (("MODEL",), "expected --captions FILE or --format drawn beside a MODEL, got neither"),
        (("--estimators", "[gumble]"), "estimator: expected one of"),
    ],
)
def test_wrong_calls_are_one_line(trained, arguments, complaint, capsys):
    given = [trained if each == "MODEL" else each for each in arguments]
    assert call("estimators", *given) == 2
    told = capsys.readouterr().err
    assert complaint in told
    assert len(told.splitlines()) == 1
