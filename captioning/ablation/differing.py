"""For each pair of variants the images on which they differ most, with both captions and their maps."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from PIL import Image

from captioning.ablation.counts import Values
from captioning.ablation.folder import PREDICTIONS, REQUEST, TRAINING, read_json
from captioning.ablation.identity import settings_from
from captioning.ablation.results import RunResult
from captioning.captioner import Caption
from captioning.checkpoint import load
from captioning.config import TrainingConfig
from captioning.evaluation import read_predictions
from captioning.run.data import open_data
from captioning.viz.embedding import webp_uri
from captioning.viz.filmstrip import filmstrip

DIFFERENCE = "CIDEr-D"
"""The measure of single images by which they are picked: finer than exact or BLEU."""
_TILE, _MOST_TILES = 128, 9


@dataclass(frozen=True)
class Pick:
    """An image on which two runs of one seed differ."""

    image: str
    references: tuple[str, ...]
    runs: tuple[RunResult, RunResult]
    captions: tuple[str, str]
    values: tuple[float, float]
    """By `DIFFERENCE`."""

    def strips(self) -> list[tuple[RunResult, str]]:
        """What must be drawn to show it."""
        return [(run, self.image) for run in self.runs]


def most_different(runs: Sequence[RunResult], images: int) -> Iterator[list[Pick]]:
    """For each pair of runs, all of one seed, `images` picks: by turns where the first and where the second is better.

    Runs that answered other images than the first run are left out, and those without `DIFFERENCE`.
    """
    known = [_Answers.of(run) for run in runs if DIFFERENCE in run.counts()]
    alike = [each for each in known if each.references.keys() == known[0].references.keys()]
    for first, second in combinations(alike, 2):
        yield list(_picks(first, second, images))


@dataclass(frozen=True)
class _Answers:
    run: RunResult
    references: Mapping[str, Sequence[str]]
    captions: Mapping[str, str]
    values: Values
    """(N) by `DIFFERENCE`."""

    @classmethod
    def of(cls, run: RunResult) -> "_Answers":
        values = run.counts()[DIFFERENCE][:, 0]
        return cls(run, run.references(), read_predictions(run.folder / PREDICTIONS), values)


def _picks(first: _Answers, second: _Answers, images: int) -> Iterator[Pick]:
    difference = first.values - second.values
    order = difference.argsort(kind="stable")
    turns = [place for both in zip(order[::-1], order, strict=True) for place in both]
    names = list(first.references)
    for place in [place for place in dict.fromkeys(map(int, turns)) if difference[place] != 0][:images]:
        name = names[place]
        yield Pick(
            image=name,
            references=tuple(first.references[name]),
            runs=(first.run, second.run),
            captions=(first.captions[name], second.captions[name]),
            values=(float(first.values[place]), float(second.values[place])),
        )


def draw_strips(picks: Iterable[Pick]) -> dict[str, str]:
    """Filmstrips of all picks, each run's model loaded once: `strip_name` -> data URI."""
    wanted: dict[str, tuple[RunResult, dict[str, None]]] = {}
    for run, image in [strip for pick in picks for strip in pick.strips()]:
        wanted.setdefault(run.name, (run, {}))[1][image] = None
    strips = {}
    for run, images in wanted.values():
        pictures = _pictures(run, list(images))
        captions = load(run.folder / TRAINING).caption(pictures.values(), batch_size=64)
        for (image, picture), caption in zip(pictures.items(), captions, strict=True):
            strips[strip_name(run, image)] = _strip(picture, caption)
    return strips


def strip_name(run: RunResult, image: str) -> str:
    """Names a filmstrip within a report."""
    return f"{run.variant}/{image}"


def _pictures(run: RunResult, images: Sequence[str]) -> dict[str, Image.Image]:
    config = settings_from(TrainingConfig, read_json(run.folder / REQUEST)["config"])
    # The size of a split changes no other split's pictures: the training pictures need not be drawn again.
    data = open_data(replace(config.data, drawn_train=1), seed=config.seed, check_files=False)
    records = {record.image_id: record for record in data.captions.records if record.image_id in set(images)}
    return {image: data.picture(records[image]) for image in images}


def _strip(picture: Image.Image, caption: Caption) -> str:
    columns = min(len(caption.words) + 1, _MOST_TILES)
    sheet = filmstrip(picture, caption.words, caption.maps, caption.placement, columns=columns, tile=_TILE)
    return webp_uri(sheet.picture())
