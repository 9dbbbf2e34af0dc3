"""`captioning ablate`: make the runs of a study, and a report that says how sure it is."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captioning.cli.progress import RunBar, show_log
from captioning.cli.settings import OneLineParser, parse_training_config
from captioning.errors import CaptioningError

if TYPE_CHECKING:
    from captioning.ablation.engines import Engine
    from captioning.ablation.grid import Plan
    from captioning.ablation.runner import Placed


def parser() -> OneLineParser:
    """The command's arguments."""
    made = OneLineParser(
        prog="captioning ablate",
        description="Train every variant of a study with every seed, each in a process of its own, do only what is "
        "missing, and write report.md, report.html and results.csv. Flags with dots change the config of all "
        "runs, as in captioning train: --trainer.max_epochs 3.",
    )
    made.add_argument("study", help="A YAML file, such as configs/ablations/attention.yaml.")
    made.add_argument("--size", help="Which of the study's sizes. Default: the first.")
    made.add_argument("--seeds", type=int, nargs="+", help="Instead of the study's seeds.")
    made.add_argument("--output", metavar="DIR", help="The study's folder. Default: runs/ablations/NAME-SIZE.")
    made.add_argument("--dry_run", action="store_true", help="Print the plan and, from one short run, its time.")
    made.add_argument("--report_only", action="store_true", help="Report on the runs that are there; make none.")
    made.add_argument("--retry_failed", action="store_true", help="Make runs that failed once more.")
    made.add_argument("--no_images", action="store_true", help="No pictures in the report.")
    made.add_argument("--images", type=int, default=2, metavar="N", help="Pictures for each pair of variants.")
    made.add_argument("--engine", choices=("local", "ray"), default="local", help="This machine, or a Ray cluster.")
    made.add_argument("--processes", type=int, default=1, help="local: runs at a time.")
    made.add_argument("--gpus", nargs="+", default=[], metavar="ID", help="local: one run at a time on each of these.")
    made.add_argument("--address", default="auto", help="ray: of the cluster.")
    made.add_argument("--cpus_per_run", type=int, default=1, help="ray: cores that a run takes.")
    made.add_argument("--gpus_per_run", type=float, default=0, help="ray: GPUs that a run takes.")
    return made


def run(arguments: Sequence[str]) -> int:
    """Exit status 1 if a run failed; the report is written all the same."""
    own, overrides = split_overrides(arguments)
    options = parser().parse_args(own)
    plan = _plan(options, overrides)
    if options.dry_run:
        return _dry_run(plan)
    show_log()
    from captioning.ablation.report import check_report_libraries, write_report
    from captioning.ablation.runner import make_runs, place

    check_report_libraries()
    output = Path(options.output or Path("runs") / "ablations" / plan.study.name)
    if options.report_only:
        placed = place(plan, output)
    else:
        with RunBar(len(plan.runs)) as bar:
            progress = _progress(plan, bar)
            engine = _engine(options)
            placed = make_runs(plan, output, engine, retry_failed=options.retry_failed, progress=progress)
    print(write_report(plan, placed, output, images=0 if options.no_images else options.images))
    return _tell_failures(placed)


def split_overrides(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The command's own arguments, and the flags with dots, each with its value, which are the runs'."""
    own: list[str] = []
    overrides: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        name = argument.split("=", 1)[0]
        if name.startswith("--") and "." in name:
            overrides.append(argument if "=" in argument else f"{argument}={next(waiting, '')}")
        else:
            own.append(argument)
    return own, overrides


def _plan(options: Any, overrides: Sequence[str]) -> "Plan":
    from captioning.ablation.grid import make_plan
    from captioning.ablation.study import read_study

    study = read_study(Path(options.study), options.size)
    if options.seeds is not None:
        study = replace(study, seeds=tuple(options.seeds))
    shown = ["--trainer.progress_bar=false", "--trainer.sample_images=0"]
    return make_plan(study, lambda flags: parse_training_config(flags, prog="captioning ablate"), [*shown, *overrides])


def _dry_run(plan: "Plan") -> int:
    from captioning.ablation.estimate import measure
    from captioning.ablation.plan_text import estimate_text, plan_text

    print(plan_text(plan), flush=True)
    try:
        print(estimate_text(plan, measure(plan)))
    except CaptioningError as error:
        print(f"no estimate of the time: {error}")
    return 0


def _engine(options: Any) -> "Engine":
    if options.engine == "local":
        from captioning.ablation.engines import LocalEngine

        return LocalEngine(options.processes, tuple(map(str, options.gpus)))
    from captioning.ablation.ray_engine import RayEngine

    return RayEngine(options.address, cpus=options.cpus_per_run, gpus=options.gpus_per_run)


def _progress(plan: "Plan", bar: RunBar) -> Any:
    from captioning.ablation.results import best_so_far

    def tell(placed: Sequence["Placed"]) -> None:
        states = [each.state for each in placed]
        bar.show(len(states) - states.count("missing"), states.count("failed"), best_so_far(plan, placed))

    return tell


def _tell_failures(placed: Sequence["Placed"]) -> int:
    from captioning.ablation.results import last_error

    missing = [each for each in placed if each.state != "done"]
    for each in missing:
        print(f"captioning ablate: {each.run.name}: {last_error(each.folder)}", file=sys.stderr)
    return 1 if missing else 0
