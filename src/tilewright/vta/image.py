"""Code for a device: kernels with their micro-ops, and the instructions that take the address of an argument (native/devices/vta/code.cc).

An image carries the description of its accelerator. A simulated board without an accelerator becomes that one; a board with another one
refuses the image."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.vta.configuration import Configuration
from tilewright.vta.isa.layout import layout_of
from tilewright.vta.isa.program import Insn, Uop, encode, encode_uops
from tilewright.vta.simulator.description import describe

FIRST_LINE = "tilewright accelerator program 1"
UOPS, IDENTITY = -1, -2
"""The arguments that stand for a kernel's own micro-ops, and for a weight that leaves inputs as they are, which lies behind them."""


@dataclass(frozen=True)
class Kernel:
    """A program with arguments. relocations: (instruction, argument): the address of the argument is added to the instruction's address in
    DRAM, which is an offset in bytes within the argument until then."""

    name: str
    arguments: int
    instructions: Sequence[Insn]
    uops: Sequence[Uop]
    relocations: Sequence[tuple[int, int]]


def identity(config: Configuration) -> bytes:
    """The element of weights that leaves inputs as they are, for arrays with as many inputs as outputs, of whole bytes."""
    return np.eye(config.block_out, config.block_in, dtype=f"int{config.wgt_width}").tobytes()


def image(config: Configuration, kernels: Iterable[Kernel]) -> bytes:
    """The bytes that a device loads, of the form "vta". ValueError for fields that cannot hold their values."""
    layout, kernels = layout_of(config), list(kernels)
    text = describe(config)
    lines = [FIRST_LINE, f"description {len(text.encode())}"]
    behind, data = [], b""
    for k in kernels:
        uops, instructions = encode_uops(layout, k.uops), list(k.instructions)
        with_identity = [n for n, argument in k.relocations if argument == IDENTITY]
        if with_identity:
            uops += bytes(-len(uops) % config.alignment("wgt"))
            for n in with_identity:
                i = instructions[n]
                instructions[n] = Insn(i.name, {**i.values, "dram_base": i.values.get("dram_base", 0) + len(uops)})
            uops += identity(config)
        code = encode(layout, instructions)
        behind.append(f"kernel {k.name} {k.arguments} {len(k.instructions)} {len(uops)}")
        behind += [f"relocation {n} {UOPS if argument == IDENTITY else argument}" for n, argument in k.relocations]
        data += code + uops
    head = "".join([line + "\n" for line in lines]) + text
    return head.encode() + "".join([line + "\n" for line in [*behind, "end"]]).encode() + data


__all__ = ["IDENTITY", "UOPS", "Kernel", "identity", "image"]
