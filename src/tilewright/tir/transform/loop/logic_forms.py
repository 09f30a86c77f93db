"""Normal forms of conditions (conjunctions of disjunctions, without implied operands), and detection of dead stores."""

from __future__ import annotations

from typing import Any

from tilewright.arith import Analyzer
from tilewright.ir import IntImm, PrimExpr
from tilewright.node import any_node, structural_equal
from tilewright.tir.arithmetic import conjuncts, const, logical_and, logical_not, logical_or
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import And, BufferLoad, Or, Var
from tilewright.tir.op import is_pure
from tilewright.tir.stmt import BufferStore, For, ForKind, IfThenElse, Stmt
from tilewright.tir.stmt_functor import substitute

MOST_CLAUSES = 16
"""The largest number of clauses that distribution may make."""


def disjuncts(e: PrimExpr) -> list[PrimExpr]:
    """The operands of a tree of `or`."""
    return [*disjuncts(e.a), *disjuncts(e.b)] if isinstance(e, Or) else [e]


def and_of_ors(e: PrimExpr) -> PrimExpr:
    """Rewrite (a and b) or c to (a or c) and (b or c) throughout a condition; leave it unchanged if the result is too
    long.
    """
    clauses = _clauses(e)
    if clauses is None:
        return e
    out: Any = None
    for clause in clauses:
        whole: PrimExpr = clause[0]
        for part in clause[1:]:
            whole = logical_or(whole, part)
        out = whole if out is None else logical_and(out, whole)
    return e if out is None else out


def _clauses(e: PrimExpr) -> list[list[PrimExpr]] | None:
    if isinstance(e, And):
        a, b = _clauses(e.a), _clauses(e.b)
        return None if a is None or b is None or len(a) + len(b) > MOST_CLAUSES else a + b
    if isinstance(e, Or):
        a, b = _clauses(e.a), _clauses(e.b)
        if a is None or b is None or len(a) * len(b) > MOST_CLAUSES:
            return None
        return [[*x, *y] for x in a for y in b]
    return [[e]]


def under_each_other(e: PrimExpr, analyzer: Analyzer) -> PrimExpr:
    """Simplify each operand of `and` assuming the others, and each operand of `or` assuming the others are false; drop
    implied ones.
    """
    if not isinstance(e, (And, Or)) or not is_pure(e):
        return e
    both = isinstance(e, And)
    parts = list(conjuncts(e)) if both else disjuncts(e)
    k = 0
    while k < len(parts) and len(parts) > 1:
        known: Any = None
        for other in (*parts[:k], *parts[k + 1 :]):
            holds = other if both else logical_not(other)
            known = holds if known is None else logical_and(known, holds)
        with analyzer.constraint_scope(known):
            new = analyzer.simplify(parts[k])
        if isinstance(new, IntImm):
            if bool(new.value) != both:
                return const(not both, "bool")
            del parts[k]
            continue
        parts[k] = new
        k += 1
    out = parts[0]
    for part in parts[1:]:
        out = logical_and(out, part) if both else logical_or(out, part)
    return out


def _reads(e: PrimExpr, buffer: Buffer) -> bool:
    data = buffer.data
    return any_node(e, lambda x: x is data or (isinstance(x, BufferLoad) and x.buffer.data is data))


def _one_store(s: Stmt) -> tuple[list[For], list[PrimExpr], BufferStore] | None:
    """(loops, conditions, store) of a nest around a single store."""
    loops: list[For] = []
    conditions: list[PrimExpr] = []
    while True:
        if isinstance(s, For) and s.kind != ForKind.THREAD_BINDING:
            loops.append(s)
            s = s.body
        elif isinstance(s, IfThenElse) and s.else_case is None:
            conditions.append(s.condition)
            s = s.then_case
        elif isinstance(s, BufferStore):
            return loops, conditions, s
        else:
            return None


def overwritten(first: Stmt, then: Stmt) -> bool:
    """Whether the next nest overwrites everything that a nest of loops around a store writes, without reading it."""
    a, b = _one_store(first), _one_store(then)
    if a is None or b is None or len(a[0]) != len(b[0]) or len(a[1]) < len(b[1]):
        return False
    (loops, conditions, store), (other_loops, other_conditions, other) = a, b
    if store.buffer is not other.buffer or store.predicate is not None or other.predicate is not None:
        return False
    env: dict[Var, PrimExpr] = {}
    for f, g in zip(loops, other_loops, strict=True):
        if not structural_equal(substitute(f.min, env), g.min) or not structural_equal(
            substitute(f.extent, env), g.extent
        ):
            return False
        env[f.loop_var] = g.loop_var
    same = [structural_equal(substitute(x, env), y) for x, y in zip(store.indices, other.indices, strict=True)]
    if not all(same) or not is_pure(store.value):
        return False
    held = [substitute(c, env) for c in conditions]
    if not all([any([structural_equal(c, h) for h in held]) for c in other_conditions]):
        return False
    seen = [other.value, *other.indices, *other_conditions, *[e for g in other_loops for e in (g.min, g.extent)]]
    return not any([_reads(e, store.buffer) for e in seen])


def stores_itself(s: BufferStore) -> bool:
    """Whether a store writes the value that the element already has."""
    value = s.value
    return (
        type(value) is BufferLoad
        and value.buffer is s.buffer
        and value.predicate is None
        and all([structural_equal(x, y) for x, y in zip(value.indices, s.indices, strict=True)])
        and not any([_reads(i, s.buffer) for i in s.indices])
    )
