"""The likeliest word at every step."""

from torch import Tensor

from captioning.decoding.beam import beam_search
from captioning.decoding.constraints import Constraints
from captioning.decoding.ranking import LengthPenalty
from captioning.decoding.step import Hypothesis, State, Step


def greedy(
    step: Step[State], *, start: Tensor, constraints: Constraints, ranking: str | LengthPenalty = "average"
) -> list[list[Hypothesis]]:
    """y_t = argmax_v log p(v | y_<t, image), until END or the longest length: a beam of width one.

    Arguments as in `beam_search`; the ranking only says which score is reported. One caption an image.
    """
    return beam_search(step, start=start, constraints=constraints, beam_size=1, ranking=ranking)
