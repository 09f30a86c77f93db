"""Times of the single kernels of a model, beside what the machine could do."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rich.table import Table


class KernelTime:
    """One kernel of a model: its median time and its work."""

    __slots__ = ("bytes", "flops", "microseconds", "name", "source")

    def __init__(self, name: str, source: str, microseconds: float, flops: int, size: int) -> None:
        self.name, self.source, self.microseconds, self.flops, self.bytes = name, source, microseconds, flops, size


def profile_kernels(executor: Any, seconds: float) -> list[KernelTime]:
    """Medians of each kernel over whole passes in order, so that caches are as warm as in a real run."""
    kernels = executor.get_kernels()
    times: list[list[float]] = [[] for _ in kernels]
    stop = time.perf_counter() + seconds
    passes = 0
    while passes < 5 or time.perf_counter() < stop:
        for i, record in enumerate(times):
            start = time.perf_counter()
            executor.run_kernel(i)
            record.append((time.perf_counter() - start) * 1e6)
        passes += 1
    return [
        KernelTime(k["name"], k.get("source", ""), float(np.median(t[1:])), int(k["flops"]), int(k["bytes"]))
        for k, t in zip(kernels, times, strict=True)
    ]


def peak_gflops() -> float:
    """What the kernels' threads can multiply and add in a second, measured now on registers alone, in GFLOP/s."""
    from tilewright.codegen.llvm.peak import measure_peak

    return measure_peak()


def render_profile(kernels: list[KernelTime], top: int, title: str) -> Table:
    """A table of the costliest kernels, equal ones added up."""
    groups: dict[str, list[KernelTime]] = {}
    for k in kernels:
        groups.setdefault(k.name, []).append(k)
    total = sum([k.microseconds for k in kernels])
    peak = peak_gflops()
    table = Table(title=f"{title}: {total / 1e3:.2f} ms in {len(kernels)} kernel calls; peak {peak:.0f} GFLOP/s, measured now")
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
            f"{100 * rate / peak:.0f}",
        )
    if len(ranked) > top:
        rest = sum([k.microseconds for _, group in ranked[top:] for k in group])
        table.add_row(f"({len(ranked) - top} more)", "", f"{rest:.1f}", f"{rest / total:.1%}", "", "", "")
    return table
