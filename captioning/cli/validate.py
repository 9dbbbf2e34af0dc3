"""`captioning validate`: everything read once; what would be lost, what is odd, and how the splits compare."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captioning.cli.progress import report as show_progress
from captioning.cli.settings import OneLineParser

if TYPE_CHECKING:
    from captioning.data.faults import Fault
    from captioning.data.validation import Report, SplitFacts

SHOWN = 10
"""Of a kind of fault, so many are printed; --json has all."""


def parser() -> OneLineParser:
    """The command's arguments."""
    made = OneLineParser(
        prog="captioning validate",
        description="Read captions and pictures once, and tell what is broken, missing, doubled or odd, how many "
        "captions and words there are, and whether a public set has its published size. Exit status 1 if anything "
        "would be lost: pictures that are missing or can't be read, captions without a word, images without captions "
        "or of an unknown split.",
    )
    made.add_argument("data", help="A caption file, a folder of pictures with texts, shards, or a saved data set.")
    made.add_argument("--format", default="auto", help="flickr8k, karpathy, coco, table, folder, huggingface, ...")
    made.add_argument("--images", metavar="DIR", help="The pictures' folder. Default: beside the caption file.")
    made.add_argument("--splits", type=dict[str, str], default={}, help="flickr8k: {train: list file, val: ...}.")
    made.add_argument("--captions_only", action="store_true", help="Don't look at the pictures.")
    made.add_argument("--longest", type=int, default=50, help="A caption of more words is overlong.")
    made.add_argument("--minimum_count", type=int, default=5, help="How often training captions hold a known word.")
    made.add_argument("--json", action="store_true", help="Print everything as JSON.")
    made.add_argument("--fix", metavar="DIR", help="Write a cleaned list of captions into DIR; nothing else changes.")
    return made


def run(arguments: Sequence[str]) -> int:
    """Print the report; 1 if anything would be lost."""
    options = parser().parse_args(list(arguments))
    from captioning.data.validation import validate

    captions, faults = _read(options)
    report = validate(
        captions,
        faults,
        look_at_pictures=not options.captions_only,
        longest=options.longest,
        minimum_count=options.minimum_count,
        progress=show_progress("check pictures"),
    )
    print(json.dumps(_as_dict(options.data, report), ensure_ascii=False, indent=1) if options.json else _text(report))
    if options.fix is not None:
        _fix(report, Path(options.fix))
    return 1 if report.lost else 0


def _read(options: Any) -> tuple[Any, list["Fault"]]:
    from captioning.data.formats import read_captions

    lists = {name: Path(options.data).parent / path for name, path in options.splits.items()} or None
    faults: list[Fault] = []
    captions = read_captions(
        options.data,
        format_name=None if options.format == "auto" else options.format,
        images=None if options.images is None else Path(options.images),
        split_lists=lists,
        check_files=False,
        faults=faults,
    )
    return captions, faults


def _fix(report: "Report", folder: Path) -> None:
    from captioning.data.writing import write_captions

    cleaned = report.cleaned()
    path = write_captions(cleaned, folder)
    print(f"{path}: {len(cleaned)} images, {len(cleaned.captions)} captions", file=sys.stderr)


def _text(report: "Report") -> str:
    from captioning.metrics.table import markdown_table

    heading = ["split", "images", "captions", "a picture", "fewest words", "mean", "most", "known words"]
    rows = [heading, *(_row(split, facts) for split, facts in report.splits.items())]
    lines = [markdown_table(rows)]
    if report.public_set is not None:
        lines += ["", f"pictures are named as those of {report.public_set}"]
        lines += list(report.sizes) or ["every split has the published size"]
    for kind, faults in report.by_kind().items():
        lines += ["", f"{kind}: {len(faults)}", *(f"  {fault.image}: {fault.detail}" for fault in faults[:SHOWN])]
        lines += [f"  ... and {len(faults) - SHOWN} more; --json lists all"] if len(faults) > SHOWN else []
    return "\n".join([*lines, "", f"{report.lost} would be lost" if report.lost else "nothing would be lost"])


def _row(split: str, facts: "SplitFacts") -> list[str]:
    least, mean, most = facts.words
    fewest, largest = min(facts.captions_per_image), max(facts.captions_per_image)
    per_image = str(fewest) if fewest == largest else f"{fewest} to {largest}"
    return [
        *(split, str(facts.images), str(facts.captions), per_image),
        *(str(least), f"{mean:.1f}", str(most), f"{100 * facts.known:.1f} %"),
    ]


def _as_dict(source: str, report: "Report") -> Mapping[str, Any]:
    return {
        "source": source,
        "lost": report.lost,
        "splits": {split: asdict(facts) for split, facts in report.splits.items()},
        "public_set": report.public_set,
        "sizes": list(report.sizes),
        "faults": {
            kind: [{"image": fault.image, "detail": fault.detail} for fault in faults]
            for kind, faults in report.by_kind().items()
        },
    }
