"""Fields of instructions and micro-ops in words of wires, from the same tables as the encoder."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Signal

from tilewright.vta.configuration import MEMORIES, Configuration
from tilewright.vta.isa.layout import Layout, Place, layout_of
from tilewright.vta.isa.tables import INSTRUCTIONS

OPCODES = {i.name: i.opcode for i in INSTRUCTIONS}


def field_of(word: Any, row: tuple[Place, ...], name: str) -> Any:
    """A field of a word."""
    place = next(p for p in row if p.field.name == name)
    bits = word[place.offset : place.offset + place.bits]
    return bits.as_signed() if place.field.signed else bits


class Fields:
    """The fields of an instruction of one kind in a word: `fields.x_size`."""

    def __init__(self, word: Any, config: Configuration, kind: str) -> None:
        self._word, self._row = word, layout_of(config).instructions[kind]

    def __getattr__(self, name: str) -> Any:
        return field_of(self._word, self._row, name)


def is_load_of(word: Any, config: Configuration, *memories: str) -> Any:
    """Whether a word is a load of one of these memories."""
    load = Fields(word, config, "load")
    wanted = [load.memory == MEMORIES.index(m) for m in memories]
    return (load.opcode == OPCODES["load"]) & Cat(*wanted).any()


def uop_fields(word: Any, layout: Layout) -> tuple[Any, Any, Any]:
    """dst, src and wgt of a micro-op."""
    dst, src, wgt = (field_of(word, layout.uop, n) for n in ("dst", "src", "wgt"))
    return dst, src, wgt


def numbers(word: Any, width: int) -> list[Any]:
    """The numbers in an element, the first in the low bits."""
    return [word[at : at + width].as_signed() for at in range(0, len(word), width)]


def repeated(value: int, width: int, bits: int) -> Any:
    """An element whose numbers are all one."""
    word = sum([(value & ((1 << width) - 1)) << at for at in range(0, bits, width)])
    return Const(word, bits)


def counter(limit: int, name: str) -> Any:
    """A register that counts from 0 to a limit."""
    return Signal(range(limit + 1), name=name)


__all__ = ["OPCODES", "Fields", "counter", "field_of", "is_load_of", "numbers", "repeated", "uop_fields"]
