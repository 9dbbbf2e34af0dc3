"""What a model's maps can and can't be used for, in plain words; every sentence carries its number."""

from captioning.inspection.averages import Average
from captioning.inspection.inspection import Inspection
from captioning.inspection.locating import MAP, MEAN, UNIFORM
from captioning.inspection.removal import ATTENTION, RANDOM
from captioning.inspection.replacement import FROZEN, OWN, SHUFFLED
from captioning.inspection.replacement import UNIFORM as UNIFORM_MAPS
from captioning.inspection.sharpness import EFFECTIVE, LARGEST

SMALL = 0.01
"""Nats a word: a hundredth of the perplexity. Less is called hardly anything, however sure it is."""
SPREAD = 0.5
"""A map over more than this part of the cells is no pointer to one place."""


def uses(found: Inspection) -> tuple[list[str], list[str]]:
    """What the maps can be used for, and what they can't."""
    can: list[str] = []
    cannot: list[str] = []
    for holds, text in (
        _matter(found),
        _belong_to_their_picture(found),
        _belong_to_their_word(found),
        _are_needed_cells(found),
        *_against_gradients(found),
        *_point(found),
        _are_narrow(found),
    ):
        (can if holds else cannot).append(text)
    if found.located is None:
        cannot.append(
            "**Being called right or wrong about places, by this page.** No true places of things were given "
            f"(0 of {found.sharpness.words:,} words have one); where they look plausible, that is all."
        )
    cannot.append(_not_certainty(found))
    return can, cannot


def _matter(found: Inspection) -> tuple[bool, str]:
    rise, loss = found.replacement.rise[UNIFORM_MAPS], found.replacement.loss
    numbers = f"with uniform maps a word costs {loss[UNIFORM_MAPS].value:.3f} nats instead of {loss[OWN].value:.3f}"
    if _counts(rise):
        return True, f"**Seeing that the model works with its maps.** {_first(numbers)}, {_more(rise)}."
    return False, (
        f"**Telling what the captions come from.** {_first(numbers)}, {_more(rise)}: hardly anything is said otherwise "
        "when the maps are wiped out."
    )


def _belong_to_their_picture(found: Inspection) -> tuple[bool, str]:
    rise = found.replacement.rise[SHUFFLED]
    if _counts(rise):
        return True, (
            f"**Looking at this picture rather than any.** With another picture's maps a word costs {_more(rise)}."
        )
    return False, (
        "**Saying anything of the picture at hand.** Another picture's maps at the same place in the caption do as "
        f"well: a word costs {_more(rise)}."
    )


def _belong_to_their_word(found: Inspection) -> tuple[bool, str]:
    rise = found.replacement.rise[FROZEN]
    if _counts(rise):
        return True, (
            f"**Comparing the words of a caption.** With the first word's map kept for all, a word costs {_more(rise)}."
        )
    return False, (
        "**Telling words of a caption apart.** The first word's map does as well for all of them: a word costs "
        f"{_more(rise)}."
    )


def _are_needed_cells(found: Inspection) -> tuple[bool, str]:
    removal, beyond = found.removal, found.removal.beyond_random[ATTENTION]
    numbers = (
        f"without the {_cells(found)} of largest weight the log-probability of the word falls by "
        f"{_number(removal.drop[ATTENTION])}, without as many random ones by {_number(removal.drop[RANDOM])} "
        f"(difference {_number(beyond)})"
    )
    if beyond.is_positive:
        return True, f"**Finding cells that a word depends on, better than by chance.** {_first(numbers)}."
    return False, f"**Finding the cells that a word depends on.** {_first(numbers)}: no better than chance."


def _against_gradients(found: Inspection) -> list[tuple[bool, str]]:
    told = []
    for method, beyond in found.removal.beyond_attention.items():
        name = method.replace("_", " ")
        numbers = (
            f"without the {_cells(found)} of largest {name} it falls by {_number(found.removal.drop[method])}; the "
            f"difference to the map's cells is {_number(beyond)}"
        )
        if beyond.is_positive:
            told.append((False, f"**Standing in for {name}.** {_first(numbers)}: ask the gradient, not the map."))
        elif beyond.is_negative:
            told.append((True, f"**Standing in for {name}.** {_first(numbers)}: the map knows more."))
        else:
            told.append((True, f"**Standing in for {name}.** {_first(numbers)}: no difference is seen."))
    return told


def _point(found: Inspection) -> list[tuple[bool, str]]:
    located = found.located
    if located is None:
        return []
    numbers = (
        f"the largest weight lies on the thing named at {located.hit[MAP].value:.1%} of {located.words:,} words "
        f"(a uniform map: {located.hit[UNIFORM].value:.1%}; the mean map: {located.hit[MEAN].value:.1%}), and "
        f"{located.mass[MAP].value:.1%} of the weight ({located.mass[UNIFORM].value:.1%}; "
        f"{located.mass[MEAN].value:.1%})"
    )
    if not located.hit_beyond_mean.is_positive:
        return [
            (
                False,
                f"**Pointing at the thing that a word names.** {_first(numbers)}: no better than always "
                "looking where the mean map does.",
            )
        ]
    often = "" if located.hit[MAP].value > 0.5 else ": more often than not it is beside it"
    return [(True, f"**Pointing at the thing that a word names.** {_first(numbers)}{often}.")]


def _are_narrow(found: Inspection) -> tuple[bool, str]:
    effective, largest = (found.sharpness.measures[name].quantiles[1] for name in (EFFECTIVE, LARGEST))
    numbers = (
        f"half of the maps spread over {effective:.1f} or more of {found.cells} cells, with a largest weight of "
        f"{largest:.3f} or less (uniform: {1 / found.cells:.3f})"
    )
    if effective <= SPREAD * found.cells:
        return True, f"**Being read as places.** {_first(numbers)}."
    return False, (
        f"**Being read as one place.** {_first(numbers)}; a picture that colours each map up to its own largest weight "
        "hides that."
    )


def _not_certainty(found: Inspection) -> str:
    correlation = found.sharpness.peak_and_probability
    return (
        "**Telling that a word is right.** A weight is a share of what is mixed, no probability of the word: the rank "
        f"correlation of a word's largest weight with its log-probability is {_signed(correlation)}."
    )


def _counts(rise: Average) -> bool:
    return rise.is_positive and rise.value >= SMALL


def _cells(found: Inspection) -> str:
    top = found.removal.top
    return "one cell" if top == 1 else f"{top} cells"


def _more(rise: Average) -> str:
    return f"{_number(rise)} nats more"


def _number(each: Average) -> str:
    return f"{_signed(each.value)} [{_signed(each.low)}, {_signed(each.high)}]"


def _signed(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


def _first(text: str) -> str:
    return text[0].upper() + text[1:]
