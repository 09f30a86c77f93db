"""The place of a block: the loops around it, the conditions between them, and its scope."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tilewright.ir import IntImm
from tilewright.tir import And, Block, BlockRealize, For, IfThenElse, IterVar, While, arithmetic
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.state import StmtSRef, children

if TYPE_CHECKING:
    from tilewright.tir.stmt import Stmt


DATA_PAR, REDUCE = IterVar.DataPar, IterVar.CommReduce


class Leaf:
    """A block at its place in a loop nest: its realize, and the loops around it up to a given statement, outermost
    first.

    conditional: there is a condition between them, so the block may not run in every iteration.
    """

    __slots__ = ("conditional", "loops", "realize")

    def __init__(self, realize: Any, loops: tuple[Any, ...], conditional: bool = False) -> None:
        self.realize, self.loops, self.conditional = realize, loops, conditional

    @property
    def block(self) -> Any:
        return self.realize.block


_leaves: dict[int, tuple[Any, list[Leaf]]] = {}
"""A cache of the last results, since primitives often request the blocks of the same statements."""


def leaves(stmt: Any) -> list[Leaf]:
    """The blocks at and below `stmt` in program order, not those inside other blocks."""
    known = _leaves.get(id(stmt))
    if known is not None and known[0] is stmt:
        return list(known[1])
    if len(_leaves) > 256:
        _leaves.clear()
    found = _find_leaves(stmt)
    _leaves[id(stmt)] = stmt, found
    return list(found)


def _find_leaves(stmt: Stmt) -> list[Leaf]:
    out: list[Leaf] = []

    def walk(s: Any, loops: tuple[For, ...], conditional: bool) -> None:
        kind = type(s)
        if kind is BlockRealize:
            out.append(Leaf(s, loops, conditional))
            return
        if kind is For:
            loops = (*loops, s)
        for child in children(s):
            walk(child, loops, conditional or kind is IfThenElse or kind is While)

    walk(stmt, (), False)
    return out


def scope_root(ref: StmtSRef) -> StmtSRef:
    """The block around a loop or block."""
    if ref.parent is None:
        refuse("{0} is the root block, which no primitive can move or change", ref.stmt)
    return next(up for up in ref.ancestors() if type(up.stmt) is Block)


def loops_above(ref: StmtSRef) -> list[StmtSRef]:
    """The loops around a block or loop within its scope, outermost first."""
    out = []
    for up in ref.ancestors():
        if type(up.stmt) is Block:
            break
        out.append(up)
    return out[::-1]


def scope_leaves(ref: StmtSRef) -> list[Leaf]:
    """All blocks of the scope of a block, including itself."""
    return leaves(scope_root(ref).stmt.body)


def realize_of(ref: StmtSRef) -> BlockRealize:
    """The BlockRealize of a block that is not the root."""
    if ref.parent is None:
        refuse("{0} is the root block, which has no bindings", ref.stmt)
    stack = list(children(ref.parent.stmt))
    while stack:
        s = stack.pop()
        if type(s) is BlockRealize:
            if s.block is ref.stmt:
                return s
        elif type(s) is not For:
            stack.extend(children(s))
    raise AssertionError


def leaf_of(ref: StmtSRef) -> Leaf:
    """The block with all the loops of its scope."""
    return Leaf(realize_of(ref), tuple([r.stmt for r in loops_above(ref)]), is_conditional(ref))


def is_conditional(ref: StmtSRef) -> bool:
    """Whether there is a condition between a loop or block and the root of its scope."""
    below = ref
    for up in ref.ancestors():
        if _under_condition(up.stmt.body, below.stmt, False):
            return True
        if type(up.stmt) is Block:
            break
        below = up
    return False


def _under_condition(stmt: Stmt, target: Stmt, conditional: bool) -> bool:
    if stmt is target:
        return conditional
    if type(stmt) is For:
        return False
    if type(stmt) is BlockRealize:
        return conditional and stmt.block is target
    conditional = conditional or type(stmt) is IfThenElse or type(stmt) is While
    return any([_under_condition(s, target, conditional) for s in children(stmt)])


def conjuncts(predicate: Any) -> list[Any]:
    """The conditions that a predicate joins by `and`; none for True."""
    return [c for c in arithmetic.conjuncts(predicate) if not (isinstance(c, IntImm) and c.value)]


def conjunction(conditions: Iterable[Any]) -> Any:
    out: Any = None
    for c in conditions:
        out = c if out is None else And(out, c)
    return IntImm("bool", 1) if out is None else out


def int_extent(loop: For) -> int | None:
    return loop.extent.value if isinstance(loop.extent, IntImm) else None
