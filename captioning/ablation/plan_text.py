"""A plan for the terminal: variants, what sets them apart, runs, and how long they will take."""

from captioning.ablation.estimate import FEW, MORE, Measured
from captioning.ablation.grid import Plan
from captioning.metrics.table import markdown_table


def plan_text(plan: Plan) -> str:
    """The plan as text."""
    study = plan.study
    rows = [["variant", "settings"]]
    for variant in plan.variants:
        told = ", ".join(f"{name} {value}" for name, value in variant.settings.items()) or "the base's"
        rows.append([f"{variant.name} (reference)" if variant.name == study.reference else variant.name, told])
    seeds = ", ".join(map(str, study.seeds))
    lines = [
        f"{study.name}: {len(plan.variants)} variants x {len(study.seeds)} seeds ({seeds}) = {len(plan.runs)} runs",
        *([study.question] if study.question else []),
        f"scored on the split {study.split}; claims are made about {', '.join(study.judged)}",
        "",
        markdown_table(rows),
        "",
    ]
    return "\n".join(lines)


def estimate_text(plan: Plan, measured: Measured) -> str:
    """The estimated time, and what it rests on."""
    each = [measured.seconds(run.config) for run in plan.runs]
    return (
        f"estimated {duration(sum(each))} for {len(each)} runs one after the other, "
        f"{duration(min(each))} to {duration(max(each))} each.\n"
        f"Measured on this machine from one short run of {plan.runs[0].variant.name} ({FEW} and {MORE} steps): "
        f"{1000 * measured.step:.0f} ms a step, {1000 * measured.image:.1f} ms to caption an image, "
        f"{measured.fixed:.0f} s besides, {measured.train_images} training images. Variants that cost more a step take "
        "longer; making a feature store, once, is not counted."
    )


def duration(seconds: float) -> str:
    """For people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 90 * 60 else f"{seconds / 3600:.1f} hours"
