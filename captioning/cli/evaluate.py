"""`captioning evaluate`: the metrics of a captioner, or of captions in a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captioning.cli.progress import report, show_log
from captioning.cli.settings import OneLineParser, add_search_arguments, given_search
from captioning.errors import ConfigError

if TYPE_CHECKING:
    from captioning.config import DataConfig
    from captioning.data.records import CaptionSet
    from captioning.run.data import RunData


def parser() -> OneLineParser:
    """The command's arguments."""
    made = OneLineParser(
        prog="captioning evaluate",
        description="Score free-running captions of a captioner (MODEL), or captions in a file (--predictions), "
        "against reference captions: BLEU with and without brevity penalty, ROUGE-L, CIDEr-D.",
    )
    made.add_argument("model", nargs="?", help="A captioner: a run's folder, a model folder or a .ckpt file.")
    made.add_argument("--predictions", metavar="FILE", help="COCO results JSON to score instead of a model.")
    made.add_argument("--captions", required=True, metavar="FILE", help="The file of the reference captions.")
    made.add_argument("--format", default="auto", help="Of that file: auto, flickr8k, karpathy, coco, table, ...")
    made.add_argument("--images", metavar="DIR", help="The pictures' folder. Default: beside the caption file.")
    made.add_argument("--splits", type=dict[str, str], default={}, help="flickr8k: {val: list file, ...}.")
    made.add_argument("--split", help="train, val, test or all. Default: val; of captions in a file, theirs.")
    made.add_argument("--on_bad_image", choices=("error", "skip"), default="error", help="skip: score the others.")
    made.add_argument("--feature_cache", default="runs/features", help="Where features are kept for the next time.")
    made.add_argument("--output", metavar="DIR", help="Write predictions.json and scores.json here.")
    made.add_argument("--device", default="cpu", help="cpu, cuda, mps, ...")
    add_search_arguments(made)
    return made


def run(arguments: Sequence[str]) -> int:
    """Print the table of scores, and under it how the captions were made."""
    options = parser().parse_args(list(arguments))
    if (options.model is None) == (options.predictions is None):
        raise ConfigError("evaluate: expected either a MODEL or --predictions FILE, got both or neither")
    show_log()
    from captioning.evaluation import read_predictions, score_predictions, write_predictions, write_scores
    from captioning.metrics.table import score_table
    from captioning.run.data import RunData, open_data
    from captioning.run.folder import PREDICTIONS, SCORES

    config, files = _data_config(options), options.predictions is None
    data = open_data(config, seed=0, check_files=files, progress=report("check pictures"))
    given = None if options.predictions is None else read_predictions(Path(options.predictions))
    name = options.split or ("val" if given is None else _split_of(given, data.captions))
    split = RunData(data.captions.split(name))
    if given is None:
        predictions, details = _caption(options, split)
    else:
        predictions, details = given, {"captions": options.predictions}
    scores = score_predictions(predictions, split.captions)
    details |= {"split": name, "images": len(predictions), "images_skipped": len(data.skipped)}
    print(score_table({options.model or options.predictions: scores}))
    print("\n" + ", ".join(f"{name} {value}" for name, value in details.items()))
    if options.output is not None:
        folder = Path(options.output)
        folder.mkdir(parents=True, exist_ok=True)
        write_predictions(folder / PREDICTIONS, predictions)
        write_scores(folder / SCORES, scores, details=details)
    return 0


def _data_config(options: Any) -> "DataConfig":
    from captioning.config import DataConfig

    return DataConfig(
        format=options.format,
        captions=options.captions,
        images=options.images,
        splits=options.splits,
        on_bad_image=options.on_bad_image,
        feature_cache=options.feature_cache,
    )


def _split_of(predictions: Mapping[str, str], captions: "CaptionSet") -> str:
    """The one split that the captioned images are of; all where they are of several, or of none."""
    from captioning.data.records import ALL

    splits = {record.split for record in captions.records if record.image_id in predictions}
    return splits.pop() if len(splits) == 1 else ALL


def _caption(options: Any, data: "RunData") -> tuple[Mapping[str, str], dict[str, Any]]:
    """The captioner's captions, and what a reader must know of them."""
    from captioning.checkpoint import load
    from captioning.evaluation import predict, search_details
    from captioning.run.data import open_pictures

    captioner = load(options.model).to(options.device)
    search = captioner.default_search.changed(**given_search(options))
    encoding = report("encode pictures")
    pictures = open_pictures(_data_config(options), data, captioner.encoder, device=options.device, progress=encoding)
    said = predict(captioner, data.captions, pictures, search=search, progress=report("caption pictures"))
    return said.captions, search_details(search) | {"cut_off": said.unfinished}
