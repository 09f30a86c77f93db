"""Windows along spatial axes: their number, attributes with a number for each axis, and NumPy references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from tilewright.relay.cards.card import need
from tilewright.relay.cards.relations import Dim, each, is_any, need_count
from tilewright.tir import Any as AnyDim
from tilewright.topi.utils import get_pad_tuple, window_extent

FAR = 1 << 31
"""The upper bound of windows' numbers, which lets code compute positions several windows past the data without overflow."""


def window(d: Dim, kernel: int, before: int, after: int, stride: int, dilation: int, ceil_mode: bool = False) -> Dim:
    """The number of windows along an axis; unknown if the extent is. Raises TypeRuleError if there is none."""
    need(
        not any([isinstance(v, int) and v <= 0 for v in (stride, dilation)]),
        "strides and dilations must be positive",
        f"a stride is {stride}, a dilation {dilation}",
    )
    need(not isinstance(kernel, int) or kernel > 0, "a kernel must have elements", f"it has {kernel}")
    numbers = [v for v in (kernel, before, after, stride, dilation) if isinstance(v, int)]
    need(max(numbers) < FAR, f"numbers of windows must be below {FAR}", f"one is {max(numbers)}")
    if is_any(d):
        return AnyDim()
    count: Dim = window_extent(d, kernel, before, after, stride, dilation, ceil_mode)
    need(
        not isinstance(count, int) or count > 0,
        "the kernel must fit into the padded data",
        f"a kernel of {kernel} (dilation {dilation}) meets {d} elements with padding {before} and {after}",
        0,
    )
    return count


def pads(padding: Sequence[int], ndim: int = 2) -> tuple[list[int], list[int]]:
    """(before, after) from classic padding. Raises TypeRuleError for a wrong number of values."""
    need_count("padding", padding, sorted({1, ndim, 2 * ndim}))
    return get_pad_tuple(list(padding), [1] * ndim, ndim)


class Windows(NamedTuple):
    """Numbers for each spatial axis: strides (between windows), dilation (between elements of a window), and padding."""

    strides: list[int]
    dilation: list[int]
    before: list[int]
    after: list[int]

    @property
    def padding(self) -> tuple[list[int], list[int]]:
        """(before, after)."""
        return self.before, self.after

    def counts(self, extents: Sequence[Dim], kernel: Sequence[int]) -> list[Dim]:
        """The number of windows along each axis. Raises TypeRuleError if no window fits."""
        axes = zip(extents, kernel, self.before, self.after, self.strides, self.dilation, strict=True)
        return [window(*axis) for axis in axes]


class Windowed(Protocol):
    """Base of cards with the attributes of a convolution's windows."""

    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]


def windows_of(card: Windowed, count: int) -> Windows:
    """The windows of attributes over `count` axes. Raises TypeRuleError for an attribute with too few or too many numbers."""
    before, after = pads(card.padding, count)
    return Windows(each(card.strides, count, "strides"), each(card.dilation, count, "dilation"), before, after)


def need_steps_of_one(card: Windowed, count: int) -> None:
    """Refuses a convolution over `count` axes with strides or dilations other than 1."""
    windows = windows_of(card, count)
    need(
        {*windows.strides, *windows.dilation} == {1},
        "strides and dilation must be 1",
        f"they are {card.strides} and {card.dilation}",
    )


def np_conv(
    data: np.ndarray,
    weight: np.ndarray,
    strides: Sequence[int],
    padding: tuple[Sequence[int], Sequence[int]],
    dilation: Sequence[int],
    groups: int,
) -> np.ndarray:
    """Convolution over any number of spatial axes: data (N, I, ...), weight (O, I / groups, ...). One product for each kernel
    offset."""
    before, after = padding
    n = data.ndim - 2
    padded = np.pad(data, [(0, 0), (0, 0), *zip(before, after, strict=True)])
    out_shape = [
        (padded.shape[2 + a] - (weight.shape[2 + a] - 1) * dilation[a] - 1) // strides[a] + 1 for a in range(n)
    ]
    o, per_in = weight.shape[:2]
    per_out = o // groups
    batch = data.shape[0]
    size = int(np.prod(out_shape))
    out = np.zeros((batch, groups, per_out, size), np.result_type(data, weight))
    for place in np.ndindex(*weight.shape[2:]):
        index = tuple(
            [
                slice(k * d, k * d + (m - 1) * s + 1, s)
                for k, d, m, s in zip(place, dilation, out_shape, strides, strict=True)
            ]
        )
        part = padded[(slice(None), slice(None), *index)].reshape(batch, groups, per_in, size)
        w = weight[(slice(None), slice(None), *place)].reshape(1, groups, per_out, per_in)
        out += w * part if per_in == 1 and per_out == 1 else np.matmul(w, part)
    return out.reshape(batch, o, *out_shape)


def np_conv_transpose(
    data: np.ndarray,
    weight: np.ndarray,
    strides: Sequence[int],
    padding: tuple[Sequence[int], Sequence[int]],
    dilation: Sequence[int],
    extra: Sequence[int],
    groups: int,
) -> np.ndarray:
    """The adjoint of np_conv: data (N, I, ...), weight (I, O / groups, ...). One product for each kernel offset."""
    before, after = padding
    batch, channels, *extents = data.shape
    per_out, *window_ = weight.shape[1:]
    full_shape = [
        (e - 1) * s + (k - 1) * d + 1 + p
        for e, s, k, d, p in zip(extents, strides, window_, dilation, extra, strict=True)
    ]
    full = np.zeros((batch, groups, per_out, *full_shape), data.dtype)
    values = data.reshape(batch, groups, channels // groups, -1)
    for place in np.ndindex(*window_):
        w = weight[(slice(None), slice(None), *place)].reshape(1, groups, channels // groups, per_out).swapaxes(2, 3)
        part = np.matmul(w, values).reshape(batch, groups, per_out, *extents)
        index = [
            slice(p * d, p * d + (e - 1) * s + 1, s)
            for p, d, e, s in zip(place, dilation, extents, strides, strict=True)
        ]
        full[(slice(None), slice(None), slice(None), *index)] += part
    full = full.reshape(batch, groups * per_out, *full_shape)
    cut = [slice(b, f - a) for b, a, f in zip(before, after, full_shape, strict=True)]
    return np.ascontiguousarray(full[(slice(None), slice(None), *cut)])
