"""Padding and dilation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.utils import as_int, get_const_int, shape_of

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var


def pad(
    data: te.Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int] | None = None,
    pad_value: Any = 0.0,
    name: str = "PadInput",
    attrs: Mapping[str, Any] | None = None,
) -> te.Tensor:
    """data padded with `pad_value`, as a stage that schedules can inline or pack. Negative widths crop."""
    before = [as_int(p) for p in pad_before]
    after = before if pad_after is None else [as_int(p) for p in pad_after]
    shape = shape_of(data)
    if all(isinstance(p, int) and p == 0 for p in [*before, *after]):
        return data
    out = [as_int(d + (b + a)) for d, b, a in zip(shape, before, after, strict=True)]
    value = tir.const(pad_value, data.dtype) if isinstance(pad_value, (int, float)) else pad_value

    def element(*i: Var) -> Any:
        index, inside = [], []
        for p, d, b, a in zip(i, shape, before, after, strict=True):
            index.append(p if isinstance(b, int) and b == 0 else p - b)
            if not isinstance(b, int) or b > 0:
                inside.append(p >= b)
            if not isinstance(a, int) or a > 0:
                inside.append(p < d + b)
        return tir.if_then_else(tir.all(*inside), data(*index), value) if inside else data(*index)

    return compute(out, element, name=name, tag="injective,pad", attrs=attrs)


def mirror_pad(
    data: te.Tensor,
    pad_before: Sequence[int],
    pad_after: Sequence[int],
    mode: str = "SYMMETRIC",
    name: str = "MirrorPad",
) -> te.Tensor:
    """data padded by its mirror image. mode: "SYMMETRIC" repeats the edge elements, "REFLECT" does not."""
    edge = 0 if mode == "SYMMETRIC" else 1
    shape = shape_of(data)
    out = [as_int(d + (b + a)) for d, b, a in zip(shape, pad_before, pad_after, strict=True)]

    def element(*i: Var) -> Any:
        index = []
        for p, d, b, a in zip(i, shape, pad_before, pad_after, strict=True):
            q = p - b if b else p
            # Positions above the end first, so that reflected positions below zero are not reflected again.
            if a:
                q = tir.Select(q >= d, 2 * d - 1 - edge - q, q)
            if b:
                q = tir.Select(q < 0, edge - 1 - q if edge == 0 else -q, q)
            index.append(q)
        return data(*index)

    return compute(out, element, name=name, tag="injective,pad")


def edge_pad(data: te.Tensor, pad_before: Sequence[int], pad_after: Sequence[int], name: str = "EdgePad") -> te.Tensor:
    """data padded by repeating its edge elements."""
    shape = shape_of(data)
    out = [as_int(d + (b + a)) for d, b, a in zip(shape, pad_before, pad_after, strict=True)]

    def element(*i: Var) -> Any:
        index = []
        for p, d, b, a in zip(i, shape, pad_before, pad_after, strict=True):
            q = p - b if b else p
            q = tir.max(q, 0) if b else q
            index.append(tir.min(q, d - 1) if a else q)
        return data(*index)

    return compute(out, element, name=name, tag="injective,pad")


def dilate(
    data: te.Tensor, strides: Sequence[int], dilation_value: float = 0.0, name: str = "DilatedInput"
) -> te.Tensor:
    """data with strides[a] - 1 elements of `dilation_value` between adjacent elements along each axis."""
    shape = shape_of(data)
    steps = [get_const_int(s) for s in strides]
    out = [as_int((d - 1) * s + 1) for d, s in zip(shape, steps, strict=True)]

    def element(*i: PrimExpr) -> Any:
        index, on = [], []
        for p, s in zip(i, steps, strict=True):
            if s == 1:
                index.append(p)
            else:
                index.append(tir.floordiv(p, s))
                on.append(tir.floormod(p, s) <= 0)
        return (
            tir.if_then_else(tir.all(*on), data(*index), tir.const(dilation_value, data.dtype)) if on else data(*index)
        )

    return compute(out, element, name=name, tag="injective,dilate")
