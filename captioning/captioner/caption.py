"""What comes out: a caption, and where the model looked for each of its words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from captioning.decoders.decoder import HEADS
from captioning.decoding.trace import WEIGHTS
from captioning.features.geometry import Placement
from captioning.features.image_features import ImageFeatures


@dataclass(frozen=True, eq=False)
class View:
    """Where a model looked for each of T words."""

    maps: np.ndarray
    """(T, rows, columns) attention weights of each word over the grid; a weight is no explanation of a word."""
    placement: Placement
    """Where the grid lies in the upright original picture."""
    details: Mapping[str, np.ndarray] = field(default_factory=dict)
    """(T, ...) what else the decoder reports of each word: `sentinel` (T,), the weight that `adaptive` gives to what it
    knows without looking; `gate` (T,), by which show_attend_tell multiplies what it saw; `heads` (T, Hn, rows,
    columns), the maps of a transformer's heads; `cell` (T,), the one cell that a hard choice showed."""

    def lies_on(self, other: "View") -> bool:
        """Whether both have the same grid on the same part of the picture."""
        return self.maps.shape == other.maps.shape and self.placement == other.placement


@dataclass(frozen=True, eq=False)
class Caption:
    """A caption and where the model looked for each of its words."""

    text: str
    """The words, as one prints them; of a caption that was handed in, the caption itself."""
    words: tuple[str, ...]
    """T words."""
    log_probabilities: tuple[float, ...]
    """One a word, and the end token's after them if the caption is finished."""
    maps: np.ndarray
    """(T, rows, columns) attention weights of each word over the grid; a weight is no explanation of a word. Of an
    ensemble, the mean over its members where all have the same grid, else the first one's."""
    placement: Placement
    """Where the grid lies in the upright original picture."""
    score: float
    """What the search ranked by, or the sum of the log-probabilities of a given caption."""
    finished: bool
    """Whether the model ended the caption; False: it was cut off."""
    details: Mapping[str, np.ndarray] = field(default_factory=dict)
    """(T, ...) what else the decoder reports of each word, as in `View`; empty for an ensemble."""
    members: tuple[View, ...] = ()
    """Of an ensemble: where each member looked, and what else it reports."""

    @property
    def log_probability(self) -> float:
        """Of the whole caption, its end included if it is finished."""
        return sum(self.log_probabilities)


@dataclass(frozen=True)
class Said:
    """The words of a caption and their numbers, before it is known where the model looked."""

    text: str
    words: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    score: float
    finished: bool

    def seen(self, view: View) -> Caption:
        """By one model."""
        return self._with(view, view.details, ())

    def seen_by(self, views: Sequence[View]) -> Caption:
        """By the members of an ensemble."""
        first = views[0]
        if all(view.lies_on(first) for view in views):
            first = View(np.mean([view.maps for view in views], axis=0), first.placement)
        return self._with(first, {}, tuple(views))

    def _with(self, view: View, details: Mapping[str, np.ndarray], members: tuple[View, ...]) -> Caption:
        return Caption(
            text=self.text,
            words=self.words,
            log_probabilities=self.log_probabilities,
            maps=view.maps,
            placement=view.placement,
            score=self.score,
            finished=self.finished,
            details=details,
            members=members,
        )


def view_of(reported: Mapping[str, Tensor], features: ImageFeatures, placement: Placement) -> View:
    """What a decoder reports of T words, (T, ...) each, its weights (T, R) among them."""
    arrays = {
        name: _on_grid(values, features) if name in (WEIGHTS, HEADS) else values.float().cpu().numpy()
        for name, values in reported.items()
    }
    return View(arrays.pop(WEIGHTS), placement, arrays)


def _on_grid(weights: Tensor, features: ImageFeatures) -> np.ndarray:
    """(..., R) -> (..., rows, columns)."""
    return weights.float().unflatten(-1, (features.rows, features.columns)).cpu().numpy()
