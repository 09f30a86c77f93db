"""What would make a kernel faster, by its analysis: sentences, the most important first."""

from __future__ import annotations

from tilewright.codegen.performance.kernel_report import KernelReport
from tilewright.codegen.performance.memory import WIDEST, AccessReport
from tilewright.target import GpuFacts

FEW_WARPS = 0.25
"""Share of the warps below which a multiprocessor rarely hides the latency of memory, unless threads have much work each."""
POOR = 0.7
"""Efficiency of an access below which it is named."""
MATTERS = 0.1
"""Share of a kernel's sectors, or passes through shared memory, from which on an access is named."""
LAST_WAVE = 0.6


def advice(report: KernelReport, gpu: GpuFacts) -> list[str]:
    """Advice for a kernel on the device of its report."""
    found = [*_compiled(report), *_blocks(report, gpu)]
    found += [line for memory in ("global", "shared") for line in _accesses(report, memory)]
    return [*found, *_arithmetic(report, gpu), *_shared_memory(report, gpu)]


def _compiled(report: KernelReport) -> list[str]:
    used = report.resources
    if used is None or not used.spill_stores + used.spill_loads:
        return []
    return [
        f"{used.spill_stores} bytes of registers are spilled by each thread ({used.registers} registers): take smaller register tiles,"
        " or fewer threads in a block"
    ]


def _blocks(report: KernelReport, gpu: GpuFacts) -> list[str]:
    found = []
    launch, held = report.launch, report.occupancy
    if launch.blocks < gpu.multiprocessors:
        blocks = "1 block leaves" if launch.blocks == 1 else f"{launch.blocks} blocks leave"
        found.append(
            f"{blocks} {gpu.multiprocessors - launch.blocks} of {gpu.multiprocessors} multiprocessors idle:"
            " take smaller tiles, or split the reduction over blocks"
        )
    elif 1 < report.waves < 4 and (filled := report.waves / -(-report.waves // 1)) < LAST_WAVE:
        found.append(
            f"{report.waves:.2f} waves of blocks fill the device to {filled:.0%}: take tiles that make whole waves"
        )
    if held.share < FEW_WARPS and launch.blocks >= gpu.multiprocessors:
        found.append(
            f"a multiprocessor holds {held.warps} of {gpu.max_warps_per_multiprocessor} warps, limited by {' and '.join(held.limits)}"
        )
    if launch.threads % gpu.warp_size:
        found.append(f"{launch.threads} threads are no whole warps: take a multiple of {gpu.warp_size}")
    return found


def _accesses(report: KernelReport, memory: str) -> list[str]:
    """The accesses that cost most more than they need to."""
    own = [a for a in report.accesses if a.memory == memory and a.known]
    total = sum([a.requests * a.per_request for a in own])
    poor = [a for a in own if a.efficiency < POOR and a.requests * a.per_request >= MATTERS * total]
    poor.sort(key=lambda a: a.requests * (a.ideal - a.per_request))
    found = [_shared(a) if memory == "shared" else _global(a) for a in poor[:3]]
    if memory == "global" and report.bounds and report.bounds[0].name == "memory":
        narrow = [a for a in own if a.width < WIDEST and a.efficiency >= POOR and a.kind in ("load", "store")]
        large = [a for a in narrow if a.served_bytes >= MATTERS * total * 32]
        if large:
            names = ", ".join(dict.fromkeys([a.buffer for a in large]))
            width = min([a.width for a in large])
            found.append(f"threads access {names} by {width} bytes: {WIDEST} bytes (vectorize) need fewer instructions")
    return found


def _global(a: AccessReport) -> str:
    return (
        f"{a.kind} of {a.buffer}[{a.place}]: {a.per_request:.1f} sectors a request where {a.ideal:.1f} would do: let threadIdx.x run along"
        " the last dimension, or go through shared memory"
    )


def _shared(a: AccessReport) -> str:
    return (
        f"{a.kind} of {a.buffer}[{a.place}]: {a.per_request / a.ideal:.0f}-way bank conflicts: pad its rows (storage_align), or permute"
        " its columns"
    )


def _arithmetic(report: KernelReport, gpu: GpuFacts) -> list[str]:
    if not report.bounds or report.bounds[0].name != "arithmetic":
        return []
    scalar = {name.partition(" ")[2]: n for name, n in report.operations.items() if name.startswith("scalar ")}
    for dtype in (*report.factors, *[name for name, count in scalar.items() if count > 0.5 * report.flops]):
        if gpu.matrix_units(dtype):
            times = gpu.peak(dtype) / gpu.peak(max(scalar, key=lambda name: scalar[name]), matrix=False)
            return [f"products of {dtype} are computed without matrix units, which are {times:.0f} times as fast"]
    return []


def _shared_memory(report: KernelReport, gpu: GpuFacts) -> list[str]:
    """A kernel without conflicts that reads shared memory longer than it computes."""
    if not report.bounds or report.bounds[0].name != "shared memory" or report.conflict_free < POOR:
        return []
    units = [b.seconds for b in report.bounds if b.name in ("arithmetic", "matrix units")]
    if not units:
        return []
    direct = ", or by wgmma, which reads it without registers" if gpu.has_wgmma else ""
    return [
        f"reads of shared memory take {report.bounds[0].seconds / max(units):.1f} times as long as the arithmetic: read each element less"
        f" often by larger tiles of each thread or warp{direct}"
    ]


__all__ = ["advice"]
