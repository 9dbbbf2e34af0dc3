"""`captioning caption`: captions of pictures, and for each word where the model looked."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from captioning.cli.settings import OneLineParser
from captioning.decoding.search import RANKINGS, RULES
from captioning.errors import CaptioningError, ImageError

if TYPE_CHECKING:
    from PIL import Image

    from captioning.captioner import Caption, Captioner
    from captioning.decoding.search import Search

BATCH = 16
PICTURE_FORMATS = ("png", "pdf", "svg")


def parser() -> OneLineParser:
    """The command's arguments."""
    made = OneLineParser(
        prog="captioning caption",
        description="Caption pictures. Prints a line a picture: its path, a tab, its caption. Exit status 1 if some "
        "pictures could not be read; each is named on stderr and the rest goes on.",
    )
    made.add_argument("model", help="A captioner: a run's folder, a model folder or a .ckpt file.")
    made.add_argument("pictures", nargs="+", help="Files, folders, patterns such as 'photos/*.jpg', or - for a list.")
    made.add_argument("--overlay", metavar="DIR", help="Write filmstrips, maps (npz), words (JSON) and a page here.")
    made.add_argument("--format", choices=PICTURE_FORMATS, default="png", help="Of the filmstrips.")
    made.add_argument("--frames", action="store_true", help="Also write a picture for each single word.")
    made.add_argument("--text", help="Show this caption instead of the model's own.")
    made.add_argument("--json", metavar="FILE", help="Write the captions as COCO results JSON.")
    made.add_argument("--beam_size", type=int, help="Hypotheses kept; 1 is greedy. Default: the model's setting.")
    made.add_argument("--maximum_length", type=int, help="Longest caption. Default: the model's setting.")
    made.add_argument("--test_time_rule", choices=RULES, help="What is shown of the regions. Default: the model's.")
    made.add_argument("--ranking", choices=RANKINGS, help="How finished captions are compared.")
    made.add_argument("--color_map", default="inferno", help="Colours of the maps; a wrong name lists the known ones.")
    made.add_argument("--opacity", type=float, default=0.7, help="Of the map over the photo, 0 to 1.")
    made.add_argument("--normalization", choices=("word", "caption"), default="word", help="What full colour means.")
    made.add_argument("--font", metavar="FILE", help="A font for captions in scripts other than Latin.")
    made.add_argument("--device", default="cpu", help="cpu, cuda, mps, ...")
    return made


def run(arguments: Sequence[str]) -> int:
    """Caption all pictures that can be read."""
    options = parser().parse_args(list(arguments))
    from captioning.checkpoint import load
    from captioning.data.image_files import find_images
    from captioning.viz.overlay import MapStyle

    style = MapStyle(color_map=options.color_map, opacity=options.opacity, normalization=options.normalization)
    failures: list[str] = []
    paths = find_images(
        options.pictures,
        stream=sys.stdin,
        on_error=lambda error: _tell_failure(error, str(error), failures),
        on_left_out=_tell_left_out,
    )
    captioner = load(options.model).to(options.device)
    search = captioner.default_search.changed(
        beam_size=options.beam_size,
        maximum_length=options.maximum_length,
        ranking=options.ranking,
        test_time_rule=options.test_time_rule,
    )
    output = None
    if options.overlay is not None:
        from captioning.cli.overlays import OverlayFolder

        output = OverlayFolder(
            Path(options.overlay),
            style,
            picture_format=options.format,
            frames=options.frames,
            font=options.font,
        )
    captions: dict[str, str] = {}
    for path, image, caption in _captioned(captioner, paths, search, options.text, failures):
        captions[str(path)] = caption.text
        print(f"{path}\t{caption.text}", flush=True)
        if output is not None:
            output.add(path, image, caption)
    if output is not None and captions:
        print(f"see {output.finish(title='Captions', model=options.model)}", file=sys.stderr)
    if options.json is not None:
        from captioning.evaluation import write_predictions

        write_predictions(Path(options.json), captions)
    return 1 if failures else 0


def _captioned(
    captioner: "Captioner", paths: Sequence[Path], search: "Search", text: str | None, failures: list[str]
) -> Iterator[tuple[Path, "Image.Image", "Caption"]]:
    """Each picture that can be read with its caption; the others are named on stderr and put into `failures`."""
    for start in range(0, len(paths), BATCH):
        readable = list(_readable(paths[start : start + BATCH], failures))
        images = [image for _, image in readable]
        if text is None:
            captions = captioner.caption(images, search=search)
        else:
            captions = captioner.score(images, [text] * len(images), search=search)
        for (path, image), caption in zip(readable, captions, strict=True):
            yield path, image, caption


def _readable(paths: Sequence[Path], failures: list[str]) -> Iterator[tuple[Path, "Image.Image"]]:
    from captioning.data.images import load_image

    for path in paths:
        try:
            yield path, load_image(path)
        except ImageError as error:
            _tell_failure(error, str(path), failures)


def _tell_left_out(folder: Path, files: Sequence[Path]) -> None:
    count = "1 file that is no picture" if len(files) == 1 else f"{len(files)} files that are no pictures"
    named = ", ".join(path.name for path in files[:3]) + (", ..." if len(files) > 3 else "")
    print(f"captioning caption: {folder}: {count} left out: {named}", file=sys.stderr)


def _tell_failure(error: CaptioningError, name: str, failures: list[str]) -> None:
    failures.append(name)
    print(f"captioning caption: {error}", file=sys.stderr)
