"""`captioning export`: a captioner as two graphs, and a plain loop that captions with them."""

from collections.abc import Sequence
from pathlib import Path

from captioning.cli.settings import OneLineParser
from captioning.errors import ConfigError


def parser() -> OneLineParser:
    """The command's arguments."""
    made = OneLineParser(
        prog="captioning export",
        description="Write a captioner for programs that do not have this package: the encoder and one step of the "
        "decoder as graphs (the step gives the attention weights too), export.json with vocabulary and preprocessing, "
        "and loop.py, a plain loop that captions pictures with them.",
    )
    made.add_argument("model", help="A captioner: a run's folder, a model folder or a .ckpt file.")
    made.add_argument("--to", metavar="DIR", required=True, help="A new folder.")
    made.add_argument("--form", choices=("torch", "onnx"), default="torch", help="torch.export (.pt2), or ONNX.")
    made.add_argument("--batch_size", type=int, default=1, help="Pictures that the graphs take at once.")
    return made


def run(arguments: Sequence[str]) -> int:
    """Write the folder, and say how to use it."""
    options = parser().parse_args(list(arguments))
    folder = Path(options.to)
    if folder.exists():
        raise ConfigError(f"export: {folder} is there already; give a new folder with --to, or remove it")
    if options.batch_size < 1:
        raise ConfigError(f"--batch_size: expected at least 1, got {options.batch_size}")
    from captioning.checkpoint import load
    from captioning.export.write import export_captioner

    export_captioner(load(options.model), folder, form=options.form, batch_size=options.batch_size)
    for path in sorted(folder.iterdir()):
        print(f"{path}  {path.stat().st_size / 2**20:.1f} MiB")
    print(f"caption pictures with it: python {folder / 'loop.py'} PHOTO.jpg")
    return 0
