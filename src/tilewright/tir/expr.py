"""Expressions of tir. Operators on them build nodes; constants fold as they are built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.ir import BaseExpr, DataType, GlobalVar, IntImm, Op, PrimExpr, PrimExprLike, Range
from tilewright.ir.dtype import ScalableLanes
from tilewright.ir.expr import register_foreign_expr
from tilewright.ir.span import BaseSpan
from tilewright.ir.types import PrimType, Type
from tilewright.node import VARIABLE, Def, Node, Skip, register_converter
from tilewright.support import lazy

if TYPE_CHECKING:
    from tilewright.tir.buffer import Buffer

BOOL, HANDLE = DataType("bool"), DataType("handle")
INDEX_TYPES = frozenset({DataType("int32"), DataType("int64")})


def need_condition(where: str, condition: PrimExpr, lanes: int = 1, name: str = "") -> None:
    """Raises TypeError unless an expression is a bool of so many lanes. `where` is formatted with the name."""
    dtype = condition.dtype
    if not dtype.is_bool or dtype.lanes != lanes:
        wanted = "a scalar bool" if lanes == 1 else f"boolx{lanes}"
        raise TypeError(
            f"{where.format(name)} must be {wanted}, but was given {dtype}: {condition!r};"
            " compare it, or cast it with .astype"
        )


def need_integers(where: str, values: tuple[PrimExpr, ...], name: str = "") -> None:
    """Raises TypeError unless all expressions are scalar integers."""
    for e in values:
        dtype = e.dtype
        if dtype not in INDEX_TYPES and (not (dtype.is_int or dtype.is_uint) or dtype.lanes != 1):
            raise TypeError(f"{where.format(name)} must be scalar integers, but one is {dtype}: {e!r}")


def need_type(where: str, dtype: DataType, value: PrimExpr, name: str = "") -> None:
    """Raises TypeError unless an expression is of that type."""
    if value.dtype is not dtype:
        raise TypeError(
            f'{where.format(name)} must be {dtype}, but was given {value.dtype}: {value!r}; cast it with .astype("{dtype}")'
        )


class Var(PrimExpr, key="tir.Var"):
    """A variable, the same only as itself. `Var("p", PointerType(...))` makes a typed handle."""

    _identity = VARIABLE
    _cosmetic = frozenset({"name"})
    _leaf = True

    name: str
    dtype: DataType
    type_annotation: Type
    span: Skip[BaseSpan | None] = None

    def __init__(self, name: str, dtype: str | Type = "int32", span: BaseSpan | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError(f"Var.name must be a string, but was given {type(name).__name__}: {name!r}")
        if isinstance(dtype, Type):
            self._build(name, dtype.dtype if isinstance(dtype, PrimType) else DataType("handle"), dtype, span)
        else:
            kind = dtype if isinstance(dtype, DataType) else DataType(dtype)
            self._build(name, kind, _prim_type(kind), span)

    def copy_with_suffix(self, suffix: str) -> Var:
        """A new variable of the same type."""
        return type(self)(self.name + suffix, self.type_annotation, self.span)

    @property
    def name_hint(self) -> str:
        return self.name


_prim_types: dict[DataType, PrimType] = {}


def _prim_type(dtype: DataType) -> PrimType:
    found = _prim_types.get(dtype)
    if found is None:
        found = _prim_types[dtype] = PrimType(dtype)
    return found


class SizeVar(Var, key="tir.SizeVar"):
    """A variable that stands for a size: it is never negative."""

    def __init__(self, name: str, dtype: str | Type = "int32", span: BaseSpan | None = None) -> None:
        super().__init__(name, dtype, span)


register_converter("Var", Var)


class IterVar(Node, key="tir.IterVar"):
    """An iteration axis: its domain, its variable and what kind of loop it may become."""

    DataPar, ThreadIndex, CommReduce, Ordered, Opaque, Unrolled, Vectorized, Parallelized, Tensorized = range(9)

    dom: Range | None
    var: Def[Var]
    iter_type: int
    thread_tag: str = ""
    span: Skip[BaseSpan | None] = None

    def __init__(self, dom: Any, var: Any, iter_type: int, thread_tag: str = "", span: BaseSpan | None = None) -> None:
        if isinstance(dom, (tuple, list)):
            dom = Range(dom[0], dom[1])
        if isinstance(var, str):
            var = Var(var, dom.extent.dtype if dom is not None else "int32")
        self._build(dom, var, iter_type, thread_tag, span)

    def _derive(self) -> None:
        if type(self.iter_type) is not int or not 0 <= self.iter_type <= IterVar.Tensorized:
            raise TypeError(
                f"IterVar.iter_type must be one of IterVar.DataPar .. IterVar.Tensorized (0..8), but was given {self.iter_type!r}"
            )
        dom = self.dom
        if dom is not None:
            need_integers("the bounds of axis {}", (dom.min, dom.extent), name=self.var.name)
            need_integers("the variable of axis {}", (self.var,), name=self.var.name)

    @property
    def dtype(self) -> DataType:
        return self.var.dtype

    def asobject(self) -> Var:
        return self.var


register_converter("IterVar", IterVar)


class BinaryOpExpr(PrimExpr):
    """Two operands of one type."""

    a: PrimExpr
    b: PrimExpr
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        if self.a.dtype is not self.b.dtype:
            raise TypeError(
                f"{type(self).__name__} takes operands of one type, but was given {self.a.dtype} and {self.b.dtype}:"
                f" {self.a!r}, {self.b!r}; cast one of them with .astype()"
            )
        self.dtype = self.a.dtype
        if self.dtype is HANDLE and type(self) not in (EQ, NE):
            raise TypeError(f"{type(self).__name__} takes numbers, but was given handles: {self.a!r}, {self.b!r}")


class Add(BinaryOpExpr, key="tir.Add"):
    """a + b; integers wrap around."""


class Sub(BinaryOpExpr, key="tir.Sub"):
    """a - b."""


class Mul(BinaryOpExpr, key="tir.Mul"):
    """a * b."""


class Div(BinaryOpExpr, key="tir.Div"):
    """a / b; integers round towards zero."""


class Mod(BinaryOpExpr, key="tir.Mod"):
    """The remainder of `Div`, with the sign of a."""


class FloorDiv(BinaryOpExpr, key="tir.FloorDiv"):
    """a / b rounded down."""


class FloorMod(BinaryOpExpr, key="tir.FloorMod"):
    """The remainder of `FloorDiv`, with the sign of b."""


class Min(BinaryOpExpr, key="tir.Min"):
    """The smaller one; of floats NaN where either is."""


class Max(BinaryOpExpr, key="tir.Max"):
    """The larger one; of floats NaN where either is."""


class CmpExpr(BinaryOpExpr):
    """A comparison; a bool for each lane."""

    def _derive(self) -> None:
        super()._derive()
        self.dtype = BOOL.with_lanes(self.a.dtype.lanes)


class EQ(CmpExpr, key="tir.EQ"):
    """a == b."""

    if TYPE_CHECKING:
        # The fields' converters take plain numbers, too.
        def __init__(self, a: PrimExprLike, b: PrimExprLike, span: BaseSpan | None = None) -> None: ...


class NE(CmpExpr, key="tir.NE"):
    """a != b."""


class LT(CmpExpr, key="tir.LT"):
    """a < b."""


class LE(CmpExpr, key="tir.LE"):
    """a <= b."""


class GT(CmpExpr, key="tir.GT"):
    """a > b."""


class GE(CmpExpr, key="tir.GE"):
    """a >= b."""


class LogicalExpr(BinaryOpExpr):
    """A connective of bools."""

    def _derive(self) -> None:
        super()._derive()
        if not self.dtype.is_bool:
            raise TypeError(f"{type(self).__name__} takes bools, but was given {self.dtype}: {self.a!r}, {self.b!r}")


class And(LogicalExpr, key="tir.And"):
    """a and b; b is not evaluated when a is false."""


class Or(LogicalExpr, key="tir.Or"):
    """a or b; b is not evaluated when a is true."""


class Not(PrimExpr, key="tir.Not"):
    """The negation of a bool."""

    a: PrimExpr
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        if not self.a.dtype.is_bool:
            raise TypeError(f"Not takes a bool, but was given {self.a.dtype}: {self.a!r}")
        self.dtype = self.a.dtype


class StringImm(PrimExpr, key="tir.StringImm"):
    """A string constant."""

    value: str
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        self.dtype = DataType("handle")


register_foreign_expr(str, StringImm)
register_foreign_expr(IterVar, lambda axis: axis.var)


class Cast(PrimExpr, key="tir.Cast"):
    """A value converted to another type."""

    dtype: DataType
    value: PrimExpr
    span: Skip[BaseSpan | None] = None

    if TYPE_CHECKING:
        # The fields' converters take the name of a type and plain numbers, too.
        def __init__(self, dtype: str, value: PrimExprLike, span: BaseSpan | None = None) -> None: ...

    def _derive(self) -> None:
        if self.dtype.lanes != self.value.dtype.lanes:
            raise TypeError(f"Cast keeps the number of lanes, but goes from {self.value.dtype} to {self.dtype}")


class Select(PrimExpr, key="tir.Select"):
    """true_value where the condition holds, else false_value; both are evaluated."""

    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr
    span: Skip[BaseSpan | None] = None

    if TYPE_CHECKING:
        # The fields' converters take plain numbers, too.
        def __init__(
            self,
            condition: PrimExprLike,
            true_value: PrimExprLike,
            false_value: PrimExprLike,
            span: BaseSpan | None = None,
        ) -> None: ...

    def _derive(self) -> None:
        dtype, by = self.true_value.dtype, self.condition.dtype
        if dtype is not self.false_value.dtype or not by.is_bool or by.lanes not in (1, dtype.lanes):
            raise TypeError(
                "Select takes a bool and two values of one type (the bool scalar, or of as many lanes as they), but was given"
                f" {by}, {dtype}, {self.false_value.dtype}"
            )
        self.dtype = dtype


class BufferLoad(PrimExpr, key="tir.BufferLoad"):
    """An element of a buffer, or several when the last index is a vector."""

    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = None
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        self.dtype = element_dtype(self.buffer, self.indices)
        if self.predicate is not None:
            need_condition(
                "the predicate of a load of buffer {}", self.predicate, self.dtype.lanes, name=self.buffer.name
            )


def element_dtype(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> DataType:
    """The type that `buffer[indices]` has: the buffer's, with the lanes of the last index."""
    if len(indices) != len(buffer.shape):
        raise TypeError(
            f"buffer {buffer.name} has {len(buffer.shape)} dimensions, but is indexed with {len(indices)}: {list(indices)}"
        )
    lanes = 1
    for i in indices:
        dtype = i.dtype
        if dtype not in INDEX_TYPES:
            if not (dtype.is_int or dtype.is_uint):
                raise TypeError(
                    f"an index of buffer {buffer.name} must be an integer, but is {dtype}: {i!r}; cast it with .astype"
                )
            if lanes != 1:
                raise TypeError(
                    f"only the last index of buffer {buffer.name} may be a vector, but another is too: {list(indices)}"
                )
            lanes = dtype.lanes
    if lanes != 1 and indices[-1].dtype.lanes == 1:
        raise TypeError(
            f"only the last index of buffer {buffer.name} may be a vector, but an earlier one is: {list(indices)}"
        )
    return buffer.dtype if lanes == 1 else buffer.dtype.with_lanes(buffer.dtype.lanes * lanes)


class ProducerLoad(PrimExpr, key="tir.ProducerLoad"):
    """An element of a te tensor; `producer` is what computes it."""

    producer: Any
    indices: tuple[PrimExpr, ...]
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        self.dtype = DataType(self.producer.dtype)


def scalable_lanes(value: Any) -> ScalableLanes | None:
    """The lanes that an expression means, vscale() or a product of it and a positive number; None for others."""
    if isinstance(value, ScalableLanes):
        return value
    if isinstance(value, Call) and value.intrinsic == "vscale":
        return ScalableLanes(1)
    if isinstance(value, Mul):
        for found, factor in ((scalable_lanes(value.a), value.b), (scalable_lanes(value.b), value.a)):
            if found is not None and isinstance(factor, IntImm) and factor.value > 0:
                return found * factor.value
    return None


def _lanes(value: Any, where: str) -> int:
    try:
        lanes = int(value)
    except (TypeError, ValueError):
        scalable = scalable_lanes(value)
        if scalable is None:
            raise TypeError(
                f"{where}.lanes must be a constant int, or vscale() times one, but was given {value!r}"
            ) from None
        return scalable  # type: ignore[return-value]
    if lanes < 1:
        raise TypeError(f"{where}.lanes must be at least 1, but was given {lanes}")
    return lanes


class Ramp(PrimExpr, key="tir.Ramp"):
    """The vector base, base + stride, ... of `lanes` lanes."""

    base: PrimExpr
    stride: PrimExpr
    lanes: int
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        self.lanes = _lanes(self.lanes, "Ramp")
        dtype = self.base.dtype
        if dtype is not self.stride.dtype:
            raise TypeError(f"Ramp takes base and stride of one type, but was given {dtype}, {self.stride.dtype}")
        if not (dtype.is_int or dtype.is_uint):
            raise TypeError(f"Ramp takes integers, but was given {dtype}: {self.base!r}")
        self.dtype = self.base.dtype.with_lanes(self.base.dtype.lanes * self.lanes)


class Broadcast(PrimExpr, key="tir.Broadcast"):
    """A value in every one of `lanes` lanes."""

    value: PrimExpr
    lanes: int
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        self.lanes = _lanes(self.lanes, "Broadcast")
        if self.value.dtype is HANDLE:
            raise TypeError(f"Broadcast takes a number, but was given a handle: {self.value!r}")
        self.dtype = self.value.dtype.with_lanes(self.value.dtype.lanes * self.lanes)


class Shuffle(PrimExpr, key="tir.Shuffle"):
    """Lanes picked by constant indices from the concatenation of vectors."""

    vectors: tuple[PrimExpr, ...]
    indices: tuple[PrimExpr, ...]
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        if not self.vectors or not self.indices:
            raise TypeError(
                f"Shuffle takes at least one vector and one index, but was given {len(self.vectors)} and {len(self.indices)}"
            )
        element = self.vectors[0].dtype.element
        if any([v.dtype.element is not element for v in self.vectors]):
            raise TypeError(
                f"Shuffle takes vectors of one element type, but was given {', '.join([v.dtype for v in self.vectors])}"
            )
        need_integers("the indices of Shuffle", self.indices)
        total = sum([v.dtype.lanes for v in self.vectors])
        for i in self.indices:
            at = getattr(i, "value", None)
            if type(at) is int and not 0 <= at < total:
                raise TypeError(f"Shuffle picks from {total} lanes, but was given the index {at}")
        self.dtype = element.with_lanes(len(self.indices))


class Call(PrimExpr, key="tir.Call"):
    """An intrinsic, an external function or a function of the module applied to arguments."""

    dtype: DataType
    op: BaseExpr
    args: tuple[PrimExpr, ...]
    span: Skip[BaseSpan | None] = None

    if TYPE_CHECKING:
        # The fields' converters take the name of a type, the name of an intrinsic and plain numbers.
        def __init__(self, dtype: str, op: BaseExpr | str, args: Any, span: BaseSpan | None = None) -> None: ...

    def _derive(self) -> None:
        if isinstance(self.op, str):
            op = self.op
            self.op = Op.get(op if op.startswith("tir.") else f"tir.{op}")
        if not isinstance(self.op, (Op, GlobalVar)):
            raise TypeError(f"Call.op must be an Op or a GlobalVar, but was given {type(self.op).__name__}")
        arity = ARITY.get(self.op)
        if arity is not None and arity != len(self.args):
            raise TypeError(
                f"tir.{self.intrinsic} takes {arity} argument{'s' if arity != 1 else ''},"
                f" but was given {len(self.args)}: {list(self.args)}"
            )

    @property
    def intrinsic(self) -> str:
        """The name of the intrinsic that is called, without "tir." before it; "" where a function of the module is called."""
        return self.op.name.removeprefix("tir.") if isinstance(self.op, Op) else ""


ARITY: dict[BaseExpr, int] = {}
"""How many arguments an intrinsic takes, for those that take a fixed number."""


class Let(PrimExpr, key="tir.Let"):
    """The body, with the variable standing for a value."""

    _binder = "var"

    var: Def[Var]
    value: PrimExpr
    body: PrimExpr
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        need_type("the value of {}", self.var.dtype, self.value, name=self.var.name)
        self.dtype = self.body.dtype


class CommReducer(Node, key="tir.CommReducer"):
    """A commutative, associative combination of tuples, with its identity."""

    lhs: Def[tuple[Var, ...]]
    rhs: Def[tuple[Var, ...]]
    result: tuple[PrimExpr, ...]
    identity_element: tuple[PrimExpr, ...]
    span: Skip[BaseSpan | None] = None

    def _binds(self) -> list[Var]:
        return [*self.lhs, *self.rhs]

    def _derive(self) -> None:
        counts = [len(part) for part in (self.lhs, self.rhs, self.result, self.identity_element)]
        if len(set(counts)) != 1 or not counts[0]:
            raise TypeError(
                "CommReducer takes as many rhs, results and identities as lhs, at least one, but was given"
                f" {counts[0]} lhs, {counts[1]} rhs, {counts[2]} results and {counts[3]} identities"
            )
        for x, y, r, e in zip(self.lhs, self.rhs, self.result, self.identity_element, strict=True):
            if not (x.dtype is y.dtype is r.dtype is e.dtype):
                raise TypeError(
                    "CommReducer combines values of one type, but was given"
                    f" lhs {x.dtype}, rhs {y.dtype}, result {r.dtype}, identity {e.dtype}"
                )


class Reduce(PrimExpr, key="tir.Reduce"):
    """Output `value_index` of a reduction of `source` over `axis` where `condition` holds."""

    combiner: CommReducer
    source: tuple[PrimExpr, ...]
    axis: Def[tuple[IterVar, ...]]
    condition: PrimExpr
    value_index: int
    init: tuple[PrimExpr, ...] = ()
    span: Skip[BaseSpan | None] = None

    def __init__(
        self,
        combiner: CommReducer,
        src: Any,
        rdom: Any,
        condition: PrimExprLike,
        value_index: int,
        init: Any = None,
        span: BaseSpan | None = None,
    ) -> None:
        self._build(combiner, src, rdom, condition, value_index, init or (), span)

    def _derive(self) -> None:
        count = len(self.combiner.lhs)
        if len(self.source) != count:
            raise TypeError(
                f"Reduce takes a source for each of the {count} values combined, but was given {len(self.source)}"
            )
        if not 0 <= self.value_index < count:
            raise TypeError(f"Reduce.value_index must lie in 0..{count - 1}, but was given {self.value_index}")
        if self.init and len(self.init) != count:
            raise TypeError(
                f"Reduce takes an init for each of the {count} values, or none, but was given {len(self.init)}"
            )
        need_condition("the condition of Reduce", self.condition)
        for x, e in zip(self.combiner.lhs, self.source, strict=True):
            need_type("the source of Reduce", x.dtype, e)
        for a in self.axis:
            if a.iter_type != IterVar.CommReduce:
                raise TypeError(
                    f"Reduce takes reduction axes (te.reduce_axis), but {a.var.name} is of iter_type {a.iter_type}"
                )
        self.dtype = self.source[self.value_index].dtype


class Any_(PrimExpr, key="tir.Any"):
    """A dimension of which nothing is known."""

    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        self.dtype = DataType("int32")


Any_.__name__ = Any_.__qualname__ = "Any"


ExprOp = PrimExprWithOp = PrimExpr
"""Classic names of what has operators."""

__all__ = [name for name, obj in globals().items() if isinstance(obj, type) and issubclass(obj, Node)]


# What stands in other modules here, classic programs import from this one, too.
__getattr__, __dir__ = lazy.late(__name__, otherwise=lazy.names_of("tilewright.tir"))
