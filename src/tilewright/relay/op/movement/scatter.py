"""Operators that write at indices that are data: scatter_elements and scatter_nd. Updates are applied in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.cards.card import OPAQUE, Indexed, OpCard, need
from tilewright.relay.cards.relations import dims, known_extent, may_equal, normal_axis, tensor
from tilewright.relay.expr import Expr
from tilewright.relay.op.adjoint import number, op
from tilewright.relay.op.movement.indexing import from_start, integers, no_more_than_data

MODES = ("update", "add", "mul", "min", "max", "mean")


def known_mode(mode: str, name: str) -> None:
    """Refuses an unknown reduction."""
    need(mode in MODES, f"{name} must be one of {', '.join(MODES)}", f"it is {mode!r}")


def put(out: np.ndarray, places: Sequence[np.ndarray], updates: np.ndarray, mode: str) -> None:
    """Applies updates to `out` in place, in order. Updates out of bounds are skipped."""
    where: tuple[Any, ...] = tuple(places)
    if where:
        inside = np.all([(p >= 0) & (p < n) for p, n in zip(where, out.shape, strict=False)], axis=0)
        where, updates = tuple([p[inside] for p in where]), updates[inside]
    if mode == "update":
        if len(where) == out.ndim:
            flat = [np.broadcast_to(w, updates.shape).reshape(-1) for w in where]
            for k, v in enumerate(updates.reshape(-1)):
                out[tuple([f[k] for f in flat])] = v
        else:
            out[where] = updates
    elif mode == "mean":
        count = np.ones(out.shape, out.dtype)
        np.add.at(out, where, updates)
        np.add.at(count, where, np.ones(updates.shape, out.dtype))
        out[...] = out // count if out.dtype.kind in "iu" else out / count
    else:
        {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[mode].at(out, where, updates)


Scatter = Callable[[Expr, Expr, str], Expr]


def _adjoints(
    mode: str, data: Any, updates: Any, result: Any, dy: Any, scatter: Scatter, gather: Callable[[Any], Any]
) -> Sequence[Expr | None]:
    """The adjoints of scatter(data, updates, mode). gather(x) has the elements of x at the positions of the updates."""
    zero = op("zeros_like")(updates)
    if mode == "add":
        return [dy, None, gather(dy)]
    if mode == "mean":
        share = dy / scatter(op("ones_like")(data), op("ones_like")(updates), "add")
        return [share, None, gather(share)]
    if mode == "mul":
        return [dy * result / data, None, gather(dy * result) / updates]
    if mode in ("min", "max"):
        own = op("where")(op("equal")(data, result), dy, op("zeros_like")(dy))
        return [own, None, op("where")(op("equal")(updates, gather(result)), gather(dy), zero)]
    # The last of several updates of one element counts.
    dtype = str(updates.checked_type.dtype)
    turn = op("reshape_like")(op("cumsum")(op("ones_like")(op("cast")(updates, "int32"))), updates)
    last = scatter(op("cast")(op("zeros_like")(data), "int32"), turn, "update")
    won = op("cast")(op("equal")(gather(last), turn), dtype)
    return [scatter(dy, zero, "update"), None, gather(dy) * won * number(1, updates)]


class scatter_elements(OpCard, key="scatter_elements"):
    """data with `updates` written at the positions `indices` along `axis`, in order. reduction: update, add, mul, min, max, or mean
    (of the old element and all its updates). Negative indices count from the end. Updates out of bounds are skipped; outside:
    the program does so on purpose."""

    axis: int = 0
    reduction: str = "update"
    outside: bool = False
    fuse = OPAQUE
    samples = [
        (((4, 3), np.array([[1, 0, 3], [2, 2, 0]], np.int32), (2, 3)), {}),
        (((3, 4), np.array([[1, 1], [0, -1]], np.int64), (2, 2)), {"axis": 1, "reduction": "add"}),
        (((3, 4), np.array([[1, 1], [0, -1]], np.int64), (2, 2)), {"axis": 1}),
        (((4,), np.array([1, 1, 0], np.int64), (3,)), {"reduction": "mul"}),
        (((4,), np.array([1, 1, 0], np.int64), (3,)), {"reduction": "max"}),
        (((4,), np.array([1, 1, 0], np.int64), (3,)), {"reduction": "mean"}),
    ]

    def infer(self, data: TensorType, indices: TensorType, updates: TensorType) -> Type:
        d, i, u = tensor(data, 0), integers(tensor(indices, 1), 1), tensor(updates, 2)
        normal_axis(self.axis, len(d.shape))
        known_mode(self.reduction, "reduction")
        need(
            len(i.shape) == len(u.shape) == len(d.shape),
            "data, indices and updates must have as many axes",
            f"{len(d.shape)}, {len(i.shape)}, {len(u.shape)}",
            1,
        )
        need(
            all(map(may_equal, dims(i), dims(u))),
            "indices and updates must have one shape",
            f"they are {list(i.shape)} and {list(u.shape)}",
            2,
        )
        no_more_than_data(d, i, self.axis)
        need(u.dtype == d.dtype, "updates must have data's dtype", f"they are {u.dtype} and {d.dtype}", 2)
        return d

    def indexed(self, types: Sequence[Type]) -> Sequence[Indexed]:
        return () if self.outside else [Indexed(1, 0, (self.axis % len(tensor(types[0], 0).shape),))]

    def compute(self, data: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
        return topi.scatter_elements(data, indices, updates, self.axis, self.reduction)

    def ref(self, data: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
        out = data.copy()
        where: list[np.ndarray] = [*np.indices(indices.shape)]
        where[self.axis] = from_start(indices, data.shape[self.axis])
        put(out, where, updates, self.reduction)
        return out

    def grad(self, data: Expr, indices: Expr, updates: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return _adjoints(
            self.reduction, data, updates, result, dy,
            lambda x, u, mode: op("scatter_elements")(x, indices, u, axis=self.axis, reduction=mode, outside=self.outside),
            lambda x: op("gather")(x, self.axis, indices),
        )  # fmt: skip


class scatter_nd(OpCard, key="scatter_nd"):
    """data with updates[y.., x..] written at data[indices[0, y..], .., indices[m-1, y..], x..], in order. mode, outside: as in
    scatter_elements."""

    mode: str = "update"
    outside: bool = False
    fuse = OPAQUE
    samples = [
        (((4, 3), np.array([[1, 3, 0]], np.int32), (3, 3)), {}),
        (((4, 3), np.array([[1, 1], [0, 0]], np.int64), (2,)), {"mode": "add"}),
        (((4, 3), np.array([[1, 1], [0, 0]], np.int64), (2,)), {}),
        (((4, 4, 2), np.array([[0, 2]], np.int64), (2, 4, 2)), {}),
        (((4, 3), np.array([[1, 1, 2]], np.int64), (3, 3)), {"mode": "min"}),
    ]

    def infer(self, data: TensorType, indices: TensorType, updates: TensorType) -> Type:
        d = tensor(data, 0)
        integers(tensor(indices, 1), 1)
        known_mode(self.mode, "mode")
        need(
            tensor(updates, 2).dtype == d.dtype,
            "updates must have data's dtype",
            f"they are {updates.dtype} and {d.dtype}",
            2,
        )
        need(
            isinstance(dims(indices)[0], int),
            "the number of coordinates (first axis of indices) must be known",
            f"it is {indices.shape[0]}",
            1,
        )
        m = known_extent(dims(indices)[0])
        wanted = [*dims(indices)[1:], *dims(d)[m:]]
        need(m <= len(d.shape), "there must not be more coordinates than axes", f"{m} for {len(d.shape)} axes", 1)
        need(
            len(wanted) == len(updates.shape) and all(map(may_equal, wanted, dims(updates))),
            "updates must have the shape of indices without its first axis, then that of data without the indexed axes",
            f"that is {wanted}, and they have {list(updates.shape)}",
            2,
        )
        return d

    def indexed(self, types: Sequence[Type]) -> Sequence[Indexed]:
        count = known_extent(tensor(types[1], 1).shape[0])
        return () if self.outside else [Indexed(1, 0, tuple(range(count)), rows=True)]

    def compute(self, data: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
        return topi.scatter_nd(data, indices, updates, self.mode)

    def ref(self, data: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
        out = data.copy()
        put(out, [from_start(c, data.shape[k]) for k, c in enumerate(indices)], updates, self.mode)
        return out

    def grad(self, data: Expr, indices: Expr, updates: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return _adjoints(
            self.mode, data, updates, result, dy,
            lambda x, u, mode: op("scatter_nd")(x, indices, u, mode=mode, outside=self.outside),
            lambda x: op("gather_nd")(x, indices),
        )  # fmt: skip
