"""`captioning inspect`: what a model's maps are like, what they are worth, and what they can be used for."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captioning.cli.progress import report, show_log
from captioning.cli.settings import OneLineParser, add_search_arguments, given_search
from captioning.config import DataConfig
from captioning.errors import ConfigError

if TYPE_CHECKING:
    from captioning.captioner import Captioner
    from captioning.data.records import CaptionSet
    from captioning.decoding.search import Search
    from captioning.inspection import Subject
    from captioning.inspection.locating import Known
    from captioning.run.data import RunData

EXTRA = "matplotlib"


def parser() -> OneLineParser:
    """The command's arguments."""
    made = OneLineParser(
        prog="captioning inspect",
        description="Measure the attention maps of a captioner: how sharp they are, what its captions cost with other "
        "maps, what words lose when the cells they show are removed (against random cells and gradients), and whether "
        "they lie on the thing named, where that is known. Writes one page that says what the maps can and can't be "
        "used for (index.html, inspection.md, inspection.json). The data are those of the run that MODEL is the folder "
        "of, unless --data.* says otherwise.",
    )
    made.add_argument("model", help="A captioner: a run's folder, a model folder or a .ckpt file.")
    made.add_class_arguments(DataConfig, "data")
    made.add_argument("--split", help="train, val or test. Default: test, or val where there is no test.")
    made.add_argument("--images", type=int, default=200, help="So many images, drawn at random.")
    made.add_argument("--words", type=int, default=300, help="So many of the captioner's own words, for removal.")
    made.add_argument(
        "--attributions",
        type=list[str],
        default=["input_x_gradient", "integrated_gradients"],
        help="Gradient methods to compare with (captum); []: none.",
    )
    made.add_argument(
        "--regions",
        metavar="PATH",
        help="True places of things: a folder with Annotations and Sentences (Flickr30k Entities), or a COCO instances "
        "file. The drawn set has its own.",
    )
    made.add_argument(
        "--output", metavar="DIR", help="Where the page goes. Default: inspection, in the model's folder."
    )
    made.add_argument("--seed", type=int, default=1, help="Of images, words and all else that is drawn at random.")
    made.add_argument("--device", default="cpu", help="cpu, cuda, mps, ...")
    add_search_arguments(made)
    return made


def run(arguments: Sequence[str]) -> int:
    """Measure, write the page, and print what the maps can and can't be used for."""
    options = _parse(arguments)
    _check(options)
    show_log()
    from captioning.checkpoint import load
    from captioning.inspection import inspect
    from captioning.inspection.page import write_page
    from captioning.inspection.subject import check_has_maps
    from captioning.inspection.uses import uses

    captioner = load(options.model).to(options.device)
    check_has_maps(captioner.decoder)
    subject, captions, data = _subject(options, captioner)
    known = _known(options, captioner, data, captions)
    found = inspect(
        subject,
        _facts(options, subject, captions, known),
        known=known,
        words=options.words,
        attributions=options.attributions,
        seed=options.seed,
        report=report,
    )
    page = write_page(found, _output(options))
    for heading, texts in zip(("can be used for", "can't be used for"), uses(found), strict=True):
        print("\n".join([heading, *(f"  {text.replace('**', '')}" for text in texts)]))
    print(f"see {page}", file=sys.stderr)
    return 0


def _parse(arguments: Sequence[str]) -> Any:
    """The options; of data, what is not given is as in the run's own config, if MODEL is of a run."""
    made = parser()
    model = made.parse_args(list(arguments)).model
    made.set_defaults(_run_settings(Path(model)))
    return made.instantiate(made.parse_args(list(arguments)))


def _run_settings(model: Path) -> dict[str, Any]:
    """Those of the run's data that this version knows, and its seed, by which a set is drawn."""
    from captioning.run.folder import stored_config

    stored, known = stored_config(model), {each.name for each in fields(DataConfig)}
    found = {f"data.{name}": value for name, value in stored.get("data", {}).items() if name in known}
    return found | ({"seed": stored["seed"]} if "seed" in stored else {})


def _check(options: Any) -> None:
    """Before anything is computed. Raises ConfigError."""
    from importlib.util import find_spec

    from captioning.inspection.attribution import check_attributions

    check_attributions(options.attributions)
    if find_spec(EXTRA) is None:
        raise ConfigError(f"inspect: a page needs {EXTRA}; pip install 'captioning[inspection]'")
    if min(options.images, options.words) < 1:
        raise ConfigError(f"inspect: expected images and words to look at, got {options.images} and {options.words}")


def _subject(options: Any, captioner: "Captioner") -> "tuple[Subject, CaptionSet, RunData]":
    from captioning.data.splits import SPLITS
    from captioning.inspection import choose_images, prepare
    from captioning.run.data import open_data, open_pictures

    # The size of a split changes no other split's pictures: the drawn training pictures need not be drawn.
    settings = replace(options.data, drawn_train=1) if options.split in (None, "test") else options.data
    data = open_data(settings, seed=options.seed, progress=report("check pictures"))
    there = data.captions.counts()
    split = options.split or next((name for name in reversed(SPLITS) if name in there), "test")
    captions = choose_images(data.captions.split(split), options.images, seed=options.seed)
    chosen = replace(data, captions=captions)
    encoding = report("encode pictures")
    pictures = open_pictures(options.data, chosen, captioner.encoder, device=options.device, progress=encoding)
    search = captioner.default_search.changed(**given_search(options))
    options.split = split
    return prepare(captioner, captions, pictures, search=search), captions, data


def _known(options: Any, captioner: "Captioner", data: "RunData", captions: "CaptionSet") -> "Known | None":
    from captioning.data.places import drawn_places, read_places
    from captioning.inspection.locating import Known

    tokenize = captioner.vocabulary.tokenize
    if options.regions is not None:
        places = read_places(Path(options.regions), captions, tokenize)
        sizes = {each.image_id: each.load().size for each in captions.records if each.image_id in places}
        return Known(places, sizes, options.regions)
    if data.drawn is None:
        return None
    side = data.drawn.pixels.shape[1]
    return Known(drawn_places(data.drawn, tokenize), dict.fromkeys(data.drawn.word_cells, (side, side)), "true cells")


def _facts(options: Any, subject: "Subject", captions: "CaptionSet", known: "Known | None") -> Mapping[str, str]:
    rows, columns = subject.grid
    search = subject.search
    return {
        "model": str(options.model),
        "decoder": type(subject.captioner.decoder).__name__,
        "test-time rule": rule_in_words(search),
        "encoder": f"{subject.captioner.encoder.name}, {rows} × {columns} cells",
        "data": f"{options.data.captions or options.data.format}, split {options.split}",
        "images": f"{subject.images}, {len(captions.captions)} reference captions",
        "places": "none known" if known is None else known.origin,
        "its own captions by": ", ".join(f"{name} {value}" for name, value in search.details().items()),
        "seed": str(options.seed),
    }


def rule_in_words(search: "Search") -> str:
    """What the decoder is shown of the regions."""
    told = {
        "expected": "expected: the mean of all regions by their weights",
        "argmax": "argmax: the region of largest weight alone",
        "sample": "sample: one region, drawn with the weights as probabilities",
        "mean_of_k": f"mean_of_k: the mean of {search.rule_samples} regions that are drawn",
    }
    return told[search.test_time_rule]


def _output(options: Any) -> Path:
    model = Path(options.model)
    return Path(options.output) if options.output else (model if model.is_dir() else model.parent) / "inspection"
