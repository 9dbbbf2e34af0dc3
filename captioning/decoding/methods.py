"""From the settings of a search to its captions: which function belongs to which method."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from captioning.decoding.beam import beam_search
from captioning.decoding.constraints import Constraints
from captioning.decoding.diverse import diverse_beam_search
from captioning.decoding.greedy import greedy
from captioning.decoding.sampling import sample
from captioning.decoding.search import Method, Search
from captioning.decoding.step import Hypothesis, State, Step

SEARCHES: dict[Method, tuple[Callable[..., list[list[Hypothesis]]], Callable[[Search], dict[str, Any]]]] = {
    "greedy": (greedy, lambda search: {}),
    "beam": (beam_search, lambda search: {"beam_size": search.beam_size}),
    "diverse": (
        diverse_beam_search,
        lambda search: {
            "groups": search.group_count,
            "group_size": search.beam_size // search.group_count,
            "diversity": search.diversity,
        },
    ),
    "sampling": (
        sample,
        lambda search: {
            "samples": search.samples,
            "temperature": search.temperature,
            "top_k": search.top_k,
            "top_p": search.top_p,
        },
    ),
}
"""Method -> the function, and its own arguments."""


def search_captions(
    step: Step[State], *, start: Tensor, constraints: Constraints, search: Search
) -> list[list[Hypothesis]]:
    """The captions of each image, best first. `constraints` are those of the settings, in word numbers."""
    function, arguments = SEARCHES[search.method]
    return function(step, start=start, constraints=constraints, ranking=search.ranking, **arguments(search))
