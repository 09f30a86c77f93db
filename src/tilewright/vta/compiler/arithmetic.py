"""Arithmetic between accumulators as instructions of the ALU, and steps of products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tilewright.ir import PrimExpr
from tilewright.support.errors import TVMError
from tilewright.tir import Add, BufferLoad, BufferStore, Call, Cast, FloorDiv, IntImm, Max, Min, Mul, Sub, Var
from tilewright.vta.compiler.commands import Commands
from tilewright.vta.compiler.grids import Array, evaluate, spread
from tilewright.vta.compiler.places import Places
from tilewright.vta.compiler.steps import as_loops
from tilewright.vta.image import IDENTITY

InPlace = Callable[[BufferLoad], bool]
_COMMUTATIVE = {Add: "add", Mul: "mul", Max: "max", Min: "min"}


class Plan(NamedTuple):
    """A value: the accumulators or the constant that it begins with, and operations on it: (name, constant or accumulators)."""

    base: BufferLoad | int
    operations: tuple[tuple[str, BufferLoad | int], ...] = ()

    def then(self, name: str, operand: BufferLoad | int) -> Plan:
        return Plan(self.base, (*self.operations, (name, operand)))

    @property
    def operand(self) -> BufferLoad | int | None:
        """The value, if it needs no operation."""
        return None if self.operations else self.base


def _cannot(e: PrimExpr) -> TVMError:
    return TVMError(
        f"the ALU of the accelerator cannot compute {e}: it has +, -, *, min, max and shifts of accumulators, with one operand that is"
        " computed; make a step of its own for the other one"
    )


def plan(e: PrimExpr, in_place: InPlace) -> Plan:
    """How the ALU computes a value. in_place: whether accumulators are those of the result, with which a plan begins where it can."""
    if isinstance(e, IntImm):
        return Plan(e.value)
    if isinstance(e, BufferLoad):
        return Plan(e)
    if isinstance(e, Cast):
        if e.dtype.code != "int" or e.dtype.bits < e.value.dtype.bits:
            raise TVMError(
                f"accumulators keep all bits until they are stored, so they cannot be cast to {e.dtype} before: {e}"
            )
        return plan(e.value, in_place)
    bounds = _bounds(e)
    if bounds is not None:
        return plan(bounds[0], in_place).then("clip", bounds[1])
    if isinstance(e, (Add, Mul, Max, Min)):
        a, b = plan(e.a, in_place), plan(e.b, in_place)
        if a.operand is not None and (isinstance(a.operand, int) or b.operand is None or _holds(b.operand, in_place)):
            a, b = b, a
        if b.operand is None:
            raise _cannot(e)
        return a.then(_COMMUTATIVE[type(e)], b.operand)
    if isinstance(e, Sub):
        a, b = plan(e.a, in_place), plan(e.b, in_place)
        if isinstance(b.operand, int):
            return a.then("add", -b.operand)
        if a.operand is None:
            raise _cannot(e)
        if b.operand is not None and _holds(a.operand, in_place):
            return a.then("mul", -1).then("add", b.operand).then("mul", -1)
        return b.then("mul", -1).then("add", a.operand)
    if isinstance(e, FloorDiv) and isinstance(e.b, IntImm) and e.b.value > 0 and e.b.value & (e.b.value - 1) == 0:
        return plan(e.a, in_place).then("shr", e.b.value.bit_length() - 1)
    if isinstance(e, Call) and e.intrinsic in ("shift_right", "shift_left"):
        amount = plan(e.args[1], in_place).operand
        if amount is None or (e.intrinsic == "shift_left" and not isinstance(amount, int)):
            raise _cannot(e)
        return plan(e.args[0], in_place).then("shr", amount if e.intrinsic == "shift_right" else -int(amount))  # type: ignore[arg-type]
    raise _cannot(e)


def _holds(operand: BufferLoad | int | None, in_place: InPlace) -> bool:
    return isinstance(operand, BufferLoad) and in_place(operand)


def _bounds(e: PrimExpr) -> tuple[PrimExpr, int] | None:
    """The value and the upper bound of a value that is kept between ~bound and bound."""
    if not isinstance(e, (Max, Min)) or not isinstance(e.b, IntImm):
        return None
    inner = e.a
    if type(inner) is not (Min if isinstance(e, Max) else Max) or not isinstance(inner.b, IntImm):
        return None
    low, high = (e.b.value, inner.b.value) if isinstance(e, Max) else (inner.b.value, e.b.value)
    return (inner.a, high) if low == ~high and 0 <= high < 1 << 15 else None


class Alu:
    """Emits steps, and knows which outputs are those of their accumulators."""

    def __init__(self, commands: Commands, places: Places) -> None:
        self.commands, self.places, self.config = commands, places, commands.config
        self.lanes = self.config.element_bits("acc") // self.config.width("acc")
        self.output_is_current = np.zeros(self.config.depth("acc"), bool)
        self.whole = False
        """Whether the points of the nest at hand are whole elements, given by their first numbers, or numbers of elements."""

    def points(self, lanes: int) -> int:
        """Points of an element of so many numbers."""
        return 1 if self.whole else lanes

    def run(self, s: BufferStore, at: Array, values: dict[Var, Any], count: int) -> None:
        """A store of a value that is computed from accumulators. TVMError for what the ALU cannot do."""
        order = element_order(at, self.points(self.lanes))
        at, count = at[order], len(order)
        values = {v: a[order] if isinstance(a, np.ndarray) and len(a) == count else a for v, a in values.items()}
        dst = self.elements(s.buffer.data, at, s)
        own = self.places.of(s.buffer)
        todo = plan(s.value, lambda load: self.places.of(load.buffer) == own)
        single = len(np.unique(dst)) == len(dst)
        if isinstance(todo.base, int):
            self._set(dst, todo.base)
        else:
            base = self._loaded(todo.base, values, count, s)
            moves = bool((base != dst).any())
            # What is read after the first change of the result must not be the result.
            later = todo.operations if moves else todo.operations[1:]
            operands = [self._loaded(o, values, count, s) for _, o in later if isinstance(o, BufferLoad)]
            if np.isin(np.concatenate([*operands, base[:0]]), dst).any() or (moves and not single):
                raise TVMError(f"the ALU cannot overwrite an operand that it reads later: {s}")
            if moves:
                self._reset(dst)
                self._steps("add", dst, base)
        if len(todo.operations) > 1 and not single:
            raise TVMError(f"the ALU accumulates with one operation; make a step of its own for the others: {s}")
        for name, operand in todo.operations:
            self._steps(name, dst, operand if isinstance(operand, int) else self._loaded(operand, values, count, s))

    def elements(self, data: Var, at: Array, s: Any) -> Array:
        """The accumulators of numbers, which must be whole ones."""
        place = self.places.of_data(data)
        if place.memory != "acc":
            raise TVMError(f"the ALU works on accumulators, but `{data.name}` is in {place.memory or 'DRAM'}: {s}")
        return place.first + whole_elements(at, self.lanes, self.points(self.lanes), data.name, s)

    def _loaded(self, load: BufferLoad, values: dict[Var, Any], count: int, s: Any) -> Array:
        return self.elements(load.buffer.data, spread(evaluate(load.indices[0], values), count), s)

    def make_current(self, elements: Array) -> None:
        """Writes outputs of accumulators that no step has written since they were loaded."""
        old = np.unique(elements)[~self.output_is_current[np.unique(elements)]]
        if len(old):
            self._steps("add", old, 0)

    def _reset(self, dst: Array) -> None:
        zeros = np.zeros(len(dst), np.int64)
        self.products(np.stack([dst, zeros, zeros], axis=1), reset=True)

    def _set(self, dst: Array, value: int) -> None:
        dst = np.unique(dst)
        self._reset(dst)
        if -(1 << 15) <= value < 1 << 15:
            if value:
                self._steps("add", dst, value)
            return
        # Its upper and its lower half; an immediate has 16 bits with a sign.
        high, low = value >> 16, value & 0xFFFF
        if high:
            self._steps("add", dst, high)
            self._steps("shr", dst, -16)
        while low:
            part = min(low, (1 << 15) - 1)
            self._steps("add", dst, part)
            low -= part

    def _steps(self, name: str, dst: Array, operand: Array | int) -> None:
        if isinstance(operand, int) and not -(1 << 15) <= operand < 1 << 15:
            raise TVMError(f"the ALU takes constants of 16 bits, but is to {name} {operand}; keep it in accumulators")
        src = np.zeros(len(dst), np.int64) if isinstance(operand, int) else operand
        fields = {"op": name, "use_imm": 1, "imm": operand} if isinstance(operand, int) else {"op": name}
        self.emit("alu", np.stack([dst, src, np.zeros(len(dst), np.int64)], axis=1), fields)

    def widen(self, s: BufferStore, load: BufferLoad, at: Array, values: dict[Var, Any], count: int) -> None:
        """A store of inputs to accumulators: a product with the identity, which is kept in the last element of the memory of weights.
        TVMError where elements of the two have different sizes."""
        config = self.config
        if config.block_in != config.block_out:
            raise TVMError(
                f"inputs become accumulators by a product with the identity, which needs BLOCK_IN = BLOCK_OUT, but they are"
                f" {config.block_in} and {config.block_out}: {s}"
            )
        order = element_order(at, self.points(self.lanes))
        source = spread(evaluate(load.indices[0], values), count)[order]
        src = self.places.of(load.buffer).first + whole_elements(
            source, self.lanes, self.points(self.lanes), load.buffer.name, s
        )
        dst, last = self.elements(s.buffer.data, at[order], s), config.depth("wgt") - 1
        self.commands.load("wgt", IDENTITY, 0, {"y_size": 1, "x_size": 1, "x_stride": 1}, last, 1)
        self._reset(dst)
        self.products(np.stack([dst, src, np.full(len(dst), last)], axis=1), reset=False)

    def products(self, steps: Array, reset: bool) -> None:
        """Steps of products, rows of (accumulator, input, weight); or accumulators that become zero."""
        self.emit("gemm", steps, {"reset": 1} if reset else {})

    def emit(self, kind: str, steps: Array, fields: dict[str, Any]) -> None:
        """Emits steps, rows of (dst, src, wgt), in their order. kind: "gemm" or "alu"; fields: of their instructions, without loops."""
        for loops, (dst, src, wgt) in as_loops(steps, self.commands.layout, kind):
            factors = {"iter_out": loops.out, "iter_in": loops.inner}
            for n, name in enumerate(("dst", "src", "wgt") if kind == "gemm" else ("dst", "src")):
                factors |= {f"{name}_factor_out": loops.factors_out[n], f"{name}_factor_in": loops.factors_in[n]}
            reads = {} if kind == "alu" or fields else {"inp": src, "wgt": wgt}
            self.commands.steps(
                kind, loops.uops, {**fields, **{k: v for k, v in factors.items() if v}}, reads, {"out": dst}
            )
            self.output_is_current[dst] = True


def element_order(at: Array, points: int) -> Array:
    """The points in an order in which those of an element, so many, are behind each other; as they are, unless each is there once."""
    if len(at) % points == 0:
        rows = at.reshape(-1, points)
        if (rows == rows[:, :1] + np.arange(points)).all() or len(np.unique(at)) < len(at):
            return np.arange(len(at))
    return np.argsort(at, kind="stable")


def whole_elements(at: Array, lanes: int, points: int, name: str, s: Any) -> Array:
    """The elements of numbers, which come one element after the other. points: of an element, its first number or all of them. TVMError
    where they do not: of which buffer, in which statement."""
    if len(at) % points == 0:
        rows = at.reshape(-1, points)
        if (rows == rows[:, :1] + np.arange(points)).all() and (rows[:, 0] % lanes == 0).all():
            return np.asarray(rows[:, 0] // lanes)
    raise TVMError(
        f"a step works on whole elements, their numbers innermost, but not this one on `{name}`, whose elements have {lanes} numbers: {s}"
    )


__all__ = ["Alu", "Plan", "element_order", "plan", "whole_elements"]
