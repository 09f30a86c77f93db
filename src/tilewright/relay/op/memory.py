"""Memory as values of a program, and conversion between nested tuples and lists of tensors (classic `relay.op.memory`)."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import TensorType, TupleType, Type
from tilewright.relay.cards.card import constructor
from tilewright.relay.cards.relations import Dim
from tilewright.relay.expr import Expr, ExprWithOp, Tuple, TupleGetItem
from tilewright.relay.op.program.devices import AnyDevice, as_virtual_device
from tilewright.relay.op.program.manifest import known_shape
from tilewright.support import lazy
from tilewright.support.errors import TVMError
from tilewright.target import VirtualDevice

__all__ = [
    "alloc_storage",
    "alloc_tensor",
    "device_copy",
    "flatten_tuple_type",
    "from_tuple_type",
    "kill",
    "to_tuple_type",
]


def alloc_storage(
    size: Expr, shape: Expr, alignment: Expr, virtual_device: VirtualDevice, dtype_hint: str = "float32"
) -> ExprWithOp:
    """A storage of `size` bytes on a device, aligned to `alignment`, for elements of `dtype_hint` in `shape`. size, shape and
    alignment are integer expressions. The result is a tensor of bytes."""
    attrs = {"virtual_device": as_virtual_device(virtual_device), "dtype_hint": dtype_hint}
    return constructor("memory.alloc_storage")(size, shape, alignment, **attrs)


def alloc_tensor(
    storage: Expr, offset: Expr, shape: Expr, dtype: str = "float32", assert_shape: Sequence[Dim] | None = None
) -> ExprWithOp:
    """A tensor in a storage, from byte `offset` on. shape: a 1-D expression. assert_shape: the dimensions that are known."""
    const_shape, known = known_shape(shape), () if assert_shape is None else tuple(assert_shape)
    attrs = {"const_shape": const_shape, "assert_shape": known, "dtype": dtype}
    return constructor("memory.alloc_tensor")(storage, offset, shape, **attrs)


def kill(expr: Expr) -> ExprWithOp:
    """Marks the end of the lifetime of a variable's value."""
    return constructor("memory.kill")(expr)


def device_copy(data: Expr, src_device: AnyDevice, dst_device: AnyDevice) -> ExprWithOp:
    """A copy of a tensor in the memory of another device."""
    return constructor("device_copy")(data, src_device, dst_device)


def flatten_tuple_type(ty: Type) -> list[TensorType]:
    """The tensor types in a type, in order, including those in nested tuples. Raises TVMError for a type that contains other types."""
    if isinstance(ty, TensorType):
        return [ty]
    if isinstance(ty, TupleType):
        return [found for field in ty.fields for found in flatten_tuple_type(field)]
    raise TVMError(f"only tensors and tuples of them are flattened, but the type is {ty}")


def from_tuple_type(ty: Type, expr: Expr) -> list[Expr]:
    """The tensors of an expression of a type, as one expression each, in order."""
    if isinstance(ty, TupleType):
        fields = expr.fields if isinstance(expr, Tuple) else [TupleGetItem(expr, i) for i in range(len(ty.fields))]
        return [found for t, field in zip(ty.fields, fields, strict=True) for found in from_tuple_type(t, field)]
    flatten_tuple_type(ty)
    return [expr]


def to_tuple_type(ty: Type, exprs: Sequence[Expr]) -> Expr:
    """A tuple of the given type, made of expressions of its tensors. Raises TVMError for a wrong number of expressions."""
    count = len(flatten_tuple_type(ty))
    if len(exprs) != count:
        raise TVMError(f"the type {ty} has {count} tensors, but {len(exprs)} expressions were given")
    rest = iter(exprs)

    def pack(t: Type) -> Expr:
        return Tuple(tuple([pack(f) for f in t.fields])) if isinstance(t, TupleType) else next(rest)

    return pack(ty)


lazy.faces(__name__, {"memory": ()})
