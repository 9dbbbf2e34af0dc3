"""`captioning reproduce`: models beside what was published, with the circumstances of every number."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captioning.cli.progress import report, show_log
from captioning.cli.settings import OneLineParser, add_search_arguments, given_search
from captioning.config import DataConfig
from captioning.errors import DataError
from captioning.reproduction import NOT_STATED, PUBLISHED, Circumstances, comparison_table

if TYPE_CHECKING:
    from captioning.run.data import RunData

USUAL: Mapping[str, Mapping[str, Any]] = {
    "flickr8k": {
        "captions": "data/flickr8k/Flickr8k.token.txt",
        "images": "data/flickr8k/images",
        "splits": {
            "train": "Flickr_8k.trainImages.txt",
            "val": "Flickr_8k.devImages.txt",
            "test": "Flickr_8k.testImages.txt",
        },
    },
    "flickr30k": {"captions": "data/flickr30k/dataset_flickr30k.json", "images": "data/flickr30k/images"},
    "coco": {"captions": "data/coco/dataset_coco.json", "images": "data/coco/images"},
}
"""Where a set lies if nothing else is said."""
SCORER = "as the COCO scorer's"
NOTES = (
    "All in percent; CIDEr-D x 100. An empty cell was not published. The tokenizer is the scorer's.",
    "The paper's BLEU has no brevity penalty, the COCO scorer's has one: a model has a row with each.",
    "Ports: as their authors report them, with what they do not tell called not stated; read them as orders of size.",
)


def parser() -> OneLineParser:
    """The command's arguments."""
    made = OneLineParser(
        prog="captioning reproduce",
        description="Score captioners on a set of Show, Attend and Tell (flickr8k, flickr30k or coco) and print them "
        "beside the paper's Table 1 and what others report, each row with its split, tokenizer, beam, brevity penalty, "
        "test-time rule and what selected it. Rows of dev images are marked as not comparable.",
    )
    made.add_argument("set", choices=tuple(PUBLISHED), help="Which set.")
    made.add_argument(
        "models", nargs="*", help="Captioners: runs' folders, model folders or .ckpt files; none: no row."
    )
    made.add_argument("--captions", metavar="FILE", help="Default: the set's own file under data/.")
    made.add_argument("--images", metavar="DIR", help="The pictures' folder. Default: images beside it.")
    made.add_argument("--splits", type=dict[str, str], help="flickr8k: {val: list file, ...}. Default: its own lists.")
    made.add_argument("--split", help="test or val. Default: test, or val where there is no test.")
    made.add_argument("--feature_cache", default="runs/features", help="Where features are kept for the next time.")
    made.add_argument("--output", metavar="DIR", help="Write reproduction.md here.")
    made.add_argument("--device", default="cpu", help="cpu, cuda, mps, ...")
    add_search_arguments(made)
    return made


def run(arguments: Sequence[str]) -> int:
    """Print the table."""
    options = parser().parse_args(list(arguments))
    show_log()
    rows = list(PUBLISHED[options.set])
    if options.models:
        data = _open(options)
        for model in options.models:
            rows += _score(model, options, data).rows()
    text = "\n".join([comparison_table(rows), "", *NOTES])
    print(text)
    if options.output is not None:
        from captioning.disk import write_text

        write_text(Path(options.output) / "reproduction.md", f"# {options.set}, beside what was published\n\n{text}\n")
    return 0


def _config(options: Any) -> DataConfig:
    usual = USUAL[options.set]
    captions = options.captions or usual["captions"]
    lists = usual.get("splits", {}) if options.splits is None else options.splits
    there = {name: path for name, path in lists.items() if options.splits or (Path(captions).parent / path).is_file()}
    images = options.images or (usual["images"] if options.captions is None else None)
    return DataConfig(captions=captions, images=images, splits=there, feature_cache=options.feature_cache)


def _open(options: Any) -> "RunData":
    """The one split that is scored. Raises DataError for training images."""
    from captioning.run.data import open_data

    data = open_data(_config(options), seed=0, progress=report("check pictures"))
    split = options.split or ("test" if "test" in data.captions.counts() else "val")
    if split not in ("test", "val"):
        raise DataError(f"reproduce: expected split test or val, got {split!r}: models know their training images")
    return replace(data, captions=data.captions.split(split))


def _score(model: str, options: Any, data: "RunData") -> Circumstances:
    from captioning.checkpoint import load
    from captioning.evaluation import predict, score_predictions
    from captioning.run.data import open_pictures
    from captioning.run.folder import stored_config

    captioner = load(model).to(options.device)
    search = captioner.default_search.changed(**given_search(options))
    told = report(f"encode for {model}")
    pictures = open_pictures(_config(options), data, captioner.encoder, device=options.device, progress=told)
    told = report(f"caption by {model}")
    said = predict(captioner, data.captions, pictures, search=search, progress=told)
    details = search.details()
    return Circumstances(
        name=model,
        split=_in_words(data.captions.records[0].split),
        tokenizer=SCORER,
        beam=str(details.get("beam_size", details["method"])) + f", {search.ranking}",
        rule=search.test_time_rule,
        selected_by=str(stored_config(Path(model)).get("trainer", {}).get("monitor", NOT_STATED)),
        corpus=score_predictions(said.captions, data.captions).corpus,
    )


def _in_words(split: str) -> str:
    return "dev" if split == "val" else split
