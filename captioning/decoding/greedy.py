"""The likeliest word at every step."""

from collections.abc import Sequence

from torch import Tensor

from captioning.decoding.beam import beam_search
from captioning.decoding.ranking import LengthPenalty
from captioning.decoding.step import Hypothesis, State, Step


def greedy(
    step: Step[State],
    *,
    start: Tensor,
    end: int,
    maximum_length: int,
    forbidden: Sequence[int] = (),
    minimum_length: int = 0,
    ranking: str | LengthPenalty = "average",
) -> list[Hypothesis]:
    """y_t = argmax_v log p(v | y_<t, image), until END or `maximum_length` choices: a beam of width one.

    Arguments as in `beam_search`; the ranking only says which score is reported. One caption an image.
    """
    beams = beam_search(
        step,
        start=start,
        end=end,
        beam_size=1,
        maximum_length=maximum_length,
        forbidden=forbidden,
        minimum_length=minimum_length,
        ranking=ranking,
    )
    return [hypotheses[0] for hypotheses in beams]
