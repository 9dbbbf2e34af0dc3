"""How much faster is the batched beam than a textbook one image by image, how near to the floor, and what costs more?

First table: a beam over all images against the twin's, image after image. Second: what constraints and other searches
cost beside the plain beam. Third: many samples of an image against as many runs that each do its work again.

With fresh weights END is as unlikely as any other word, so every search runs to the longest caption and all do the
same number of steps. Image work (projected keys) is part of it; the encoder is not. Run as `python -m
scripts.bench_decoding`.
"""

from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import Any

import torch

from captioning.captioner import FORBIDDEN, DecoderStep
from captioning.decoding.beam import beam_search
from captioning.decoding.constraints import Constraints
from captioning.decoding.methods import search_captions
from captioning.decoding.search import Search
from captioning.text.vocabulary import END, START
from scripts.benchmarking.contest import Contestant, alternate, arguments, compete, header
from scripts.benchmarking.floor import Work, product
from scripts.benchmarking.setting import Setting

Job = Callable[[], object]
SAMPLES = 20


def product_step(setting: Setting, dtype: torch.dtype) -> Job:
    """Our beam over the whole batch; with bfloat16 under autocast."""
    decoder = setting.product().eval()
    features = setting.features(torch.Generator().manual_seed(1))
    start = torch.full((setting.images,), START)
    constraints = Constraints(END, setting.longest, forbidden=FORBIDDEN)

    @torch.no_grad()
    def search() -> object:
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            step = DecoderStep(decoder, features)
            return beam_search(step, start=start, constraints=constraints, beam_size=setting.captions)

    return search


def twin_step(setting: Setting, dtype: torch.dtype) -> Job:
    """The twin's beam, image after image."""
    decoder = setting.twin().eval()
    features = setting.features(torch.Generator().manual_seed(1))
    sizes = {"beam_size": setting.captions, "maximum_length": setting.longest}
    return lambda: [decoder.beam_search(each, start=START, end=END, **sizes) for each in features.regions]


def work(setting: Setting) -> Work:
    """A beam search of `longest` steps of the paper's decoder.

    Of memory traffic what no order of work avoids: each step reads every image's regions and keys once for
    all of its hypotheses and all weights of the recurrence and the output once, and writes and reads the
    logits.
    """
    D, A, V, R = setting.region_width, setting.width, setting.vocabulary_size, setting.regions
    hypotheses = setting.images * setting.captions
    once = product(setting.images * R, D, A) + product(setting.images, D, 2 * A)
    weights = 2 * A * 4 * A + D * 4 * A + A * A + A + A * A + D * A + A * V
    step = Work(
        operations=2.0 * hypotheses * (weights + R * (D + A)),
        elements=float(setting.images * R * (D + A) + weights),
        full_elements=2.0 * hypotheses * V,
        tanhs=float(hypotheses * (R * A + 6 * A)),
    )
    first = step * (1 / setting.captions)
    return once + first + step * (setting.longest - 1)


CONTESTANTS = (
    Contestant("textbook float32", torch.float32, twin_step, is_product=False),
    Contestant("ours float32", torch.float32, product_step),
    Contestant("ours bfloat16", torch.bfloat16, product_step),
)


def searches(setting: Setting) -> dict[str, Job]:
    """Name -> a search of `setting.captions` captions an image; the plain beam first."""
    size, words = setting.captions, setting.vocabulary_size
    beam, group = Search(beam_size=size), Search(method="diverse", beam_size=size)
    dangling, spread = tuple(range(10, 16)), range(words // 7, words, words // 7)
    masks = {"minimum_length": setting.longest // 2, "no_repeat_ngram": 3, "dangling": dangling, "beginning": (10, 11)}
    asked: dict[str, tuple[Search, Mapping[str, Any]]] = {
        "beam": (beam, {}),
        "beam, minimum length": (beam, {"minimum_length": setting.longest // 2}),
        "beam, 100 banned words": (beam, {"forbidden": (*FORBIDDEN, *range(100, 200))}),
        "beam, no 3 words twice": (beam, {"no_repeat_ngram": 3}),
        "beam, no dangling end": (beam, {"dangling": dangling}),
        "beam, two words to begin with": (beam, {"beginning": (10, 11)}),
        "beam, all of these": (beam, {**masks, "forbidden": (*FORBIDDEN, *range(100, 200))}),
        "beam, a word that must appear": (beam, {"must_include": tuple(spread[:1])}),
        "beam, two words that must appear": (beam, {"must_include": tuple(spread[:2])}),
        "diverse, groups of one": (group, {}),
        "sampling": (Search(method="sampling", samples=size), {}),
        "sampling, top_p 0.9": (Search(method="sampling", samples=size, top_p=0.9), {}),
    }
    make = _maker(setting)
    return {name: make(search, constraints) for name, (search, constraints) in asked.items()}


def samples(setting: Setting) -> dict[str, Job]:
    """SAMPLES captions an image: in one search, and in as many searches, and one of them for comparison."""
    make = _maker(setting)
    one, many = make(Search(method="sampling"), {}), make(Search(method="sampling", samples=SAMPLES), {})
    return {
        "1 sample an image": one,
        f"{SAMPLES} samples an image, in one search": many,
        f"{SAMPLES} samples an image, in {SAMPLES} searches": lambda: [one() for _ in range(SAMPLES)],
    }


def _maker(setting: Setting) -> Callable[[Search, Mapping[str, Any]], Job]:
    """What makes a job of a search and its constraints, always with the same decoder and images."""
    decoder = setting.product().eval()
    features = setting.features(torch.Generator().manual_seed(1))
    start = torch.full((setting.images,), START)

    def make(search: Search, asked: Mapping[str, Any]) -> Job:
        constraints = Constraints(END, setting.longest, **{"forbidden": FORBIDDEN, **asked})
        return torch.no_grad()(
            lambda: search_captions(DecoderStep(decoder, features), start=start, constraints=constraints, search=search)
        )

    return make


def compare(title: str, jobs: Mapping[str, Job], options: Namespace) -> list[str]:
    """A table of seconds; ratios refer to the first job."""
    times = alternate(list(jobs.values()), options.repeats)
    rows = [f"| {name} | {taken:.3f} | {taken / times[0]:.2f}x |" for name, taken in zip(jobs, times, strict=True)]
    return ["", f"| {title} | s | times the first |", "| --- | --- | --- |", *rows]


def main() -> None:
    """Print the tables."""
    parser = arguments(__doc__, repeats=5)
    parser.set_defaults(images=64)
    parser.add_argument("--beam_sizes", type=int, nargs="+", default=[5], help="beam widths, each a setting")
    parser.add_argument("--longest", type=int, default=20, help="words of every caption")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"Beam search, {options.images} images, {options.threads} threads, torch {torch.__version__}\n")
    print(f"{header('images')}")
    settings = [
        Setting(f"beam {size}", options.images, size, longest=options.longest, per_caption=False)
        for size in options.beam_sizes
    ]
    for setting in settings:
        print(*compete(CONTESTANTS, setting, options, work), sep="\n", flush=True)
    for setting in settings:
        print(*compare(f"{setting.label}, float32", searches(setting), options), sep="\n", flush=True)
    print(*compare("samples, float32", samples(settings[0]), options), sep="\n", flush=True)


if __name__ == "__main__":
    main()
