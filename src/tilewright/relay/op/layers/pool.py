"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.cards.card import OPAQUE, OUT_ELEMWISE, LayoutChoice, OpCard, need
from tilewright.relay.cards.relations import Dim, dims, each, known_extent, may_equal, tensor, tensor_type
from tilewright.relay.op.convolution.windows import pads, window
from tilewright.topi.transform import layout_axes, spatial_axes


def keep_blocks(card: OpCard, args: Sequence[str | None]) -> LayoutChoice | None:
    """The layout rule of operators that treat all channels alike: they run on the blocks of the data."""
    arrives = args[0]
    if arrives is None or getattr(card, "layout", None) != "NCHW":
        return None
    return LayoutChoice(card.replace(layout=arrives), [arrives, *[None] * (len(args) - 1)], arrives)


class Pool(OpCard):
    """Base of pooling over the spatial axes of `layout`. ceil_mode: the last window may be partial, but must begin inside the data
    or its leading padding."""

    pool_size: tuple[int, ...] = (1, 1)
    strides: tuple[int, ...] = (1, 1)
    dilation: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    layout: str = "NCHW"
    out_layout: str = ""
    ceil_mode: bool = False
    letters: ClassVar[str] = "HW"
    kind: ClassVar[str] = "max"
    fuse = OUT_ELEMWISE

    def _windows(self) -> tuple[list[int], list[int], list[int], tuple[list[int], list[int]]]:
        n = len(self.letters)
        size, strides = each(self.pool_size, n, "pool_size"), each(self.strides, n, "strides")
        return size, strides, each(self.dilation, n, "dilation"), pads(self.padding, n)

    def _axes(self) -> list[int]:
        return spatial_axes(self.layout, self.letters)

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0, len(layout_axes(self.layout)))
        shape: list[Dim] = list(dims(t))
        ks, ss, ds, (before, after) = self._windows()
        for j, a in enumerate(self._axes()):
            shape[a] = window(shape[a], ks[j], before[j], after[j], ss[j], ds[j], self.ceil_mode)
        return tensor_type(tuple(shape), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        ks, ss, ds, (before, after) = self._windows()
        count = bool(getattr(self, "count_include_pad", False))
        return topi.nn.pooling.pool(data, ks, ss, ds, before + after, self.kind, self._axes(), self.ceil_mode, count)

    def ref(self, data: np.ndarray) -> np.ndarray:
        ks, ss, ds, (before, after) = self._windows()
        axes = self._axes()
        out: list[int] = list(data.shape)
        widths = [(0, 0)] * data.ndim
        for j, a in enumerate(axes):
            out[a] = known_extent(window(data.shape[a], ks[j], before[j], after[j], ss[j], ds[j], self.ceil_mode))
            reach = (out[a] - 1) * ss[j] + (ks[j] - 1) * ds[j] + 1
            widths[a] = (before[j], max(after[j], reach - data.shape[a] - before[j]))
        kept = data.dtype
        if self.kind == "avg" and kept.kind in "iu":
            data = data.astype(np.int64)
        counted = np.ones(data.shape, data.dtype)
        if getattr(self, "count_include_pad", False):
            inner = [(0, 0)] * data.ndim
            for j, a in enumerate(axes):
                inner[a] = (before[j], after[j])
            counted = np.ones([d + sum(w) for d, w in zip(data.shape, inner, strict=True)], data.dtype)
            counted = np.pad(counted, [(0, w[1] - i[1]) for w, i in zip(widths, inner, strict=True)])
        else:
            counted = np.pad(counted, widths)
        lowest = np.iinfo(data.dtype).min if data.dtype.kind in "iu" else -np.inf
        padded = np.pad(data, widths, constant_values=lowest if self.kind == "max" else 0)
        result: Any = None
        number: Any = None
        for place in np.ndindex(*ks):
            index = [slice(None)] * data.ndim
            for j, a in enumerate(axes):
                start = place[j] * ds[j]
                index[a] = slice(start, start + (out[a] - 1) * ss[j] + 1, ss[j])
            part, ones = padded[tuple(index)], counted[tuple(index)]
            if result is None:
                result, number = part.copy(), ones.copy()
            elif self.kind == "max":
                np.maximum(result, part, out=result)
            else:
                result, number = result + part, number + ones
        if self.kind == "avg":
            result = result // np.maximum(number, 1) if data.dtype.kind in "iu" else result / np.maximum(number, 1)
        return np.asarray(result).astype(kept, copy=False)

    def layout_rule(self, args: Sequence[str | None], types: Sequence[Type]) -> LayoutChoice | None:
        """Runs on channel blocks like on single channels."""
        return keep_blocks(self, args)


class max_pool2d(Pool, key="nn.max_pool2d"):
    """The maximum of every window over H and W, without padding."""

    samples = [
        (((1, 2, 7, 8),), {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1)}),
        (((1, 2, 7, 8),), {"pool_size": (3, 2), "strides": (2, 2), "padding": (0, 0, 1, 1), "ceil_mode": True}),
        (((1, 2, 7, 8, 4),), {"pool_size": (2, 2), "dilation": (2, 1), "layout": "NCHW4c"}),
    ]


class avg_pool2d(Pool, key="nn.avg_pool2d"):
    """The mean of every window over H and W. Padding counts only with `count_include_pad`; elements that `ceil_mode` adds never
    count."""

    count_include_pad: bool = False
    kind = "avg"
    samples = [
        (((1, 2, 7, 8),), {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1)}),
        (((1, 2, 7, 8),), {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1), "count_include_pad": True}),
        (
            ((1, 2, 7, 8),),
            {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 0), "ceil_mode": True, "count_include_pad": True},
        ),
        (((1, 2, 7, 8),), {"pool_size": (2, 3), "strides": (3, 2), "ceil_mode": True}),
        (((1, 2, 9, 8),), {"pool_size": (3, 2), "dilation": (2, 3), "padding": (1, 2)}),
        (((1, 2, 8, 8, 4),), {"pool_size": (2, 2), "strides": (2, 2), "layout": "NCHW4c"}),
    ]


class max_pool1d(Pool, key="nn.max_pool1d"):
    """The maximum of every window over W, without padding."""

    pool_size: tuple[int, ...] = (1,)
    strides: tuple[int, ...] = (1,)
    dilation: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    layout: str = "NCW"
    letters = "W"
    samples = [(((1, 2, 9),), {"pool_size": 3, "strides": 2, "padding": (1, 0)})]


class avg_pool1d(max_pool1d, key="nn.avg_pool1d"):
    """The mean of every window over W. Padding counts only with `count_include_pad`."""

    count_include_pad: bool = False
    kind = "avg"


class max_pool3d(Pool, key="nn.max_pool3d"):
    """The maximum of every window over D, H and W, without padding."""

    pool_size: tuple[int, ...] = (1, 1, 1)
    strides: tuple[int, ...] = (1, 1, 1)
    dilation: tuple[int, ...] = (1, 1, 1)
    padding: tuple[int, ...] = (0, 0, 0)
    layout: str = "NCDHW"
    letters = "DHW"
    samples = [(((1, 2, 4, 5, 6),), {"pool_size": (2, 2, 2), "strides": (2, 2, 2), "padding": (1, 0, 0)})]


class avg_pool3d(max_pool3d, key="nn.avg_pool3d"):
    """The mean of every window over D, H and W. Padding counts only with `count_include_pad`."""

    count_include_pad: bool = False
    kind = "avg"


class GlobalPool(OpCard):
    """Base of pooling over all spatial axes, which keep extent 1."""

    layout: str = "NCHW"
    out_layout: str = ""
    kind: ClassVar[str] = "max"
    letters: ClassVar[str] = "HW"
    fuse = OUT_ELEMWISE
    samples = [(((1, 3, 4, 5),), {}), (((1, 2, 4, 5, 4),), {"layout": "NCHW4c"})]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0, len(layout_axes(self.layout)))
        axes = spatial_axes(self.layout, self.letters)
        return tensor_type(tuple([1 if k in axes else d for k, d in enumerate(dims(t))]), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.nn.global_pool(data, self.kind, self.layout, self.letters)

    def ref(self, data: np.ndarray) -> np.ndarray:
        axes = tuple(spatial_axes(self.layout, self.letters))
        found = data.max(axes, keepdims=True) if self.kind == "max" else data.mean(axes, keepdims=True)
        return np.asarray(found).astype(data.dtype, copy=False)

    def layout_rule(self, args: Sequence[str | None], types: Sequence[Type]) -> LayoutChoice | None:
        """Runs on channel blocks like on single channels."""
        return keep_blocks(self, args)


class global_max_pool2d(GlobalPool, key="nn.global_max_pool2d"):
    """The maximum of each channel over H and W, which keep extent 1."""


class global_avg_pool2d(GlobalPool, key="nn.global_avg_pool2d"):
    """The mean of each channel over H and W, which keep extent 1."""

    kind = "avg"


class AdaptivePool(OpCard):
    """Base of pooling to the spatial extents `output_size` (None: those of the data): window i covers floor(i * n / m) up to
    ceil((i + 1) * n / m)."""

    output_size: tuple[int, ...] | None = None
    layout: str = "NCHW"
    out_layout: str = ""
    kind: ClassVar[str] = "max"
    letters: ClassVar[str] = "HW"
    fuse = OUT_ELEMWISE
    samples = [
        (((1, 2, 7, 8),), {"output_size": (3, 4)}),
        (((1, 2, 6, 8),), {"output_size": (1, 1)}),
        (((1, 2, 6, 8),), {"output_size": (2,)}),
    ]

    def _sizes(self, shape: Sequence[Any]) -> list[int]:
        if self.output_size is None:
            return [shape[a] for a in spatial_axes(self.layout, self.letters)]
        return each(self.output_size, len(self.letters), "output_size")

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0, len(layout_axes(self.layout)))
        shape: list[Dim] = list(dims(t))
        for a, s in zip(spatial_axes(self.layout, self.letters), self._sizes(shape), strict=True):
            need(
                isinstance(shape[a], int), "the extents of the pooled axes must be known", f"axis {a} is {shape[a]}", 0
            )
            shape[a] = s
        return tensor_type(tuple(shape), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.nn.adaptive_pool(data, self._sizes(topi.utils.shape_of(data)), self.kind, self.layout, self.letters)

    def ref(self, data: np.ndarray) -> np.ndarray:
        made = data
        for a, m in zip(spatial_axes(self.layout, self.letters), self._sizes(data.shape), strict=True):
            n = data.shape[a]
            parts = []
            for i in range(m):
                window_ = np.take(made, np.arange(i * n // m, -(-(i + 1) * n // m)), a)
                parts.append(window_.max(a, keepdims=True) if self.kind == "max" else window_.mean(a, keepdims=True))
            made = np.concatenate(parts, a)
        return made.astype(data.dtype, copy=False)

    def layout_rule(self, args: Sequence[str | None], types: Sequence[Type]) -> LayoutChoice | None:
        """Runs on channel blocks like on single channels."""
        return keep_blocks(self, args)


class adaptive_max_pool2d(AdaptivePool, key="nn.adaptive_max_pool2d"):
    """The maximum of windows over H and W, as many as `output_size` states."""


class adaptive_avg_pool2d(AdaptivePool, key="nn.adaptive_avg_pool2d"):
    """The mean of windows over H and W, as many as `output_size` states."""

    kind = "avg"


class global_max_pool1d(GlobalPool, key="nn.global_max_pool1d"):
    """The maximum of each channel over W, which keeps extent 1."""

    layout: str = "NCW"
    letters = "W"
    samples = [(((1, 3, 5),), {}), (((1, 5, 3),), {"layout": "NWC"})]


class global_avg_pool1d(global_max_pool1d, key="nn.global_avg_pool1d"):
    """The mean of each channel over W, which keeps extent 1."""

    kind = "avg"


class global_max_pool3d(GlobalPool, key="nn.global_max_pool3d"):
    """The maximum of each channel over D, H and W, which keep extent 1."""

    layout: str = "NCDHW"
    letters = "DHW"
    samples = [(((1, 3, 2, 3, 4),), {})]


class global_avg_pool3d(global_max_pool3d, key="nn.global_avg_pool3d"):
    """The mean of each channel over D, H and W, which keep extent 1."""

    kind = "avg"


class adaptive_max_pool1d(AdaptivePool, key="nn.adaptive_max_pool1d"):
    """The maximum of windows over W, as many as `output_size` states."""

    layout: str = "NCW"
    letters = "W"
    samples = [(((1, 2, 7),), {"output_size": (3,)}), (((1, 2, 6),), {"output_size": (2,)})]


class adaptive_avg_pool1d(adaptive_max_pool1d, key="nn.adaptive_avg_pool1d"):
    """The mean of windows over W, as many as `output_size` states."""

    kind = "avg"


class adaptive_max_pool3d(AdaptivePool, key="nn.adaptive_max_pool3d"):
    """The maximum of windows over D, H and W, as many as `output_size` states."""

    layout: str = "NCDHW"
    letters = "DHW"
    samples = [(((1, 1, 3, 5, 4),), {"output_size": (2, 3, 2)}), (((1, 2, 4, 4, 2),), {"output_size": (2,)})]


class adaptive_avg_pool3d(adaptive_max_pool3d, key="nn.adaptive_avg_pool3d"):
    """The mean of windows over D, H and W, as many as `output_size` states."""

    kind = "avg"


class PoolGrad(OpCard):
    """The adjoint of data in pooling over H and W, from the adjoint of its result."""

    pool_size: tuple[int, ...] = (1, 1)
    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    layout: str = "NCHW"
    out_layout: str = ""
    ceil_mode: bool = False
    kind: ClassVar[str] = "max"
    fuse = OPAQUE
    undifferentiable = "it is a gradient itself; differentiate the pooling twice instead"

    def infer(self, out_grad: TensorType, data: TensorType) -> Type:
        g, t = tensor(out_grad, 0, 4), tensor(data, 1, 4)
        need(self.kind == "max" or t.dtype.is_float, "the mean's data must be floats", f"they are {t.dtype}", 1)
        ks, ss, (before, after), _ = self._attributes()
        for j, a in enumerate(spatial_axes(self.layout)):
            found = window(dims(t)[a], ks[j], before[j], after[j], ss[j], 1, self.ceil_mode)
            need(
                may_equal(found, dims(g)[a]),
                "out_grad must have the extents of the pooling's result",
                f"axis {a} has {dims(g)[a]}, not {found}",
                0,
            )
        return t

    def _attributes(self) -> tuple[list[int], list[int], tuple[list[int], list[int]], bool]:
        count = bool(getattr(self, "count_include_pad", False))
        size, strides = each(self.pool_size, 2, "pool_size"), each(self.strides, 2, "strides")
        return size, strides, pads(self.padding), count

    def compute(self, out_grad: te.Tensor, data: te.Tensor) -> te.Tensor:
        ks, ss, (before, after), count = self._attributes()
        return topi.nn.pool_grad(out_grad, data, ks, ss, before + after, self.kind, self.ceil_mode, count, self.layout)

    def ref(self, out_grad: np.ndarray, data: np.ndarray) -> np.ndarray:
        ks, ss, (before, after), count = self._attributes()
        axes = spatial_axes(self.layout)
        out = np.zeros_like(data)
        for at in np.ndindex(*out_grad.shape):
            low, high, reach = [], [], []
            for j, a in enumerate(axes):
                begin = at[a] * ss[j] - before[j]
                low.append(max(begin, 0))
                high.append(min(begin + ks[j], data.shape[a]))
                reach.append(min(begin + ks[j], data.shape[a] + after[j]) - begin if count else high[-1] - low[-1])
            index: list[Any] = list(at)
            for j, a in enumerate(axes):
                index[a] = slice(low[j], high[j])
            if self.kind == "avg":
                out[tuple(index)] += out_grad[at] / max(reach[0] * reach[1], 1)
                continue
            part = data[tuple(index)]
            y, x = np.unravel_index(part.argmax(), part.shape)
            index[axes[0]], index[axes[1]] = low[0] + int(y), low[1] + int(x)
            out[tuple(index)] += out_grad[at]
        return out


class max_pool2d_grad(PoolGrad, key="nn.max_pool2d_grad"):
    """The adjoint of data in max_pool2d: it goes to the largest element of each window."""

    samples = [
        (((1, 2, 4, 4), (1, 2, 7, 8)), {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 0)}),
    ]


class avg_pool2d_grad(PoolGrad, key="nn.avg_pool2d_grad"):
    """The adjoint of data in avg_pool2d: it is divided equally among the elements of each window."""

    count_include_pad: bool = False
    kind = "avg"
    samples = [
        (((1, 2, 4, 4), (1, 2, 7, 7)), {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1)}),
        (
            ((1, 2, 4, 4), (1, 2, 7, 7)),
            {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1), "count_include_pad": True},
        ),
    ]
