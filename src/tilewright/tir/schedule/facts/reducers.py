"""The reducer of a reduction block: its combination, its initial values, and its incoming values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.arith import Analyzer
from tilewright.ir import DataType, FloatImm, IntImm, Op
from tilewright.node import Mutator, on, structural_equal
from tilewright.tir import (
    Add,
    Block,
    BufferLoad,
    BufferStore,
    Call,
    Cast,
    LetStmt,
    Max,
    Min,
    Mul,
    PrimExpr,
    Select,
    Var,
)
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.primitives.rewrite import body_list
from tilewright.tir.stmt_functor import substitute

if TYPE_CHECKING:
    from tilewright.tir.buffer import Buffer


_SAMPLES = (-3, -1, 0, 1, 2, 5)


class Reducer:
    """An associative, commutative update of one or more buffers: `C0, C1 = f(C0, C1, x0, x1)`.

    stores: the updates. old, new: the variables in `values` for the values of the buffers and the incoming values.
    incoming: the incoming values. identities: the values that the initialisation stores.
    """

    def __init__(
        self,
        stores: list[BufferStore],
        old: list[Var],
        new: list[Var],
        values: Sequence[PrimExpr],
        incoming: list[PrimExpr],
        identities: list[PrimExpr],
    ) -> None:
        self.stores, self.old, self.new, self.values = stores, old, new, values
        self.incoming, self.identities = incoming, identities

    def combine(self, a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        """The values after combining `b` into the buffer values `a`."""
        env = dict(zip((*self.old, *self.new), (*a, *b), strict=True))
        return [substitute(v, env) for v in self.values]


def reducer_of(block: Block) -> Reducer:
    """The reducer of a block. Refused if the block has no recognised form."""
    stores = _updates(block)
    inits = _inits(block, stores)
    old = [Var(f"old{i}", s.buffer.dtype) for i, s in enumerate(stores)]
    values = [_PutOld(stores, old).visit(s.value) for s in stores]
    for s, v in zip(stores, values, strict=True):
        if _touches(v, {x.buffer for x in stores}):
            refuse("{0} must load of {1} only the element that it stores", block, s.buffer)
    parts: list[list[Any]] = []
    for value, mine in zip(values, old, strict=True):
        found: list[PrimExpr] = []
        _incoming(value, set(old), found)
        result: list[PrimExpr] = []
        _results(value, set(old), result)
        if len(result) != 1 or all([mine is not v for v in _variables(value)]):
            refuse("{0} must combine what {1} holds with one new value", block, stores[old.index(mine)].buffer)
        parts.append([result[0], found])
    incoming = [p[0] for p in parts]
    for s, e in zip(stores, incoming, strict=True):
        if e.dtype != s.buffer.dtype:
            refuse(f"{{0}} must combine values of the type of {{1}}, but {e} is of type {e.dtype}", block, s.buffer)
    new = [Var(f"new{i}", s.buffer.dtype) for i, s in enumerate(stores)]
    out = []
    for value, (_, found) in zip(values, parts, strict=True):
        for e in found:
            if not any([structural_equal(e, x) for x in incoming]):
                refuse(f"{{0}} must have a reducer that is known, but {e} is none of that", block)
        out.append(_PutNew(incoming, new).visit(value))
    reducer = Reducer(stores, old, new, out, incoming, [i.value for i in inits])
    _need_identity(block, reducer)
    _need_associative(block, reducer)
    return reducer


def _updates(block: Block) -> list[BufferStore]:
    """The stores of the body with lets substituted. All values are those before the first store."""
    env: dict[Var, PrimExpr] = {}
    body = block.body
    while isinstance(body, LetStmt):
        env[body.var] = substitute(body.value, env)
        body = body.body
    stores = []
    stored: set[Buffer] = set()
    for s in body_list(body):
        if not isinstance(s, BufferStore):
            refuse("the body of {0} must be stores only", block)
        if _touches(s.value, stored):
            refuse("{0} must compute all that it stores before it stores", block)
        stored.add(s.buffer)
        stores.append(s.replace(value=substitute(s.value, env)) if env else s)
    if len(stored) != len(stores):
        refuse("{0} must store to each of its outputs once", block)
    return stores


def _inits(block: Block, stores: list[BufferStore]) -> list[BufferStore]:
    found = [] if block.init is None else body_list(block.init)
    by_buffer = {s.buffer: s for s in found if isinstance(s, BufferStore)}
    out = []
    for s in stores:
        init = by_buffer.get(s.buffer)
        if init is None or not all([structural_equal(a, b) for a, b in zip(init.indices, s.indices, strict=True)]):
            refuse("{0} must initialise the element of {1} that it updates", block, s.buffer)
        out.append(init)
    return out


def _touches(e: PrimExpr, buffers: set[Buffer]) -> bool:
    found: list[Any] = []

    class _Look(Mutator):
        @on(BufferLoad)
        def _load(self, x: BufferLoad) -> PrimExpr:
            if x.buffer in buffers:
                found.append(x)
            return self.rebuild(x)

    _Look().visit(e)
    return bool(found)


def _variables(e: PrimExpr) -> list[Var]:
    from tilewright.tir.stmt_functor import used_vars

    return list(used_vars(e))


class _PutOld(Mutator):
    """Replaces loads of the updated elements by variables."""

    def __init__(self, stores: list[BufferStore], old: list[Var]) -> None:
        self.stores, self.old = stores, old

    @on(BufferLoad)
    def _load(self, x: BufferLoad) -> PrimExpr:
        for s, v in zip(self.stores, self.old, strict=True):
            if x.buffer is s.buffer and all(
                [structural_equal(a, b) for a, b in zip(x.indices, s.indices, strict=True)]
            ):
                return v
        return self.rebuild(x)


class _PutNew(Mutator):
    """Replaces incoming values by variables."""

    def __init__(self, incoming: list[PrimExpr], new: list[Var]) -> None:
        self.incoming, self.new = incoming, new

    def visit(self, x: Any) -> Any:
        if isinstance(x, PrimExpr):
            for e, v in zip(self.incoming, self.new, strict=True):
                if type(e) is type(x) and structural_equal(e, x):
                    return v
        return super().visit(x)


def _operands(e: PrimExpr) -> list[PrimExpr]:
    if isinstance(e, Call):
        return list(e.args)
    return [x for x in (getattr(e, f.name) for f in e._fields) if isinstance(x, PrimExpr)]


def _incoming(e: PrimExpr, old: set[Var], out: list[PrimExpr]) -> None:
    """The largest parts of an expression that contain no old value, without constants."""
    if isinstance(e, (IntImm, FloatImm)) or e in old:
        return
    if old.isdisjoint(_variables(e)):
        out.append(e)
        return
    for x in _operands(e):
        _incoming(x, old, out)


def _results(e: PrimExpr, old: set[Var], out: list[PrimExpr]) -> None:
    """Like `_incoming`, without conditions: the parts that may become the result."""
    if isinstance(e, (IntImm, FloatImm)) or e in old:
        return
    if old.isdisjoint(_variables(e)):
        if not any([structural_equal(e, x) for x in out]):
            out.append(e)
        return
    if isinstance(e, Select):
        branches = [e.true_value, e.false_value]
    elif isinstance(e, Call) and e.op is Op.get("tir.if_then_else"):
        branches = list(e.args[1:])
    else:
        branches = _operands(e)
    for x in branches:
        _results(x, old, out)


def _sample(reducer: Reducer, *numbers: int) -> list[PrimExpr]:
    """Incoming values for a test, all different."""
    return [_given(v.dtype, numbers[i % len(numbers)]) for i, v in enumerate(reducer.new)]


def _combined(analyzer: Analyzer, reducer: Reducer, a: list[PrimExpr], b: list[PrimExpr]) -> list[PrimExpr]:
    return [_folded(analyzer.simplify(e)) for e in reducer.combine(a, b)]


def _need_associative(block: Block, reducer: Reducer) -> None:
    """Require that any order and grouping gives the same result, tested on numbers that can be folded."""
    if len(reducer.values) == 1 and isinstance(reducer.values[0], (Add, Mul, Min, Max)):
        value = reducer.values[0]
        if {id(value.a), id(value.b)} == {id(reducer.old[0]), id(reducer.new[0])}:
            return
    analyzer = Analyzer()
    for numbers in ((2, 5, 3), (1, -1, 4), (-3, 2, -2)):
        a, b, c = (_sample(reducer, n, n + 9) for n in numbers)
        ab, bc = _combined(analyzer, reducer, a, b), _combined(analyzer, reducer, b, c)
        pairs = [
            (_combined(analyzer, reducer, ab, c), _combined(analyzer, reducer, a, bc)),
            (ab, _combined(analyzer, reducer, b, a)),
        ]
        for left, right in pairs:
            if not all([structural_equal(x, y) for x, y in zip(left, right, strict=True)]):
                refuse("{0} must combine in a way that any order and grouping gives the same", block)


def _need_identity(block: Block, reducer: Reducer) -> None:
    """Require initial values that change nothing, or that can be combined repeatedly (as with max and min)."""
    if len(reducer.values) == 1:
        value = reducer.values[0]
        if isinstance(value, (Min, Max)) and {id(value.a), id(value.b)} == {id(reducer.old[0]), id(reducer.new[0])}:
            return
    identities = reducer.identities
    analyzer = Analyzer()
    for sample in _SAMPLES:
        numbers = [sample + 7 * i for i in range(len(reducer.new))]
        given = [_given(v.dtype, n) for v, n in zip(reducer.new, numbers, strict=True)]
        result = [analyzer.simplify(e) for e in reducer.combine(identities, given)]
        for got, want in zip(result, given, strict=True):
            if not structural_equal(_folded(got), want):
                refuse(
                    f"{{0}} must start from the identity of what it computes, but starts from {[str(i) for i in identities]}",
                    block,
                )


def _given(dtype: DataType, number: int) -> PrimExpr:
    """A number for a test, non-negative for unsigned types."""
    return _literal(dtype, abs(number) if dtype.is_uint else number)


def _folded(e: PrimExpr) -> PrimExpr:
    return _literal(e.dtype, e.value.value) if isinstance(e, Cast) and isinstance(e.value, (IntImm, FloatImm)) else e


def _literal(dtype: DataType, value: Any) -> PrimExpr:
    return (
        FloatImm(dtype, float(value))
        if dtype.is_float
        else IntImm(dtype, int(value) % 2 if dtype == "bool" else int(value))
    )
