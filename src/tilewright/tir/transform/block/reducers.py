"""Recognition of the reducer of a reduction block: the updated elements, the combined values, and the combiner."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.ir import FloatImm, IntImm, PrimExpr
from tilewright.node import Mutator, Node, Visitor, any_node, nodes_of, on, structural_equal
from tilewright.node.field_values import numpy_dtype
from tilewright.script.underline import located
from tilewright.support.errors import TVMError
from tilewright.tir import expr as E
from tilewright.tir.expr import Add, BufferLoad, CommReducer, Max, Min, Mul, Var
from tilewright.tir.stmt import Block, BufferStore, LetStmt, SeqStmt, Stmt, stmt_list
from tilewright.tir.stmt_functor import substitute, used_vars

if TYPE_CHECKING:
    from tilewright.tir.buffer import Buffer


def _same(a: PrimExpr, b: Any) -> bool:
    """Whether two expressions are equal and load from the same buffers. (Structural equality alone would also equate different buffers.)"""
    return structural_equal(a, b) and all([x is y for x, y in zip(_loaded(a), _loaded(b), strict=True)])


def _loaded(e: PrimExpr) -> list[Buffer]:
    return [load.buffer for load in nodes_of(e, BufferLoad)]


class Update:
    """targets: the elements that a block updates. sources: the values that it combines into them. reducer: the
    combination.
    """

    def __init__(self, targets: list[BufferLoad], sources: list[PrimExpr], reducer: CommReducer) -> None:
        self.targets, self.sources, self.reducer = targets, sources, reducer

    def combine(self, a: list[Any], b: list[Any]) -> list[PrimExpr]:
        """Combine two tuples of values."""
        env = dict(zip((*self.reducer.lhs, *self.reducer.rhs), (*a, *b), strict=True))
        return [substitute(e, env) for e in self.reducer.result]


def update_of(block: Block) -> Update:
    """The reducer of a reduction block. Raises TVMError if it is not recognised."""
    found = _of_one(block) or _of_several(block)
    if found is None:
        raise TVMError(
            located(
                f"LowerCrossThreadReduction: block {block.name_hint} reduces over threads; its body must be one store"
                " B[...] = B[...] op x with + * max or min or a choice, or several of values that are named first and"
                f" combine associatively, but it is\n{block.body}",
                block,
            )
        )
    return found


def _of_one(block: Block) -> Update | None:
    body, init = block.body, block.init
    if not isinstance(body, BufferStore) or not isinstance(init, BufferStore):
        return None
    value: Any = body.value
    own = BufferLoad(body.buffer, body.indices)
    if type(value) not in (Add, Mul, Max, Min):
        return _combined([own], [value], [init.value])
    for mine, other in ((value.a, value.b), (value.b, value.a)):
        if _same(mine, own):
            x, y = Var("x", own.dtype), Var("y", own.dtype)
            return Update([own], [other], CommReducer((x,), (y,), (type(value)(x, y),), (init.value,)))
    return None


class _Own(Mutator):
    """Replaces updated elements by variables, and known combined values by other variables."""

    def __init__(self, targets: list[BufferLoad], sources: dict[int, PrimExpr], lhs: list[Var], rhs: list[Var]) -> None:
        self.targets, self.sources, self.lhs, self.rhs = targets, sources, lhs, rhs

    @on(Node)
    def _node(self, e: Any) -> Any:
        if isinstance(e, PrimExpr):
            for k, t in enumerate(self.targets):
                if _same(e, t):
                    return self.lhs[k]
            for k, s in self.sources.items():
                if _same(e, s):
                    return self.rhs[k]
        return e if e._leaf else self.rebuild(e)


class _Parts(Visitor):
    """The maximal subexpressions without access to the updated elements."""

    def __init__(self, targets: list[BufferLoad]) -> None:
        self.targets = targets
        self.found: list[PrimExpr] = []

    def _touches(self, e: Any) -> bool:
        targets = {t.buffer for t in self.targets}
        return any_node(e, lambda x: isinstance(x, BufferLoad) and x.buffer in targets)

    @on(PrimExpr)
    def _expr(self, e: PrimExpr) -> None:
        if any([_same(e, t) for t in self.targets]):
            return
        if self._touches(e):
            self.visit_children(e)
        elif not isinstance(e, (IntImm, FloatImm)) and not any([_same(e, f) for f in self.found]):
            self.found.append(e)


def _of_several(block: Block) -> Update | None:
    """The reducer of a block in the form for tuples: values are bound to names, then stored."""
    values: dict[Var, PrimExpr] = {}
    body: Stmt = block.body
    while isinstance(body, LetStmt):
        values[body.var] = substitute(body.value, values)
        body = body.body
    stores, inits = stmt_list(body), [] if block.init is None else stmt_list(block.init)
    if (
        not isinstance(body, SeqStmt)
        or not all([isinstance(s, BufferStore) for s in (*stores, *inits)])
        or len(stores) != len(inits)
    ):
        return None
    targets: list[BufferLoad] = []
    results: list[PrimExpr] = []
    identity: list[PrimExpr] = []
    for s in stores:
        assert isinstance(s, BufferStore)
        mine = [i for i in inits if isinstance(i, BufferStore) and i.buffer is s.buffer]
        if not isinstance(s.value, Var) or s.value not in values or len(mine) != 1:
            return None
        targets.append(BufferLoad(s.buffer, s.indices))
        results.append(values[s.value])
        identity.append(mine[0].value)
    return _combined(targets, results, identity)


def _combined(targets: list[BufferLoad], results: list[PrimExpr], identity: list[PrimExpr]) -> Update | None:
    """The reducer that updates targets to results; None if they are not an associative combination of targets and other values."""
    sources = _sources(targets, results)
    if sources is None:
        return None
    lhs = [Var(f"x{k}", t.dtype) for k, t in enumerate(targets)]
    rhs = [Var(f"y{k}", t.dtype) for k, t in enumerate(targets)]
    walk = _Own(targets, dict(enumerate(sources)), lhs, rhs)
    combined = [walk.visit(e) for e in results]
    if not set(used_vars(combined)) <= {*lhs, *rhs}:
        return None
    reducer = CommReducer(tuple(lhs), tuple(rhs), tuple(combined), tuple(identity))
    return Update(targets, sources, reducer) if holds(reducer) else None


def _sources(targets: list[BufferLoad], results: list[PrimExpr]) -> list[PrimExpr] | None:
    """The combined value in each result: a maximal part of the result's type that belongs to no other result; None if that is ambiguous."""
    candidates: list[list[PrimExpr]] = []
    for t, e in zip(targets, results, strict=True):
        walk = _Parts(targets)
        walk.visit(e)
        candidates.append([p for p in walk.found if p.dtype is t.dtype])
    chosen: dict[int, PrimExpr] = {}
    while len(chosen) < len(targets):
        ready = next((k for k, c in enumerate(candidates) if k not in chosen and len(c) == 1), None)
        if ready is None:
            return None
        chosen[ready] = candidates[ready][0]
        for k, c in enumerate(candidates):
            if k not in chosen and len(c) > 1:
                candidates[k] = [p for p in c if not _same(p, chosen[ready])]
    return [chosen[k] for k in range(len(targets))]


# --- tests of a reducer

_ARITHMETIC: dict[type, Any] = {
    E.Add: np.add, E.Sub: np.subtract, E.Mul: np.multiply, E.Min: np.minimum, E.Max: np.maximum, E.EQ: np.equal,
    E.NE: np.not_equal, E.LT: np.less, E.LE: np.less_equal, E.GT: np.greater, E.GE: np.greater_equal,
    E.And: np.logical_and, E.Or: np.logical_or,
}  # fmt: skip


def _value(e: Any, env: dict[Var, Any]) -> Any:
    """The value of a combiner's expression at one point. Raises KeyError for unknown operators."""
    kind = numpy_dtype(e.dtype)
    if isinstance(e, Var):
        return env[e]
    if isinstance(e, (IntImm, FloatImm)):
        return kind.type(e.value)
    if isinstance(e, E.Select):
        return _value(e.true_value if _value(e.condition, env) else e.false_value, env)
    if isinstance(e, E.Not):
        return not _value(e.a, env)
    if isinstance(e, E.Cast):
        return kind.type(_value(e.value, env))
    if isinstance(e, E.Call) and getattr(e.op, "name", "") == "tir.if_then_else":
        return _value(e.args[1] if _value(e.args[0], env) else e.args[2], env)
    return _ARITHMETIC[type(e)](_value(e.a, env), _value(e.b, env))


def holds(reducer: CommReducer) -> bool:
    """Whether a combiner is associative and commutative and has the identity, tested on small numbers.

    If two values rank the same, the order can decide which one is kept. Between threads that is allowed.
    """
    rng = np.random.default_rng(0)
    kinds = [numpy_dtype(v.dtype).type for v in reducer.lhs]

    def combine(a: Any, b: Any) -> tuple[Any, ...]:
        env = dict(zip((*reducer.lhs, *reducer.rhs), (*a, *b), strict=True))
        return tuple([_value(e, env) for e in reducer.result])

    try:
        with np.errstate(all="ignore"):
            identity = tuple([k(_value(e, {})) for k, e in zip(kinds, reducer.identity_element, strict=True)])
            # Different numbers in each place, so no two rank the same.
            points = [tuple([k(n) for k, n in zip(kinds, p, strict=True)]) for p in
                      zip(*[rng.permutation(9) - 4 for _ in kinds], strict=True)]  # fmt: skip
            for a in points:
                if combine(identity, a) != a or combine(a, identity) != a:
                    return False
            for a, b in itertools.product(points, points):
                if a != b and combine(a, b) != combine(b, a):
                    return False
            for a, b, c in itertools.islice(itertools.permutations(points, 3), 100):
                if combine(combine(a, b), c) != combine(a, combine(b, c)):
                    return False
    except (KeyError, AttributeError):
        return False
    return True
