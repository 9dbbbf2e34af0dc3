"""The sections of a report, in the order in which they are read."""

from collections.abc import Iterator, Sequence
from math import isfinite
from statistics import fmean, stdev

from captioning.ablation.comparison import Comparison
from captioning.ablation.differing import DIFFERENCE, Pick, strip_name
from captioning.ablation.figures import figures
from captioning.ablation.findings import Findings
from captioning.ablation.methods import methods
from captioning.ablation.results import COSTS, RunResult
from captioning.ablation.seed_tests import FEWEST_SEEDS
from captioning.document import Answer, Block, Heading, Items, SideBySide, Table, Text

PERCENT = ("BLEU", "METEOR", "ROUGE")
"""Beginnings of the names of measures that are told in percent."""


def all_sections(findings: Findings) -> list[Block]:
    """The whole report."""
    return [
        *opening(findings),
        Heading("What holds"),
        Items([line.removeprefix("- ") for line in verdicts(findings)]),
        Heading("Scores"),
        *score_table(findings),
        Heading("Each variant against the reference"),
        *comparison_table(findings),
        *figures(findings),
        *cost_table(findings),
        *differing_images(findings),
        *unfinished(findings),
        Heading("How this was computed, and what it assumes"),
        *methods(findings.study, findings.resampling),
    ]


def opening(findings: Findings) -> Iterator[Block]:
    """What was compared, on what, with what."""
    study, results = findings.study, findings.results
    done = [each for each in results if each.state == "done"]
    failed = sum(each.state == "failed" for each in results)
    yield Heading(study.name, 1)
    if study.question:
        yield Text(study.question)
    seeds = ", ".join(map(str, study.seeds))
    missing = len(results) - len(done) - failed
    ended = f"{len(done)} of {len(results)} runs are done" + (f", {failed} failed" if failed else "")
    ended += f", {missing} are missing" if missing else ""
    yield Text(
        f"{len(findings.done)} variants, trained with the seeds {seeds}; {ended}. Reference: `{study.reference}`."
    )
    if done:
        images = len(done[0].references())
        same = "the same for all seeds" if findings.resampling.shared else "drawn anew for each seed"
        yield Text(f"Scored on {images} images of the split {study.split}, {same}. {_made_with(done)}")


def _made_with(done: Sequence[RunResult]) -> str:
    """Machines, versions and time, and a warning where they differ."""
    machines = {
        f"{each.environment.get('processor')}, {each.environment.get('cores')} cores, "
        f"{', '.join(each.environment.get('devices', [])) or 'no GPU'}, "
        f"{each.environment.get('threads')} threads a run, {each.environment.get('processes')} at a time"
        for each in done
    }
    codes = {f"captioning {e.get('captioning')} ({e.get('git') or 'no git'})" for e in (r.environment for r in done)}
    torches = {f"torch {each.environment.get('packages', {}).get('torch')}" for each in done}
    minutes = sum(each.costs["training_seconds"] for each in done) / 60
    told = f"Training took {minutes:.1f} minutes in all. Made with: {'; '.join(sorted(machines))}; "
    told += "; ".join(sorted(codes) + sorted(torches)) + "."
    if len(codes | torches) > 2:
        told += " **The runs come from different states of the code or of torch**: differences may be theirs."
    return told


def verdicts(findings: Findings) -> list[str]:
    """What holds, in words, each with its numbers."""
    comparisons = findings.comparisons
    if not comparisons:
        return ["- Nothing can be compared: the reference and another variant need a finished run of the same seed."]
    lines = [f"- **{_claim(each)}**: {_numbers(each)}" for each in comparisons if each.holds]
    lines += [
        f"- {_claim(each)} for these trained models; other trainings may not agree: {_numbers(each)}"
        for each in comparisons
        if each.images_agree and not each.seeds_agree
    ]
    lines += [
        f"- {_claim(each)} in every training, but other images may not agree: {_numbers(each)}"
        for each in comparisons
        if each.seeds_agree and not each.images_agree
    ]
    rest = [f"`{each.variant}` ({each.measure})" for each in comparisons if not (each.images_agree or each.seeds_agree)]
    if rest:
        lines.append(f"- No difference from `{findings.study.reference}` is claimed for {', '.join(rest)}.")
    untested = [name for name in findings.study.judged if name not in {each.measure for each in comparisons}]
    if untested:
        lines.append(f"- {', '.join(untested)}: not the mean over images nor BLEU, so nothing is tested about it.")
    fewest = min(len(each.seeds) for each in comparisons)
    if fewest < FEWEST_SEEDS:
        lines.append(
            f"- With {fewest} seed{'s' * (fewest != 1)} nothing is claimed about other trainings (that takes "
            f"{FEWEST_SEEDS}): a difference may be the luck of a training."
        )
    return lines


def _claim(each: Comparison) -> str:
    direction = "higher" if each.difference > 0 else "lower"
    return f"`{each.variant}` has {direction} {each.measure} than the reference"


def _numbers(each: Comparison) -> str:
    told = f"{_signed(each, each.difference)}, over images {_interval(each, each.low, each.high)}, p {_p(each.image_p)}"
    if each.training is not None:
        told += f"; over {each.training.seeds} seeds {_interval(each, each.training.low, each.training.high)}"
        told += f", p {_p(each.seed_p)}"
    return told


def score_table(findings: Findings) -> Iterator[Block]:
    """Mean ± standard deviation over seeds of every measure."""
    holds = {(each.variant, each.measure) for each in findings.comparisons if each.holds}
    rows = [["variant", "runs", *findings.measures]]
    for variant, runs in findings.done.items():
        planned = sum(each.variant == variant for each in findings.results)
        name = f"`{variant}` (reference)" if variant == findings.study.reference else f"`{variant}`"
        cells = [_mean_and_spread(name, [run.scores.get(name) for run in runs]) for name in findings.measures]
        marked = [
            f"**{cell}**" if (variant, name) in holds else cell
            for name, cell in zip(findings.measures, cells, strict=True)
        ]
        rows.append([name, f"{len(runs)} of {planned}", *marked])
    yield Table(rows)
    yield Text(
        "Mean ± standard deviation over seeds. BLEU, METEOR and ROUGE-L in percent, CIDEr-D from 0 to 10, exact and "
        "pointing from 0 to 1. Bold: differs from the reference for other images and for other trainings; only "
        f"{', '.join(findings.study.judged)} {'is' if len(findings.study.judged) == 1 else 'are'} judged."
    )


def _mean_and_spread(measure: str, values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "n/a"
    mean = shown(measure, fmean(known))
    return f"{mean} ± {shown(measure, stdev(known))}" if len(known) > 1 else mean


def comparison_table(findings: Findings) -> Iterator[Block]:
    """Differences with both intervals, both p values and the effect size."""
    rows = [
        ["variant", "measure", "difference", "other images: 95 %", "p", "other trainings: 95 %", "p", "effect size"]
    ]
    for each in findings.comparisons:
        training = ["not claimed", "", ""]
        if each.training is not None:
            found = each.training
            ends = found.effect_interval()
            effect = f"{found.effect:.1f} [{ends[0]:.1f}, {ends[1]:.1f}]" if isfinite(ends[0]) else ""
            training = [_interval(each, found.low, found.high), _p(each.seed_p), effect]
        images = [_signed(each, each.difference), _interval(each, each.low, each.high), _p(each.image_p)]
        cells = [f"`{each.variant}`", each.measure, *images, *training]
        rows.append([f"**{cell}**" if each.holds and place == 2 else cell for place, cell in enumerate(cells)])
    if len(rows) > 1:
        yield Table(rows)
        yield Text(
            "Variant minus reference. The intervals are for one comparison each; the p values are corrected for all "
            "comparisons of their column (Holm). Effect size: the mean difference in units of its standard "
            "deviation between trainings."
        )


def cost_table(findings: Findings) -> Iterator[Block]:
    """What a run of each variant takes."""
    rows = [["variant", *COSTS.values()]]
    for variant, runs in findings.done.items():
        if runs:
            means = {name: fmean(run.costs[name] for run in runs) for name in COSTS}
            minutes, milliseconds = means["training_seconds"] / 60, means["milliseconds_an_image"]
            sizes = [f"{means['peak_memory_mb']:.0f}", f"{means['parameters']:,.0f}"]
            rows.append([f"`{variant}`", f"{minutes:.2f}", f"{milliseconds:.1f}", *sizes])
    if len(rows) > 1:
        yield Heading("Costs")
        yield Table(rows)
        yield Text(
            "Means over seeds. Time and memory are of a run's own process on the machine above, with whatever else ran "
            "on it; memory is the most that the process held, libraries included, or the GPU's where there is one."
        )


def differing_images(findings: Findings) -> Iterator[Block]:
    """For each pair of variants the images on which they differ most."""
    pairs = [pair for pair in findings.picks if pair]
    if not pairs:
        return
    yield Heading("Where variants differ most")
    seed = pairs[0][0].runs[0].seed
    pictures = "" if findings.pictures else " Pictures and references are left out."
    yield Text(
        f"Runs of seed {seed}; by turns the image where the first variant leads most by {DIFFERENCE}, and the one "
        f"where the second does. They are the extremes, not the rule.{pictures} A map shows how much each region "
        "contributed to a word's context; it does not explain the word."
    )
    for pair in pairs:
        first, second = pair[0].runs
        yield Heading(f"{first.variant} and {second.variant}", 3)
        for pick in pair:
            yield _side_by_side(pick, pictures=findings.pictures)


def _side_by_side(pick: Pick, *, pictures: bool) -> SideBySide:
    answers = [
        Answer(run.variant, caption, f"{value:.2f}", strip_name(run, pick.image) if pictures else None)
        for run, caption, value in zip(pick.runs, pick.captions, pick.values, strict=True)
    ]
    return SideBySide(pick.image, pick.references if pictures else (), answers)


def unfinished(findings: Findings) -> Iterator[Block]:
    """Runs without a result, with their last error."""
    told = [f"`{each.name}` {each.state}: {each.error}" for each in findings.results if each.state != "done"]
    if told:
        yield Heading("Runs without a result")
        yield Items(told)


def shown(measure: str, value: float) -> str:
    """A value of a measure, for people."""
    return f"{100 * value:.2f}" if measure.startswith(PERCENT) else f"{value:.3f}"


def _signed(each: Comparison, value: float) -> str:
    text = shown(each.measure, abs(value))
    return ("−" if value < 0 else "+") + text


def _interval(each: Comparison, low: float, high: float) -> str:
    if not isfinite(low):
        return "no spread: not claimed"
    return f"[{_signed(each, low)}, {_signed(each, high)}]"


def _p(value: float | None) -> str:
    if value is None:
        return ""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
