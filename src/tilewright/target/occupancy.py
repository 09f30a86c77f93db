"""How many blocks of a kernel a multiprocessor of NVIDIA's holds at once."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilewright.support.errors import TVMError


class Occupancy(NamedTuple):
    """`blocks` and `warps` that a multiprocessor holds, `share` of the warps that it could hold, and the resources that allow no further
    block: of "threads", "blocks", "registers" and "shared memory"."""

    blocks: int
    warps: int
    share: float
    limits: tuple[str, ...]


def rounded_up(value: int, unit: int) -> int:
    """The least multiple of `unit` that is not less than `value`."""
    return -(-value // unit) * unit


def occupancy(gpu: Any, threads: int, registers: int, shared_memory: int) -> Occupancy:
    """The occupancy of a GPU (GpuFacts) by blocks of so many threads with so many registers each, and bytes of shared memory.

    The rules are those of NVIDIA's occupancy calculator (cuda_occupancy.h): a warp's registers are rounded up to the granularity, and warps
    are spread evenly over the schedulers, each of which has an equal part of the registers; a block's shared memory includes what the
    system reserves. registers 0: not known, no limit. TVMError where one block exceeds a limit of blocks.
    """
    if not 0 < threads <= gpu.max_threads_per_block:
        raise TVMError(f"a block has 1 to {gpu.max_threads_per_block} threads on {gpu.arch}, but was given {threads}")
    if not 0 <= registers <= gpu.max_registers_per_thread:
        raise TVMError(
            f"a thread has at most {gpu.max_registers_per_thread} registers on {gpu.arch}, but was given {registers}"
        )
    if not 0 <= shared_memory <= gpu.shared_memory_per_block_optin:
        raise TVMError(
            f"a block has at most {gpu.shared_memory_per_block_optin} bytes of shared memory on {gpu.arch}, but was given {shared_memory}"
        )
    warps = -(-threads // gpu.warp_size)
    found = {
        "threads": gpu.max_warps_per_multiprocessor // warps,
        "blocks": gpu.max_blocks_per_multiprocessor,
        "registers": _by_registers(gpu, warps, registers),
        "shared memory": gpu.shared_memory_per_multiprocessor
        // (rounded_up(shared_memory + gpu.shared_memory_reserved, gpu.shared_memory_granularity) or 1),
    }
    blocks = min(found.values())
    limits = tuple([name for name, count in found.items() if count == blocks])
    return Occupancy(blocks, blocks * warps, blocks * warps / gpu.max_warps_per_multiprocessor, limits)


def _by_registers(gpu: Any, warps: int, registers: int) -> int:
    """The blocks that the registers of a multiprocessor are enough for."""
    if not registers:
        return int(gpu.max_blocks_per_multiprocessor)
    of_warp = rounded_up(registers * gpu.warp_size, gpu.register_granularity)
    schedulers = gpu.warp_granularity
    if of_warp * rounded_up(warps, schedulers) > gpu.registers_per_block:
        return 0
    held = gpu.registers_per_multiprocessor // schedulers // of_warp * schedulers
    return int(held // warps)


__all__ = ["Occupancy", "occupancy", "rounded_up"]
