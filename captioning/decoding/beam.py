"""Beam search over images × hypotheses at once."""

from torch import Tensor

from captioning.decoding.banks import Banks
from captioning.decoding.choosing import Chooser, Likeliest
from captioning.decoding.constraints import Constraints
from captioning.decoding.loop import run_search
from captioning.decoding.ranking import LengthPenalty
from captioning.decoding.step import Hypothesis, State, Step


def beam_search(
    step: Step[State],
    *,
    start: Tensor,
    constraints: Constraints,
    beam_size: int,
    ranking: str | LengthPenalty = "average",
    stop_when_full: bool = False,
) -> list[list[Hypothesis]]:
    """Search the captions of largest Σ_t log p(y_t | y_<t, image) / penalty(n); for each image, best first.

    At each step the best `beam_size` continuations of an image's open hypotheses are kept, compared by their
    sums; those that end are set aside, the others stay open. Up to `beam_size` captions an image come back
    (`run_search` says which, and when it stops). With words that must appear there is such a beam for each number
    of them that a hypothesis has said.

    With the ranking `average` it seldom stops early, since a mean can always rise. `stop_when_full` is the classic
    rule instead: fewer steps, but a later caption of better score may be missed.

    Scores are the model's own, since what the constraints forbid is not renormalised. Raises ConfigError for sizes
    that make no search.
    """
    return run_search(
        step,
        start=start,
        constraints=constraints,
        chooser=beam_chooser(beam_size, constraints),
        ranking=ranking,
        stop_when_full=stop_when_full,
    )


def beam_chooser(width: int, constraints: Constraints) -> Chooser:
    """The likeliest, with banks where words must appear."""
    return Banks(width, constraints.must_include) if constraints.must_include else Likeliest(width)
