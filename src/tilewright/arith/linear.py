"""Integer expressions as linear forms over interned atoms: the normal form of all computations in arith.

A form is `sum(coefficient * atom) + constant`. Atoms are the non-linear parts: a variable, `(x % u) // l` of another
form, a product of forms, a quotient by a symbol, a minimum, or any other expression (a load, a call, ...).
Equal forms of one `Tables` are the same object once interned, so a comparison of identities suffices.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from tilewright.ir import IntImm, PrimExpr
from tilewright.node import any_node
from tilewright.tir.arithmetic import cast_to
from tilewright.tir.expr import Add, FloorDiv, FloorMod, Max, Min, Mul, Sub, Var

LEAF, SPLIT, PRODUCT, QUOTIENT, REMAINDER, MINIMUM, MAXIMUM = range(7)


class OutOfRange(Exception):
    """A constant of the result does not fit its type. The expression is then left unchanged."""


class Atom:
    """One non-linear term.

    `args` by kind: LEAF (), SPLIT (form, lower, upper or 0), PRODUCT, MINIMUM and MAXIMUM forms, QUOTIENT and
    REMAINDER (form, form).
    """

    __slots__ = ("args", "kind", "leaf", "nodes", "order")

    def __init__(self, kind: int, args: tuple[Any, ...], leaf: PrimExpr | None = None) -> None:
        self.kind, self.args, self.leaf = kind, args, leaf
        self.nodes: dict[str, PrimExpr] = {}
        self.order: tuple[Any, ...] | None = None
        """The atom's place in the order of a schedule, or None."""


class Lin:
    """sum(terms[atom] * atom) + const; no coefficient is 0. Immutable by convention."""

    __slots__ = ("const", "interned", "nodes", "terms")

    def __init__(self, terms: dict[Atom, int], const: int) -> None:
        self.terms, self.const = terms, const
        self.nodes: dict[str, PrimExpr] | None = None
        self.interned: Tables | None = None

    def __repr__(self) -> str:
        return " + ".join([f"{k}*{show(t)}" for t, k in self.terms.items()] + [str(self.const)])


def show(t: Atom) -> str:
    """A text of the atom, for debugging."""
    if t.kind == LEAF:
        return str(t.leaf)
    return f"{('leaf', 'split', 'mul', 'div', 'mod', 'min', 'max')[t.kind]}{t.args}"


def mentions(t: Atom, variables: set[int]) -> bool:
    """Whether the atom depends on one of the variables (by id)."""
    if t.kind != LEAF:
        return any([mentions(s, variables) for a in t.args if isinstance(a, Lin) for s in a.terms])
    if isinstance(t.leaf, Var):
        return id(t.leaf) in variables
    return any_node(t.leaf, lambda x: id(x) in variables)


ZERO = Lin({}, 0)
ONE = Lin({}, 1)


def constant(value: int) -> Lin:
    return Lin({}, value)


def shift(a: Lin, value: int) -> Lin:
    return Lin(a.terms, a.const + value) if value else a


def scale(a: Lin, k: int) -> Lin:
    if k == 1:
        return a
    if k == 0:
        return ZERO
    return Lin({t: c * k for t, c in a.terms.items()}, a.const * k)


def combine(a: Lin, b: Lin, k: int = 1) -> Lin:
    """a + k * b, with like terms merged."""
    if not b.terms or k == 0:
        return shift(a, b.const * k)
    if not a.terms:
        return shift(scale(b, k), a.const)
    terms = dict(a.terms)
    for t, c in b.terms.items():
        n = terms.get(t, 0) + c * k
        if n:
            terms[t] = n
        else:
            del terms[t]
    return Lin(terms, a.const + b.const * k)


def content(a: Lin) -> int:
    """The greatest common divisor of all coefficients and the constant; 0 for the zero form."""
    g = abs(a.const)
    for c in a.terms.values():
        if g == 1:
            return 1
        g = gcd(g, c)
    return g


def gcd_step(p: int, q: int) -> tuple[int, int, int, int]:
    """(a, b, p / g, q / g) with a * p + b * q == g, the greatest common divisor. a is 1 if p divides q."""
    if q % p == 0:
        return 1, 0, 1, q // p
    a, b, c, d, r, s = 1, 0, 0, 1, p, q
    while s:
        k = r // s
        a, b, c, d, r, s = c, d, a - k * c, b - k * d, s, r - k * s
    return a, b, p // r, q // r


def divide_exactly(a: Lin, k: int) -> Lin:
    if k == 1:
        return a
    return Lin({t: c // k for t, c in a.terms.items()}, a.const // k)


_LIMITS = {f"int{b}": (-(1 << (b - 1)), (1 << (b - 1)) - 1) for b in (1, 4, 8, 16, 32, 64)}


def immediate(value: int, dtype: str) -> PrimExpr:
    """The constant as a node. Raises OutOfRange if its type cannot hold it."""
    low, high = _LIMITS[dtype]
    if not low <= value <= high:
        raise OutOfRange
    return IntImm(dtype, value)


class Tables:
    """Interned atoms and forms, and their conversion to nodes."""

    def __init__(self) -> None:
        self._atoms: dict[tuple[Any, ...], Atom] = {}
        self._forms: dict[tuple[Any, ...], Lin] = {}
        self._leaves: dict[int, Atom] = {}
        self.emitted: dict[int, Lin] = {}

    def leaf(self, node: PrimExpr) -> Atom:
        """The atom of a variable or of an interned node."""
        t = self._leaves.get(id(node))
        if t is None:
            t = self._leaves[id(node)] = Atom(LEAF, (), node)
        return t

    def knows(self, node: PrimExpr) -> bool:
        """Whether the variable or interned node has an atom."""
        return id(node) in self._leaves

    def intern(self, a: Lin) -> Lin:
        """The one object for all forms that are equal to `a`."""
        if a.interned is self:
            return a
        key = (frozenset(a.terms.items()), a.const)
        found = self._forms.get(key)
        if found is None:
            if a.interned is not None:
                a = Lin(a.terms, a.const)
            found = self._forms[key] = a
            a.interned = self
        return found

    def atom(self, kind: int, *args: Any) -> Atom:
        """The atom of a kind over interned forms. The order of operands of products, minima and maxima does not matter."""
        if kind in (SPLIT, QUOTIENT, REMAINDER):
            key: tuple[Any, ...] = (
                kind,
                id(args[0]),
                *[id(x) if isinstance(x, Lin) else x for x in args[1:]],
            )
        else:
            key = (kind, *sorted([id(x) for x in args]))
        t = self._atoms.get(key)
        if t is None:
            t = self._atoms[key] = Atom(kind, args)
        return t

    def single(self, t: Atom) -> Lin:
        return Lin({t: 1}, 0)

    def emit(self, a: Lin, dtype: str) -> PrimExpr:
        """The form as a node of integer type `dtype`, with terms in the order of their first use."""
        nodes = a.nodes
        if nodes is None:
            if a.interned is None:
                a = self.intern(a)
                nodes = a.nodes
            if nodes is None:
                nodes = a.nodes = {}
        found = nodes.get(dtype)
        if found is None:
            found = nodes[dtype] = self._emit(a, dtype)
            self.emitted[id(found)] = a
        return found

    def _emit(self, a: Lin, dtype: str) -> PrimExpr:
        terms, const = a.terms, a.const
        if not terms:
            return immediate(const, dtype)
        out: PrimExpr | None = None
        late: list[tuple[Atom, int]] = []
        for t, k in terms.items():
            if k < 0 and out is None and (const > 0 or any([c > 0 for c in terms.values()])):
                late.append((t, k))
                continue
            out = self._add_term(out, t, k, dtype)
        if late:
            if out is None:
                out, const = immediate(const, dtype), 0
            for t, k in late:
                out = self._add_term(out, t, k, dtype)
        assert out is not None
        if const > 0:
            return Add(out, immediate(const, dtype))
        if const < 0:
            return Sub(out, immediate(-const, dtype))
        return out

    def _add_term(self, out: PrimExpr | None, t: Atom, k: int, dtype: str) -> PrimExpr:
        node = t.nodes.get(dtype)
        if node is None:
            node = t.nodes[dtype] = self._emit_atom(t, dtype)
        if out is None:
            return node if k == 1 else self._times(t, node, k, dtype)
        if k < 0:
            return Sub(out, node if k == -1 else self._times(t, node, -k, dtype))
        return Add(out, node if k == 1 else self._times(t, node, k, dtype))

    def _times(self, t: Atom, node: PrimExpr, k: int, dtype: str) -> PrimExpr:
        return Mul(node, immediate(k, dtype))

    def _emit_atom(self, t: Atom, dtype: str) -> PrimExpr:
        kind, args = t.kind, t.args
        if kind == LEAF:
            assert t.leaf is not None
            return cast_to(t.leaf, dtype)
        out = self.emit(args[0], dtype)
        if kind == SPLIT:
            if args[2]:
                out = FloorMod(out, immediate(args[2], dtype))
            return out if args[1] == 1 else FloorDiv(out, immediate(args[1], dtype))
        node = _NODE_OF[kind]
        for x in args[1:]:
            out = node(out, self.emit(x, dtype))
        return out


_NODE_OF: dict[int, Any] = {
    PRODUCT: Mul,
    QUOTIENT: FloorDiv,
    REMAINDER: FloorMod,
    MINIMUM: Min,
    MAXIMUM: Max,
}
