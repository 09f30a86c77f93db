"""Last steps of transposed convolutions: phases that are interleaved, windows that are added up."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.cards.card import OPAQUE, OUT_ELEMWISE, OpCard, need
from tilewright.relay.cards.relations import dims, known_extent, tensor, tensor_type


class interleave_phases(OpCard, key="nn.contrib_interleave_phases"):
    """data (N, C * phases of all axes, spatial...) as (N, C, shape...). Along each axis, element p of the result is element r of
    phase i if p + offset = stride * r + dilation * i; it is zero if there is none."""

    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    phases: tuple[int, ...]
    offset: tuple[int, ...]
    shape: tuple[int, ...]
    fuse = OUT_ELEMWISE
    samples = [
        (
            ((1, 6, 3, 4),),
            {"strides": (2, 3), "dilation": (1, 2), "phases": (1, 3), "offset": (0, 1), "shape": (7, 12)},
        ),
        (((2, 4, 5),), {"strides": (4,), "dilation": (6,), "phases": (2,), "offset": (-2,), "shape": (20,)}),
    ]

    def infer(self, data: TensorType) -> Type:
        n = len(self.shape)
        t = tensor(data, 0, n + 2)
        batch, channels, *places = dims(t)
        known = all([isinstance(d, int) for d in (channels, *places)])
        need(known, "channels and places must be known", f"they are {t.shape}", 0)
        for name in ("strides", "dilation", "phases", "offset"):
            count = len(getattr(self, name))
            need(count == n, f"{name} must have a number for each axis of shape", f"there are {count} for {n}")
        for axis in self._axes(places):
            apart = axis.stride // axis.common
            need(
                0 < axis.phases <= apart,
                "phases must not put two places in one",
                f"{axis.phases} are {axis.apart} apart in strides of {axis.stride}",
            )
        whole = prod(self.phases)
        need(channels % whole == 0, "phases must divide the channels", f"{whole} and {channels}", 0)
        return tensor_type((batch, channels // whole, *self.shape), t.dtype)

    def _axes(self, places: list[Any]) -> list[topi.nn.phases.Axis]:
        each = zip(self.strides, self.dilation, self.phases, places, self.offset, self.shape, strict=True)
        return [topi.nn.phases.Axis(*one) for one in each]

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.nn.interleave_phases(data, self._axes(topi.utils.shape_of(data)[2:]))

    def ref(self, data: np.ndarray) -> np.ndarray:
        split = data.reshape(data.shape[0], -1, *self.phases, *data.shape[2:])
        result = np.zeros((*split.shape[:2], *self.shape), data.dtype)
        axes = self._axes(list(data.shape[2:]))
        every = slice(None), slice(None)
        for phase in np.ndindex(*self.phases):
            places = [a.stride * np.arange(a.places) + a.apart * i - a.offset for a, i in zip(axes, phase, strict=True)]
            kept = [np.flatnonzero((p >= 0) & (p < a.out)) for a, p in zip(axes, places, strict=True)]
            to: Any = (*every, *np.ix_(*[p[k] for p, k in zip(places, kept, strict=True)]))
            at: Any = (*every, *np.ix_(*kept))
            result[to] = split[(*every, *phase)][at]
        return result


class add_windows(OpCard, key="nn.contrib_add_windows"):
    """data (N, C * kernel offsets, places...) as (N, C, shape...), or, with channels_last, (N, places..., kernel offsets * C) as
    (N, shape..., C): along each axis, offset t of the window at place q is added to element strides * q + dilation * t - begin."""

    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    begin: tuple[int, ...]
    kernel: tuple[int, ...]
    shape: tuple[int, ...]
    channels_last: bool = False
    fuse = OPAQUE
    undifferentiable = "layouts are decided when a model is built; take the gradient of the model before"
    samples = [
        (
            ((2, 12, 3, 4),),
            {"strides": (2, 1), "dilation": (1, 2), "begin": (0, 1), "kernel": (3, 2), "shape": (7, 4)},
        ),
        (
            ((1, 5, 6),),
            {"strides": (3,), "dilation": (2,), "begin": (1,), "kernel": (2,), "shape": (16,), "channels_last": True},
        ),
    ]

    def infer(self, data: TensorType) -> Type:
        n = len(self.shape)
        t = tensor(data, 0, n + 2)
        have = dims(t)
        known = all([isinstance(d, int) for d in have[1:]])
        need(known, "all extents but that of the batch must be known", f"they are {t.shape}", 0)
        for name in ("strides", "dilation", "begin", "kernel"):
            count = len(getattr(self, name))
            need(count == n, f"{name} must have a number for each axis of shape", f"there are {count} for {n}")
        channels, whole = known_extent(have[-1 if self.channels_last else 1]), prod(self.kernel)
        need(channels % whole == 0, "the kernel offsets must divide the channels", f"{whole} and {channels}", 0)
        made = channels // whole
        shape = (have[0], *self.shape, made) if self.channels_last else (have[0], made, *self.shape)
        return tensor_type(shape, t.dtype)

    def _axes(self, places: list[Any]) -> list[topi.nn.added_windows.WindowAxis]:
        each = zip(self.strides, self.dilation, self.begin, self.kernel, places, self.shape, strict=True)
        return [topi.nn.added_windows.WindowAxis(*one) for one in each]

    def _places(self, shape: Sequence[Any]) -> list[Any]:
        return list(shape[1:-1] if self.channels_last else shape[2:])

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.nn.add_windows(data, self._axes(self._places(topi.utils.shape_of(data))), self.channels_last)

    def ref(self, data: np.ndarray) -> np.ndarray:
        n = len(self.shape)
        places = self._places(data.shape)
        if self.channels_last:
            windows = np.moveaxis(data.reshape(data.shape[0], *places, *self.kernel, -1), -1, 1)
        else:
            by_offset = data.reshape(data.shape[0], -1, *self.kernel, *places)
            windows = np.moveaxis(by_offset, range(2, 2 + n), range(2 + n, 2 + 2 * n))
        result = np.zeros((*windows.shape[:2], *self.shape), data.dtype)
        axes = self._axes(places)
        for at in np.ndindex(*places, *self.kernel):
            to = tuple([a.stride * q + a.dilation * t - a.begin for a, q, t in zip(axes, at[:n], at[n:], strict=True)])
            if all([0 <= p < a.out for a, p in zip(axes, to, strict=True)]):
                result[(..., *to)] += windows[(..., *at)]
        return np.moveaxis(result, 1, -1) if self.channels_last else result
