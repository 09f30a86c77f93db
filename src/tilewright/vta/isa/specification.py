"""The specification of the instruction set as a page, from the tables.

python -m tilewright.vta.isa.specification > docs/vta_instructions.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.vta.configuration import MEMORIES, Configuration
from tilewright.vta.isa.assembly import __doc__ as ASSEMBLY
from tilewright.vta.isa.layout import Place, bits_of, layout_of
from tilewright.vta.isa.tables import ALU_MEANING, ALU_OPS, INSTRUCTIONS, WIDTHS

HEAD = """# Instructions of the accelerator

Generated from `vta/isa/tables.py` by `python -m tilewright.vta.isa.specification`. Widths and places are those of the classic default
configuration; the rules give them for every other one.

A program is instructions of {ins} bits in DRAM, which are fetched in order. Numbers are little-endian; fields lie from bit 0 upward in the
order of the tables, and bits behind the last field are 0.

## Units and tokens

The load unit, the compute unit and the store unit run at the same time, each its own instructions in their order. The fetch unit gives an
instruction to the queue of its unit, which holds `COMMAND_QUEUE` of them, and waits while that is full.

Between neighbours there are four dependency queues: load to compute, compute to load, compute to store, store to compute. "Before" and
"behind" follow the order load, compute, store. An instruction first takes a token for each of its `pop` flags and waits while there is
none. At its end it gives a token for each of its `push` flags, and waits while a queue is full (`TOKEN_QUEUE`). The load unit has none
before it, and the store unit none behind it: such flags are errors. A program that waits forever, and one that leaves tokens, is an error.
So are accesses of two units to an element of a memory, one of them a write, which no token orders; of addresses in DRAM the result is
undefined then.

## Memories

| number | memory | an element | bytes | elements |
|---|---|---|---|---|
"""
ELEMENTS = {
    "uop": "a micro-op",
    "wgt": "block_out x block_in weights",
    "inp": "batch x block_in inputs",
    "acc": "batch x block_out accumulators",
    "out": "batch x block_out outputs",
}
DRAM = """
Numbers of an element lie row by row, in two's complement; those below 8 bits share a byte, the first in its low bits. An address in DRAM is
a multiple of the powers of two in the size of the element, at most 64. `out` is written by `gemm` and `alu` alone.

An access outside of a memory, a read of an element that nothing has written, and an address in DRAM that is not allocated are errors.
"""


def field_rows(row: Sequence[Place]) -> Iterator[str]:
    """The lines of a table of fields."""
    yield "| bits | field | width | meaning |"
    yield "|---|---|---|---|"
    for place in row:
        last = place.offset + place.bits - 1
        span = f"{place.offset}" if place.bits == 1 else f"{place.offset}-{last}"
        names = ": " + ", ".join([f"{n} {name}" for n, name in enumerate(place.field.choices)])
        meaning = (
            place.field.meaning + (names if place.field.choices else "") + (", signed" if place.field.signed else "")
        )
        yield f"| {span} | `{place.field.name}` | {WIDTHS[place.field.width].rule} | {meaning} |"


def _page(config: Configuration) -> Iterator[str]:
    layout = layout_of(config)
    yield HEAD.format(ins=config.ins_width).rstrip("\n")
    for number, memory in enumerate(MEMORIES):
        yield f"| {number} | {memory} | {ELEMENTS[memory]} | {config.element_bytes(memory)} | {config.depth(memory)} |"
    yield DRAM
    yield "## Micro-ops\n"
    yield (
        "A micro-op names the elements that a step of `gemm` or `alu` works on. An instruction runs two nested loops over a range of"
        " micro-ops; each trip adds its factors to their indices:\n"
    )
    yield "    for i in iter_out: for j in iter_in: for u in uop[uop_begin:uop_end]:"
    yield "        dst = u.dst + i * dst_factor_out + j * dst_factor_in        (src and wgt likewise)\n"
    yield f"It has {config.uop_width} bits.\n"
    yield from field_rows(layout.uop)
    for instruction in INSTRUCTIONS:
        row = layout.instructions[instruction.name]
        yield f"\n## {instruction.name}: opcode {instruction.opcode}\n"
        yield f"{instruction.meaning}\n"
        if instruction.name == "alu":
            yield "| op | result |\n|---|---|"
            yield from [f"| {name} | {ALU_MEANING[name]} |" for name in ALU_OPS]
            yield "\nA shift by the width of an accumulator or more gives 0, or -1 for a negative number shifted right.\n"
        if instruction.name == "load":
            yield (
                "A row is `x_pad_left` + `x_size` + `x_pad_right` elements on the chip, and rows lie behind each other:"
                " `y_pad_top` of padding, `y_size`, `y_pad_bottom` of padding. A size of 0 is allowed: such an instruction only waits and"
                " gives tokens.\n"
            )
        yield from field_rows(row)
        yield f"\n{bits_of(row)} bits of {config.ins_width}."
    yield "\n## Assembly\n"
    yield (ASSEMBLY or "").partition("\n\n")[2].rstrip("\n")


def page(config: Configuration | None = None) -> str:
    """The page for a configuration; by default the classic one."""
    return "\n".join(_page(config or Configuration())) + "\n"


if __name__ == "__main__":
    print(page(), end="")
