"""A model of a Cortex-M7's cycles, for basic blocks that run from tightly coupled memory or caches.

Arm does not publish this core's timings. The rules follow what others report of its dual issue (the introduction of Mark Owen's
measurements on an STM32H730, quinapalus.com/cm7cycles.html, and notes on pairs that do not issue together); latencies are assumptions, and
nothing here was measured on a board. Instructions issue in order, two in a cycle, but not

- two accesses of memory, two multiplications, or two that shift an operand, which sign and zero extensions do, too;
- one of the DSP extension as the second of two;
- one that reads what the other one writes.

A loaded number can be read two cycles after its load, a product too, but a sum of products already in the next cycle by the next
multiply-add. Several registers are loaded or stored two in a cycle. A taken branch takes a cycle of its own. Misses of caches and of the
prediction of branches are left out, so the figures compare programs; a board's own counter tells the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MULTIPLICATIONS = ("mul", "mla", "mls", "smul", "smla", "smmul", "smmla", "smmls", "smuad", "umull", "umlal", "umaal")
DSP = (
    "smlad",
    "smuad",
    "smlsd",
    "sxtb16",
    "sxtab16",
    "uxtb16",
    "pkh",
    "ssat",
    "usat",
    "qadd",
    "qsub",
    "sadd",
    "uadd",
    "sel",
)
SHIFTED = ("lsl", "lsr", "asr", "ror", "sxt", "uxt", "ubfx", "sbfx", "bfi", "bfc", "ssat", "usat")
ACCESSES = ("ldr", "str", "ldm", "stm", "push", "pop", "vldr", "vstr", "vldm", "vstm", "vpush", "vpop", "tbb", "tbh")
SEVERAL = ("ldm", "stm", "push", "pop", "vldm", "vstm", "vpush", "vpop")
LATENCY = 2
"""Cycles from a load or a product to what reads it."""


def block_cycles(code: Sequence[Any]) -> float:
    """The cycles of a basic block. code: its instructions, as Capstone decodes them with details."""
    cycle, ready = 0, dict[int, int]()
    first: tuple[str, set[int], set[int], bool] | None = None
    for i in code:
        name = i.mnemonic.removesuffix(".w").removesuffix(".n")
        if name.startswith("it"):
            # It goes along with what it makes conditional.
            continue
        reads, writes = (set(r) for r in i.regs_access())
        product = name.startswith(MULTIPLICATIONS)
        accumulator = {i.operands[-1].reg} if product and len(i.operands) == 4 else set()
        access, several = name.startswith(ACCESSES), name.startswith(SEVERAL)
        shifted = name.startswith(SHIFTED) or any([o.shift.type for o in i.operands if not access])
        earliest = max([ready.get(r, 0) - (r in accumulator and ready.get(-r, 0)) for r in reads], default=0)
        pairs = (
            first is not None
            and not several
            and earliest <= cycle
            and not (first[3] or first[2] & (reads | writes))
            and not (access and "access" in first[0])
            and not (product and "product" in first[0])
            and not (shifted and "shifted" in first[0])
            and not name.startswith(DSP)
        )
        if pairs:
            first = None
            at = cycle
        else:
            if first is not None:
                cycle += 1
            at = cycle = max(cycle, earliest)
            kinds = " ".join([k for k, of in (("access", access), ("product", product), ("shifted", shifted)) if of])
            first = (kinds, reads, writes, several)
        for r in writes:
            ready[r] = at + (LATENCY if access or product else 1)
            ready[-r] = int(product)
        if several:
            cycle = at + (len(i.operands) + 1) // 2
            first = None
        elif pairs:
            cycle += 1
    return cycle + (first is not None) + 1


__all__ = ["block_cycles"]
