"""Tables, JSON and picture of a comparison whose numbers are given."""

import io
import json

import numpy as np
from PIL import Image

from captioning.estimation.candidates import EXPECTED, SCORE_FUNCTION, Candidate
from captioning.estimation.chart import chart
from captioning.estimation.comparison import Comparison, Measured
from captioning.estimation.report import to_markdown, to_plain
from captioning.estimators import Quality

ROWS = [
    Measured(Candidate(SCORE_FUNCTION, "to_go", "none"), {"some part": Quality(0.1, 0.25, 8.0, 0.5)}, 0.002),
    Measured(Candidate(SCORE_FUNCTION, "to_go", "learned"), {"some part": Quality(0.2, 0.125, 2.0, 2.0)}, 0.004),
    Measured(Candidate(EXPECTED), {"some part": Quality(0.5, 0.0, 0.0, float("inf"))}, 0.001),
]


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_row_has_its_numbers_and_its_noise_at_equal_time():
    text = to_markdown(Comparison(ROWS, draws=40, paths=9), {"model": "toy", "draws": 40})
    rows = [cells(line) for line in text.splitlines() if line.startswith(("| score", "| expected"))]
    assert rows == [
        ["score_function", "to_go", "none", "0.100", "0.250", "no", "8", "0.5", "2.0", "1"],
        ["score_function", "to_go", "learned", "0.200", "0.125", "no", "2", "2", "4.0", "0.5"],
        ["expected_context", "", "", "0.500", "0.000", "yes", "0", "inf", "1.0", "0"],
    ]
    assert "## Gradient of the some part" in text
    assert "model toy, draws 40" in text
    assert "chance alone brings to 0.025" in text
    assert "as a multiple of score_function, to_go, none" in text


def test_without_an_exact_gradient_no_bias_is_claimed():
    rows = [Measured(each.candidate, {"all": Quality(None, 0.2, 1.0, 1.0)}, 0.001) for each in ROWS]
    comparison = Comparison(rows, draws=40, paths=None)
    text = to_markdown(comparison, {})
    assert "unknown" in text
    assert "too many to list" in text
    assert all(row["parts"]["all"]["biased"] is None for row in to_plain(comparison, {})["rows"])
    assert chart(comparison, "all").startswith(b"\x89PNG")


def test_json_has_no_infinity_and_the_chart_is_a_picture_with_something_on_it():
    comparison = Comparison(ROWS, draws=40, paths=9)
    plain = json.loads(json.dumps(to_plain(comparison, {"model": "toy"}), allow_nan=False))
    assert plain["rows"][2]["parts"]["some part"]["signal_to_noise"] is None
    assert plain["rows"][1] == {
        "estimator": SCORE_FUNCTION,
        "returns": "to_go",
        "baseline": "learned",
        "seconds": 0.004,
        "parts": {
            "some part": {
                "bias": 0.2,
                "bias_error": 0.125,
                "variance": 2.0,
                "signal_to_noise": 2.0,
                "unseen": 0.0,
                "biased": False,
            }
        },
    }
    picture = np.asarray(Image.open(io.BytesIO(chart(comparison, "some part"))).convert("RGB"))
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 10


def test_a_difference_that_rare_ways_to_look_may_hold_is_unclear():
    row = Measured(
        Candidate(SCORE_FUNCTION, "whole", "none"), {"all": Quality(0.9, 0.01, 1.0, 1.0, unseen=0.95)}, 0.001
    )
    text = to_markdown(Comparison([row], draws=40, paths=9), {})
    assert "| unclear |" in text
    assert "rarer than one in 40 draws" in text
    assert "95% of the gradient of the all" in text
