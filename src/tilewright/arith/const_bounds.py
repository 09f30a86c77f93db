"""Constant bounds and modular sets of linear forms.

A bound is a pair (low, high) of Python ints, or -inf / inf for no bound. A modular set is a pair
(coeff, base): every value is coeff * k + base; coeff 0 means the value base, coeff 1 any value.
"""

from __future__ import annotations

from math import gcd, inf
from typing import Any

from tilewright.arith.linear import (
    LEAF,
    MAXIMUM,
    MINIMUM,
    PRODUCT,
    QUOTIENT,
    REMAINDER,
    SPLIT,
    Atom,
    Lin,
    Tables,
)
from tilewright.ir import DataType, IntImm, PrimExpr
from tilewright.ir.dtype import MOST_SCALE, most_lanes
from tilewright.tir.expr import (
    Broadcast,
    Call,
    Cast,
    Div,
    Let,
    Mod,
    Ramp,
    Select,
    SizeVar,
    Var,
)

Bound = tuple[Any, Any]
Modular = tuple[int, int]

EVERYTHING: Bound = (-inf, inf)
_SMALL = 1 << 28
ANY_INTEGER: Modular = (1, 0)


def dtype_bound(dtype: DataType) -> Bound:
    """The range of the type; 64-bit types count as unbounded."""
    if dtype.is_uint:
        return (0, 1) if dtype.is_bool else (0, (1 << dtype.bits) - 1 if dtype.bits < 64 else inf)
    if dtype.is_int and dtype.bits < 64:
        return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1
    return EVERYTHING


def times(a: Any, b: Any) -> Any:
    """a * b, with 0 * inf = 0."""
    return a * b if a and b else 0


def product_bound(a: Bound, b: Bound) -> Bound:
    corners = [times(x, y) for x in a for y in b]
    return min(corners), max(corners)


def floor_quotient(a: Any, b: Any) -> Any:
    """floor(a / b) for b != 0; both may be infinite."""
    if a in (inf, -inf):
        return a if b > 0 else -a
    if b in (inf, -inf):
        return 0 if a == 0 or (a > 0) == (b > 0) else -1
    return a // b


def quotient_bound(a: Bound, b: Bound) -> Bound:
    """Bounds of a // b, without the values b = 0."""
    low, high = b
    if low == 0:
        low = 1
    if high == 0:
        high = -1
    if low > high:
        return EVERYTHING
    parts = [(low, high)] if low > 0 or high < 0 else [(low, -1), (1, high)]
    corners = [floor_quotient(x, y) for x in a for part in parts for y in part]
    return min(corners), max(corners)


def remainder_bound(a: Bound, b: Bound) -> Bound:
    """Bounds of a % b, with the sign of the divisor."""
    if b[0] > 0:
        if a[0] >= 0 and a[1] < b[0]:
            return a
        return 0, min(b[1] - 1, a[1]) if a[0] >= 0 else b[1] - 1
    if b[1] < 0:
        return b[0] + 1, 0
    return min(b[0] + 1, 0), max(b[1] - 1, 0)


def modular_union(a: Modular, b: Modular) -> Modular:
    c = gcd(a[0], b[0], a[1] - b[1])
    return (c, a[1] % c) if c else a


def modular_product(a: Modular, b: Modular) -> Modular:
    c = gcd(a[0] * b[0], a[0] * b[1], b[0] * a[1])
    return (c, a[1] * b[1] % c) if c else (0, a[1] * b[1])


def crt(a: Modular, b: Modular) -> Modular | None:
    """The intersection of two modular sets; None if it is empty (Chinese remainder theorem)."""
    (m, r), (n, s) = a, b
    if m == 0 or n == 0:
        (m, r), (n, s) = ((m, r), (n, s)) if m == 0 else ((n, s), (m, r))
        return (0, r) if (r == s if n == 0 else (r - s) % n == 0) else None
    g = gcd(m, n)
    if (s - r) % g:
        return None
    lcm = m // g * n
    k = ((s - r) // g * pow(m // g, -1, n // g)) % (n // g) if n // g > 1 else 0
    return lcm, (r + m * k) % lcm


class Bounds(Tables):
    """Bounds and modular sets, cached per atom until the facts about a variable change."""

    def __init__(self) -> None:
        super().__init__()
        self.var_bound: dict[Atom, Bound] = {}
        self.var_mod: dict[Atom, Modular] = {}
        self.refined: dict[Atom, Bound] = {}
        self.refined_mod: dict[Atom, Modular] = {}
        self._bound_memo: dict[Atom, Bound] = {}
        self._mod_memo: dict[Atom, Modular] = {}

    def lin(self, node: PrimExpr) -> Lin:
        raise NotImplementedError  # Engine converts nodes to forms.

    def is_index(self, node: PrimExpr) -> bool:
        return node.dtype.is_int and node.dtype.bits >= 32 and node.dtype.lanes == 1

    def bound(self, a: Lin) -> Bound:
        low = high = a.const
        memo = self._bound_memo
        for t, k in a.terms.items():
            b = memo.get(t)
            if b is None:
                b = self.atom_bound(t)
            if k > 0:
                low += k * b[0] if b[0] else 0
                high += k * b[1] if b[1] else 0
            else:
                low += k * b[1] if b[1] else 0
                high += k * b[0] if b[0] else 0
        return low, high

    def atom_bound(self, t: Atom) -> Bound:
        b = self._bound_memo.get(t)
        if b is None:
            if t.kind == LEAF:
                # A default during the computation: facts that contain the leaf may look its bound up.
                self._bound_memo[t] = EVERYTHING
            b = self._atom_bound(t)
            narrowed = self.refined.get(t)
            if narrowed is not None:
                b = max(b[0], narrowed[0]), min(b[1], narrowed[1])
            self._bound_memo[t] = b
        return b

    def _atom_bound(self, t: Atom) -> Bound:
        kind, args = t.kind, t.args
        if kind == LEAF:
            known = self.var_bound.get(t)
            return known if known is not None else self.node_bound(t.leaf)  # type: ignore[arg-type]
        first = self.bound(args[0])
        if kind == SPLIT:
            low, high = first
            upper = args[2]
            if upper and not (low >= 0 and high < upper):
                low, high = 0, upper - 1
            return floor_quotient(low, args[1]), floor_quotient(high, args[1])
        if kind == MINIMUM:
            others = [self.bound(x) for x in args]
            return min(b[0] for b in others), min(b[1] for b in others)
        if kind == MAXIMUM:
            others = [self.bound(x) for x in args]
            return max(b[0] for b in others), max(b[1] for b in others)
        if kind == PRODUCT:
            if len(args) == 2 and args[0] is args[1]:
                low, high = product_bound(first, first)
                return max(low, 0) if first[0] < 0 else low, high
            for x in args[1:]:
                first = product_bound(first, self.bound(x))
            return first
        second = self.bound(args[1])
        return quotient_bound(first, second) if kind == QUOTIENT else remainder_bound(first, second)

    def node_bound(self, node: PrimExpr) -> Bound:
        """Bounds of a simplified node of any integer type."""
        dtype = node.dtype
        whole = dtype_bound(dtype)
        if isinstance(node, Var):
            known = self.var_bound.get(self.leaf(node))
            if known is not None:
                return known
            return (0, whole[1]) if isinstance(node, SizeVar) else whole
        if not (dtype.is_int or dtype.is_uint):
            return EVERYTHING
        low, high = self._opaque_bound(node)
        return max(low, whole[0]), min(high, whole[1])

    def _of(self, node: PrimExpr) -> Bound:
        """Bounds of a part of a simplified node. A part that was written from a form is not simplified again."""
        if not self.is_index(node):
            return self.node_bound(node)
        form = self.emitted.get(id(node))
        return self.bound(self.lin(node) if form is None else form)

    def _opaque_bound(self, node: PrimExpr) -> Bound:
        if isinstance(node, IntImm):
            return node.value, node.value
        if isinstance(node, Select):
            a, b = self._of(node.true_value), self._of(node.false_value)
            return min(a[0], b[0]), max(a[1], b[1])
        if isinstance(node, Cast):
            source = node.value.dtype
            if source.is_int or source.is_uint:
                inner, whole = self._of(node.value), dtype_bound(node.dtype)
                return inner if inner[0] >= whole[0] and inner[1] <= whole[1] else EVERYTHING
            return EVERYTHING
        if isinstance(node, Call):
            return self._call_bound(node)
        if isinstance(node, Broadcast):
            return self._of(node.value)
        if isinstance(node, Ramp):
            base, stride = self._of(node.base), self._of(node.stride)
            last = most_lanes(node.lanes) - 1
            return base[0] + min(0, times(stride[0], last)), base[1] + max(0, times(stride[1], last))
        if isinstance(node, Let):
            return self._of(node.body)
        if isinstance(node, Div):
            a, b = self._of(node.a), self._of(node.b)
            if a[0] >= 0 and b[0] > 0:
                return quotient_bound(a, b)
            limit = max(abs(a[0]), abs(a[1]))
            return -limit, limit
        if isinstance(node, Mod):
            a, b = self._of(node.a), self._of(node.b)
            limit = min(max(abs(b[0]), abs(b[1])) - 1, max(abs(a[0]), abs(a[1])))
            return (0 if a[0] >= 0 else -limit), (0 if a[1] <= 0 else limit)
        return EVERYTHING

    def _call_bound(self, node: Call) -> Bound:
        name = getattr(node.op, "name", "")
        if name == "tir.bitwise_and":
            a, b = self._of(node.args[0]), self._of(node.args[1])
            if a[0] >= 0 and b[0] >= 0:
                return 0, min(a[1], b[1])
            if a[0] >= 0 or b[0] >= 0:
                return 0, a[1] if a[0] >= 0 else b[1]
        elif name == "tir.shift_right":
            a, b = self._of(node.args[0]), self._of(node.args[1])
            if b[0] == b[1] and 0 <= b[0] < 64:
                return floor_quotient(a[0], 1 << b[0]), floor_quotient(a[1], 1 << b[0])
        elif name == "tir.shift_left":
            a, b = self._of(node.args[0]), self._of(node.args[1])
            if b[0] == b[1] and 0 <= b[0] < 64 and a[0] >= 0:
                return a[0] << b[0], a[1] if a[1] == inf else a[1] << b[0]
        elif name == "tir.if_then_else":
            a, b = self._of(node.args[1]), self._of(node.args[2])
            return min(a[0], b[0]), max(a[1], b[1])
        elif name == "tir.likely":
            return self._of(node.args[0])
        elif name == "tir.vscale":
            return 1, MOST_SCALE
        return EVERYTHING

    def of_data(self, a: Lin) -> bool:
        """Whether a form contains elements or calls of any value. New sums of them may overflow."""
        return any([self._is_data(t) for t in a.terms])

    def _is_data(self, t: Atom) -> bool:
        if t.kind != LEAF:
            return any([self.of_data(x) for x in t.args if isinstance(x, Lin)])
        if isinstance(t.leaf, Var):
            return False
        low, high = self.atom_bound(t)
        return bool(low < -_SMALL or high > _SMALL)

    def modular(self, a: Lin) -> Modular:
        coeff, base = 0, a.const
        for t, k in a.terms.items():
            c, b = self.atom_modular(t)
            coeff = gcd(coeff, c * k)
            if coeff == 1:
                return ANY_INTEGER
            base += b * k
        return (coeff, base % coeff) if coeff else (0, base)

    def atom_modular(self, t: Atom) -> Modular:
        m = self._mod_memo.get(t)
        if m is None:
            m = self._atom_modular(t)
            more = self.refined_mod.get(t)
            if more is not None:
                m = crt(m, more) or m
            self._mod_memo[t] = m
        return m

    def _atom_modular(self, t: Atom) -> Modular:
        kind, args = t.kind, t.args
        if kind == LEAF:
            known = self.var_mod.get(t)
            return known if known is not None else self._leaf_modular(t.leaf)  # type: ignore[arg-type]
        if kind == SPLIT:
            c, b = self.modular(args[0])
            if args[2]:
                c = gcd(c, args[2])
                b %= c
            lower = args[1]
            return (c // lower, b // lower) if c % lower == 0 else ANY_INTEGER
        if kind == PRODUCT:
            out = self.modular(args[0])
            for x in args[1:]:
                out = modular_product(out, self.modular(x))
            return out
        if kind in (MINIMUM, MAXIMUM):
            out = self.modular(args[0])
            for x in args[1:]:
                out = modular_union(out, self.modular(x))
            return out
        if kind == REMAINDER:
            divisor = self.modular(args[1])
            a = self.modular(args[0])
            c = gcd(a[0], divisor[0], divisor[1])
            return (c, a[1] % c) if c else ANY_INTEGER
        return ANY_INTEGER

    def _leaf_modular(self, node: PrimExpr) -> Modular:
        if isinstance(node, Select):
            return modular_union(self._modular_of(node.true_value), self._modular_of(node.false_value))
        if isinstance(node, Cast) and node.value.dtype.is_int and node.value.dtype.bits <= node.dtype.bits:
            return self._modular_of(node.value)
        if isinstance(node, Call):
            name = getattr(node.op, "name", "")
            if name == "tir.shift_left" and isinstance(node.args[1], IntImm) and 0 <= node.args[1].value < 63:
                return modular_product(self._modular_of(node.args[0]), (0, 1 << node.args[1].value))
            if name == "tir.if_then_else":
                return modular_union(self._modular_of(node.args[1]), self._modular_of(node.args[2]))
        return ANY_INTEGER

    def _modular_of(self, node: PrimExpr) -> Modular:
        if isinstance(node, IntImm):
            return 0, node.value
        if not self.is_index(node):
            return ANY_INTEGER
        form = self.emitted.get(id(node))
        return self.modular(self.lin(node) if form is None else form)
