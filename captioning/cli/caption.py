"""`captioning caption`: captions of pictures, and for each word where the model looked."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captioning.cli.settings import OneLineParser, add_search_arguments, given_search
from captioning.errors import CaptioningError, ConfigError, ImageError

if TYPE_CHECKING:
    from PIL import Image

    from captioning.captioner import Caption, Captioner, Ensemble
    from captioning.cli.overlays import OverlayFolder

BATCH = 16
PICTURE_FORMATS = ("png", "pdf", "svg")


def parser() -> OneLineParser:
    """The command's arguments."""
    made = OneLineParser(
        prog="captioning caption",
        description="Caption pictures. Prints a line a caption: its picture's path, a tab, its words. Exit status 1 if "
        "some pictures could not be read; each is named on stderr and the rest goes on. What is not said of the search "
        "is as the model has it stored.",
    )
    made.add_argument("model", help="A captioner: a run's folder, a model folder or a .ckpt file.")
    made.add_argument("pictures", nargs="+", help="Files, folders, patterns such as 'photos/*.jpg', or - for a list.")
    made.add_argument(
        "--ensemble",
        action="append",
        metavar="MODEL",
        help="Another captioner, of the same vocabulary, whose probabilities are averaged with the first one's; may be "
        "given several times.",
    )
    made.add_argument(
        "--n_best", type=int, help="Captions a picture, best first. Default: 1; with method sampling, all samples."
    )
    made.add_argument("--seed", type=int, default=1, help="Of what is drawn at random.")
    made.add_argument("--text", help="Show this caption instead of the model's own.")
    made.add_argument("--json", metavar="FILE", help="Write the captions as COCO results JSON.")
    made.add_argument("--overlay", metavar="DIR", help="Write filmstrips, maps (npz), words (JSON) and a page here.")
    made.add_argument("--format", choices=PICTURE_FORMATS, default="png", help="Of the filmstrips.")
    made.add_argument("--frames", action="store_true", help="Also write a picture for each single word.")
    made.add_argument("--color_map", default="inferno", help="Colours of the maps; a wrong name lists the known ones.")
    made.add_argument("--opacity", type=float, default=0.7, help="Of the map over the photo, 0 to 1.")
    made.add_argument("--normalization", choices=("word", "caption"), default="word", help="What full colour means.")
    made.add_argument("--font", metavar="FILE", help="A font for captions in scripts other than Latin.")
    made.add_argument("--device", default="cpu", help="cpu, cuda, mps, ...")
    add_search_arguments(made)
    return made


def run(arguments: Sequence[str]) -> int:
    """Caption all pictures that can be read."""
    options = parser().parse_args(list(arguments))
    if options.text is not None and options.n_best is not None:
        raise ConfigError("n_best: expected nothing beside --text, which is one caption a picture")
    import torch

    from captioning.data.image_files import find_images

    failures: list[str] = []
    output = _overlay_folder(options)
    paths = find_images(
        options.pictures,
        stream=sys.stdin,
        on_error=lambda error: _tell_failure(error, str(error), failures),
        on_left_out=_tell_left_out,
    )
    captioner = _load(options)
    torch.manual_seed(options.seed)
    rows: list[dict[str, object]] = []
    for path, image, captions in _captioned(captioner, paths, options, failures):
        for caption in captions:
            rows.append(_row(path, caption))
            print(f"{path}\t{caption.text}", flush=True)
            if output is not None:
                output.add(path, image, caption)
    if output is not None and rows:
        print(f"see {output.finish(title='Captions', model=_name(options))}", file=sys.stderr)
    if options.json is not None:
        Path(options.json).write_text(json.dumps(rows, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return 1 if failures else 0


def _load(options: Any) -> "Captioner | Ensemble":
    from captioning.captioner import Ensemble
    from captioning.checkpoint import load

    names = [options.model, *(options.ensemble or [])]
    members = [load(name).to(options.device) for name in names]
    return members[0] if len(members) == 1 else Ensemble(members, names=names)


def _name(options: Any) -> str:
    return " + ".join([options.model, *(options.ensemble or [])])


def _overlay_folder(options: Any) -> "OverlayFolder | None":
    from captioning.cli.overlays import OverlayFolder
    from captioning.viz.overlay import MapStyle

    style = MapStyle(color_map=options.color_map, opacity=options.opacity, normalization=options.normalization)
    if options.overlay is None:
        return None
    return OverlayFolder(
        Path(options.overlay), style, picture_format=options.format, frames=options.frames, font=options.font
    )


def _captioned(
    captioner: "Captioner | Ensemble", paths: Sequence[Path], options: Any, failures: list[str]
) -> Iterator[tuple[Path, "Image.Image", "list[Caption]"]]:
    """Each picture that can be read with its captions; the others are named on stderr and put into `failures`."""
    search = captioner.default_search.changed(**given_search(options))
    usual = None if search.method == "sampling" else 1
    number = usual if options.n_best is None else options.n_best
    for start in range(0, len(paths), BATCH):
        readable = list(_readable(paths[start : start + BATCH], failures))
        images = [image for _, image in readable]
        if options.text is None:
            found = captioner.n_best(images, number, search=search)
        else:
            found = [[caption] for caption in captioner.score(images, [options.text] * len(images), search=search)]
        for (path, image), captions in zip(readable, found, strict=True):
            yield path, image, captions


def _row(path: Path, caption: "Caption") -> dict[str, object]:
    """Of COCO results JSON, with what its readers need not know."""
    return {
        "image_id": str(path),
        "caption": caption.text,
        "score": caption.score,
        "log_probability": caption.log_probability,
        "finished": caption.finished,
    }


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
