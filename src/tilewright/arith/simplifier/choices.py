"""Simplification of lets, reductions, selects, casts, calls, shifts and bit operations."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from tilewright.arith.linear import Atom, Lin, combine, scale, shift
from tilewright.arith.simplifier.logic import TRUE
from tilewright.arith.simplifier.truncated import Truncation
from tilewright.ir import FloatImm, IntImm, Op, PrimExpr, Range
from tilewright.ir.dtype import most_lanes
from tilewright.node import any_node
from tilewright.tir import arithmetic as A
from tilewright.tir import op
from tilewright.tir.expr import (
    EQ,
    NE,
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    IterVar,
    Let,
    Not,
    ProducerLoad,
    Select,
    Var,
)
from tilewright.tir.scalars import BITWISE, DIVISIONS

_IMPURE_PREFIXES = (
    "tir.call_",
    "tir.tvm_",
    "tir.atomic",
    "tir.ptx_",
    "tir.anylist",
    "tir.start_",
    "tir.end_",
    "tir.ret",
)


class Choices(Truncation):
    """Handlers of nodes. The engine simplifies their parts."""

    values: dict[int, Lin | PrimExpr]
    _has_selects = False

    def simp(self, node: PrimExpr) -> PrimExpr:
        raise NotImplementedError

    def scope(self, condition: PrimExpr) -> AbstractContextManager[None]:
        raise NotImplementedError

    def bind_range(self, var: Var, domain: Range) -> None:
        raise NotImplementedError

    def _finish(self, kind: type, key: tuple[Any, ...], make: Callable[[], PrimExpr]) -> PrimExpr:
        raise NotImplementedError

    def _generic(self, node: Any) -> PrimExpr:
        raise NotImplementedError

    def _cast(self, node: Cast) -> PrimExpr:
        value = self.simp(node.value)
        dtype = node.dtype
        if value.dtype is dtype:
            return value
        if isinstance(value, (IntImm, FloatImm)):
            folded = A.cast_to(value, dtype)
            if not isinstance(folded, Cast):
                return self.simp(folded)
        if isinstance(value, Broadcast):
            return self.simp(Broadcast(A.cast_to(value.value, dtype.element), value.lanes))
        if isinstance(value, Cast) and dtype.is_int and value.dtype.is_int and dtype.bits <= value.dtype.bits:
            inner = value.value
            if inner.dtype.is_int and inner.dtype.bits >= dtype.bits:
                return self.simp(A.cast_to(inner, dtype))
        if (
            isinstance(value, Cast)
            and dtype.is_int
            and value.dtype.is_int
            and value.value.dtype is dtype
            and dtype.bits <= value.dtype.bits
        ):
            return value.value
        return self._finish(
            Cast,
            (Cast, id(value), dtype),
            lambda: node if value is node.value else Cast(dtype, value),
        )

    def _let(self, node: Let) -> PrimExpr:
        value = self.simp(node.value)
        var = node.var
        known: PrimExpr | Lin | None = None
        found: tuple[tuple[float, float] | None, tuple[int, int] | None] = (None, None)
        if isinstance(value, (IntImm, FloatImm, Var)):
            known = self.lin(value) if self.is_index(var) else value
        elif self.is_index(var):
            found = self.bound(self.lin(value)), self.modular(self.lin(value))
        self._stands_for(var, known, *found)
        if node.body is var:
            return value
        body = self.simp(node.body)
        if known is not None or (op.is_pure(value) and not _occurs(var, body)):
            return body
        if value is node.value and body is node.body:
            return node
        return self.keep((Let, id(var), id(value), id(body)), lambda: Let(var, value, body))

    def _stands_for(
        self, var: Var, value: PrimExpr | Lin | None, bound: tuple[float, float] | None, modular: tuple[int, int] | None
    ) -> None:
        """Sets the binding of a let variable, in place of one from another scope."""
        t = self.leaf(var)
        before = self.values.get(id(var)), self.var_bound.get(t), self.var_mod.get(t)
        if before == (value, bound, modular):
            return
        tables: tuple[tuple[dict[Any, Any], Any, Any], ...] = (
            (self.values, id(var), value),
            (self.var_bound, t, bound),
            (self.var_mod, t, modular),
        )
        for table, key, new in tables:
            if new is None:
                table.pop(key, None)
            else:
                table[key] = new
        if before != (None, None, None):
            self.forget()

    def _reduction(self, node: Any) -> PrimExpr:
        for axis in node.axis:
            if isinstance(axis, IterVar) and axis.dom is not None and self.is_index(axis.var):
                self.bind_range(axis.var, axis.dom)
        return self._generic(node)

    def _select(self, node: Select) -> PrimExpr:
        self._has_selects = True
        condition = self.simp(node.condition)
        if isinstance(condition, IntImm):
            return self.simp(node.true_value if condition.value else node.false_value)
        if may_trap(node.true_value) or may_trap(node.false_value):
            # Both values are evaluated, so a simplification under the condition could make the other case read out of bounds.
            a, b = self.simp(node.true_value), self.simp(node.false_value)
        else:
            a, b = self._branches(condition, node.true_value, node.false_value)
        if a is b:
            return a
        if isinstance(condition, (Not, NE)) and condition.dtype.lanes == 1:
            opposite = self.negate(condition)
            # The opposite of a float comparison is its Not, and swapping it again would not terminate.
            if not isinstance(opposite, (Not, NE)):
                condition, a, b = opposite, b, a
        return self._finish(
            Select,
            (Select, id(condition), id(a), id(b)),
            lambda: (
                node
                if condition is node.condition and a is node.true_value and b is node.false_value
                else Select(condition, a, b)
            ),
        )

    def gather(self, a: Lin) -> Lin:
        """A sum of selects by one condition becomes one select."""
        a = super().gather(a)
        if not self._has_selects or len(a.terms) < 2:
            return a
        first: dict[int, Atom] = {}
        for t in a.terms:
            if type(t.leaf) is Select:
                other = first.setdefault(id(t.leaf.condition), t)
                if other is not t and other.leaf is not None and t.leaf.dtype is other.leaf.dtype:
                    return self.gather(self._joined_selects(a, other, t))
        return a

    def _joined_selects(self, a: Lin, s: Atom, t: Atom) -> Lin:
        x: Any = s.leaf
        y: Any = t.leaf
        k, c = a.terms[s], a.terms[t]
        both = [
            self.emit(combine(scale(self.lin(p), k), self.lin(q), c), x.dtype)
            for p, q in ((x.true_value, y.true_value), (x.false_value, y.false_value))
        ]
        rest = Lin({r: v for r, v in a.terms.items() if r is not s and r is not t}, a.const)
        return combine(rest, self.lin(self.simp(Select(x.condition, both[0], both[1]))))

    def _branches(self, condition: PrimExpr, a: PrimExpr, b: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        if condition.dtype.lanes > 1:
            return self.simp(a), self.simp(b)
        leaves = (IntImm, FloatImm, Var)
        if isinstance(a, (IntImm, FloatImm) if isinstance(condition, (EQ, And)) else leaves):
            a = self.simp(a)
        else:
            with self.scope(condition):
                a = self.simp(a)
        if isinstance(b, leaves):
            b = self.simp(b)
        else:
            with self.scope(self.negate(condition)):
                b = self.simp(b)
        return a, b

    def _call(self, node: Any) -> PrimExpr:
        name = getattr(node.op, "name", "")
        if name == "tir.if_then_else":
            condition = self.simp(node.args[0])
            if isinstance(condition, IntImm):
                return self.simp(node.args[1] if condition.value else node.args[2])
            a, b = self._branches(condition, node.args[1], node.args[2])
            if a is b:
                return a
            args = (condition, a, b)
            if all([x is y for x, y in zip(args, node.args, strict=True)]):
                args = node.args
            return self.keep(
                (Call, node.op, id(condition), id(a), id(b)),
                lambda: node.replace(args=args),
            )
        if name == "tir.likely":
            inner = self.simp(node.args[0])
            if isinstance(inner, IntImm):
                return inner
            if isinstance(inner, Call) and getattr(inner.op, "name", "") == "tir.likely":
                return inner
        if node.intrinsic in BITWISE and node.dtype.lanes == 1:
            folded = self._bits(name, node)
            if folded is not None:
                return folded
        return self._generic(node)

    def _bits(self, name: str, node: Call) -> PrimExpr | None:
        """Folds constants and neutral operands. Shifts by constants, and masks of the low bits, become index arithmetic."""
        x, y = self.simp(node.args[0]), self.simp(node.args[1])
        if isinstance(x, IntImm) and isinstance(y, IntImm):
            if "shift" in name and not 0 <= y.value < node.dtype.bits:
                return None
            return self.simp(A.const(BITWISE[node.intrinsic].integers(x.value, y.value), node.dtype))
        for a, b in ((x, y), (y, x)):
            if isinstance(b, IntImm) and b.value == 0 and (a is x or "shift" not in name):
                return self.simp(b if name == "tir.bitwise_and" else a)
        if x is y and name.startswith("tir.bitwise") and not may_trap(x):
            return self.simp(A.const(0, node.dtype)) if name == "tir.bitwise_xor" else x
        return self._shifted(name, node, x, y) if self.is_index(node) else None

    def _shifted(self, name: str, node: PrimExpr, x: PrimExpr, y: PrimExpr) -> PrimExpr | None:
        if isinstance(x, IntImm) and name == "tir.bitwise_and":
            x, y = y, x
        if not isinstance(y, IntImm):
            return None
        if name == "tir.bitwise_and":
            if y.value == -1:
                return x
            mask = y.value + 1
            return (
                self.emit(self.floormod(self.lin(x), mask), node.dtype) if y.value > 0 and mask & y.value == 0 else None
            )
        if name not in ("tir.shift_left", "tir.shift_right") or not 0 <= y.value < node.dtype.bits - 1:
            return None
        a = self.lin(x)
        out = scale(a, 1 << y.value) if name == "tir.shift_left" else self.floordiv(a, 1 << y.value)
        return self.emit(out, node.dtype)

    # Conditions of rules on the lanes of ramps

    def not_negative(self, base: PrimExpr, stride: int, lanes: int) -> bool:
        """Whether all lanes of a ramp are non-negative."""
        return bool(self._of(base)[0] + min(0, stride * (most_lanes(lanes) - 1)) >= 0)

    def always(self, order: str, base: PrimExpr, other: PrimExpr, stride: int, lanes: int) -> bool:
        """Whether the comparison with a scalar is certainly true for all lanes of a ramp."""
        return self._lane_order(order, base, other, stride, lanes) is TRUE

    def same_order(self, order: str, base: PrimExpr, other: PrimExpr, stride: int, lanes: int) -> bool:
        """Whether the comparison with a scalar has the same result for all lanes of a ramp."""
        return self._lane_order(order, base, other, stride, lanes) is not None

    def _lane_order(self, order: str, base: PrimExpr, other: PrimExpr, stride: int, lanes: int) -> PrimExpr | None:
        """The condition, if it is the same for the first and the last lane; else None."""
        if not self.is_index(base):
            return None
        found: list[PrimExpr] = []
        for lane in (0, most_lanes(lanes) - 1):
            d = self.merge(shift(combine(self.lin(base), self.lin(other), -1), stride * lane))
            d = scale(d, -1) if order[0] == "G" else d
            found.append(self.nonpositive(shift(d, 1) if order[1] == "T" else d, base.dtype))
        return found[0] if found[0] is found[1] else None

    def same_quotient(self, base: PrimExpr, stride: int, divisor: int, lanes: int) -> bool:
        """Whether all lanes of a ramp have the same quotient by the divisor."""
        if not self.is_index(base):
            return False
        low, high = self.bound(self.floormod(self.lin(base), divisor))
        last = stride * (most_lanes(lanes) - 1)
        return bool(low + min(0, last) >= 0 and high + max(0, last) < divisor)


def _occurs(var: Var, e: PrimExpr) -> bool:
    return any_node(e, lambda x: x is var)


def may_trap(node: PrimExpr) -> bool:
    """Whether evaluating the expression may fail for some values: it has loads, calls, or divisions by symbols."""
    if isinstance(node, (IntImm, FloatImm, Var)):
        return False
    return any_node(node, _traps)


def _traps(x: Any) -> bool:
    kind = type(x)
    return kind in (BufferLoad, ProducerLoad, Call) or (kind in DIVISIONS and not isinstance(x.b, (IntImm, FloatImm)))


def repeats(node: Call) -> bool:
    """Whether two calls with the same arguments have the same value."""
    return isinstance(node.op, Op) and not node.op.name.startswith(_IMPURE_PREFIXES)
