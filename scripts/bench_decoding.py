"""How much faster is the batched beam than a textbook beam image by image, and how near to the floor?

With fresh weights END is as unlikely as any other word, so every search runs to the longest caption and both
do the same number of steps. Image work (projected keys) is part of it; the encoder is not. Run as `python -m
scripts.bench_decoding`.
"""

from collections.abc import Callable

import torch

from captioning.captioner import FORBIDDEN, DecoderStep
from captioning.decoding.beam import beam_search
from captioning.text.vocabulary import END, START
from scripts.benchmarking.contest import Contestant, arguments, compete, header
from scripts.benchmarking.floor import Work, product
from scripts.benchmarking.setting import Setting


def product_step(setting: Setting, dtype: torch.dtype) -> Callable[[], object]:
    """Our beam over the whole batch; with bfloat16 under autocast."""
    decoder = setting.product().eval()
    features = setting.features(torch.Generator().manual_seed(1))
    start = torch.full((setting.images,), START)

    @torch.no_grad()
    def search() -> object:
        with torch.autocast("cpu", dtype, enabled=dtype != torch.float32):
            return beam_search(
                DecoderStep(decoder, features),
                start=start,
                end=END,
                beam_size=setting.captions,
                maximum_length=setting.longest,
                forbidden=FORBIDDEN,
            )

    return search


def twin_step(setting: Setting, dtype: torch.dtype) -> Callable[[], object]:
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


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__, repeats=5)
    parser.add_argument("--beam_sizes", type=int, nargs="+", default=[3], help="beam widths, each a setting")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"Beam search, {options.images} images, {options.threads} threads, torch {torch.__version__}\n")
    print(f"{header('images')}")
    for beam_size in options.beam_sizes:
        setting = Setting(f"beam {beam_size}", options.images, beam_size, per_caption=False)
        print(*compete(CONTESTANTS, setting, options, work), sep="\n", flush=True)


if __name__ == "__main__":
    main()
