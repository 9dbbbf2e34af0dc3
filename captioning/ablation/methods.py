"""The report's own words on its methods."""

from collections.abc import Iterator

from captioning.ablation.comparison import ALPHA
from captioning.ablation.image_tests import Resampling
from captioning.ablation.seed_tests import FEWEST_SEEDS
from captioning.ablation.study import Study
from captioning.document import Block, Items, Text


def methods(study: Study, resampling: Resampling) -> Iterator[Block]:
    """What was done, why, and what it takes for granted."""
    sharing = (
        "All seeds have the same images; an image is drawn, or swapped, for all seeds at once."
        if resampling.shared
        else "Each seed has images of its own, which are drawn, and swapped, independently."
    )
    yield Text(
        "A difference between two variants can be an accident in two ways, which are asked about apart: another choice "
        "of **test images** might show another, and another **training run** might. One does not answer the other: "
        "with thousands of images the first is nearly always settled, and says nothing about the second."
    )
    times = resampling.resamples
    yield Items(
        [
            f"**Other images, the same trained models.** The interval is a paired bootstrap: {times} times as many "
            "images as there are were drawn with replacement, the same for both variants, and the difference was "
            "computed on each draw; the middle 95 % are shown. The p value is from approximate randomization: "
            f"{times} times the two variants' answers were swapped image by image by the toss of a coin, and p is how "
            f"often the difference was then at least as large. {sharing} BLEU is computed from summed counts in each "
            "draw; CIDEr-D keeps the document frequencies of the whole split. Assumed: images are drawn independently "
            "from those one cares about.",
            "**Other trainings.** Variant and reference were trained with the same seeds (the same order of batches, "
            "and on the drawn set the same pictures); the interval is Student's t on the differences, seed by seed. "
            "Assumed: these are drawn from one normal distribution. With fewer than "
            f"{FEWEST_SEEDS} seeds nothing is claimed: a handful of differences tells their spread too badly, and "
            "resampling a handful (a bootstrap over seeds) would look far surer than it is.",
            "**Many comparisons.** For each of the two questions, Holm's correction over all comparisons made "
            f"(variants × {', '.join(study.judged)}): if no variant differed, the chance that any would be called "
            f"different is at most {ALPHA:.0%}. Measures that are not judged are told without claims; picking the best "
            "row after looking is not corrected for.",
            "**Bold** is what passes both questions. What does not pass is not shown to be equal: the interval says "
            "how large a difference is still possible.",
            "Variants share one recipe unless their settings say otherwise. A variant that another recipe would suit "
            "better is undersold; the report speaks of the recipe with the variant.",
        ]
    )
