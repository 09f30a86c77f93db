"""The instruction set as tables. Encoder, decoder, assembler, simulators and the specification read them; `layout` gives fields their
places in a configuration."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tilewright.vta.configuration import MEMORIES, Configuration


class Width(NamedTuple):
    """How many bits a field has: the rule in words, and its value in a configuration."""

    rule: str
    bits: Callable[[Configuration], int]


class Field(NamedTuple):
    """A field of an instruction. width: a name of `WIDTHS`; choices: what its values are called, if they have names."""

    name: str
    width: str
    meaning: str
    signed: bool = False
    choices: tuple[str, ...] = ()


class Instruction(NamedTuple):
    """A kind of instruction: its name, its opcode, what it does, its fields behind opcode and dependency flags."""

    name: str
    opcode: int
    meaning: str
    fields: tuple[Field, ...]


def index_bits(depth: int) -> int:
    """Bits of an index below `depth`."""
    return max((depth - 1).bit_length(), 1)


def _index(memory: str) -> Width:
    return Width(f"an index of {memory}", lambda c: index_bits(c.depth(memory)))


WIDTHS = {
    "flag": Width("1", lambda c: 1),
    "opcode": Width("3", lambda c: 3),
    "address": Width("32", lambda c: 32),
    "extent": Width("16", lambda c: 16),
    "padding": Width("4", lambda c: 4),
    "trips": Width("14", lambda c: 14),
    "immediate": Width("16", lambda c: 16),
    "uop": _index("uop"),
    "uop_end": Width("a number of micro-ops", lambda c: index_bits(c.depth("uop") + 1)),
    "wgt": _index("wgt"),
    "inp": _index("inp"),
    "acc": _index("acc"),
    "source": Width("an index of inp or acc", lambda c: index_bits(max(c.depth("inp"), c.depth("acc")))),
    "sram": Width("an index of the deepest memory", lambda c: index_bits(max(c.depth(m) for m in MEMORIES))),
}

FLAGS = (
    Field("pop_prev", "flag", "waits for a token of the unit before"),
    Field("pop_next", "flag", "waits for a token of the unit behind"),
    Field("push_prev", "flag", "gives a token to the unit before, at its end"),
    Field("push_next", "flag", "gives a token to the unit behind, at its end"),
)
_DMA = (
    Field("memory", "opcode", "the memory on the chip", choices=MEMORIES),
    Field("sram_base", "sram", "the first element there"),
    Field("dram_base", "address", "the address of the first element in DRAM, in bytes"),
    Field("y_size", "extent", "rows"),
    Field("x_size", "extent", "elements of a row"),
    Field("x_stride", "extent", "elements from the start of a row to that of the next one in DRAM"),
)
_LOOPS = (
    Field("uop_begin", "uop", "the first micro-op"),
    Field("uop_end", "uop_end", "one behind the last micro-op"),
    Field("iter_out", "trips", "trips of the outer loop"),
    Field("iter_in", "trips", "trips of the inner loop"),
    Field("dst_factor_out", "acc", "added to dst for each trip of the outer loop"),
    Field("dst_factor_in", "acc", "added to dst for each trip of the inner loop"),
)
ALU_OPS = ("min", "max", "add", "shr", "mul", "clip")
ALU_MEANING = {
    "min": "the smaller of x and y",
    "max": "the larger of x and y",
    "add": "x + y",
    "shr": "x shifted right by y, which keeps the sign; by -y to the left where y is negative",
    "mul": "x * y",
    "clip": "x, but at least ~y and at most y: y = 127 gives the range of int8",
}

INSTRUCTIONS = (
    Instruction(
        "load",
        0,
        "Copies a matrix of elements from DRAM to a memory on the chip, with padding around it. inp and wgt are loaded by the load unit,"
        " uop and acc by the compute unit; out cannot be loaded. Micro-ops have no padding.",
        (
            *_DMA,
            Field("y_pad_top", "padding", "rows of padding before the first one"),
            Field("y_pad_bottom", "padding", "rows of padding behind the last one"),
            Field("x_pad_left", "padding", "elements of padding before each row"),
            Field("x_pad_right", "padding", "elements of padding behind each row"),
            Field("pad_min", "flag", "padding is the smallest number instead of zero"),
        ),
    ),
    Instruction(
        "store",
        1,
        "Copies a matrix of elements of out to DRAM. The store unit does it; the other memories cannot be stored.",
        _DMA,
    ),
    Instruction(
        "gemm",
        2,
        "For each trip of the loops and each micro-op: acc[dst] += inp[src] * transpose(wgt[wgt]), of shapes (batch, block_out),"
        " (batch, block_in) and (block_out, block_in). Sums wrap at the width of an accumulator. The result, cut to its low bits,"
        " is also written to out[dst].",
        (
            *_LOOPS,
            Field("src_factor_out", "inp", "added to src for each trip of the outer loop"),
            Field("src_factor_in", "inp", "added to src for each trip of the inner loop"),
            Field("wgt_factor_out", "wgt", "added to wgt for each trip of the outer loop"),
            Field("wgt_factor_in", "wgt", "added to wgt for each trip of the inner loop"),
            Field("reset", "flag", "acc[dst] and out[dst] become zero, and nothing else is read"),
        ),
    ),
    Instruction(
        "finish", 3, "Ends a program: it is the last instruction, and the accelerator is done when all units are.", ()
    ),
    Instruction(
        "alu",
        4,
        "For each trip of the loops and each micro-op, for each number: acc[dst] = op(x, y), where x is acc[dst], and y is acc[src], or the"
        " immediate. Results wrap at the width of an accumulator. The result, cut to its low bits, is also written to out[dst].",
        (
            Field("op", "opcode", "the operation", choices=ALU_OPS),
            *_LOOPS,
            Field("src_factor_out", "acc", "added to src for each trip of the outer loop"),
            Field("src_factor_in", "acc", "added to src for each trip of the inner loop"),
            Field("use_imm", "flag", "y is the immediate"),
            Field("imm", "immediate", "the immediate", signed=True),
        ),
    ),
)
UOP = (
    Field("dst", "acc", "the element of acc (and out) that is written"),
    Field("src", "source", "the element of inp, for the ALU of acc, that is read"),
    Field("wgt", "wgt", "the element of wgt that is read"),
)
"""The fields of a micro-op, to which trips of loops add their factors."""

UNITS = ("load", "compute", "store")
"""The units, each before the one behind it; between neighbours is a dependency queue in each direction."""


def unit_of(instruction: str, memory: str) -> str:
    """The unit that runs an instruction."""
    if instruction == "load":
        return "load" if memory in ("inp", "wgt") else "compute"
    return "store" if instruction == "store" else "compute"


__all__ = [
    "ALU_MEANING", "ALU_OPS", "FLAGS", "INSTRUCTIONS", "UNITS", "UOP", "WIDTHS", "Field", "Instruction", "Width", "index_bits", "unit_of",
]  # fmt: skip
