"""Windows that are added to an image where they overlap: the adjoint of taking windows, and the last step of a transposed convolution
that begins with a matrix product.

Along each axis, offset t of the window at place q belongs to element s * q + d * t - begin of the result, if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright import te
from tilewright.topi.lang import tir
from tilewright.topi.loops import loop_kind, program, unflatten
from tilewright.topi.utils import get_const_int, shape_of

if TYPE_CHECKING:
    from tilewright.tir.ir_builder import BufferVar, IRBuilder


class WindowAxis(NamedTuple):
    """One axis: stride and dilation of windows, the elements of the full result that are cut off before it, kernel offsets, places of
    windows, elements of the result."""

    stride: int
    dilation: int
    begin: int
    kernel: int
    places: int
    out: int

    def element(self, place: Any, offset: Any) -> Any:
        """The element of the result to which an offset of a window is added."""
        return place * self.stride + (offset * self.dilation - self.begin)

    def range_of(self, offset: Any) -> tuple[Any, Any]:
        """The places of windows whose offset lies in the result: from the first to before the last number."""
        first = tir.floordiv(self.begin - offset * self.dilation + (self.stride - 1), self.stride)
        end = tir.floordiv(self.out + self.begin - offset * self.dilation + (self.stride - 1), self.stride)
        low = tir.max(first, 0)
        return low, tir.max(tir.min(end, self.places), low)

    def place(self, element: Any, offset: Any) -> tuple[Any, Any]:
        """(the place of the window whose offset is added to an element, the condition under which there is one)."""
        at = element + (self.begin - offset * self.dilation)
        place = tir.floordiv(at, self.stride)
        return place, tir.all(tir.EQ(tir.floormod(at, self.stride), 0), place >= 0, place < self.places)


def add_windows(data: te.Tensor, axes: Sequence[WindowAxis], channels_last: bool) -> te.Tensor:
    """The sums of windows: data (N, C * offsets of all axes, places...) -> (N, C, out...); or, with `channels_last`, data
    (N, places..., offsets of all axes * C) -> (N, out..., C), C innermost. Threads share images and channels, or elements of the result."""
    batch, offsets = shape_of(data)[0], prod([a.kernel for a in axes])
    channels = get_const_int(data.shape[-1 if channels_last else 1]) // offsets
    out = [a.out for a in axes]
    shape = [batch, *out, channels] if channels_last else [batch, channels, *out]
    body = _by_elements if channels_last else _by_planes
    made = program([shape], [data.dtype], [data], body(shape_of(data), shape, axes, str(data.dtype)), "add_windows")
    return made[0]


Body = Callable[["IRBuilder", "BufferVar", "BufferVar"], None]


def _by_planes(have: Sequence[Any], shape: Sequence[Any], axes: Sequence[WindowAxis], dtype: str) -> Body:
    """Each channel's windows, offset by offset: rows of places are added to rows of elements."""
    batch, channels = shape[:2]
    sizes = [a.kernel for a in axes]

    def body(ib: IRBuilder, x: BufferVar, y: BufferVar) -> None:
        with ib.for_range(0, batch * channels, "plane", kind=loop_kind(*have)) as plane:
            lead = unflatten(plane, [batch, channels])
            with ib.for_range(0, prod(shape[2:]), "p") as p:
                y[(*lead, *unflatten(p, shape[2:]))] = tir.const(0, dtype)
            with ExitStack() as loops:
                offsets = [loops.enter_context(ib.for_range(0, k, f"t{i}")) for i, k in enumerate(sizes)]
                at = lead[1]
                for t, k in zip(offsets, sizes, strict=True):
                    at = at * k + t
                places = [
                    loops.enter_context(ib.for_range(*a.range_of(t), f"q{i}"))
                    for i, (a, t) in enumerate(zip(axes, offsets, strict=True))
                ]
                to = lead[0], lead[1], *[a.element(q, t) for a, q, t in zip(axes, places, offsets, strict=True)]
                y[to] = y[to] + x[(lead[0], at, *places)]

    return body


def _by_elements(have: Sequence[Any], shape: Sequence[Any], axes: Sequence[WindowAxis], dtype: str) -> Body:
    """Each element's offsets: all channels are added at once."""
    batch, *out, channels = shape
    sizes = [a.kernel for a in axes]

    def body(ib: IRBuilder, x: BufferVar, y: BufferVar) -> None:
        with ib.for_range(0, batch * prod(out), "element", kind=loop_kind(*have)) as element:
            image, *at = unflatten(element, [batch, *out])
            with ib.for_range(0, channels, "c") as c:
                y[(image, *at, c)] = tir.const(0, dtype)
            with ExitStack() as loops:
                offset: Any = 0
                places: list[Any] = []
                for i, (a, p, k) in enumerate(zip(axes, at, sizes, strict=True)):
                    t = loops.enter_context(ib.for_range(0, k, f"t{i}"))
                    place, inside = a.place(p, t)
                    loops.enter_context(ib.if_scope(inside))
                    offset, places = offset * k + t, [*places, place]
                c = loops.enter_context(ib.for_range(0, channels, "c"))
                y[(image, *at, c)] = y[(image, *at, c)] + x[(image, *places, offset * channels + c)]

    return body


__all__ = ["WindowAxis", "add_windows"]
