"""Times of the single kernels of a model, beside what the machine could do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table

from tilewright.codegen.llvm.peak import FLOATS, Peak, Types, multiply_add
from tilewright.target import Target

LEAST_PASSES = 6


class KernelTime:
    """One kernel of a model: its median time and its work. `unit`: the element type of the factors of its multiply-adds; `peak`: what
    the machine does of these at most, in GFLOP/s."""

    __slots__ = ("bytes", "flops", "microseconds", "name", "peak", "source", "unit")

    def __init__(self, facts: Mapping[str, Any], microseconds: float, peak: Peak) -> None:
        self.name, self.source, self.microseconds = str(facts["name"]), str(facts.get("source", "")), microseconds
        self.flops, self.bytes = int(facts["flops"]), int(facts["bytes"])
        self.unit, self.peak = peak.instruction.types[0], peak.rate / 1e9


def profile_kernels(
    executor: Any, seconds: float, threads: int, report: Callable[[int, int, str], None] | None = None
) -> list[KernelTime]:
    """Medians of each kernel over whole passes in order, so that caches are as warm as in a real run.

    The peaks are measured between the passes, on as many threads: the machine is not the same from one second to the next.
    """
    kernels = json.loads(executor.module["get_metadata"]())["kernels"]
    run_kernel, clock = executor.module["run_kernel"], time.perf_counter
    times: list[list[float]] = [[] for _ in kernels]
    host = Target("llvm")
    needed = [multiply_add(host, types_of(k)) for k in kernels]
    peaks = {instruction: Peak(threads, instruction) for instruction in dict.fromkeys(needed)}
    start = clock()
    passes = 0
    while passes < LEAST_PASSES or clock() - start < seconds:
        for i, record in enumerate(times):
            begin = clock()
            run_kernel(i)
            record.append((clock() - begin) * 1e6)
        for peak in peaks.values():
            peak.sample()
        passes += 1
        if report is not None:
            share = max(passes / LEAST_PASSES, 1e-9) if passes < LEAST_PASSES else (clock() - start) / seconds
            report(min(100, int(100 * share)), 100, "measuring")
    return [
        KernelTime(k, float(np.median(t[1:])), peaks[instruction])
        for k, t, instruction in zip(kernels, times, needed, strict=True)
    ]


def types_of(kernel: Mapping[str, Any]) -> Types:
    """Element types of a kernel's products and sums; those of float32 where it has none."""
    found = tuple(kernel.get("products", ()))
    return found if len(found) == 3 else FLOATS


def operators(source: str) -> str:
    """The operators that a kernel was fused from, shortened where they are many."""
    return source if len(source) <= 60 else source[:57] + "..."


def render_profile(kernels: Sequence[KernelTime], top: int, title: str) -> Table:
    """A table of the costliest kernels, equal ones added up."""
    groups: dict[str, list[KernelTime]] = {}
    for k in kernels:
        groups.setdefault(k.name, []).append(k)
    total = sum([k.microseconds for k in kernels])
    peaks = ", ".join([f"{unit} {peak:.0f}" for unit, peak in {k.unit: k.peak for k in kernels}.items()])
    table = Table(
        title=f"{title}: {total / 1e3:.2f} ms in {len(kernels)} kernel calls",
        caption=f"peaks of multiply-adds in GFLOP/s, measured now: {peaks}",
        caption_justify="left",
    )
    table.add_column("kernel", overflow="fold")
    for column in ("calls", "us", "share", "GFLOP/s", "GB/s", "% of peak"):
        table.add_column(column, justify="right")
    ranked = sorted(groups.items(), key=lambda item: -sum([k.microseconds for k in item[1]]))
    for name, group in ranked[:top]:
        us = sum([k.microseconds for k in group])
        rate = sum([k.flops for k in group]) / us / 1e3
        table.add_row(
            name,
            str(len(group)),
            f"{us:.1f}",
            f"{us / total:.1%}",
            f"{rate:.1f}",
            f"{sum([k.bytes for k in group]) / us / 1e3:.1f}",
            f"{100 * rate / group[0].peak:.0f}",
        )
    if len(ranked) > top:
        rest = sum([k.microseconds for _, group in ranked[top:] for k in group])
        table.add_row(f"({len(ranked) - top} more)", "", f"{rest:.1f}", f"{rest / total:.1%}", "", "", "")
    return table
