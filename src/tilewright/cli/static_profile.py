"""The static analysis of a model's kernels as a table, with advice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from tilewright.codegen.performance.advice import advice
from tilewright.codegen.performance.kernel_report import KernelReport
from tilewright.relay.backend.kernel_reports import ModelKernel
from tilewright.target import GpuFacts


def static_rows(kernels: Sequence[ModelKernel], gpu: GpuFacts) -> list[dict[str, Any]]:
    """A row for each launch, those of the kernels that need most time first. Times in microseconds, of one launch."""
    return [_row(k, r, gpu) for k in kernels for r in k.reports]


def _row(kernel: ModelKernel, r: KernelReport, gpu: GpuFacts) -> dict[str, Any]:
    used = r.resources
    return {
        "kernel": r.name,
        "calls": kernel.calls,
        "us": 1e6 * r.seconds,
        "bound": r.bounds[0].name if r.bounds else "",
        "blocks": r.launch.blocks,
        "threads": r.launch.threads,
        "registers": used.registers if used else None,
        "spilled_bytes": used.spill_stores if used else None,
        "shared_bytes": r.static_shared + r.dynamic_shared,
        "occupancy": r.occupancy.share,
        "limited_by": ", ".join(r.occupancy.limits),
        "waves": r.waves,
        "coalescing": r.coalescing,
        "conflict_free": r.conflict_free,
        "l2_reuse": r.l2_reuse,
        "flops": r.flops,
        "bytes": r.unique_bytes,
        "intensity": r.intensity,
        "complete": r.complete,
        "source": kernel.source,
        "advice": "; ".join(advice(r, gpu)),
    }


def static_facts(model: str, kernels: Sequence[ModelKernel], gpu: GpuFacts) -> dict[str, Any]:
    """All facts, for JSON."""
    launches = [
        {"calls": k.calls, "source": k.source, **r.facts(), "advice": advice(r, gpu)}
        for k in kernels
        for r in k.reports
    ]
    return {
        "model": model,
        "device": gpu.device,
        "arch": gpu.arch,
        "us": 1e6 * sum([k.seconds for k in kernels]),
        "kernels": launches,
        "refused": {k.name: k.refused for k in kernels if k.refused},
    }


def render_static(kernels: Sequence[ModelKernel], gpu: GpuFacts, top: int, title: str) -> Table:
    """A table of the launches that need most time, with their advice below."""
    rows = static_rows(kernels, gpu)
    shown = rows[:top]
    lines = [f"{k.name}: {k.refused.splitlines()[0]}" for k in kernels if k.refused]
    for row in shown:
        lines += [f"{row['kernel']}: {line}" for line in row["advice"].split("; ") if line]
    notes = [
        "us: the least time of a launch at the device's peaks; coal., banks: the least sectors and passes over those taken; L2: bytes that"
        " concurrent blocks ask for over those that are different"
    ]
    if any([row["registers"] is None for row in rows]):
        notes.append('registers are known where NVRTC is installed: pip install "tilewright[cuda]"')
    total = 1e6 * sum([k.seconds for k in kernels])
    table = Table(
        title=f"{title} on {gpu.device} ({gpu.arch}): at least {total:.1f} us in {sum([k.calls for k in kernels])} kernel calls",
        caption=Text("\n".join([*notes, *lines])),
        caption_justify="left",
    )
    table.add_column("kernel", overflow="fold")
    for column in (
        "calls",
        "us",
        "bound",
        "blocks",
        "threads",
        "regs",
        "shared",
        "occup.",
        "coal.",
        "banks",
        "L2",
        "flop/B",
    ):
        table.add_column(column, justify="right")
    for row in shown:
        registers = "" if row["registers"] is None else f"{row['registers']}{'!' if row['spilled_bytes'] else ''}"
        table.add_row(
            row["kernel"], str(row["calls"]), f"{row['us']:.2f}", row["bound"], str(row["blocks"]), str(row["threads"]), registers,
            str(row["shared_bytes"]), f"{row['occupancy']:.0%}", f"{row['coalescing']:.0%}", f"{row['conflict_free']:.0%}",
            f"{row['l2_reuse']:.1f}", f"{row['intensity']:.1f}",
        )  # fmt: skip
    if len(rows) > top:
        table.add_row(f"({len(rows) - top} more)")
    return table
