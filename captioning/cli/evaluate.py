"""`captioning evaluate`: the metrics of a captioner, or of captions in a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captioning.cli.progress import report, show_log
from captioning.cli.settings import OneLineParser, add_search_arguments, given_search
from captioning.errors import ConfigError

if TYPE_CHECKING:
    from captioning.config import DataConfig
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
    made.add_argument("--format", default="auto", help="Of that file: auto, flickr8k, karpathy, coco or table.")
    made.add_argument("--images", metavar="DIR", help="The pictures' folder. Default: beside the caption file.")
    made.add_argument("--splits", type=dict[str, str], default={}, help="flickr8k: {val: list file, ...}.")
    made.add_argument("--split", default="val", help="train, val or test.")
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
    from captioning.evaluation import score_predictions, write_predictions, write_scores
    from captioning.metrics.table import score_table
    from captioning.run.data import RunData, open_data
    from captioning.run.folder import PREDICTIONS, SCORES

    data = open_data(_data_config(options), seed=0, check_files=options.predictions is None)
    split = RunData(data.captions.split(options.split))
    predictions, details = _predictions(options, split)
    scores = score_predictions(predictions, split.captions)
    details |= {"split": options.split, "images": len(predictions)}
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
        feature_cache=options.feature_cache,
    )


def _predictions(options: Any, data: "RunData") -> tuple[Mapping[str, str], dict[str, Any]]:
    """The captions to score, and what a reader must know of them."""
    if options.predictions is not None:
        from captioning.evaluation import read_predictions

        return read_predictions(Path(options.predictions)), {"captions": options.predictions}
    from captioning.checkpoint import load
    from captioning.evaluation import predict, search_details
    from captioning.run.data import open_pictures

    captioner = load(options.model).to(options.device)
    search = captioner.default_search.changed(**given_search(options))
    encoding = report("encode pictures")
    pictures = open_pictures(_data_config(options), data, captioner.encoder, device=options.device, progress=encoding)
    said = predict(captioner, data.captions, pictures, search=search, progress=report("caption pictures"))
    return said.captions, search_details(search) | {"cut_off": said.unfinished}
