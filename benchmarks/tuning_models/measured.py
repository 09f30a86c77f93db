"""Measurements of random schedules: each beside the untuned schedule of its kernel, whose runs alternate with its own."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

import tilewright as tvm
from benchmarks.tuning_models.kernels import Kernel, reference, schedules
from tilewright.ir import IRModule
from tilewright.node import load_json, save_json
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tuning.inputs import random_inputs, signature_of

ROUNDS, LEAST_MS = 8, 1
SLOWEST = 60.0
"""Schedules that take so many times as long as the reference have a few single runs only."""


class Pair(NamedTuple):
    """A schedule of a kernel, and its throughput over that of the untuned one."""

    kernel: str
    program: IRModule
    ratio: float


Timer = Callable[[int], float]


def _timer(program: IRModule, target: Target) -> Timer:
    """Runs a program for so many milliseconds at least, and tells the seconds of a call."""
    lib = tvm.build(program, target=target)
    arguments = [tvm.nd.array(v) for v in random_inputs(signature_of(program))]
    name = next(g.name_hint for g in program.functions)

    def once(least_ms: int) -> float:
        run = lib.time_evaluator(name, tvm.cpu(), number=1, repeat=1, min_repeat_ms=least_ms)
        return float(np.min(run(*arguments).results))

    return once


def measure(kernels: Mapping[str, Kernel], target: Target, seconds: float, seed: int = 0) -> Iterator[Pair]:
    """Measures random schedules of the kernels, one kernel after the other and again, until the time is over. From then on,
    this process runs kernels on one thread."""
    tvm.runtime.set_num_threads(1)
    drawn = {name: schedules(k, target, seed) for name, k in kernels.items()}
    references = {name: _timer(reference(k, target), target) for name, k in kernels.items()}
    ends = time.monotonic() + seconds
    while True:
        for name in kernels:
            if time.monotonic() > ends:
                return
            program = next(drawn[name])
            try:
                own = _timer(program, target)
            except TVMError:
                continue
            yield Pair(name, program, _ratio(own, references[name]))


def _ratio(own: Timer, beside: Timer) -> float:
    """The fastest of each count, since what disturbs a run makes it slower."""
    first, base = min([own(0) for _ in range(4)]), min([beside(0) for _ in range(4)])
    if first > SLOWEST * base:
        return base / first
    times = [(beside(LEAST_MS), own(LEAST_MS)) for _ in range(ROUNDS)]
    return min([t for t, _ in times]) / min([t for _, t in times])


def save(path: Path, pairs: list[Pair]) -> None:
    """Writes measurements: compressed lines of JSON."""
    with gzip.open(path, "wt") as file:
        for pair in pairs:
            file.write(json.dumps([pair.kernel, save_json(pair.program), pair.ratio]) + "\n")


def load(path: Path) -> list[Pair]:
    """Reads what `save` wrote."""
    with gzip.open(path, "rt") as file:
        return [Pair(kernel, load_json(text), ratio) for kernel, text, ratio in map(json.loads, file)]
