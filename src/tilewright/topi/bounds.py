"""Computes that copy indices or divisors, and raise an error at run time for an index out of bounds or a zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright import te
from tilewright.topi.lang import tir
from tilewright.topi.loops import loop_kind, program, unflatten
from tilewright.topi.utils import prod, shape_of, to, whole

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.ir_builder import BufferVar, IRBuilder


HERE = "\1"
"""Marks the place of the first of two numbers in the text of an assertion. The second one is appended to the text."""
INDEX = (
    "{name}: an index along axis {axis} must lie in [{low}, extent), but the extent is " + HERE + " and the index is "
)
ZERO = "{name}: an integer is divided by zero"


def low_of(below: bool) -> str:
    """The lowest valid index, as text for the message."""
    return "-extent" if below else "0"


def _assertion(ib: IRBuilder, condition: PrimExpr, *parts: PrimExpr | str) -> None:
    """Emits an assertion for the code that follows. parts: kind of the error, text, numbers."""
    texts = [tir.StringImm(p) if isinstance(p, str) else to(p, "int64") for p in parts]
    message = tir.tvm_tuple(*texts)
    ib.emit(lambda body: tir.AssertStmt(condition, message, body))


def checked_indices(
    indices: te.Tensor, extents: te.Tensor, axes: Sequence[int], rows: bool, below: bool, name: str
) -> te.Tensor:
    """The indices, after a check that all are valid along `axes` of data of shape `extents`: one axis for all indices, or (`rows`)
    one axis for each row of indices. below: negative indices count from the end. The error names the operator `name`."""
    shape = shape_of(indices)
    each = shape[1:] if rows else shape

    def body(ib: IRBuilder, given: BufferVar, sizes: BufferVar, out: BufferVar) -> None:
        with ib.for_range(0, prod(each), "k", kind=loop_kind(*each)) as k:
            for row, axis in enumerate(axes):
                place = (row, *unflatten(k, each)) if rows else tuple(unflatten(k, each))
                index, extent = to(whole(given[place]), "int64"), sizes[axis].astype("int64")
                low = tir.const(0, "int64") - extent if below else tir.const(0, "int64")
                text = INDEX.format(name=name, axis=axis, low=low_of(below))
                with ib.new_scope():
                    _assertion(ib, tir.And(index >= low, index < extent), "BoundsError", text, extent, index)
                    out[place] = given[place]

    return program([shape], [indices.dtype], [indices, extents], body, "checked_indices")[0]


def checked_divisor(divisor: te.Tensor, name: str) -> te.Tensor:
    """The divisor, after a check that all elements are nonzero. The error names the operator `name`."""
    shape = shape_of(divisor)

    def body(ib: IRBuilder, given: BufferVar, out: BufferVar) -> None:
        with ib.for_range(0, prod(shape), "k", kind=loop_kind(*shape)) as k:
            place = tuple(unflatten(k, shape))
            value = given[place]
            _assertion(ib, tir.NE(value, tir.const(0, value.dtype)), "DivisionByZeroError", ZERO.format(name=name))
            out[place] = value

    return program([shape], [divisor.dtype], [divisor], body, "checked_divisor")[0]
