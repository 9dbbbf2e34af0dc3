"""`captioning evaluate`: the metrics of a captioner, or of captions in a file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captioning.cli.progress import report, show_log
from captioning.cli.settings import OneLineParser, add_search_arguments, given_search
from captioning.errors import ConfigError
from captioning.text.vocabulary import SPECIAL_WORDS

if TYPE_CHECKING:
    from captioning.config import DataConfig
    from captioning.data.records import CaptionSet
    from captioning.metrics import DocumentFrequencies, Scores
    from captioning.run.data import RunData


def parser() -> OneLineParser:
    """The command's arguments."""
    made = OneLineParser(
        prog="captioning evaluate",
        description="Score free-running captions of a captioner (MODEL), or captions in a file (--predictions), "
        "against reference captions: BLEU with and without brevity penalty, METEOR, ROUGE-L, CIDEr-D, each with a "
        "confidence interval; and what the captions are like by themselves.",
    )
    made.add_argument("model", nargs="?", help="A captioner: a run's folder, a model folder or a .ckpt file.")
    made.add_argument("--predictions", metavar="FILE", help="COCO results JSON to score instead of a model.")
    made.add_argument("--captions", required=True, metavar="FILE", help="The file of the reference captions.")
    made.add_argument("--format", default="auto", help="Of that file: auto, flickr8k, karpathy, coco, table, ...")
    made.add_argument("--images", metavar="DIR", help="The pictures' folder. Default: beside the caption file.")
    made.add_argument("--splits", type=dict[str, str], default={}, help="flickr8k: {val: list file, ...}.")
    made.add_argument("--split", help="train, val, test or all. Default: val; of --predictions, theirs.")
    made.add_argument("--on_bad_image", choices=("error", "skip"), default="error", help="skip: score the others.")
    made.add_argument("--metrics", type=list[str], help="Names, such as [BLEU-4,CIDEr-D,CIDEr-plain,SPICE].")
    made.add_argument("--missing", choices=("error", "empty"), default="error", help="Images without prediction.")
    made.add_argument("--several", action="store_true", help="The predictions hold several captions an image.")
    made.add_argument("--frequencies", metavar="FILE", help="CIDEr's document frequencies, or a folder with them.")
    made.add_argument("--save_frequencies", metavar="FILE", help="Write those of the references (.npz).")
    made.add_argument("--resamples", type=int, default=1000, help="Of the confidence intervals; 0: none.")
    made.add_argument("--batch_size", type=int, default=64, help="Pictures captioned at once; changes no score.")
    made.add_argument("--feature_cache", default="runs/features", help="Where features are kept for the next time.")
    made.add_argument("--output", metavar="DIR", help="Write predictions, scores, per_image (JSON), scores.md here.")
    made.add_argument("--device", default="cpu", help="cpu, cuda, mps, ...")
    add_search_arguments(made)
    return made


def run(arguments: Sequence[str]) -> int:
    """Print the table of scores, and under it what the captions are like and how they were made."""
    options = parser().parse_args(list(arguments))
    if (options.model is None) == (options.predictions is None):
        raise ConfigError("evaluate: expected either a MODEL or --predictions FILE, got both or neither")
    if options.several and options.predictions is None:
        raise ConfigError("evaluate: --several is about --predictions FILE, got none")
    show_log()
    data = _read(options)
    split = options.split or _default_split(options, data.captions)
    captions = data.captions.split(split)
    frequencies = _frequencies(options, captions)
    if options.several:
        return _describe_samples(options, captions, frequencies)
    from captioning.evaluation import REPORTED, score_predictions

    said = _predictions(options, replace(data, captions=captions))
    _save_predictions(options, said)
    scores = score_predictions(
        said.captions,
        captions,
        metrics=options.metrics or REPORTED,
        frequencies=frequencies,
        missing_as_empty=options.missing == "empty",
        resamples=options.resamples,
    )
    statistics = _statistics(said, data.captions)
    missing = len(captions) - len(said.captions)
    said.details.update(split=split, images=len(captions), missing=missing, images_skipped=len(data.skipped))
    _show(options, said, scores, statistics)
    return 0


@dataclass(frozen=True)
class _Said:
    """The captions to score, and what a reader must know of them."""

    captions: Mapping[str, str]
    details: dict[str, Any]
    vocabulary: Sequence[str] = ()
    cut_off: int | None = None


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


def _read(options: Any) -> "RunData":
    """The captioned pictures; for predictions without a --split, a file that states no splits is one whole."""
    from captioning.data.splits import FRACTIONS
    from captioning.run.data import open_data

    config, told = _data_config(options), report("check pictures")
    if options.predictions is None:
        return open_data(config, seed=0, progress=told)
    fractions = FRACTIONS if options.split else {"val": 1.0}
    return open_data(config, seed=0, check_files=False, fractions=fractions, progress=told)


def _default_split(options: Any, captions: "CaptionSet") -> str:
    """val; for predictions the one split that their images are of, or all where they are of several."""
    if options.predictions is None:
        return "val"
    from captioning.data.records import ALL
    from captioning.evaluation import read_samples

    said = read_samples(Path(options.predictions))
    captioned = [record for record in captions.records if record.captions]
    splits = {record.split for record in captioned if record.image_id in said}
    there_are_others = any(record.split not in splits for record in captioned)
    return splits.pop() if len(splits) == 1 and there_are_others else ALL


def _frequencies(options: Any, captions: "CaptionSet") -> "DocumentFrequencies | None":
    """Those of the file that was named, else None: CIDEr counts them from the references."""
    from captioning.evaluation import count_frequencies
    from captioning.metrics.frequencies import DocumentFrequencies, find_frequencies

    if options.save_frequencies is not None:
        count_frequencies(captions).save(Path(options.save_frequencies))
    return None if options.frequencies is None else DocumentFrequencies.load(find_frequencies(options.frequencies))


def _predictions(options: Any, data: "RunData") -> _Said:
    if options.predictions is not None:
        from captioning.evaluation import read_predictions

        return _Said(read_predictions(Path(options.predictions)), {"captions": options.predictions})
    from captioning.checkpoint import load
    from captioning.evaluation import predict, search_details
    from captioning.run.data import open_pictures

    captioner = load(options.model).to(options.device)
    search = captioner.default_search.changed(**given_search(options))
    encoding = report("encode pictures")
    pictures = open_pictures(_data_config(options), data, captioner.encoder, device=options.device, progress=encoding)
    captioning = report("caption pictures")
    said = predict(
        captioner, data.captions, pictures, search=search, batch_size=options.batch_size, progress=captioning
    )
    details = search_details(search) | {"cut_off": said.unfinished}
    words = captioner.vocabulary.to_list()[len(SPECIAL_WORDS) :]
    return _Said(said.captions, details, words, said.unfinished)


def _save_predictions(options: Any, said: _Said) -> None:
    """Before anything is scored: what took longest is not lost to a metric."""
    from captioning.evaluation import write_predictions
    from captioning.run.folder import PREDICTIONS

    if options.output is not None:
        folder = Path(options.output)
        folder.mkdir(parents=True, exist_ok=True)
        write_predictions(folder / PREDICTIONS, said.captions)


def _statistics(said: _Said, captions: "CaptionSet") -> dict[str, Any]:
    """What the captions are like, without what is not known."""
    from captioning.metrics.captions import describe_captions

    training = [caption for record in captions.records if record.split == "train" for caption in record.captions]
    found = describe_captions(
        list(said.captions.values()),
        training_captions=training,
        vocabulary_words=said.vocabulary,
        cut_off=said.cut_off,
    )
    return {name: value for name, value in asdict(found).items() if value is not None}


def _describe_samples(options: Any, captions: "CaptionSet", frequencies: "DocumentFrequencies | None") -> int:
    """Print how the several captions of each image differ, and how well the best of them do."""
    from captioning.evaluation import count_frequencies, read_samples
    from captioning.metrics import DEFAULT, Scorer, Scores
    from captioning.metrics.captions import describe_samples
    from captioning.metrics.table import metric_table

    samples = read_samples(Path(options.predictions))
    scorer = Scorer(captions.references, options.metrics or DEFAULT, frequencies=frequencies)
    found = describe_samples(samples, scorer, frequencies or count_frequencies(captions))
    values = {name: value for name, value in asdict(found).items() if name != "oracle"}
    best = metric_table(Scores(found.oracle))
    print(f"{_sentence(values)}\n\nbest of {found.captions_per_image} captions by each metric:\n\n{best}")
    if options.output is not None:
        folder = Path(options.output)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "diversity.json").write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="utf-8")
    return 0


def _show(options: Any, said: _Said, scores: "Scores", statistics: Mapping[str, Any]) -> None:
    from captioning.evaluation import write_image_scores, write_scores
    from captioning.metrics.table import escape_cell, metric_table
    from captioning.run.folder import SCORES

    text = "\n\n".join([metric_table(scores), _sentence(statistics), _sentence(said.details)])
    print(text)
    if options.output is None:
        return
    folder = Path(options.output)
    write_scores(folder / SCORES, scores, details=said.details, statistics=statistics)
    write_image_scores(folder / "per_image.json", scores)
    title = options.model or options.predictions
    (folder / "scores.md").write_text(f"# Scores of {escape_cell(str(title))}\n\n{text}\n", encoding="utf-8")


def _sentence(values: Mapping[str, Any]) -> str:
    shown = {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in values.items()}
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in shown.items())
