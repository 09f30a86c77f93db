"""Quantisation in floating point, whose type is data: a number says into which type values are rounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi import tag
from tilewright.topi.classic_modules import elsewhere
from tilewright.topi.lang import compute, tir
from tilewright.topi.utils import normalize_axis, shape_of, to

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var

__getattr__, __dir__ = elsewhere(__name__)

SQNN_DISABLE, SQNN_INT8, SQNN_UINT8, SQNN_INT32 = range(4)
SQNN_DTYPE_TO_CODE = {"disable": SQNN_DISABLE, "int8": SQNN_INT8, "uint8": SQNN_UINT8, "int32": SQNN_INT32}
SQNN_CODE_TO_DTYPE = {code: dtype for dtype, code in SQNN_DTYPE_TO_CODE.items()}


def _along(vector: te.Tensor | None, index: PrimExpr, default: float, dtype: str) -> Any:
    """An element of a scale or zero point: a scalar, or as many as the axis has places."""
    if vector is None:
        return tir.const(default, dtype)
    extent = shape_of(vector)[0] if vector.shape else None
    value = vector() if extent is None else vector(0 if extent == 1 else index)
    return to(value, dtype)


def _code(kind: te.Tensor) -> PrimExpr:
    code: PrimExpr = to(kind() if not kind.shape else kind(0), "int32")
    return code


def simulated_quantize(
    data: te.Tensor,
    out_dtype: te.Tensor,
    output_scale: te.Tensor | None = None,
    output_zero_point: te.Tensor | None = None,
    axis: int = -1,
) -> te.Tensor:
    """round(data / scale) + zero point, clipped to the type that the code `out_dtype` (SQNN_...) states, as numbers of data's type; data
    itself for SQNN_DISABLE. Scale and zero point are scalars, or vectors along `axis`."""
    at = normalize_axis(axis, len(data.shape)) if data.shape else 0

    def element(*i: Var) -> Any:
        value, place = data(*i), i[at] if i else tir.const(0, "int32")
        scale = _along(output_scale, place, 1, data.dtype)
        zero = _along(output_zero_point, place, 0, data.dtype)
        whole = tir.round(value / scale) + zero
        code = _code(out_dtype)
        found: Any = value
        for dtype in ("int8", "uint8", "int32"):
            least, most = (to(f(dtype), data.dtype) for f in (tir.min_value, tir.max_value))
            clipped = tir.max(tir.min(whole, most), least)
            found = tir.Select(tir.EQ(code, SQNN_DTYPE_TO_CODE[dtype]), clipped, found)
        return found

    return compute(data.shape, element, name="simulated_quantize", tag=tag.BROADCAST)


def simulated_dequantize(
    data: te.Tensor,
    in_dtype: te.Tensor,
    input_scale: te.Tensor | None = None,
    input_zero_point: te.Tensor | None = None,
    axis: int = -1,
) -> te.Tensor:
    """(data - zero point) * scale of numbers that `simulated_quantize` made; data itself if the code `in_dtype` is SQNN_DISABLE."""
    at = normalize_axis(axis, len(data.shape)) if data.shape else 0

    def element(*i: Var) -> Any:
        value, place = data(*i), i[at] if i else tir.const(0, "int32")
        scale, zero = _along(input_scale, place, 1, data.dtype), _along(input_zero_point, place, 0, data.dtype)
        return tir.Select(tir.EQ(_code(in_dtype), SQNN_DISABLE), value, (value - zero) * scale)

    return compute(data.shape, element, name="simulated_dequantize", tag=tag.BROADCAST)
