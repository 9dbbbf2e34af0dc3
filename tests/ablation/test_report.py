"""What a report says in words, and that its page keeps what it is given apart from its markup."""

import json
from dataclasses import replace

import pytest

from captioning.ablation.comparison import Comparison
from captioning.ablation.figures import figures
from captioning.ablation.findings import Findings
from captioning.ablation.image_tests import Resampling
from captioning.ablation.results import RunResult
from captioning.ablation.sections import comparison_table, score_table, verdicts
from captioning.ablation.seed_tests import paired_seeds
from captioning.ablation.study import Study
from captioning.document import Answer, Chart, Heading, SideBySide, Table, Text, write_html, write_markdown

DIFFERENCES = (0.11, 0.09, 0.12, 0.08, 0.10)
STUDY = Study(
    name="looks", base=None, reference="soft", judged=("exact",), extra={"soft": {}, "hard": {}}, question="Does it?"
)


def comparison(image_p, seed_p, differences=DIFFERENCES):
    training = paired_seeds(differences)
    seeds = tuple(range(1, 1 + len(differences)))
    return Comparison("hard", "exact", seeds, 0.1, 0.06, 0.14, image_p, training, seed_p if training else None)


def result(variant, seed, exact):
    scores = {"exact": exact, "BLEU-4": 0.2} if exact is not None else {}
    state = "done" if scores else "failed"
    return RunResult(variant, seed, f"{variant}-s{seed}-0a", None, state, "" if scores else "no luck", scores)


def findings(*comparisons):
    values = {"soft": [0.5, 0.52, 0.51, 0.49, 0.5], "hard": [0.61, 0.61, 0.63, 0.57, None]}
    results = [result(name, seed, value) for name, of in values.items() for seed, value in enumerate(of, 1)]
    return Findings(STUDY, results, comparisons, Resampling(), [], pictures=False)


@pytest.mark.parametrize(
    ("image_p", "seed_p", "told"),
    [
        (0.01, 0.01, "**`hard` has higher exact than the reference**: +0.100, over images [+0.060, +0.140], p 0.010"),
        (0.01, 0.20, "for these trained models; other trainings may not agree"),
        (0.20, 0.0001, "in every training, but other images may not agree"),
        (0.20, 0.20, "No difference from `soft` is claimed for `hard` (exact)."),
    ],
)
def test_a_verdict_says_which_of_the_two_questions_agree(image_p, seed_p, told):
    [line] = verdicts(findings(comparison(image_p, seed_p)))
    assert told in line
    assert ("**" in line) == (image_p <= 0.05 and seed_p <= 0.05)


def test_with_three_seeds_nothing_is_claimed_about_trainings_and_nothing_is_bold():
    few = findings(comparison(0.0001, None, DIFFERENCES[:3]))
    assert "With 3 seeds nothing is claimed about other trainings (that takes 4)" in verdicts(few)[-1]
    [table, _] = comparison_table(few)
    assert "not claimed" in table.rows[1]
    rows = [*table.rows, *next(iter(score_table(few))).rows]
    assert not [cell for row in rows for cell in row if "**" in cell]


def test_a_difference_without_spread_is_told_so():
    [table, _] = comparison_table(findings(comparison(0.01, 1.0, (0.1,) * 5)))
    assert "no spread: not claimed" in table.rows[1]


def test_bold_is_what_holds_and_failed_runs_are_counted():
    [table, _] = score_table(findings(comparison(0.01, 0.01)))
    assert table.rows[0] == ["variant", "runs", "exact", "BLEU-4"]
    assert table.rows[1][:3] == ["`soft` (reference)", "5 of 5", "0.504 ± 0.011"]
    assert table.rows[2][:3] == ["`hard`", "4 of 5", "**0.605 ± 0.025**"]
    [table, _] = score_table(findings(comparison(0.01, 0.2)))
    assert table.rows[2][2] == "0.605 ± 0.025"


def test_an_untested_judged_measure_is_named():
    study = replace(STUDY, judged=("exact", "METEOR"))
    lines = verdicts(replace(findings(comparison(0.01, 0.01)), study=study))
    assert any(line.startswith("- METEOR: not the mean over images nor BLEU") for line in lines)


@pytest.mark.parametrize(("validations", "drawn"), [(1, False), (2, True)])
def test_one_validation_is_no_curve(validations, drawn, tmp_path):
    log = tmp_path / "training" / "log" / "version_0"
    log.mkdir(parents=True)
    rows = [f"{epoch},0.{epoch + 1}" for epoch in range(validations)]
    (log / "metrics.csv").write_text("\n".join(["epoch,validation/CIDEr-D", *rows]))
    (tmp_path / "run.json").write_text(json.dumps({"config": {"trainer": {"monitor": "CIDEr-D"}}}))
    costs = {"training_seconds": 60.0, "peak_memory_mb": 7.0, "parameters": 11.0}
    run = replace(result("soft", 1, 0.5), folder=tmp_path, costs=costs)
    blocks = figures(replace(findings(), results=[run]))
    assert ("curves" in [block.name for block in blocks if isinstance(block, Chart)]) == drawn


def test_markup_in_names_and_captions_stays_text(tmp_path):
    wild = "<script>alert('x')</script>"
    pair = SideBySide(wild, [wild], [Answer(wild, wild, "0.10", 'a</script>"b')])
    blocks = [Heading(wild), Text(f"{wild} and **bold** and `code`"), Table([["a", wild], [wild, "b|c"]]), pair]
    write_html(tmp_path / "report.html", wild, blocks, {'a</script>"b': "data:image/webp;base64,AAAA"})
    page = (tmp_path / "report.html").read_text()
    assert "<script>alert" not in page
    assert page.count("</script>") == 2
    assert "<b>bold</b> and <code>code</code>" in page
    write_markdown(tmp_path / "report.md", blocks)
    assert "b\\|c" in (tmp_path / "report.md").read_text()
