"""Where the fields of instructions and micro-ops lie in a configuration: from bit 0 upward, in the order of the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from tilewright.vta.configuration import Configuration
from tilewright.vta.isa.tables import FLAGS, INSTRUCTIONS, UOP, WIDTHS, Field, Instruction

OPCODE = Field("opcode", "opcode", "the kind of instruction")


class Place(NamedTuple):
    """A field and its bits: `bits` of them, from bit `offset`."""

    field: Field
    offset: int
    bits: int

    @property
    def low(self) -> int:
        return -(1 << (self.bits - 1)) if self.field.signed else 0

    @property
    def high(self) -> int:
        return (1 << (self.bits - self.field.signed)) - 1


def places(fields: Sequence[Field], config: Configuration) -> tuple[Place, ...]:
    found, offset = [], 0
    for field in fields:
        bits = WIDTHS[field.width].bits(config)
        found.append(Place(field, offset, bits))
        offset += bits
    return tuple(found)


def fields_of(instruction: Instruction) -> tuple[Field, ...]:
    """All fields of an instruction: opcode, flags, its own."""
    return (OPCODE, *FLAGS, *instruction.fields)


class Layout:
    """The places of all fields in a configuration."""

    def __init__(self, config: Configuration) -> None:
        self.config = config
        self.instructions = {i.name: places(fields_of(i), config) for i in INSTRUCTIONS}
        self.uop = places(UOP, config)

    @property
    def instruction_bytes(self) -> int:
        return self.config.ins_width // 8

    @property
    def uop_bytes(self) -> int:
        return self.config.uop_width // 8

    @cached_property
    def opcodes(self) -> dict[int, str]:
        return {i.opcode: i.name for i in INSTRUCTIONS}


@lru_cache(maxsize=256)
def layout_of(config: Configuration) -> Layout:
    """The layout of a configuration."""
    return Layout(config)


def bits_of(row: Sequence[Place]) -> int:
    return row[-1].offset + row[-1].bits


def fit(trial: Configuration, given: Mapping[str, Any]) -> Configuration:
    """The configuration with widths of micro-ops and instructions that hold their fields. ValueError where the given ones do not."""
    for width in [trial.uop_width] if "uop_width" in given else [32, 64]:
        if trial.uop_buff_size % (width // 8):
            raise ValueError(f"UOP_BUFF_SIZE is {trial.uop_buff_size} bytes, but a micro-op has {width // 8}")
        trial = replace(trial, uop_width=width)
        row = places(UOP, trial)
        if bits_of(row) <= width:
            break
    else:
        raise _too_wide("a micro-op", row, trial.uop_width, "smaller memories or larger blocks")
    for width in [trial.ins_width] if "ins_width" in given else [128, 256]:
        trial = replace(trial, ins_width=width)
        rows = {i.name: places(fields_of(i), trial) for i in INSTRUCTIONS}
        widest = max(rows, key=lambda name: bits_of(rows[name]))
        if bits_of(rows[widest]) <= width:
            return trial
    raise _too_wide(
        f"the instruction {widest}", rows[widest], trial.ins_width, "smaller memories or a larger LOG_INS_WIDTH"
    )


def _too_wide(what: str, row: Sequence[Place], limit: int, remedy: str) -> ValueError:
    widths = ", ".join([f"{p.field.name} {p.bits}" for p in row])
    past = next(p for p in row if p.offset + p.bits > limit)
    return ValueError(
        f"{what} has {limit} bits, but its fields need {bits_of(row)}: `{past.field.name}` would end at bit {past.offset + past.bits};"
        f" take {remedy} (widths: {widths})"
    )


__all__ = ["Layout", "Place", "bits_of", "fields_of", "fit", "layout_of", "places"]
