"""Operators that move elements between the batch and space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.ir.span import BaseSpan
from tilewright.relay.cards.card import INJECTIVE, Made, OpCard, Operand, need
from tilewright.relay.cards.relations import Dim, assume, dims, is_any, tensor, tensor_type
from tilewright.relay.op.movement.reshaping import static
from tilewright.tir import Any as AnyDim

RULE = "crops, paddings and block_shape must have a number for each spatial axis of data"


def _crops(values: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple([tuple([int(v) for v in row]) for row in values])


class batch_to_space_nd(OpCard, key="nn.batch_to_space_nd"):
    """Moves blocks from the batch axis into the spatial axes after it, then crops these by `crops` (begin, end)."""

    block_shape: tuple[int, ...]
    crops: tuple[tuple[int, ...], ...]
    fuse = INJECTIVE
    samples = [(((8, 2, 3, 2),), {"block_shape": (2, 2), "crops": ((0, 1), (1, 0))})]

    @classmethod
    def make(
        cls, data: Operand, block_shape: Sequence[int], crops: Sequence[Sequence[int]], span: BaseSpan | None = None
    ) -> Made:
        """crops: (begin, end) for each spatial axis."""
        return cls.call([data], {"block_shape": tuple(block_shape), "crops": _crops(crops)}, span)

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        shape = dims(t)
        m, total = len(self.block_shape), int(np.prod(self.block_shape))
        need(
            len(shape) > m == len(self.crops),
            RULE,
            f"they have {len(self.crops)} and {m} for {len(shape)} axes",
        )
        need(
            not isinstance(shape[0], int) or shape[0] % total == 0,
            "the blocks must divide the batch",
            f"{total} does not divide {shape[0]}",
            0,
        )
        out: list[Dim] = [AnyDim() if is_any(shape[0]) else shape[0] // total]
        for d, b, (before, after) in zip(shape[1:], self.block_shape, self.crops, strict=False):
            out.append(AnyDim() if is_any(d) else d * b - (before + after))
        return tensor_type((*out, *shape[1 + m :]), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.nn.batch_to_space_nd(data, self.block_shape, [c[0] for c in self.crops], [c[1] for c in self.crops])

    def ref(self, data: np.ndarray) -> np.ndarray:
        m, blocks = len(self.block_shape), list(self.block_shape)
        batch = data.shape[0] // int(np.prod(blocks))
        x = data.reshape(*blocks, batch, *data.shape[1:])
        order = [m]
        for k in range(m):
            order += [m + 1 + k, k]
        x = x.transpose([*order, *range(2 * m + 1, x.ndim)])
        x = x.reshape(batch, *[d * b for d, b in zip(data.shape[1:], blocks, strict=False)], *data.shape[1 + m :])
        cut = [slice(b, d - a) for d, (b, a) in zip(x.shape[1:], self.crops, strict=False)]
        return np.ascontiguousarray(x[(slice(None), *cut)])


class space_to_batch_nd(OpCard, key="nn.space_to_batch_nd"):
    """Pads the spatial axes after the batch by `paddings` (before, after), and moves the blocks of these axes into the batch."""

    block_shape: tuple[int, ...]
    paddings: tuple[tuple[int, ...], ...]
    pad_value: float = 0.0
    fuse = INJECTIVE
    samples = [(((2, 3, 4, 2),), {"block_shape": (2, 2), "paddings": ((0, 1), (2, 0)), "pad_value": 1.5})]

    @classmethod
    def make(
        cls,
        data: Operand,
        block_shape: Sequence[int],
        paddings: Sequence[Sequence[int]],
        pad_value: float = 0,
        span: BaseSpan | None = None,
    ) -> Made:
        """paddings: (before, after) for each spatial axis."""
        attrs = {"block_shape": tuple(block_shape), "paddings": _crops(paddings), "pad_value": float(pad_value)}
        return cls.call([data], attrs, span)

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        shape = dims(t)
        m, total = len(self.block_shape), int(np.prod(self.block_shape))
        need(
            len(shape) > m == len(self.paddings),
            RULE,
            f"they have {len(self.paddings)} and {m} for {len(shape)} axes",
        )
        out: list[Dim] = [AnyDim() if is_any(shape[0]) else shape[0] * total]
        for d, b, (before, after) in zip(shape[1:], self.block_shape, self.paddings, strict=False):
            whole = AnyDim() if is_any(d) else d + (before + after)
            need(
                not isinstance(whole, int) or whole % b == 0,
                "the blocks must divide the padded extents",
                f"{b} does not divide {whole}",
                0,
            )
            out.append(AnyDim() if is_any(whole) else whole // b)
        return tensor_type((*out, *shape[1 + m :]), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        before, after = [p[0] for p in self.paddings], [p[1] for p in self.paddings]
        return topi.nn.space_to_batch_nd(data, self.block_shape, before, after, self.pad_value)

    def ref(self, data: np.ndarray) -> np.ndarray:
        m, blocks = len(self.block_shape), list(self.block_shape)
        rest = data.ndim - 1 - m
        x = np.pad(data, [(0, 0), *self.paddings, *[(0, 0)] * rest], constant_values=self.pad_value)
        parts: list[int] = [x.shape[0]]
        for d, b in zip(x.shape[1:], blocks, strict=False):
            parts += [d // b, b]
        x = x.reshape(*parts, *x.shape[1 + m :])
        order = [2 + 2 * k for k in range(m)] + [0] + [1 + 2 * k for k in range(m)]
        x = x.transpose([*order, *range(2 * m + 1, x.ndim)])
        return np.ascontiguousarray(x).reshape(-1, *x.shape[m + 1 :])


class depth_to_space(OpCard, key="nn.depth_to_space"):
    """(N, C * b * b, H, W) -> (N, C, H * b, W * b). mode: "DCR" reads the depth as (b, b, C), "CRD" as (C, b, b)."""

    block_size: int
    layout: str = "NCHW"
    mode: str = "DCR"
    fuse = INJECTIVE
    samples = [(((1, 8, 2, 3),), {"block_size": 2}), (((1, 8, 2, 3),), {"block_size": 2, "mode": "CRD"})]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0, 4)
        need(self.layout == "NCHW", "depth_to_space takes NCHW", f"it is {self.layout}")
        n, c, h, w = dims(t)
        b = self.block_size
        need(
            not isinstance(c, int) or c % (b * b) == 0, "block_size squared must divide the channels", f"{b} and {c}", 0
        )
        _need_whole(c, b * b)
        return tensor_type((n, AnyDim() if is_any(c) else c // (b * b), _times(h, b), _times(w, b)), t.dtype)

    def _steps(self, shape: Sequence[Dim]) -> tuple[list[Dim], list[int], list[Dim]]:
        n, c, h, w = shape
        b = self.block_size
        depth = c // (b * b)
        if self.mode == "DCR":
            return [n, b, b, depth, h, w], [0, 3, 4, 1, 5, 2], [n, depth, h * b, w * b]
        return [n, depth, b, b, h, w], [0, 1, 4, 2, 5, 3], [n, depth, h * b, w * b]

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.nn.depth_to_space(data, self.block_size, self.layout, self.mode)

    def ref(self, data: np.ndarray) -> np.ndarray:
        split, order, joined = self._steps(data.shape)
        return np.ascontiguousarray(data.reshape(static(split)).transpose(order)).reshape(static(joined))


def _need_whole(extent: Dim, block: int) -> None:
    """Records the condition that an extent is a multiple of the block."""
    if not is_any(extent):
        assume(extent // block * block, extent)


def _times(d: Dim, b: int) -> Dim:
    return AnyDim() if is_any(d) else d * b


class space_to_depth(OpCard, key="nn.space_to_depth"):
    """(N, C, H * b, W * b) -> (N, b * b * C, H, W)."""

    block_size: int
    layout: str = "NCHW"
    fuse = INJECTIVE
    samples = [(((1, 2, 4, 6),), {"block_size": 2})]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0, 4)
        need(self.layout == "NCHW", "space_to_depth takes NCHW", f"it is {self.layout}")
        n, c, h, w = dims(t)
        b = self.block_size
        for d in (h, w):
            need(not isinstance(d, int) or d % b == 0, "block_size must divide H and W", f"{b} and {d}", 0)
            _need_whole(d, b)
        parts = [AnyDim() if is_any(d) else d // b for d in (h, w)]
        return tensor_type((n, _times(c, b * b), *parts), t.dtype)

    def _steps(self, shape: Sequence[Dim]) -> tuple[list[Dim], list[int], list[Dim]]:
        n, c, h, w = shape
        b = self.block_size
        return [n, c, h // b, b, w // b, b], [0, 3, 5, 1, 2, 4], [n, c * b * b, h // b, w // b]

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.nn.space_to_depth(data, self.block_size, self.layout)

    def ref(self, data: np.ndarray) -> np.ndarray:
        split, order, joined = self._steps(data.shape)
        return np.ascontiguousarray(data.reshape(static(split)).transpose(order)).reshape(static(joined))
