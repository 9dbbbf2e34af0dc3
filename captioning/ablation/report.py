"""The report of a study: report.md, report.html and results.csv, from what its run folders hold."""

from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from captioning.ablation.counts import Counts
from captioning.ablation.grid import Plan
from captioning.ablation.results import RunResult, read_result, write_csv
from captioning.ablation.runner import Placed
from captioning.errors import ConfigError

MARKDOWN, PAGE, ROWS = "report.md", "report.html", "results.csv"


def check_report_libraries() -> None:
    """Before hours of training, not after. Raises ConfigError."""
    missing = [name for name in ("scipy", "matplotlib") if find_spec(name) is None]
    if missing:
        raise ConfigError(f"ablate: a report needs {' and '.join(missing)}; pip install 'captioning[ablation]'")


def write_report(plan: Plan, placed: Sequence[Placed], output: Path, *, images: int) -> str:
    """Write the three files and return what holds, as text for the terminal.

    `images`: pictures for each pair of variants; with 0 neither pictures nor reference captions are shown.
    """
    from captioning.ablation.comparison import compare
    from captioning.ablation.differing import draw_strips, most_different
    from captioning.ablation.findings import Findings
    from captioning.ablation.image_tests import Resampling
    from captioning.ablation.sections import all_sections, verdicts
    from captioning.document import write_html, write_markdown

    results = [read_result(each) for each in placed]
    output.mkdir(parents=True, exist_ok=True)
    write_csv(output / ROWS, results, {variant.name: variant.labels for variant in plan.variants})
    done = [each for each in results if each.state == "done"]
    shared = _share_images(done)
    counts: dict[str, dict[int, Counts]] = {variant.name: {} for variant in plan.variants}
    for each in done:
        counts[each.variant][each.seed] = each.counts()
    resampling = Resampling(shared=shared)
    comparisons = compare(counts, plan.study.reference, plan.study.judged, resampling)
    picks = list(most_different(_of_one_seed(done), max(1, images)))
    findings = Findings(plan.study, results, comparisons, resampling, picks, pictures=images > 0)
    blocks = all_sections(findings)
    write_markdown(output / MARKDOWN, blocks)
    strips = draw_strips(pick for pair in picks for pick in pair) if images > 0 else {}
    write_html(output / PAGE, plan.study.name, blocks, strips)
    return "\n".join([*verdicts(findings), "", f"report: {output / PAGE}, {output / MARKDOWN}, {output / ROWS}"])


def _of_one_seed(done: Sequence[RunResult]) -> list[RunResult]:
    """The runs of the seed that most variants have, the first of several."""
    counted = Counter(each.seed for each in done)
    seed = counted.most_common(1)[0][0] if done else None
    return [each for each in done if each.seed == seed]


def _share_images(done: Sequence[RunResult]) -> bool:
    """Whether all seeds have the same images; the drawn set has other ones for each."""
    firsts = {each.seed: each for each in done}
    references = [each.references() for each in firsts.values()]
    return all(each == references[0] for each in references)
