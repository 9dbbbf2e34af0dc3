"""How do time and memory of each way to attend grow with the regions, and how near is a decoder's step to its floor?

First every score with every normalizer and multi-head attention, forward alone and with backward, beside torch's fused
kernel; the exponent b is of time (or memory) ~ R^b, fitted on logarithms. Then the attention steps of a caption on keys
remembered once, beside the same in plain torch; the target is at most 1.6 times the floor. Run as `python -m
scripts.bench_attention`, or with --quick to see that it works.
"""

from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from math import log
from statistics import linear_regression

import torch

from scripts.benchmarking.attention import (
    MECHANISMS,
    Size,
    forward,
    forward_and_backward,
    our_steps,
    plain_steps,
    step_work,
)
from scripts.benchmarking.contest import Contestant, alternate, arguments, compete, header, peak_memory
from scripts.benchmarking.setting import Setting

SMALLEST = 2**20
"""Bytes: what a mechanism adds below this is lost among the pages of the process."""


def exponent(regions: Sequence[int], values: Sequence[float]) -> str:
    """b of value ~ R^b by least squares on logarithms; nothing for fewer than two sizes."""
    if len(regions) < 2:
        return ""
    return f"{linear_regression([log(each) for each in regions], [log(each) for each in values]).slope:.2f}"


def growth_rows(queries: int, options: Namespace) -> list[str]:
    """A row for each mechanism: milliseconds and MiB at each number of regions, their exponents, and the ratio."""
    sizes = [Size(options.images, queries, regions) for regions in options.regions]
    alone, both = ([timed(job, size, options) for size in sizes] for job in (forward, forward_and_backward))
    rows = []
    for row, name in enumerate(MECHANISMS):
        times = [[taken[row] for taken in by_size] for by_size in (alone, both)]
        cells = [name, str(queries)]
        for taken in times:
            cells += [" / ".join(f"{1e3 * each:.2f}" for each in taken), exponent(options.regions, taken)]
        cells.append(f"{times[1][-1] / both[-1][0]:.1f}x")
        added = [added_memory(name, size, options.threads) for size in sizes]
        cells += [" / ".join(f"{each / 2**20:.0f}" for each in added), exponent(options.regions, added)]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def timed(job: Callable[[str, Size], Callable[[], object]], size: Size, options: Namespace) -> list[float]:
    """Median seconds of every mechanism at this size, in alternation."""
    return alternate([job(name, size) for name in MECHANISMS], options.repeats)


def added_memory(name: str, size: Size, threads: int) -> int:
    """Bytes that attending and its gradient need at most beside model and inputs."""
    peak = peak_memory(forward_and_backward, (name, size), threads)
    return max(peak.total - peak.prepared, SMALLEST)


def growth_table(options: Namespace) -> None:
    """Print the first table."""
    regions = " / ".join(map(str, options.regions))
    print(
        f"Milliseconds and MiB at R = {regions}; {options.images} images, width 512\n\n"
        "| mechanism | N | forward | b | forward and backward | b | ÷ torch fused, largest R | memory added | b |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    )
    for queries in options.queries:
        print(*growth_rows(queries, options), sep="\n", flush=True)


def step_table(options: Namespace) -> None:
    """Print the second table."""
    print(f"\nA caption's attention steps, {options.batch} images, width 512\n\n{header('images')}")
    for score in ("additive", "scaled_dot"):
        ours, plain = partial(our_steps, score=score), partial(plain_steps, score=score)
        contestants = (
            Contestant("plain float32", torch.float32, plain, is_product=False),
            Contestant("ours float32", torch.float32, ours),
            Contestant("ours bfloat16", torch.bfloat16, ours),
        )
        for region_width in options.region_widths:
            setting = Setting(
                f"{score}, D = {region_width}", options.batch, region_width=region_width, per_caption=False
            )
            rows = compete(contestants, setting, options, partial(step_work, score=score))
            print(*rows, sep="\n", flush=True)


def main() -> None:
    """Print both tables."""
    parser = arguments(__doc__, repeats=5)
    parser.set_defaults(images=8)
    parser.add_argument("--regions", type=int, nargs="+", default=[49, 196, 784], help="keys R, for the growth")
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 20], help="queries N, each a part of the table")
    parser.add_argument("--batch", type=int, default=32, help="images in a decoder's step")
    parser.add_argument("--region_widths", type=int, nargs="+", default=[512, 1024, 2048], help="D, each a setting")
    parser.add_argument("--quick", action="store_true", help="one round of the smallest sizes: does it work?")
    options = parser.parse_args()
    if options.quick:
        options.images, options.repeats, options.batch, options.threads = 1, 1, 2, 1
        options.regions, options.queries, options.region_widths = [49, 98], [2], [512]
    torch.set_num_threads(options.threads)
    print(f"Attention, {options.threads} threads, torch {torch.__version__}\n")
    growth_table(options)
    step_table(options)


if __name__ == "__main__":
    main()
