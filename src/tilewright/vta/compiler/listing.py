"""Kernels as text: assembly, with the argument to which an address belongs behind its instruction.

.kernel vadd 3
uop src=64
load.uop y_size=1 x_size=1 x_stride=1 @uop
load.acc y_size=1 x_size=64 x_stride=64 @0
...
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.vta.image import IDENTITY, UOPS, Kernel
from tilewright.vta.isa.assembly import assemble, disassemble, instruction_text
from tilewright.vta.isa.program import Program

_OWN = {UOPS: "uop", IDENTITY: "identity"}
"""What kernels bring with them, by the arguments that stand for it."""


def listing(kernels: Iterable[Kernel]) -> str:
    """The text of kernels."""
    lines = []
    for k in kernels:
        lines.append(f".kernel {k.name} {k.arguments}\n{disassemble(Program([], list(k.uops)))}")
        places = dict(k.relocations)
        for n, i in enumerate(k.instructions):
            place = places.get(n)
            behind = "" if place is None else f" @{_OWN.get(place, place)}"
            lines.append(f"{instruction_text(i)}{behind}\n")
    return "".join(lines)


def kernels_of(text: str) -> list[Kernel]:
    """The kernels of a text. ValueError names the line that is none."""
    found, own = [], {name: argument for argument, name in _OWN.items()}
    for part in text.split(".kernel ")[1:]:
        head, _, body = part.partition("\n")
        name, _, count = head.partition(" ")
        relocations, lines, n = [], [], 0
        for line in body.splitlines():
            line, _, argument = line.partition(" @")
            lines.append(line)
            if argument:
                relocations.append((n, own[argument] if argument in own else int(argument)))
            n += bool(line) and not line.startswith("uop")
        program = assemble("\n".join(lines))
        found.append(Kernel(name, int(count), program.instructions, program.uops, relocations))
    return found


__all__ = ["kernels_of", "listing"]
