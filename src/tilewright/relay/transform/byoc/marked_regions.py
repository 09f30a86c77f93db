"""The regions of an annotated program: the connected parts between begin and end marks."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.ir import Op
from tilewright.relay.adt import Constructor, Match
from tilewright.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Var,
)
from tilewright.relay.functor import children, flow_children, post_order
from tilewright.relay.transform.byoc.annotations import compiler_of, inner, is_begin, is_border, is_composite, is_end
from tilewright.support.errors import TVMError

_OUTSIDE = (Var, Constant, GlobalVar, Op, Constructor, Function, If, Let, Match, RefCreate, RefRead, RefWrite)
"""Expressions that a region never contains: names, scopes, and effects. Constants are always included."""


class Region:
    """A part that one compiler gets as one function: `nodes` in the order of evaluation, with the marks of entering and leaving values."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.compiler = ""
        self.nodes: list[Expr] = []
        self.begins: list[Expr] = []
        self.ends: list[Expr] = []
        self._parent: Region | None = None

    def root(self) -> Region:
        """The region into which this one was merged; itself if it was not merged."""
        region = self
        while region._parent is not None:
            region = region._parent
        return region

    def absorb(self, other: Region) -> None:
        """Merges another region into this one."""
        assert other._parent is None and self._parent is None and other is not self
        other._parent = self
        for mine, others in ((self.nodes, other.nodes), (self.begins, other.begins), (self.ends, other.ends)):
            mine += others
            others.clear()

    @property
    def outputs(self) -> list[Expr]:
        """The values that leave the region, each once."""
        return list(dict.fromkeys([inner(e) for e in self.ends]))

    def __repr__(self) -> str:
        return f"Region({self.compiler}: {', '.join(map(name_of, self.nodes))})"


def name_of(e: Expr) -> str:
    """A name for an expression in messages."""
    if type(e) is Call and type(e.op) is Op:
        return e.op.name
    if type(e) is Call and isinstance(e.op, Function):
        return str(e.op.attrs.get("Composite", "a call of a function"))
    return type(e).__name__


class RegionSet:
    """The regions under one expression. Raises TVMError if begin and end marks contradict each other."""

    def __init__(self, root: Expr) -> None:
        self.order = list(post_order(root, skip=_skipped))
        self._of: dict[Expr, Region] = {}
        self._count = 0
        scopes = scopes_of(root)
        for e in self.order:
            if is_begin(e):
                continue
            if is_end(e):
                self._end(e, scopes)
            elif can_be_inside(e):
                self._inside(e, scopes)

    def _new(self) -> Region:
        self._count += 1
        return Region(self._count)

    def _join(self, a: Region | None, b: Region) -> Region:
        a, b = a.root() if a is not None else None, b.root()
        if a is None or a is b:
            return b
        if a.compiler and b.compiler and a.compiler != b.compiler:
            raise TVMError(
                f"{name_of((a.nodes or a.begins)[-1])} joins regions of different compilers, {a.compiler} and {b.compiler}:"
                " every way from one to the other must lead over a compiler_end and a compiler_begin"
            )
        a.compiler = a.compiler or b.compiler
        a.absorb(b)
        return a

    def _inside(self, e: Expr, scopes: dict[Expr, frozenset[Expr]]) -> None:
        region: Region | None = None
        for operand in flow_children(e):
            here = scopes[operand] == scopes[e]
            if is_begin(operand):
                found = self._of.get(operand) if here else None
                if found is None:
                    found = self._new()
                    found.begins.append(operand)
                    found.compiler = compiler_of(operand)
                    if here:
                        self._of[operand] = found
                region = self._join(region, found)
            elif here and operand in self._of and not is_border(operand):
                region = self._join(region, self._of[operand])
        if region is not None:
            self._add(e, region, scopes)

    def _add(self, e: Expr, region: Region, scopes: dict[Expr, frozenset[Expr]]) -> None:
        """Adds an expression to a region, with its operands that have no border before them: operators without operands."""
        found = [e]
        for node in found:
            self._of[node] = region
            found += [
                c
                for c in flow_children(node)
                if c not in self._of and can_be_inside(c) and scopes[c] == scopes[node] and not is_border(c)
            ]
        region.nodes += reversed(list(dict.fromkeys(found)))

    def _end(self, e: Expr, scopes: dict[Expr, frozenset[Expr]]) -> None:
        value, compiler = inner(e), compiler_of(e)
        if not can_be_inside(value):
            return
        region = self._of.get(value)
        if region is None:
            # The value has no operands, or only outer operands without borders.
            region = self._new()
            self._add(value, region, scopes)
        region = region.root()
        if region.compiler and region.compiler != compiler:
            raise TVMError(
                f"the region of {name_of(value)} begins with the compiler {region.compiler}, but ends with {compiler};"
                " both borders must name one compiler"
            )
        region.compiler = compiler
        region.ends.append(e)
        self._of[e] = region

    def of(self, e: Expr) -> Region | None:
        """The region of an expression or border; None if it has none."""
        found = self._of.get(e)
        return found.root() if found is not None else None

    def __iter__(self) -> Iterator[Region]:
        """The regions, in the order of their last operators."""
        return iter(dict.fromkeys([r.root() for r in self._of.values()]))

    def __len__(self) -> int:
        return len(list(iter(self)))


def can_be_inside(e: Expr) -> bool:
    """Whether a region may contain an expression: calls of operators and of composite functions, tuples and their elements."""
    if type(e) is Call:
        return not is_border(e) and (type(e.op) is Op or is_composite(e.op))
    return not isinstance(e, _OUTSIDE)


def _skipped(e: Expr) -> bool:
    """Whether an expression is a function with a body that is not part of the surrounding program."""
    return isinstance(e, Function) and (e.is_primitive or is_composite(e) or "Compiler" in e.attrs)


def scopes_of(root: Expr) -> dict[Expr, frozenset[Expr]]:
    """Expression -> the scopes of its evaluation: bodies, branches, bound values. Nested scopes count as the outermost."""
    found: dict[Expr, set[Expr]] = {}
    parents: dict[Expr, Expr | None] = {root: None}
    pending = [root]
    while pending:
        scope = pending.pop()
        stack = [scope]
        while stack:
            e = stack.pop()
            held = found.setdefault(e, set())
            if scope in held:
                continue
            held.add(scope)
            if isinstance(e, (If, Let, Match, Function)):
                if _skipped(e):
                    continue
                first, *rest = children(e)
                if isinstance(e, (If, Match)):
                    stack.append(first)  # The condition is evaluated in this scope.
                else:
                    rest = [first, *rest]
                for part in rest:
                    if part not in parents:
                        parents[part] = scope
                        pending.append(part)
            else:
                stack += flow_children(e)

    def outermost(scopes: set[Expr]) -> frozenset[Expr]:
        if len(scopes) == 1:
            return frozenset(scopes)
        return frozenset([s for s in scopes if not any([a in scopes for a in around(s)])])

    def around(scope: Expr) -> Iterator[Expr]:
        above = parents[scope]
        while above is not None:
            yield above
            above = parents[above]

    return {e: outermost(scopes) for e, scopes in found.items()}
