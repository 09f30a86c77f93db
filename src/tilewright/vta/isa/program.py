"""Programs of the accelerator as values: instructions, micro-ops; their encoding and decoding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tilewright.vta.isa.layout import Layout, Place
from tilewright.vta.isa.tables import INSTRUCTIONS, unit_of

_FIELDS = {
    i.name: {f.name: f for f in i.fields} | dict.fromkeys(("pop_prev", "pop_next", "push_prev", "push_next"))
    for i in INSTRUCTIONS
}


@dataclass(frozen=True)
class Insn:
    """An instruction: its name, and its fields by name; those that are missing are 0."""

    name: str
    values: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name not in _FIELDS:
            raise ValueError(f"there is no instruction {self.name}; there are {', '.join(_FIELDS)}")
        for name in self.values:
            if name not in _FIELDS[self.name]:
                raise ValueError(f"{self.name} has no field {name}; it has {', '.join(_FIELDS[self.name])}")

    def __getitem__(self, name: str) -> int:
        return self.values.get(name, 0)

    def choice(self, name: str) -> str:
        """The name of the value of a field such as `memory`."""
        found = _FIELDS[self.name][name]
        assert found is not None
        value = self[name]
        return found.choices[value] if value < len(found.choices) else str(value)

    @property
    def unit(self) -> str:
        """The unit that runs it: "load", "compute" or "store"."""
        return unit_of(self.name, self.choice("memory") if "memory" in _FIELDS[self.name] else "")


class Uop(NamedTuple):
    """A micro-op: elements of acc, of inp (for the ALU: of acc), and of wgt."""

    dst: int = 0
    src: int = 0
    wgt: int = 0


@dataclass
class Program:
    """Instructions in the order in which they are fetched, and micro-ops, whose place in DRAM is up to whoever loads them."""

    instructions: list[Insn] = field(default_factory=list)
    uops: list[Uop] = field(default_factory=list)


def insn(name: str, **values: int | str) -> Insn:
    """An instruction, with names of choices as strings: insn("load", memory="inp", x_size=4)."""
    found = {}
    for key, value in values.items():
        if isinstance(value, str):
            choices = getattr(_FIELDS.get(name, {}).get(key), "choices", ())
            if value not in choices:
                raise ValueError(f"{name}: {key} is {value}; it can be {', '.join(choices) or 'a number'}")
            value = choices.index(value)
        found[key] = int(value)
    return Insn(name, found)


def _pack(what: str, row: Sequence[Place], values: Mapping[str, int], size: int) -> bytes:
    word = 0
    for place in row:
        value = values.get(place.field.name, 0)
        if not place.low <= value <= place.high:
            raise ValueError(
                f"{what}: field {place.field.name} is {value}, but its {place.bits} bits hold {place.low} to {place.high}"
            )
        word |= (value & ((1 << place.bits) - 1)) << place.offset
    return word.to_bytes(size, "little")


def _unpack(what: str, row: Sequence[Place], word: int) -> dict[str, int]:
    found = {}
    for place in row:
        value = word >> place.offset & ((1 << place.bits) - 1)
        found[place.field.name] = value - (1 << place.bits) if value > place.high else value
    rest = word >> (row[-1].offset + row[-1].bits)
    if rest:
        raise ValueError(f"{what}: bits from {row[-1].offset + row[-1].bits} on must be 0, but are {rest:#x}")
    return found


def encode(layout: Layout, instructions: Iterable[Insn]) -> bytes:
    """Instructions as the accelerator reads them. ValueError names a field whose value it cannot hold, and the limits."""
    opcodes = {name: code for code, name in layout.opcodes.items()}
    return b"".join(
        [
            _pack(
                f"instruction {n} ({i.name})",
                layout.instructions[i.name],
                {**i.values, "opcode": opcodes[i.name]},
                layout.instruction_bytes,
            )
            for n, i in enumerate(instructions)
        ]
    )


def decode(layout: Layout, code: bytes) -> list[Insn]:
    """The instructions in a code. ValueError for opcodes that do not exist, for bits that no field has, for a part of an instruction."""
    size = layout.instruction_bytes
    if len(code) % size:
        raise ValueError(f"{len(code)} bytes are no whole number of instructions of {size} bytes")
    found = []
    for n, at in enumerate(range(0, len(code), size)):
        word = int.from_bytes(code[at : at + size], "little")
        name = layout.opcodes.get(word & 7)
        if name is None:
            raise ValueError(f"instruction {n}: there is no opcode {word & 7}")
        values = _unpack(f"instruction {n} ({name})", layout.instructions[name], word)
        del values["opcode"]
        found.append(Insn(name, {k: v for k, v in values.items() if v}))
    return found


def encode_uops(layout: Layout, uops: Iterable[Uop]) -> bytes:
    """Micro-ops as they lie in DRAM."""
    return b"".join([_pack(f"micro-op {n}", layout.uop, u._asdict(), layout.uop_bytes) for n, u in enumerate(uops)])


def decode_uops(layout: Layout, code: bytes) -> list[Uop]:
    """The micro-ops in a code."""
    size = layout.uop_bytes
    if len(code) % size:
        raise ValueError(f"{len(code)} bytes are no whole number of micro-ops of {size} bytes")
    words = [int.from_bytes(code[at : at + size], "little") for at in range(0, len(code), size)]
    return [Uop(**_unpack(f"micro-op {n}", layout.uop, word)) for n, word in enumerate(words)]


__all__ = ["Insn", "Program", "Uop", "decode", "decode_uops", "encode", "encode_uops", "insn"]
