"""Product against twin in one run: alternating times, peak memory apart, one table."""

import multiprocessing
import resource
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch

from captioning.training.number_type import half_is_faster
from scripts.benchmarking.floor import Rates, Work, measure_rates, seconds, typical
from scripts.benchmarking.setting import Setting


@dataclass(frozen=True)
class Contestant:
    """One way to do the job."""

    name: str
    """As the table prints it."""
    dtype: torch.dtype
    """The number type of its matrix products."""
    prepare: Callable[[Setting, torch.dtype], Callable[[], object]]
    """Builds model and batch; what it returns does the job once."""
    is_product: bool = True
    """Whether a ratio and a floor are printed: False for the twin."""


def arguments(question: str, *, repeats: int) -> ArgumentParser:
    """The options that both benchmarks have."""
    parser = ArgumentParser(description=question)
    parser.add_argument("--images", type=int, default=32, help="images in a batch")
    parser.add_argument("--repeats", type=int, default=repeats, help="rounds; each contestant runs once in each")
    parser.add_argument("--threads", type=int, default=2, help="threads that torch may use")
    return parser


def compete(
    contestants: Sequence[Contestant], setting: Setting, options: Namespace, work: Callable[[Setting], Work]
) -> list[str]:
    """Run everything and return the table's rows; ratios refer to the first contestant.

    bfloat16 is left out where the machine only emulates it, a hundred times slower than float32.
    """
    if not half_is_faster("cpu"):
        contestants = [each for each in contestants if each.dtype != torch.bfloat16]
    memory = [peak_memory(each.prepare, (setting, each.dtype), options.threads).total for each in contestants]
    times, rates = _alternate(contestants, setting, options.repeats)
    rows = []
    for each, taken, peak in zip(contestants, times, memory, strict=True):
        floor = work(setting).seconds(rates[each.dtype], each.dtype)
        compared = [f"{times[0] / taken:.1f}x", f"{floor:.3f}", f"{taken / floor:.2f}x"]
        cells = [setting.label, each.name, f"{taken:.3f}", f"{setting.jobs / taken:.1f}"]
        cells += [*(compared if each.is_product else ["", "", ""]), f"{peak / 2**20:,.0f}"]
        rows.append(f"| {' | '.join(cells)} |")
    return [*rows, *(_rates_row(setting, dtype, found) for dtype, found in rates.items())]


def header(job: str) -> str:
    """The table's head."""
    columns = f"| setting | contestant | s | {job}/s | ratio | floor s | time ÷ floor | peak memory MiB |"
    return f"{columns}\n| --- | --- | --- | --- | --- | --- | --- | --- |"


def _rates_row(setting: Setting, dtype: torch.dtype, rates: Rates) -> str:
    return (
        f"| {setting.label} | machine {str(dtype).removeprefix('torch.')}: torch.mm "
        f"{rates.operations / 1e9:.0f} GFLOP/s, memory {rates.bandwidth / 1e9:.1f} GB/s, "
        f"tanh {rates.tanhs / 1e9:.2f} G/s | | | | | | |"
    )


def _alternate(
    contestants: Sequence[Contestant], setting: Setting, repeats: int
) -> tuple[list[float], dict[torch.dtype, Rates]]:
    """Median seconds of each contestant and median rates, over rounds of all in turn after one to warm up."""
    calls = [each.prepare(setting, each.dtype) for each in contestants]
    rates: dict[torch.dtype, list[Rates]] = {each.dtype: [] for each in contestants}

    def measure() -> None:
        for dtype, measured in rates.items():
            measured.append(measure_rates(dtype))

    times = alternate(calls, repeats, after_each=measure)
    return times, {dtype: typical(measured[1:]) for dtype, measured in rates.items()}


def alternate(
    calls: Sequence[Callable[[], object]], repeats: int, after_each: Callable[[], object] = lambda: None
) -> list[float]:
    """Median seconds of each call, over rounds of all in turn after one to warm up."""
    times = []
    for _ in range(repeats + 1):
        times.append([seconds(call) for call in calls])
        after_each()
    return [median(taken) for taken in zip(*times[1:], strict=True)]


class Peak(NamedTuple):
    """Bytes that a fresh process needed at most, interpreter and torch included."""

    prepared: int
    """Before the job: with its model and batch."""
    total: int
    """After the job was done twice."""


def peak_memory(prepare: Callable[..., Callable[[], object]], arguments: tuple[object, ...], threads: int) -> Peak:
    """Prepare a job and do it in a process of its own, forked from one that has imported everything and done nothing.

    `prepare` and its arguments must survive pickling.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["scripts.benchmarking.setting"])
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_run_and_weigh, prepare, arguments, threads).result()


def _run_and_weigh(prepare: Callable[..., Callable[[], object]], arguments: tuple[object, ...], threads: int) -> Peak:
    torch.set_num_threads(threads)
    job = prepare(*arguments)
    small = torch.ones(64, 64, requires_grad=True)
    (small @ small).sum().backward()  # What the first product and gradient load is no part of the job.
    prepared = _peak_of_this_process()
    job()
    job()
    return Peak(prepared, _peak_of_this_process())


def _peak_of_this_process() -> int:
    status = Path("/proc/self/status")
    if status.exists():  # Linux; its getrusage also remembers the peak of the parent process.
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return 1024 * int(peak.split()[1])
    peak_size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak_size if sys.platform == "darwin" else 1024 * peak_size
