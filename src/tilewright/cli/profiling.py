"""Times of the kernels of a model, and their share of the machine's peak."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from tilewright.cli.devices import completed, runs_on_cpu
from tilewright.cli.peak import FLOATS, Peak, Types, multiply_add
from tilewright.cli.tensors import facts_of
from tilewright.support.errors import TVMError
from tilewright.target import Target

LEAST_PASSES = 6


class KernelTime:
    """A kernel of a model: its median time and its work. `unit`: the element type of the factors of its multiply-adds; `peak`: the
    CPU's peak for these, in GFLOP/s, None for other devices; `fallbacks`: the steps that its schedule does without, with the reasons;
    `record`: seconds of the record of tuning that decided the kernel, tuned and untuned, or None."""

    __slots__ = ("bytes", "fallbacks", "flops", "microseconds", "name", "peak", "record", "source", "unit")

    def __init__(self, facts: Mapping[str, Any], microseconds: float, peak: Peak | None) -> None:
        self.name, self.source, self.microseconds = str(facts["name"]), str(facts.get("source", "")), microseconds
        self.flops, self.bytes = int(facts["flops"]), int(facts["bytes"])
        self.fallbacks = [str(f) for f in facts.get("fallbacks", ())]
        found = facts.get("record")
        self.record: tuple[float, float | None] | None = found and (found["seconds"], found["untuned"])
        self.unit = types_of(facts)[0] if peak is None else peak.instruction.types[0]
        self.peak = None if peak is None else peak.rate / 1e9


def profile_kernels(
    executor: Any, seconds: float, threads: int, report: Callable[[int, int, str], None] | None = None
) -> list[KernelTime]:
    """Median times of kernel calls over whole passes, so that caches are as warm as in a real run.

    The peaks are measured between the passes, on the same number of threads, because clock rates change from second to second.
    """
    kernels, one_pass = machine_passes(executor) if hasattr(executor, "machine") else static_passes(executor)
    clock = time.perf_counter
    times: list[list[float]] = []
    host = Target("llvm")
    needed = (
        [multiply_add(host, types_of(k)) for k in kernels] if runs_on_cpu(facts_of(executor)) else [None] * len(kernels)
    )
    peaks = {
        instruction: Peak(threads, instruction) for instruction in dict.fromkeys(needed) if instruction is not None
    }
    start = clock()
    while len(times) < LEAST_PASSES or clock() - start < seconds:
        times.append(one_pass())
        for peak in peaks.values():
            peak.sample()
        if report is not None:
            short = len(times) < LEAST_PASSES
            share = max(len(times) / LEAST_PASSES, 1e-9) if short else (clock() - start) / seconds
            report(min(100, int(100 * share)), 100, "measuring")
    medians = np.median(np.array(times[1:]), axis=0) if kernels else []
    return [
        KernelTime(k, float(us), None if instruction is None else peaks[instruction])
        for k, us, instruction in zip(kernels, medians, needed, strict=True)
    ]


def static_passes(executor: Any) -> tuple[list[Mapping[str, Any]], Callable[[], list[float]]]:
    """The kernels of a static graph in order, and a function that runs each once and returns microseconds."""
    kernels = facts_of(executor)["kernels"]
    run_kernel, clock = completed(executor.module["run_kernel"], facts_of(executor)), time.perf_counter

    def one_pass() -> list[float]:
        found = []
        for i in range(len(kernels)):
            begin = clock()
            run_kernel(i)
            found.append((clock() - begin) * 1e6)
        return found

    return kernels, one_pass


def machine_passes(executor: Any) -> tuple[list[Mapping[str, Any]], Callable[[], list[float]]]:
    """The kernel calls of a run in the virtual machine, and a function that repeats the run and returns microseconds."""
    facts = {k["name"]: k for k in facts_of(executor)["kernels"]}
    _, *records = json.loads(executor.module["profile"]("main"))
    names = [name for name, _, _ in records]

    def one_pass() -> list[float]:
        _, *calls = json.loads(executor.module["profile"]("main"))
        if [name for name, _, _ in calls] != names:
            raise TVMError("runs on the same inputs call different kernels, so there are no median times")
        return [seconds * 1e6 for _, seconds, _ in calls]

    return [facts[name] for name in names], one_pass


def types_of(kernel: Mapping[str, Any]) -> Types:
    """Element types of a kernel's products and sums; float32 if it has none."""
    found = tuple(kernel.get("products", ()))
    return found if len(found) == 3 else FLOATS


def operators(source: str) -> str:
    """The operators that a kernel was fused from, shortened."""
    return source if len(source) <= 60 else source[:57] + "..."


def rows_of(kernels: Sequence[KernelTime]) -> list[dict[str, Any]]:
    """Rows of kernels by time, with calls of the same kernel added up. Rates are None if the work is unknown."""
    groups: dict[str, list[KernelTime]] = {}
    for k in kernels:
        groups.setdefault(k.name, []).append(k)
    total = sum([k.microseconds for k in kernels])
    rows = []
    for name, group in groups.items():
        us = sum([k.microseconds for k in group])
        flops, size = sum([k.flops for k in group]), sum([k.bytes for k in group])
        rate = flops / us / 1e3
        rows.append(
            {
                "kernel": name,
                "calls": len(group),
                "us": us,
                "share": us / total,
                "gflops": rate if flops else None,
                "gbytes": size / us / 1e3 if size else None,
                "percent_of_peak": 100 * rate / group[0].peak if flops and group[0].peak else None,
                "source": group[0].source,
                "fallbacks": "; ".join(group[0].fallbacks),
                **record_facts(group[0].record),
            }
        )
    return sorted(rows, key=lambda r: -r["us"])


def record_facts(record: tuple[float, float | None] | None) -> dict[str, float | None]:
    """What a row says of the record of its kernel: microseconds of a call as they were measured by the tuner, tuned and untuned."""
    tuned, untuned = record or (None, None)
    return {
        "record_us": None if tuned is None else tuned * 1e6,
        "record_untuned_us": None if untuned is None else untuned * 1e6,
    }


def tuned_share(rows: Sequence[Mapping[str, Any]]) -> float:
    """The share of the run time of kernels that come from records."""
    return float(sum([r["share"] for r in rows if r["record_us"] is not None]))


def tuned_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """How many kernels come from records, and how much of the run time they are."""
    count = len([r for r in rows if r["record_us"] is not None])
    if not count:
        return []
    return [
        f"tuned: {count} of {len(rows)} kernels come from records; they are {tuned_share(rows):.1%} of the run time"
    ]


def tuned_cell(row: Mapping[str, Any]) -> str:
    """The mark of a kernel that comes from a record: its time over that of the untuned kernel, as they were measured by the tuner."""
    if row["record_us"] is None:
        return ""
    return "yes" if row["record_untuned_us"] is None else f"{row['record_us'] / row['record_untuned_us']:.2f}"


def peaks_of(kernels: Sequence[KernelTime]) -> dict[str, float]:
    """Peaks in GFLOP/s by the type of the factors; none where kernels run on other devices than the CPU."""
    return {k.unit: k.peak for k in kernels if k.peak is not None}


def fallback_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """How many kernels' schedules do without a step, and what."""
    found = [r for r in rows if r["fallbacks"]]
    if not found:
        return []
    count = f"{len(found)} kernels do" if len(found) > 1 else "1 kernel does"
    return [f"schedules: {count} without a step", *[f"  {r['kernel']}: {r['fallbacks']}" for r in found]]


def render_profile(kernels: Sequence[KernelTime], top: int, title: str) -> Table:
    """A table of the kernels that take the most time."""
    ranked = rows_of(kernels)
    total = sum([k.microseconds for k in kernels])
    peaks = ", ".join([f"{unit} {peak:.0f}" for unit, peak in peaks_of(kernels).items()])
    table = Table(
        title=f"{title}: {total / 1e3:.2f} ms in {len(kernels)} kernel calls",
        caption=Text(
            "\n".join(
                [
                    *([f"peaks of multiply-adds in GFLOP/s, measured now: {peaks}"] if peaks else []),
                    *tuned_lines(ranked),
                    *fallback_lines(ranked),
                ]
            )
        ),
        caption_justify="left",
    )
    table.add_column("kernel", overflow="fold")
    marked = any([r["record_us"] is not None for r in ranked])
    for column in ("calls", "us", "share", "GFLOP/s", "GB/s", "% of peak", *(["tuned"] if marked else [])):
        table.add_column(column, justify="right")
    for r in ranked[:top]:
        rates = [
            "" if r[k] is None else f"{r[k]:.{digits}f}"
            for k, digits in (("gflops", 1), ("gbytes", 1), ("percent_of_peak", 0))
        ]
        mark = [tuned_cell(r)] if marked else []
        table.add_row(r["kernel"], str(r["calls"]), f"{r['us']:.1f}", f"{r['share']:.1%}", *rates, *mark)
    if len(ranked) > top:
        rest = sum([r["us"] for r in ranked[top:]])
        table.add_row(f"({len(ranked) - top} more)", "", f"{rest:.1f}", f"{rest / total:.1%}")
    return table
