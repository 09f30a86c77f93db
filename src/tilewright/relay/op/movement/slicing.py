"""Slices of tensors, with bounds that may be expressions over sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.cards.card import INJECTIVE, LayoutChoice, OpCard, need
from tilewright.relay.cards.relations import (
    Dim,
    as_dim,
    dims,
    is_any,
    known_extent,
    nonnegative,
    normal_axis,
    tensor,
    tensor_type,
)
from tilewright.tir import LT, Select
from tilewright.tir import Any as AnyDim
from tilewright.topi.transform import layout_axes, slice_bounds


class strided_slice(OpCard, key="strided_slice"):
    """data[begin:end:strides] along `axes` (the leading ones if None), with bounds clipped as in NumPy.

    With slice_mode "size", `end` holds numbers of elements (-1: to the end).
    """

    begin: tuple[int, ...]
    end: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    axes: tuple[int, ...] | None = None
    slice_mode: str = "end"
    fuse = INJECTIVE
    samples = [
        (((5, 6),), {"begin": (1, 0), "end": (4, 2**31 - 1), "strides": (2, 1)}),
        (((5, 6),), {"begin": (-1,), "end": (-(2**31),), "strides": (-2,), "axes": (1,)}),
        (((5, 6),), {"begin": (1, 2), "end": (2, -1), "slice_mode": "size"}),
    ]

    def parts(self, ndim: int) -> list[tuple[int, Any, Any, int]]:
        """(axis, begin, end, stride) of each sliced axis."""
        axes = (
            [normal_axis(a, ndim, "axes") for a in self.axes] if self.axes is not None else list(range(len(self.begin)))
        )
        need(len(set(axes)) == len(axes), "axes must differ", f"they are {self.axes}", 0)
        need(
            len(axes) == len(self.begin) == len(self.end),
            "begin, end and axes must be equally long",
            f"they are {self.begin}, {self.end}, {self.axes}",
            0,
        )
        need(
            len(self.strides or ()) <= len(axes), "there must be no more strides than axes", f"they are {self.strides}"
        )
        known = [s for s in self.strides or () if isinstance(s, int)]
        need(len(known) == len(self.strides or ()), "strides must be constant", f"they are {self.strides}", 0)
        steps = known + [1] * (len(axes) - len(self.strides or ()))
        sized = self.slice_mode == "size"
        need(sized or 0 not in steps, "strides must not be 0", f"they are {self.strides}", 0)
        return [
            (a, b, _end_of(b, e), 1) if sized else (a, b, e, s)
            for a, b, e, s in zip(axes, self.begin, self.end, steps, strict=False)
        ]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        out = dims(t)
        for a, b, e, s in self.parts(len(out)):
            extent = out[a]
            known = isinstance(b, int) and isinstance(e, int)
            if isinstance(extent, int) and known:
                out[a] = slice_bounds(extent, b, e, s)[1]
            elif not known or (b, s) != (0, 1) or e < 2**31 - 1:
                unknown = any([is_any(v) for v in (extent, b, e)])
                out[a] = AnyDim() if unknown else topi.utils.symbolic_slice(as_dim(extent), b, e, s)[1]
        return tensor_type(tuple(out), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        parts = self.parts(len(data.shape))
        axes, begin, end, strides = ([p[k] for p in parts] for k in range(4))
        return topi.strided_slice(data, begin, end, strides, axes)

    def ref(self, data: np.ndarray) -> np.ndarray:
        index = [slice(None)] * data.ndim
        for a, b, e, s in self.parts(data.ndim):
            index[a] = slice(*_python_slice(data.shape[a], b, e, s))
        return data[tuple(index)]

    def layout_rule(self, args: Sequence[str | None], types: Sequence[Type]) -> LayoutChoice | None:
        """Slices whole channel blocks, and any rows and columns of them."""
        shape, layout = dims(tensor(types[0])), args[0]
        sizes = [size for letter, size in layout_axes(layout or "") if letter == "c"]
        known = all([isinstance(v, int) for v in (*shape, *self.begin, *self.end)])
        if layout is None or not sizes or len(shape) != 4 or not known or shape[1] % sizes[0]:
            return None
        blocks: list[tuple[int, Any, Any, int]] = []
        for a, b, e, s in self.parts(4):
            first, count = slice_bounds(known_extent(shape[a]), b, e, s)
            size = sizes[0] if a == 1 else 1
            if s < 0 or count == 0 or (a == 1 and s != 1) or first % size or count % size:
                return None
            blocks.append((a, first // size, (first + (count - 1) * s) // size + 1, s))
        axes, begin, end, strides = (tuple([b[k] for b in blocks]) for k in range(4))
        card = self.replace(begin=begin, end=end, strides=strides, axes=axes, slice_mode="end")
        return LayoutChoice(card, [layout], layout)


def _end_of(begin: Dim, number: Dim) -> Dim:
    """The end of a slice of `number` elements; a negative number means up to the end."""
    far = 2**31 - 1
    if is_any(begin) or is_any(number):
        return AnyDim()
    if not isinstance(begin, int) or not isinstance(number, int):
        end = as_dim(begin) + number if not isinstance(number, int) else begin + as_dim(number)
        return end if nonnegative(number) else Select(LT(as_dim(number), as_dim(0)), as_dim(far), end)
    return far if number < 0 else begin + number if begin >= 0 or begin + number < 0 else far


def _python_slice(extent: int, begin: int, end: int, stride: int) -> tuple[int, int | None, int]:
    start, count = slice_bounds(extent, begin, end, stride)
    if not count:
        # Python has no index for the position before the first element.
        return 0, 0, 1
    stop = start + count * stride
    return start, stop if stop >= 0 else None, stride
