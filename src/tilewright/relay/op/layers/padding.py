"""Padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import te, topi
from tilewright.ir import FloatImm, IntImm, TensorType, Type
from tilewright.ir.span import BaseSpan
from tilewright.relay.cards.card import INJECTIVE, LayoutChoice, Made, OpCard, Operand, has_expressions, need
from tilewright.relay.cards.relations import Dim, as_dim, assume, dims, is_any, tensor, tensor_type
from tilewright.relay.expr import Expr, const
from tilewright.tir import Any as AnyDim
from tilewright.tir.op import max as larger


class pad(OpCard, key="nn.pad"):
    """data with padding. pad_mode: "constant" (the scalar `pad_value`), "edge", or "reflect"."""

    pad_width: tuple[tuple[int, ...], ...]
    pad_mode: str = "constant"
    fuse = INJECTIVE
    samples = [
        (((2, 3), np.array(1.5, np.float32)), {"pad_width": ((0, 1), (2, 0))}),
        (((2, 3), np.array(0, np.float32)), {"pad_width": ((1, 1), (1, 2)), "pad_mode": "edge"}),
        (((3, 4), np.array(0, np.float32)), {"pad_width": ((1, 2), (3, 0)), "pad_mode": "reflect"}),
        (((3, 4), np.array(0, np.float32)), {"pad_width": ((-1, 0), (1, -2))}),
    ]

    @classmethod
    def make(
        cls,
        data: Expr,
        pad_width: Expr | Sequence[Sequence[int | Expr]],
        pad_value: Operand = 0,
        pad_mode: str = "constant",
        span: BaseSpan | None = None,
    ) -> Made:
        width: Any = pad_width
        if not has_expressions(width):
            width = tuple([tuple([int(p) for p in w]) for w in width])
        if isinstance(pad_value, (int, float)):
            from tilewright.relay.typing.infer_type import infer_types

            pad_value = const(np.array(pad_value, tensor(infer_types(data)).dtype))
        return cls.call([data, pad_value], {"pad_width": width, "pad_mode": pad_mode}, span)

    def infer(self, data: TensorType, pad_value: TensorType) -> Type:
        t = tensor(data, 0)
        tensor(pad_value, 1, 0)
        need(
            self.pad_mode in ("constant", "edge", "reflect"),
            'pad_mode must be "constant", "edge" or "reflect"',
            f"it is {self.pad_mode!r}",
        )
        need(
            len(self.pad_width) == len(t.shape),
            "pad_width must have (before, after) for each axis",
            f"it has {len(self.pad_width)} for {len(t.shape)} axes",
            0,
        )
        if self.pad_mode == "reflect":
            need_reach(dims(t), self.pad_width, 1)
        return tensor_type(tuple([_grown(d, b, a) for d, (b, a) in zip(dims(t), self.pad_width, strict=True)]), t.dtype)

    def compute(self, data: te.Tensor, pad_value: te.Tensor) -> te.Tensor:
        before, after = [w[0] for w in self.pad_width], [w[1] for w in self.pad_width]
        if self.pad_mode == "edge":
            return topi.nn.edge_pad(data, before, after)
        if self.pad_mode == "reflect":
            return topi.nn.mirror_pad(data, before, after, "REFLECT")
        if all([isinstance(w, int) and w == 0 for w in (*before, *after)]):
            return topi.identity(data)
        # If the value is a number, schedules see a tensor and its halo.
        body = pad_value.op.body if isinstance(pad_value.op, te.ComputeOp) else (None,)
        known = isinstance(body[0], (IntImm, FloatImm))
        return topi.nn.pad(data, before, after, body[0] if known else pad_value())

    def ref(self, data: np.ndarray, pad_value: np.ndarray) -> np.ndarray:
        cut = data[
            tuple([slice(max(-b, 0), d - max(-a, 0)) for d, (b, a) in zip(data.shape, self.pad_width, strict=True)])
        ]
        width = [(max(b, 0), max(a, 0)) for b, a in self.pad_width]
        if self.pad_mode == "constant":
            return np.pad(cut, width, constant_values=pad_value.item())
        return np.pad(cut, width, "edge" if self.pad_mode == "edge" else "reflect")

    def layout_rule(self, args: Sequence[str | None], types: Sequence[Type]) -> LayoutChoice | None:
        """Pads blocked data in H and W."""
        if args[0] is None or len(self.pad_width) != 4 or any(self.pad_width[1]):
            return None
        return LayoutChoice(self.replace(pad_width=(*self.pad_width, (0, 0))), [args[0], None], args[0])


def _grown(d: Dim, before: Dim, after: Dim) -> Dim:
    if any([is_any(v) for v in (d, before, after)]):
        return d if isinstance(before, int) and isinstance(after, int) and before + after == 0 else AnyDim()
    by = before + after
    return d if isinstance(by, int) and by == 0 else d + by


def need_reach(shape: Sequence[Dim], pad_width: Sequence[Sequence[Dim]], edge: int) -> None:
    """Refuses a mirror image that is longer than the axis. edge: 1 if the edge element is not part of the image, else 0."""
    for k, (extent, (before, after)) in enumerate(zip(shape, pad_width, strict=True)):
        if not isinstance(before, int) or not isinstance(after, int) or is_any(extent) or max(before, after) <= 0:
            continue
        least = max(before, after) + edge - min(before, after, 0)
        if isinstance(extent, int):
            need(
                least <= extent,
                "a mirror image must lie within what it mirrors",
                f"axis {k} of {extent} is padded by {before} and {after}",
                0,
            )
        else:
            assume(extent, larger(extent, as_dim(least)))


class mirror_pad(OpCard, key="nn.mirror_pad"):
    """data padded by its mirror image, including (SYMMETRIC) or without (REFLECT) the edge elements."""

    mode: str = "SYMMETRIC"
    pad_width: tuple[tuple[int, ...], ...] = ()
    fuse = INJECTIVE
    samples = [
        (((3, 4),), {"pad_width": ((1, 2), (3, 0))}),
        (((3, 4),), {"pad_width": ((1, 2), (3, 0)), "mode": "REFLECT"}),
    ]

    @classmethod
    def make(
        cls, data: Expr, pad_width: Sequence[Sequence[int]], mode: str = "SYMMETRIC", span: BaseSpan | None = None
    ) -> Made:
        return cls.call(
            [data], {"pad_width": tuple([tuple([int(p) for p in w]) for w in pad_width]), "mode": mode}, span
        )

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        need(
            len(self.pad_width) == len(t.shape),
            "pad_width must have (before, after) for each axis",
            f"it has {len(self.pad_width)} for {len(t.shape)} axes",
            0,
        )
        need_reach(dims(t), self.pad_width, int(self.mode == "REFLECT"))
        return tensor_type(tuple([_grown(d, b, a) for d, (b, a) in zip(dims(t), self.pad_width, strict=True)]), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.nn.mirror_pad(data, [w[0] for w in self.pad_width], [w[1] for w in self.pad_width], self.mode)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return np.pad(data, self.pad_width, "symmetric" if self.mode == "SYMMETRIC" else "reflect")
