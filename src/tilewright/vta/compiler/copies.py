"""Copies between arguments in DRAM and the memories on the chip."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.ir import PrimExpr
from tilewright.support.errors import TVMError
from tilewright.tir import BufferLoad, BufferStore, Call, Cast, IntImm, Select, Var
from tilewright.vta.compiler.arithmetic import Alu, element_order, whole_elements
from tilewright.vta.compiler.commands import Commands
from tilewright.vta.compiler.grids import Array, evaluate, spread
from tilewright.vta.compiler.places import Places
from tilewright.vta.compiler.transfers import transfers


def _parts(e: PrimExpr) -> tuple[PrimExpr | None, PrimExpr, PrimExpr | None]:
    """The condition, the value and the other value of a copy with padding; the value alone without."""
    if isinstance(e, Call) and e.intrinsic == "if_then_else":
        return e.args[0], e.args[1], e.args[2]
    if isinstance(e, Select):
        return e.condition, e.true_value, e.false_value
    return None, e, None


def _in_order(at: Array, values: dict[Var, Any], points: int) -> tuple[Array, dict[Var, Any]]:
    """The points of a copy with those of an element, so many, behind each other."""
    order = element_order(at, points)
    return at[order], {v: a[order] if isinstance(a, np.ndarray) and len(a) == len(at) else a for v, a in values.items()}


class Copies:
    """Emits loads and stores."""

    def __init__(self, commands: Commands, places: Places, alu: Alu) -> None:
        self.commands, self.places, self.config, self.alu = commands, places, commands.config, alu

    def is_load(self, s: BufferStore) -> bool:
        """Whether a store to the chip copies from DRAM."""
        value = _parts(s.value)[1]
        if isinstance(value, IntImm):
            return self.places.of(s.buffer).memory != "acc"
        return isinstance(value, BufferLoad) and self.places.of(value.buffer).memory is None

    def load(self, s: BufferStore, at: Array, values: dict[Var, Any], count: int) -> None:
        """A copy to the chip. TVMError for what is no copy of whole elements."""
        to = self.places.of(s.buffer)
        memory = str(to.memory)
        condition, value, other = _parts(s.value)
        lanes, width = self.config.element_bits(memory) // self.config.width(memory), self.config.width(memory)
        points = self.alu.points(lanes)
        at, values = _in_order(at, values, points)
        inside = spread(True if condition is None else evaluate(condition, values), count).astype(bool)
        argument, source = -1, np.full(count, -1)
        if isinstance(value, BufferLoad):
            argument = self.places.of(value.buffer).first
            source = np.where(inside, spread(evaluate(value.indices[0], values), count), -1)
            if value.buffer.dtype.bits != width or value.buffer.dtype.code != "int":
                raise TVMError(f"{memory} holds int{width}, but `{value.buffer.name}` has {value.buffer.dtype}: {s}")
        elif isinstance(value, IntImm):
            other, inside = value, np.zeros(count, bool)
        else:
            raise TVMError(f"a load copies elements of an array, and this is no copy: {s}")
        elements = to.first + whole_elements(at, lanes, points, s.buffer.name, s)
        rows = source.reshape(-1, points)
        if (np.where(rows < 0, -1, rows[:, :1] + np.arange(points)) != rows).any() or (
            (rows < 0).any(axis=1) != (rows < 0).all(axis=1)
        ).any():
            raise TVMError(
                f"a load copies whole elements, {lanes} numbers that lie behind each other, and this is none: {s}"
            )
        smallest = self._smallest(other, width, s) if not inside.all() else False
        dram = np.where(rows[:, 0] < 0, -1, rows[:, 0] * width // 8)
        kept, addresses = elements, dram
        if (elements[1:] <= elements[:-1]).any():
            kept, index = np.unique(elements, return_index=True)
            addresses = dram[index]
            if (dram != addresses[np.searchsorted(kept, elements)]).any():
                raise TVMError(f"a load writes an element twice, with different numbers: {s}")
        self._check_alignment(memory, addresses, s)
        for t in transfers(kept, addresses, self.config.element_bytes(memory), self.commands.layout):
            top, bottom, left, right = t.padding
            fields = {
                "y_size": t.rows,
                "x_size": t.columns,
                "x_stride": t.stride,
                "y_pad_top": top,
                "y_pad_bottom": bottom,
            }
            fields |= {"x_pad_left": left, "x_pad_right": right, "pad_min": int(smallest and any(t.padding))}
            self.commands.load(
                memory,
                argument,
                max(t.dram, 0),
                {k: v for k, v in fields.items() if v or k in ("y_size", "x_size", "x_stride")},
                t.sram,
                t.elements,
            )
        if memory == "acc":
            self.alu.output_is_current[kept] = False

    def _smallest(self, other: PrimExpr | None, width: int, s: Any) -> bool:
        """Whether padding is the smallest number; else it is zero."""
        if isinstance(other, IntImm) and other.value in (0, -(1 << (width - 1))):
            return other.value != 0
        raise TVMError(f"padding is 0 or {-(1 << (width - 1))}, but this is {other}: {s}")

    def store(self, s: BufferStore, at: Array, values: dict[Var, Any], count: int) -> None:
        """A copy of outputs to an argument. TVMError for what is no copy of whole elements."""
        value = s.value
        while isinstance(value, Cast):
            value = value.value
        width, lanes = self.config.width("out"), self.alu.lanes
        points = self.alu.points(lanes)
        at, values = _in_order(at, values, points)
        if not isinstance(value, BufferLoad):
            raise TVMError(
                f"a store copies accumulators, but this computes; make a step of its own, in {'local.acc_buffer'!r}: {s}"
            )
        if s.buffer.dtype.bits != width or s.buffer.dtype.code != "int":
            raise TVMError(f"outputs are int{width}, but `{s.buffer.name}` has {s.buffer.dtype}: {s}")
        elements = self.alu.elements(value.buffer.data, spread(evaluate(value.indices[0], values), count), s)
        rows = at.reshape(-1, points)
        if (rows != rows[:, :1] + np.arange(points)).any():
            raise TVMError(
                f"a store copies whole elements, {lanes} numbers that lie behind each other, and this is none: {s}"
            )
        self.alu.make_current(elements)
        dram = rows[:, 0] * width // 8
        self._check_alignment("out", dram, s)
        argument, size = self.places.of(s.buffer).first, self.config.element_bytes("out")
        # An element may be stored to several places.
        while len(elements):
            kept, index = np.unique(elements, return_index=True)
            for t in transfers(kept, dram[index], size, self.commands.layout):
                fields = {"y_size": t.rows, "x_size": t.columns, "x_stride": t.stride}
                self.commands.store(argument, t.dram, fields, t.sram, t.elements)
            elements, dram = np.delete(elements, index), np.delete(dram, index)

    def _check_alignment(self, memory: str, dram: Array, s: Any) -> None:
        alignment = self.config.alignment(memory)
        if (dram[dram >= 0] % alignment).any():
            raise TVMError(
                f"elements of {memory} begin at multiples of {alignment} bytes, and some of these do not: {s}"
            )


__all__ = ["Copies"]
