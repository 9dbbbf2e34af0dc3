"""`captioning estimators`: bias, variance and cost of the estimators of hard attention's gradient."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captioning.cli.progress import report, show_log
from captioning.cli.settings import OneLineParser
from captioning.errors import ConfigError

if TYPE_CHECKING:
    from captioning.config import DataConfig
    from captioning.data.batch import CaptionBatch
    from captioning.estimation.comparison import Comparison
    from captioning.estimation.problem import Problem

LISTED = 8192
"""Ways to look at a caption that are listed without being asked to."""


def parser() -> OneLineParser:
    """The command's arguments."""
    made = OneLineParser(
        prog="captioning estimators",
        description="Draw many estimates of hard attention's gradient by each estimator and baseline, and compare them "
        "with the exact gradient: on a toy that is small enough to list all ways to look, or on a trained captioner "
        "(MODEL) and captioned pictures, where the first words of a caption are. Dropout is off.",
    )
    made.add_argument("model", nargs="?", help="A captioner: a run's folder, a model folder or a .ckpt file.")
    made.add_argument("--captions", metavar="FILE", help="The captions' file; none for --format drawn.")
    made.add_argument("--format", default="auto", help="Of that file: auto, flickr8k, ...; or drawn.")
    made.add_argument("--images", metavar="DIR", help="The pictures' folder. Default: beside the caption file.")
    made.add_argument("--splits", type=dict[str, str], default={}, help="flickr8k: {val: list file, ...}.")
    made.add_argument("--split", default="val", help="train, val, test or all.")
    made.add_argument("--pictures", type=int, default=4, help="How many, each with its first caption.")
    made.add_argument(
        "--words", type=int, help="First words of each caption; 0: all. Default: as many as can be listed."
    )
    made.add_argument("--estimators", type=list[str], help="Such as [score_function,straight_through]. Default: all.")
    made.add_argument("--draws", type=int, default=200, help="Estimates of each.")
    made.add_argument("--samples", type=int, default=2, help="leave_one_out: paths of a caption in an estimate.")
    made.add_argument("--temperature", type=float, default=1.0, help="straight_through: of Gumbel-softmax.")
    made.add_argument("--seed", type=int, default=1, help="Sets what is drawn; all estimators get the same.")
    made.add_argument("--device", default="cpu", help="cpu, cuda, mps, ...")
    made.add_argument("--output", metavar="DIR", help="Write estimators.md, estimators.json and a PNG a part here.")
    return made


def run(arguments: Sequence[str]) -> int:
    """Print the tables."""
    options = parser().parse_args(list(arguments))
    _check(options)
    show_log()
    from captioning.estimation.candidates import ESTIMATORS, all_candidates
    from captioning.estimation.comparison import compare
    from captioning.estimation.report import to_markdown

    candidates = all_candidates(options.estimators or tuple(ESTIMATORS))
    problem = _problem(options)
    settings = {"samples": options.samples, "temperature": options.temperature, "seed": options.seed}
    comparison = compare(
        problem,
        candidates,
        draws=options.draws,
        exact=problem.paths <= LISTED or options.words not in (None, 0),
        progress=report("draw estimates", "estimator"),
        **settings,
    )
    conditions = _conditions(options, problem) | settings
    text = to_markdown(comparison, conditions)
    print(text)
    if options.output is not None:
        _write(Path(options.output), comparison, conditions, text)
    return 0


def _check(options: Any) -> None:
    for name, least in (("draws", 2), ("pictures", 1), ("samples", 2), ("words", 0)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise ConfigError(f"estimators: --{name}: expected at least {least}, got {value}")
    if options.model is None and (options.captions or options.images or options.format != "auto"):
        raise ConfigError(
            "estimators: expected a MODEL with --captions or --format drawn, got none; without, it is a toy"
        )
    if options.model is not None and options.captions is None and options.format != "drawn":
        raise ConfigError("estimators: expected --captions FILE or --format drawn beside a MODEL, got neither")
    if options.output is not None and find_spec("matplotlib") is None:
        raise ConfigError("estimators: --output draws with matplotlib; pip install 'captioning[plots]'")


def _problem(options: Any) -> "Problem":
    from captioning.estimation.toy import toy_problem

    whole = toy_problem() if options.model is None else _trained_problem(options)
    longest = whole.words.shape[-1] - 1
    if options.words is None:
        most = max((n for n in range(1, longest + 1) if whole.choices**n <= LISTED), default=1)
        return whole.first_words(most)
    return whole.first_words(options.words or longest)


def _trained_problem(options: Any) -> "Problem":
    import torch

    from captioning.checkpoint import load
    from captioning.decoders.recurrent import RecurrentDecoder
    from captioning.estimation.problem import Problem

    captioner = load(options.model).to(options.device)
    decoder = captioner.decoder
    if not isinstance(decoder, RecurrentDecoder):
        raise ConfigError(
            f"estimators: expected a captioner with a recurrent decoder, got {type(decoder).__name__}; its heads mix "
            "regions and choose none"
        )
    batch = _batch(options, captioner).to(options.device)
    with torch.no_grad():
        features = captioner.features(batch)
    return Problem(decoder, features, batch.words[:, :1])


def _data_config(options: Any) -> "DataConfig":
    from captioning.config import DataConfig

    return DataConfig(
        format=options.format,
        captions=options.captions,
        images=options.images,
        splits=options.splits,
        features="none",
        drawn_train=10 * options.pictures,
        drawn_test=options.pictures,
    )


def _batch(options: Any, captioner: Any) -> "CaptionBatch":
    """The first pictures of the split that have a caption."""
    from dataclasses import replace

    from captioning.data.dataset import CaptionDataset
    from captioning.data.sampler import BatchRequest
    from captioning.run.data import open_data, open_pictures

    config = _data_config(options)
    data = open_data(config, seed=0)
    split = data.captions.split(options.split)
    records = tuple(record for record in split.records if record.captions)[: options.pictures]
    dataset = CaptionDataset(
        replace(split, records=records), captioner.vocabulary, open_pictures(config, data, captioner.encoder)
    )
    return dataset[BatchRequest(tuple(range(len(records))), None)]


def _conditions(options: Any, problem: "Problem") -> dict[str, Any]:
    return {
        "model": options.model or "toy",
        "images": len(problem.features),
        "words": problem.words.shape[-1] - 1,
        "choices": problem.choices,
        "draws": options.draws,
    }


def _write(folder: Path, comparison: "Comparison", conditions: dict[str, Any], text: str) -> None:
    from captioning.disk import write_json, write_text, write_whole
    from captioning.estimation.chart import chart
    from captioning.estimation.report import to_plain

    write_text(folder / "estimators.md", text)
    write_json(folder / "estimators.json", to_plain(comparison, conditions))
    for part in comparison.rows[0].qualities:
        write_whole(folder / f"estimators_{part.replace(' ', '_')}.png", chart(comparison, part))
