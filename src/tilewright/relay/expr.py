"""Relay expressions: a functional graph over tensors, with the classic names, field names and operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from tilewright.ir import (
    Attrs,
    BaseFunc,
    DataType,
    FuncType,
    GlobalVar,
    IRModule,
    Op,
    RelayExpr,
    TensorType,
    Type,
)
from tilewright.ir.expr import register_global_call
from tilewright.ir.inspection import register_inspection
from tilewright.ir.span import BaseSpan
from tilewright.node import GRAPH, VARIABLE, Def, Skip, register_converter, register_leaf
from tilewright.node.field_values import decode_array, digest_array, encode_array, equal_arrays, numpy_dtype
from tilewright.runtime.dtype import native_order
from tilewright.support import lazy
from tilewright.support.errors import TVMError
from tilewright.target.virtual_device import VirtualDevice

Expr = RelayExpr
RelayVar: TypeAlias = "Var"  # node fields name their converter, and plain "Var" is tir's


class ConstArray(np.ndarray):
    """A constant's values: a read-only view of the array it was made from, whose digest is computed once."""

    _digest: bytes | None = None

    def numpy(self) -> np.ndarray:
        """The values as a plain array, not copied."""
        return self.view(np.ndarray)

    def asnumpy(self) -> np.ndarray:
        return self.view(np.ndarray)

    def digest(self) -> bytes:
        """Content digest (dtype and shape included)."""
        if self._digest is None:
            values = self.view(np.ndarray)
            self._digest = digest_array(values) if values.nbytes < LARGE else _digest_large(values)
        return self._digest


LARGE = 1 << 20
"""Bytes from which constants are digested by the fastest function there is, four times as fast as others that are as sure."""


def _digest_large(values: np.ndarray) -> bytes:
    from blake3 import blake3

    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    return f"{values.dtype.name}{values.shape}".encode() + blake3(data.data).digest()


def const_array(value: Any) -> ConstArray:
    """The read-only view; scalars, sequences and tensors that NumPy understands are converted first."""
    if not isinstance(value, np.ndarray):
        value = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
    if value.dtype.kind in "OSUMm":
        raise TypeError(
            f"a constant holds numbers, but was given {value.dtype} values: {' '.join(repr(value).split())[:80]}"
        )
    view = native_order(value).view(ConstArray)
    view.flags.writeable = False
    return view


def _equal_const(a: ConstArray, b: ConstArray) -> bool:
    if a is b or a.base is b or b.base is a:
        return equal_arrays(a, b) if a is not b else True
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return a.digest() == b.digest() if a._digest and b._digest else equal_arrays(a, b)


register_leaf(
    ConstArray, "const", encode_array, lambda v: const_array(decode_array(v)), ConstArray.digest, _equal_const
)
register_converter("ConstArray", ConstArray, lambda value, where: const_array(value))


def _expr(value: object, where: str) -> Expr:
    if isinstance(value, TupleWrapper):
        return value.tuple_value
    if isinstance(value, (list, tuple)):
        return Tuple(tuple([_expr(v, where) for v in value]))
    remedy = (
        "; write relay.const(...) for a constant" if isinstance(value, (int, float, np.ndarray, np.generic)) else ""
    )
    raise TypeError(f"{where} takes a relay expression, but was given {type(value).__name__}: {value!r}{remedy}")


def _not_var(value: object, where: str) -> Expr:
    shown = " ".join(repr(value).split())
    raise TypeError(f"{where} takes a relay.Var, but was given {type(value).__name__}: {shown[:80]}")


# Before the first node that has such a field: its constructor is generated with the conversion.
register_converter("RelayExpr", RelayExpr, _expr)


class TempExpr(RelayExpr):
    """Base of temporary expressions, which a rewriting uses to store information about an expression. `realize` returns that
    expression. Finished programs contain none."""

    __slots__ = ()

    def realize(self) -> Expr:
        """The expression that this stands for."""
        raise TVMError(f"{type(self).__name__} is a TempExpr, and must define realize()")


def _own_device(e: RelayExpr) -> VirtualDevice:
    """What an expression itself says of the device of its value: annotations, copies, and functions with planned devices do."""
    found: Any = None
    if isinstance(e, Function):
        found = e.attrs.get("result_virtual_device")
    elif isinstance(e, Call) and isinstance(e.op, Op):
        if e.op.name == "on_device" and getattr(e.attrs, "constrain_result", False):
            found = getattr(e.attrs, "virtual_device", None)
        elif e.op.name == "device_copy":
            found = getattr(e.attrs, "dst_virtual_device", None)
    return found if isinstance(found, VirtualDevice) else VirtualDevice()


class ExprWithOp(RelayExpr):
    """Expressions that carry Python's operators."""

    __slots__ = ()

    virtual_device = virtual_device_ = property(_own_device)

    def astype(self, dtype: str) -> ExprWithOp:
        """cast to `dtype`."""
        return _make("cast", self, dtype)

    def __neg__(self) -> ExprWithOp:
        return _make("negative", self)

    def __lt__(self, other: RelayExpr | TupleWrapper) -> ExprWithOp:
        return _binary("less", self, other)

    def __gt__(self, other: RelayExpr | TupleWrapper) -> ExprWithOp:
        return _binary("greater", self, other)

    def __le__(self, other: RelayExpr | TupleWrapper) -> ExprWithOp:
        return _binary("less_equal", self, other)

    def __ge__(self, other: RelayExpr | TupleWrapper) -> ExprWithOp:
        return _binary("greater_equal", self, other)

    def __add__(self, other: RelayExpr | TupleWrapper) -> ExprWithOp:
        return _binary("add", self, other)

    def __radd__(self, other: RelayExpr | TupleWrapper) -> ExprWithOp:
        return self.__add__(other)

    def __sub__(self, other: RelayExpr | TupleWrapper) -> ExprWithOp:
        return _binary("subtract", self, other)

    def __rsub__(self, other: RelayExpr | TupleWrapper) -> ExprWithOp:
        return _binary("subtract", other, self)

    def __mul__(self, other: RelayExpr | TupleWrapper) -> ExprWithOp:
        return _binary("multiply", self, other)

    def __rmul__(self, other: RelayExpr | TupleWrapper) -> ExprWithOp:
        return self.__mul__(other)

    def __truediv__(self, other: RelayExpr | TupleWrapper) -> ExprWithOp:
        return _binary("divide", self, other)

    def __rtruediv__(self, other: RelayExpr | TupleWrapper) -> ExprWithOp:
        return _binary("divide", other, self)

    def __call__(self, *args: Any) -> Call:
        """Call of the function that this expression is."""
        return Call(self, args)


_operators: list[Callable[[str], Any]] = []


def register_operators(constructor: Callable[[str], Any], default_attrs: Callable[[str], Attrs | None]) -> None:
    """Says how calls of an operator are made, and which attributes they have that were given none: operators stand above expressions."""
    _operators[:] = [constructor, default_attrs]


def _make(key: str, *args: Any) -> ExprWithOp:
    made: ExprWithOp = _operators[0](key)(*args)
    return made


def _binary(key: str, lhs: object, rhs: object) -> ExprWithOp:
    for side in (lhs, rhs):
        if isinstance(side, (bool, int, float)):
            raise TypeError(
                f"{key}: a Python number has no dtype; write relay.const({side!r}, dtype) instead of {side!r}"
            )
        if not isinstance(side, (RelayExpr, TupleWrapper)):
            raise TypeError(f"{key}: relay expressions are expected on both sides, but {type(side).__name__} was given")
    return _make(key, lhs, rhs)


class Constant(ExprWithOp, key="relay.Constant"):
    """A tensor known at compile time. `data` is not copied from the array given, which must not change afterwards."""

    data: ConstArray
    span: Skip[BaseSpan | None] = None

    @property
    def value(self) -> np.ndarray:
        """The values as a plain NumPy array."""
        return self.data.view(np.ndarray)

    def rehouse(self, values: np.ndarray) -> None:
        """Let go of the array that the values stand in: `values` are the same ones, in memory that stays anyway."""
        moved = const_array(values)
        moved._digest = self.data._digest
        object.__setattr__(self, "data", moved)

    def is_scalar(self) -> bool:
        return self.data.ndim == 0


class Tuple(ExprWithOp, key="relay.Tuple"):
    """Several values as one."""

    _identity: ClassVar[str] = GRAPH
    fields: tuple[RelayExpr, ...]
    span: Skip[BaseSpan | None] = None

    def __getitem__(self, index: int) -> Expr:
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)


class Var(ExprWithOp, key="relay.Var"):
    """A function parameter or a let-bound name. Two variables are the same only if they are the same object."""

    _identity: ClassVar[str] = VARIABLE
    _cosmetic: ClassVar[frozenset[str]] = frozenset({"name_hint"})
    name_hint: str
    type_annotation: Type | None = None
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        if not isinstance(self.name_hint, str):
            raise TypeError(f"the name of a relay.Var must be a string, but is {self.name_hint!r}")


register_converter("RelayVar", Var, _not_var)


class Call(ExprWithOp, key="relay.Call"):
    """Application of an operator (then `attrs` is its card) or of a function.

    given_types: the type arguments that are written at the call of a polymorphic function; operators have none.
    """

    _identity: ClassVar[str] = GRAPH
    op: RelayExpr
    args: tuple[RelayExpr, ...]
    attrs: Attrs | None = None
    given_types: tuple[Type, ...] = ()
    span: Skip[BaseSpan | None] = None

    def __init__(
        self,
        op: Any,
        args: Any,
        attrs: Attrs | None = None,
        type_args: Any = (),
        span: BaseSpan | None = None,
    ) -> None:
        # Programs that rebuild calls of operators give what `type_args` tells of the old ones.
        self._build(op, args, attrs, () if type(op) is Op else type_args or (), span)

    @property
    def type_args(self) -> tuple[Type, ...]:
        """The type arguments: those given, or for an operator, once inferred, the types of its arguments."""
        if type(self.op) is not Op:
            return self.given_types
        found = [getattr(arg, "_checked_type", None) for arg in self.args]
        return tuple([t for t in found if t is not None]) if None not in found else ()

    def _derive(self) -> None:
        if self.attrs is None and type(self.op) is Op:
            self.attrs = _operators[1](self.op.name) if _operators else None

    @property
    def operator(self) -> Op:
        """`op` of a call of an operator. Raises TypeError for a call of a function."""
        op = self.op
        if type(op) is not Op:
            raise TypeError(f"a call of an operator was expected, but this is a call of a {type(op).__name__}")
        return op


class TupleGetItem(ExprWithOp, key="relay.TupleGetItem"):
    """Element `index` of a tuple value."""

    tuple_value: RelayExpr
    index: int
    span: Skip[BaseSpan | None] = None

    def _derive(self) -> None:
        if type(self.index) is not int:
            if isinstance(self.index, bool) or not hasattr(self.index, "__index__"):
                raise TypeError(f"the index of a TupleGetItem must be an integer, but is {self.index!r}")
            self.index = int(self.index)
        if self.index < 0:
            raise ValueError(f"the index of a TupleGetItem counts from 0, but is {self.index}")


class Let(ExprWithOp, key="relay.Let"):
    """`let var = value; body`."""

    _identity: ClassVar[str] = GRAPH
    var: Def[RelayVar]
    value: RelayExpr
    body: RelayExpr
    span: Skip[BaseSpan | None] = None


class If(ExprWithOp, key="relay.If"):
    """`cond` is a bool scalar; only one branch is evaluated."""

    _identity: ClassVar[str] = GRAPH
    cond: RelayExpr
    true_branch: RelayExpr
    false_branch: RelayExpr
    span: Skip[BaseSpan | None] = None


class RefCreate(ExprWithOp, key="relay.RefCreate"):
    """A new mutable reference that holds `value`."""

    _identity: ClassVar[str] = GRAPH
    value: RelayExpr
    span: Skip[BaseSpan | None] = None


class RefRead(ExprWithOp, key="relay.RefRead"):
    """The value that the reference `ref` holds at evaluation; order reads and writes by `let`."""

    _identity: ClassVar[str] = GRAPH
    ref: RelayExpr
    span: Skip[BaseSpan | None] = None


class RefWrite(ExprWithOp, key="relay.RefWrite"):
    """Puts `value` into the reference `ref`; its own value is the empty tuple."""

    _identity: ClassVar[str] = GRAPH
    ref: RelayExpr
    value: RelayExpr
    span: Skip[BaseSpan | None] = None


class Function(BaseFunc, key="relay.Function"):
    """A function of relay values; also a value itself."""

    _identity: ClassVar[str] = GRAPH
    virtual_device = virtual_device_ = property(_own_device)
    params: Def[tuple[RelayVar, ...]]
    body: RelayExpr
    ret_type: Type | None = None
    type_params: Def[tuple[Type, ...]] = ()
    attrs: Mapping[str, Any] = {}
    span: Skip[BaseSpan | None] = None

    def _binds(self) -> list[Any]:
        return list(self.type_params)

    def __init__(
        self,
        params: Sequence[Var],
        body: Expr,
        ret_type: Type | None = None,
        type_params: Sequence[Type] | None = None,
        attrs: Mapping[str, Any] | None = None,
        span: BaseSpan | None = None,
    ) -> None:
        if not isinstance(params, (tuple, list)) and not hasattr(params, "__iter__"):
            raise TypeError(
                f"Function.params takes a list of relay.Var, but was given {type(params).__name__}: {params!r}"
            )
        given = {
            "params": tuple(params),
            "body": body.tuple_value if isinstance(body, TupleWrapper) else body,
            "ret_type": ret_type,
            "type_params": tuple(type_params or ()),
            "attrs": dict(attrs or {}),
            "span": span,
        }
        self._build(*[given[f.name] for f in self._fields])

    def __call__(self, *args: Any) -> Call:
        return Call(self, args)

    @property
    def is_primitive(self) -> bool:
        """Whether FuseOps made it: one kernel."""
        return bool(self.attrs.get("Primitive", 0))


class TupleWrapper:
    """A tuple value that unpacks in Python: the result of operators with several results."""

    __slots__ = ("size", "tuple_value")

    def __init__(self, tuple_value: Expr, size: int) -> None:
        self.tuple_value, self.size = tuple_value, size

    def astuple(self) -> Expr:
        """The results as one value: the tuple that the operator makes."""
        return self.tuple_value

    def __getitem__(self, index: int) -> TupleGetItem:
        if not -self.size <= index < self.size:
            raise IndexError(f"result {index} was asked for, but there are {self.size}")
        return TupleGetItem(self.tuple_value, index % self.size)

    def __iter__(self) -> Iterator[Expr]:
        return iter([TupleGetItem(self.tuple_value, i) for i in range(self.size)])

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"TupleWrapper({self.tuple_value!r}, {self.size})"


def _is_relay(args: Sequence[object]) -> bool:
    return any([isinstance(a, (RelayExpr, TupleWrapper)) for a in args])


register_inspection(Function, "tilewright.relay.transform.verify:faults", "tilewright.relay.transform.verify:size")
register_global_call(_is_relay, lambda gvar, args: Call(gvar, args))


def var(
    name_hint: str,
    type_annotation: Type | str | None = None,
    shape: Sequence[Any] | None = None,
    dtype: str = "float32",
    span: BaseSpan | None = None,
) -> Var:
    """A variable. Give either its type or its `shape` (ints, tir.Var or Any) and `dtype`; neither leaves it to inference."""
    if type_annotation is not None and shape is not None:
        raise ValueError("relay.var takes either type_annotation or shape, but both were given")
    if shape is not None:
        type_annotation = TensorType(tuple(shape), DataType(dtype))
    elif isinstance(type_annotation, str):
        type_annotation = TensorType((), DataType(type_annotation))
    return Var(name_hint, type_annotation, span)


def const(value: Any, dtype: str | None = None, span: BaseSpan | None = None) -> Constant:
    """A constant. Without `dtype`, Python floats become float32, ints int32, bools bool; arrays keep theirs."""
    if isinstance(value, (list, tuple)):
        value = np.array(value)
        if dtype is None and value.dtype.name in ("float64", "int64"):
            dtype = {"float64": "float32", "int64": "int32"}[value.dtype.name]
    if dtype is None:
        kinds: dict[type, str] = {bool: "bool", int: "int32", float: "float32"}
        dtype = kinds.get(type(value))
    if not isinstance(value, np.ndarray) and hasattr(value, "numpy"):
        value = value.numpy()
    array = np.asarray(value) if dtype is None else np.asarray(value, numpy_dtype(str(dtype)))
    if array.dtype.kind in "OSUMm":
        raise TypeError(
            f"relay.const takes numbers or an array of numbers, but was given {type(value).__name__}: {value!r}"
        )
    return Constant(const_array(array), span)


__all__ = [
    "BaseFunc",
    "Call",
    "ConstArray",
    "Constant",
    "Expr",
    "ExprWithOp",
    "FuncType",
    "Function",
    "GlobalVar",
    "IRModule",
    "If",
    "Let",
    "RefCreate",
    "RefRead",
    "RefWrite",
    "RelayExpr",
    "Tuple",
    "TupleGetItem",
    "TupleWrapper",
    "Var",
    "const",
    "var",
]

# `bind` rewrites, so it stands above.
__getattr__, __dir__ = lazy.late(__name__)
