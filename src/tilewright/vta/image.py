"""Code for a device: kernels with their micro-ops, and the instructions that take the address of an argument (native/devices/vta/code.cc).

An image carries the description of its accelerator. A simulated board without an accelerator becomes that one; a board with another one
refuses the image."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilewright.vta.configuration import Configuration
from tilewright.vta.isa.layout import layout_of
from tilewright.vta.isa.program import Insn, Uop, encode, encode_uops
from tilewright.vta.simulator.description import describe

FIRST_LINE = "tilewright accelerator program 1"
UOPS = -1
"""The argument that stands for a kernel's own micro-ops."""


@dataclass(frozen=True)
class Kernel:
    """A program with arguments. relocations: (instruction, argument): the address of the argument is added to the instruction's address in
    DRAM, which is an offset in bytes within the argument until then."""

    name: str
    arguments: int
    instructions: Sequence[Insn]
    uops: Sequence[Uop]
    relocations: Sequence[tuple[int, int]]


def image(config: Configuration, kernels: Iterable[Kernel]) -> bytes:
    """The bytes that a device loads, of the form "vta". ValueError for fields that cannot hold their values."""
    layout, kernels = layout_of(config), list(kernels)
    text = describe(config)
    lines = [FIRST_LINE, f"description {len(text.encode())}"]
    behind, data = [], b""
    for k in kernels:
        code, uops = encode(layout, k.instructions), encode_uops(layout, k.uops)
        behind.append(f"kernel {k.name} {k.arguments} {len(k.instructions)} {len(uops)}")
        behind += [f"relocation {n} {argument}" for n, argument in k.relocations]
        data += code + uops
    head = "".join([line + "\n" for line in lines]) + text
    return head.encode() + "".join([line + "\n" for line in [*behind, "end"]]).encode() + data


__all__ = ["UOPS", "Kernel", "image"]
