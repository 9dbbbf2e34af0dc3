"""The page of a model: what its maps can and can't be used for, and the numbers that say so."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from captioning.disk import write_json
from captioning.document import Block, Chart, Heading, Items, Table, Text, write_html, write_markdown
from captioning.inspection.averages import Average
from captioning.inspection.charts import map_and_words, removal_curves, rises
from captioning.inspection.inspection import Inspection, as_plain
from captioning.inspection.removal import FRACTIONS, OFTEN, Removal
from captioning.inspection.replacement import OWN
from captioning.inspection.sharpness import (
    CHANGE,
    EFFECTIVE,
    ENTROPY,
    FROM_MEAN,
    FROM_UNIFORM,
    HEAD_CELLS,
    LARGEST,
    Distribution,
)
from captioning.inspection.uses import uses

PAGE, MARKDOWN, NUMBERS = "index.html", "inspection.md", "inspection.json"
MEASURES = {
    ENTROPY: "entropy, nats",
    EFFECTIVE: "effective number of cells",
    HEAD_CELLS: "the same of a single head",
    LARGEST: "largest weight",
    CHANGE: "change from the word before",
    FROM_MEAN: "distance to the mean map",
    FROM_UNIFORM: "distance to the uniform map",
    "gate": "gate β",
    "sentinel": "sentinel's weight",
}
"""Name -> for people."""
_WORDS_SHOWN = 6
_CURVES = (EFFECTIVE, CHANGE, "gate", "sentinel")


def write_page(found: Inspection, folder: Path) -> Path:
    """Write index.html, which needs no other file, inspection.md with its charts, and inspection.json."""
    folder.mkdir(parents=True, exist_ok=True)
    can, cannot = uses(found)
    content = list(blocks(found))
    write_json(folder / NUMBERS, {**as_plain(found), "can": can, "cannot": cannot})
    write_markdown(folder / MARKDOWN, content)
    write_html(folder / PAGE, f"Maps of {found.facts['model']}", content, {})
    return folder / PAGE


def blocks(found: Inspection) -> Iterator[Block]:
    """The whole page."""
    can, cannot = uses(found)
    yield Heading(f"Attention as evidence: {found.facts['model']}", 1)
    yield Items([f"**{name}**: {value}" for name, value in found.facts.items()])
    yield Heading("What these maps can be used for")
    yield Items(can) if can else Text("Nothing that was asked of them here.")
    yield Heading("What they can't be used for")
    yield Items(cannot)
    yield Text(
        "Numbers in brackets are 95 % intervals: what other images of this kind might give. They say nothing about "
        "other trainings of the same model."
    )
    yield from _sharpness(found)
    yield from _replacement(found)
    yield from _removal(found)
    yield from _located(found)
    yield Heading("How this was measured")
    yield Items(list(_methods(found)))


def _sharpness(found: Inspection) -> Iterator[Block]:
    sharpness = found.sharpness
    yield Heading("What the maps are like")
    rows = [["measure", "mean", "95 %", "5 % of words below", "median", "5 % above"]]
    rows += [
        [name, *_distribution(sharpness.measures[key])] for key, name in MEASURES.items() if key in sharpness.measures
    ]
    yield Table(rows)
    yield Text(
        f"Of {sharpness.words:,} words of reference captions, as the model reads them. A uniform map has {found.cells} "
        f"effective cells. Distances are the part of the weight that would have to be moved, from 0 to "
        f"1; the mean map is {sharpness.mean_from_uniform:.3f} from the uniform one. Rank correlation of largest "
        f"weight and log-probability of the word: {sharpness.peak_and_probability:.3f}."
    )
    curves = {MEASURES[key]: sharpness.measures[key].by_position for key in _CURVES if key in sharpness.measures}
    picture = map_and_words(sharpness.mean_map.reshape(found.grid), curves)
    yield Chart("maps", picture, "The mean map over all words, and means over captions for the first words in turn.")


def _distribution(each: Distribution) -> list[str]:
    low, middle, high = each.quantiles
    return [f"{each.mean.value:.3f}", _interval(each.mean), *(f"{value:.3f}" for value in (low, middle, high))]


def _replacement(found: Inspection) -> Iterator[Block]:
    replacement = found.replacement
    yield Heading("What the captions cost with other maps")
    rows = [["maps", "nats a word", "95 %", "rise", "95 %"]]
    for kind, loss in replacement.loss.items():
        rise = replacement.rise.get(kind)
        told = ["", ""] if rise is None else [f"{rise.value:+.4f}", _interval(rise, 4)]
        rows.append(["the model's own" if kind == OWN else kind, f"{loss.value:.4f}", _interval(loss, 4), *told])
    yield Table(rows)
    yield Text(
        f"Over {replacement.words:,} words of reference captions, ends of captions included, the words before each "
        "given."
    )
    yield Chart("losses", rises(replacement.rise), "Rise of the loss with other maps; dark lines: 95 % over images.")


def _removal(found: Inspection) -> Iterator[Block]:
    removal = found.removal
    yield Heading("What the words lose with their cells")
    rows = [["cells taken by", f"drop without the top {removal.top}", "95 %", "beyond random", "deletion", "insertion"]]
    for name, drop in removal.drop.items():
        beyond = removal.beyond_random.get(name)
        told = "" if beyond is None else f"{beyond.value:+.3f} {_interval(beyond)}"
        heights = [f"{each.value:.3f} {_interval(each)}" for each in removal.area[name]]
        rows.append([name.replace("_", " "), f"{drop.value:.3f}", _interval(drop), told, *heights])
    yield Table(rows)
    yield Text(
        f"Of {removal.words} words that the model said itself. Drops are of the word's log-probability, in nats. "
        "Deletion and insertion are mean heights of the curves below: low is good for the first, high for the second."
    )
    picture = removal_curves(removal.cells, removal.deletion, removal.insertion)
    yield Chart("removal", picture, "Mean log-probability of the word as cells are removed, and put back, in order.")
    if removal.by_word:
        yield from _words_one_by_one(removal)


def _words_one_by_one(removal: Removal) -> Iterator[Block]:
    """Those that lose most and those that lose least beyond random cells."""
    rows = [["word", "said", f"drop without the top {removal.top}", "without random ones"]]
    told = list(removal.by_word.items())
    shown = told if len(told) <= 2 * _WORDS_SHOWN else told[:_WORDS_SHOWN] + told[-_WORDS_SHOWN:]
    rows += [[f"`{word}`", str(each.times), f"{each.drop:.3f}", f"{each.random:.3f}"] for word, each in shown]
    yield Table(rows)
    yield Text(
        f"Words said {OFTEN} times or more, those first that lose most beyond random cells"
        + (f"; {len(told) - len(shown)} in the middle are left out." if len(shown) < len(told) else ".")
    )


def _located(found: Inspection) -> Iterator[Block]:
    located = found.located
    if located is None:
        return
    yield Heading("Whether they lie on the thing named")
    rows = [["map", "largest weight on it", "95 %", "weight on it", "95 %"]]
    names: Mapping[str, str] = {"map": "the word's own", "uniform": "uniform", "mean": "mean map"}
    for key, name in names.items():
        hit, mass = located.hit[key], located.mass[key]
        rows.append([name, f"{hit.value:.3f}", _interval(hit), f"{mass.value:.3f}", _interval(mass)])
    yield Table(rows)
    yield Text(
        f"{located.words:,} words of {located.images} images have a known place ({found.facts['places']}). Beyond "
        f"the mean map: {located.hit_beyond_mean.value:+.3f} {_interval(located.hit_beyond_mean)} of the words, "
        f"{located.mass_beyond_mean.value:+.3f} {_interval(located.mass_beyond_mean)} of the weight."
    )


def _methods(found: Inspection) -> Iterator[str]:
    yield (
        "**Other maps.** All captions are read again with uniform maps, the mean map of all words, the map of another "
        "image's caption at the same position, or the caption's first map for all its words. A sentinel keeps its own "
        "weight, and what it leaves is spread as the other map says; of a transformer every head of every layer is "
        "replaced. The model was not trained with such maps: a rise says how far it relies on its own, not how "
        "well a model without them could do."
    )
    if found.facts["test-time rule"].startswith("argmax"):
        yield "**One cell.** This model is shown the cell of largest weight alone; its uniform map is a random cell."
    parts = ", ".join(f"{fraction:.0%}" for fraction in FRACTIONS)
    yield (
        "**Removal.** A removed cell holds the mean of that cell over the images inspected, for the whole caption so "
        f"far. Curves are measured at {parts} of the cells and at both ends; equal weights are ranked at random. What "
        "neighbouring cells know of a removed one, since a network sees further than a cell, is not removed."
    )
    yield (
        "**Gradients** are of the word's log-probability with respect to the regions, by captum: input × gradient, and "
        "integrated gradients from the removed cells' content. Through a choice of one cell they know that cell alone."
    )
    yield (
        "**Intervals** are bootstraps over images, 2,000 times; words of one image are drawn together, and differences "
        "are taken word by word."
    )


def _interval(each: Average, digits: int = 3) -> str:
    return f"[{each.low:.{digits}f}, {each.high:.{digits}f}]"
