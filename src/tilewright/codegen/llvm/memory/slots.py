"""LLVM IR text of reads of buffers in registers: parts of a slot, one lane of several slots, and any elements of several slots."""

from __future__ import annotations

from tilewright.codegen.llvm.expressions.operands import Operands
from tilewright.codegen.llvm.expressions.types import llvm_type, memory_type
from tilewright.codegen.llvm.functions.frame import Frame
from tilewright.codegen.llvm.functions.variables import Facts
from tilewright.codegen.llvm.memory.addresses import Addresses
from tilewright.codegen.llvm.memory.affine import Affine
from tilewright.codegen.llvm.memory.crossing import column
from tilewright.codegen.llvm.memory.interleave import fixed_lanes
from tilewright.codegen.llvm.memory.registers import Registers
from tilewright.ir import DataType
from tilewright.tir import BufferLoad


class Slots:
    """Emits reads of registers."""

    def __init__(self, frame: Frame, facts: Facts, operands: Operands, addresses: Addresses) -> None:
        self.b, self.facts, self.operands, self.addresses = frame.b, facts, operands, addresses

    def load(self, kept: Registers, e: BufferLoad, form: Affine | None) -> str:
        """The value of a load from registers."""
        if form is None:
            return self.picked(kept, e)
        offset = self.offset(kept, form)
        if e.dtype.lanes > 1 and form.stride > 1:
            return self.crossing(kept, offset, form.stride, e.dtype)
        return self.part(kept, offset, e.dtype) if kept.holds(offset) else "poison"

    def offset(self, kept: Registers, form: Affine) -> int:
        """The offset of an element, which is a constant."""
        offset = form.const
        for leaf, coefficient in form.terms:
            value = self.addresses.index_leaf(leaf)
            assert isinstance(value, int), "a register's index must be constant"
            offset += coefficient * value
        return offset

    def part(self, kept: Registers, offset: int, dtype: DataType) -> str:
        """A whole slot, or an aligned part of one."""
        first = offset % kept.lanes
        if dtype.lanes > kept.lanes:
            value, lanes = kept.slots[offset], kept.lanes
            while lanes < dtype.lanes:
                more = kept.slots.get(offset + lanes, "poison")
                have, each = llvm_type(kept.dtype.with_lanes(lanes)), llvm_type(kept.dtype)
                wide = self.operands.shuffled(
                    more, "poison", each, [k if k < kept.lanes else None for k in range(lanes)]
                )
                value = self.operands.shuffled(
                    value, more if lanes == kept.lanes else wide, have, range(lanes + kept.lanes)
                )
                lanes += kept.lanes
            return value
        value = kept.slots[offset - first]
        if dtype.lanes == kept.lanes or value == "poison":
            return value
        if dtype.lanes == 1:
            return self.operands.lane(value, kept.dtype, first)
        mask = ", ".join(f"i32 {first + k}" for k in range(dtype.lanes))
        t = llvm_type(kept.dtype)
        return self.b.pure(f"shufflevector {t} {value}, {t} poison, <{dtype.lanes} x i32> <{mask}>", value)

    def crossing(self, kept: Registers, first: int, stride: int, dtype: DataType) -> str:
        """One lane of several slots, `stride` elements apart."""
        lane, lanes = first % kept.lanes, kept.lanes
        slots = range(first - lane, first - lane + dtype.lanes * stride, stride)
        rows = [kept.slots[slot] if kept.holds(slot) else "poison" for slot in slots]
        if (dtype.bits < 8 and not dtype.is_bool) or lanes & (lanes - 1) or dtype.lanes > lanes:
            parts = ["poison" if row == "poison" else self.operands.lane(row, kept.dtype, lane) for row in rows]
            return self.operands.gather(parts, dtype)
        if dtype.is_bool:
            # Shuffles of single bits are slow, so bools are widened to bytes.
            rows = [row if row == "poison" else self.operands.to_memory_bool(row, kept.dtype) for row in rows]
        t = memory_type(kept.dtype)

        def shuffle(a: str, b: str, mask: str) -> str:
            return self.b.pure(f"shufflevector {t} {a}, {t} {b}, {mask}", a, b)

        whole = column(rows + ["poison"] * (lanes - len(rows)), lane, 8 if dtype.is_bool else dtype.bits, shuffle)
        found = whole if dtype.lanes == lanes else self.operands.shuffled(whole, "poison", t, range(dtype.lanes))
        return self.operands.from_memory_bool(found, dtype) if dtype.is_bool else found

    def picked(self, kept: Registers, e: BufferLoad) -> str:
        """Any elements of several slots, as many at a time as a slot has."""
        found = fixed_lanes(e.indices[0])
        start = found and self.facts.affine.scalar(found[0])
        assert found is not None and start is not None
        first, n = self.offset(kept, start), kept.lanes
        places = [first + distance for distance in found[1]]
        if n == 1:
            return self.operands.gather([kept.slots.get(at, "poison") for at in places], e.dtype)
        t = llvm_type(kept.dtype)
        parts = []
        for begin in range(0, len(places), n):
            part = places[begin : begin + n]
            value, done = "poison", list[int | None]([None] * n)
            for slot in dict.fromkeys([at - at % n for at in part]):
                mine = [at % n if at - at % n == slot else None for at in part]
                mine += [None] * (n - len(mine))
                lanes = [d if m is None else n + m for d, m in zip(done, mine, strict=True)]
                value = self.operands.shuffled(value, kept.slots.get(slot, "poison"), t, lanes)
                done = [k if m is not None else d for k, (d, m) in enumerate(zip(done, mine, strict=True))]
            parts.append(value)
        return self.operands.joined(parts, kept.dtype, e.dtype.lanes)
