"""What a trained attention shows of the regions at test time, whatever it was trained with."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from captioning.attention import Attention
from captioning.attention.selection import Argmax, Hard, MeanOfSamples, Selection, Soft
from captioning.decoders.decoder import Decoder
from captioning.errors import ConfigError

SELECTION_OF_RULE: dict[str, Callable[[int], Selection]] = {
    "expected": lambda samples: Soft(),
    "argmax": lambda samples: Argmax(),
    "sample": lambda samples: Hard(),
    "mean_of_k": MeanOfSamples,
}


@contextmanager
def looking_by(decoder: Decoder, rule: str, samples: int) -> Iterator[None]:
    """Select by `rule` inside, and as in training again after; `samples` is read by mean_of_k.

    Raises ConfigError for another rule, and for any but expected where there is no Attention to select otherwise.
    """
    if rule not in SELECTION_OF_RULE:
        raise ConfigError(f"test_time_rule: expected one of {', '.join(SELECTION_OF_RULE)}, got {rule!r}")
    attention = getattr(decoder, "attention", None)
    if not isinstance(attention, Attention) or attention.luong_unnormalized:
        if rule != "expected":
            raise ConfigError(
                f"test_time_rule: expected expected with {type(decoder).__name__}, got {rule!r}: nothing is selected "
                "there by weights that sum to one"
            )
        yield
        return
    with selecting(attention, SELECTION_OF_RULE[rule](samples).eval()):
        yield


@contextmanager
def selecting(attention: Attention, selection: Selection) -> Iterator[None]:
    """Select by `selection` inside, and as in training again after."""
    trained = attention.selection
    attention.selection = selection
    try:
        yield
    finally:
        attention.selection = trained
