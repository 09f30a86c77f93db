"""Operators that rearrange elements: windows, grids, diagonals, triangles, sequences, indices of several axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, TupleType, Type
from tilewright.ir.span import BaseSpan
from tilewright.relay.cards.card import INJECTIVE, OPAQUE, Indexed, Made, OpCard, Operand, as_expr, need
from tilewright.relay.cards.relations import (
    Dim,
    broadcast_shapes,
    dims,
    is_any,
    known_extent,
    may_equal,
    normal_axis,
    same_dtype,
    tensor,
    tensor_type,
)
from tilewright.relay.expr import Constant, Expr, Tuple, TupleWrapper
from tilewright.relay.op.adjoint import field, op
from tilewright.relay.op.movement.indexing import integers, need_elements, picks, within
from tilewright.relay.op.movement.reshaping import reshaped, static, tuple_fields
from tilewright.tir import Any as AnyDim


class sliding_window(OpCard, key="sliding_window"):
    """Windows of `window_shape` over the axes from `axis` on, `strides` apart: the axes that count the windows, then the axes
    within a window. A remainder that does not fill a window is dropped."""

    axis: int
    window_shape: tuple[int, ...]
    strides: tuple[int, ...]
    fuse = INJECTIVE
    samples = [
        (((2, 5, 6),), {"axis": 1, "window_shape": (3, 2), "strides": (1, 2)}),
        (((7,),), {"axis": 0, "window_shape": (3,), "strides": (2,)}),
    ]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        at = normal_axis(self.axis, len(t.shape))
        shape = dims(t)
        need(
            len(self.window_shape) == len(self.strides) == len(shape) - at,
            "window_shape and strides must have a number for each axis from `axis` on",
            f"they are {self.window_shape} and {self.strides} for {len(shape) - at} axes",
        )
        need(min(self.strides, default=1) > 0, "strides must be positive", f"they are {self.strides}")
        places: list[Dim] = []
        for d, w, s in zip(shape[at:], self.window_shape, self.strides, strict=True):
            need(not isinstance(d, int) or w <= d, "the window must fit into the data", f"it has {w} of {d}", 0)
            places.append(AnyDim() if is_any(d) else (d - w) // s + 1)
        return tensor_type((*shape[:at], *places, *self.window_shape), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.sliding_window(data, self.axis, self.window_shape, self.strides)

    def ref(self, data: np.ndarray) -> np.ndarray:
        at = self.axis % data.ndim
        axes = tuple(range(at, data.ndim))
        views = np.lib.stride_tricks.sliding_window_view(data, self.window_shape, axes)
        index = [slice(None)] * at + [slice(None, None, s) for s in self.strides]
        return np.ascontiguousarray(views[tuple(index)])


class meshgrid(OpCard, key="meshgrid"):
    """One grid for each vector of the tuple, which varies along that vector's axis. indexing: "ij", or "xy" with the first two axes
    swapped."""

    indexing: str = "ij"
    fuse = INJECTIVE
    samples = [(([(2,), (3,), (4,)],), {}), (([(2,), (3,), (4,)],), {"indexing": "xy"})]

    @classmethod
    def make(cls, data: Tuple | Sequence[Operand], indexing: str = "ij", span: BaseSpan | None = None) -> Made:
        """Returns one grid for each vector."""
        return TupleWrapper(cls.call([data], {"indexing": indexing}, span), len(data))

    def infer(self, data: TupleType) -> Type:
        fields = tuple_fields(data)
        need(self.indexing in ("ij", "xy"), 'indexing must be "ij" or "xy"', f"it is {self.indexing!r}")
        for f in fields:
            need(len(f.shape) <= 1, "the grids are of vectors", f"one is {f}", 0)
        shape: list[Dim] = [dims(f)[0] if f.shape else 1 for f in fields]
        if self.indexing == "xy" and len(shape) > 1:
            shape[:2] = shape[1], shape[0]
        return TupleType(tuple([tensor_type(tuple(shape), f.dtype) for f in fields]))

    def compute(self, data: Sequence[te.Tensor]) -> list[te.Tensor]:
        return topi.meshgrid(data, self.indexing)

    def ref(self, data: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        return tuple(
            [np.ascontiguousarray(g) for g in np.meshgrid(*data, indexing="xy" if self.indexing == "xy" else "ij")]
        )

    def grad(self, data: Tuple, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        made: list[Expr] = []
        for k, x in enumerate(data.fields):
            axis = 1 - k if self.indexing == "xy" and len(data.fields) > 1 and k < 2 else k
            made.append(op("reshape_like")(op("sum")(field(dy, k), axis=(axis,), exclude=True), x))
        return [Tuple(tuple(made))]


class reverse_sequence(OpCard, key="reverse_sequence"):
    """Reverses the first seq_lengths[b] elements along `seq_axis` in each batch b. Other elements keep their positions."""

    seq_axis: int = 1
    batch_axis: int = 0
    fuse = INJECTIVE
    samples = [
        (((3, 4), np.array([2, 4, 1], np.int32)), {}),
        (((4, 3, 2), np.array([2, 4, 0], np.int64)), {"seq_axis": 0, "batch_axis": 1}),
    ]

    def infer(self, data: TensorType, seq_lengths: TensorType) -> Type:
        t, s = tensor(data, 0), integers(tensor(seq_lengths, 1, 1), 1)
        seq = normal_axis(self.seq_axis, len(t.shape), "seq_axis")
        batch = normal_axis(self.batch_axis, len(t.shape), "batch_axis")
        need(seq != batch, "seq_axis and batch_axis must differ", f"both are {seq}")
        need(
            may_equal(dims(s)[0], dims(t)[batch]),
            "there must be a length for each batch",
            f"there are {dims(s)[0]} for {dims(t)[batch]}",
            1,
        )
        return t

    def compute(self, data: te.Tensor, seq_lengths: te.Tensor) -> te.Tensor:
        return topi.reverse_sequence(data, seq_lengths, self.seq_axis, self.batch_axis)

    def ref(self, data: np.ndarray, seq_lengths: np.ndarray) -> np.ndarray:
        seq, batch = self.seq_axis % data.ndim, self.batch_axis % data.ndim
        out = data.copy()
        views, source = np.moveaxis(out, (batch, seq), (0, 1)), np.moveaxis(data, (batch, seq), (0, 1))
        for b, n in enumerate(seq_lengths):
            views[b, :n] = source[b, :n][::-1]
        return out

    def grad(self, data: Expr, seq_lengths: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("reverse_sequence")(dy, seq_lengths, seq_axis=self.seq_axis, batch_axis=self.batch_axis), None]


def integers_of(value: Expr | Sequence[int], name: str) -> tuple[int, ...]:
    """The integers of a constant or a sequence. Raises TypeError for an expression of unknown value."""
    if isinstance(value, Constant):
        return tuple([int(v) for v in value.value.reshape(-1)])
    if isinstance(value, Expr):
        raise TypeError(f"{name} must be a constant or integers, but is an expression: {value}")
    return tuple([int(v) for v in value])


class strided_set(OpCard, key="strided_set"):
    """A copy of data in which data[begin:end:strides], over the leading axes, is replaced by `v`. Bounds are clipped as in NumPy."""

    begin: tuple[int, ...]
    end: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    fuse = INJECTIVE
    samples = [
        (((5, 6), (2, 6)), {"begin": (1,), "end": (4,), "strides": (2,)}),
        (((5, 6), (3, 2)), {"begin": (0, -1), "end": (3, 1), "strides": (1, -3)}),
    ]

    @classmethod
    def make(
        cls,
        data: Operand,
        v: Operand,
        begin: Expr | Sequence[int],
        end: Expr | Sequence[int],
        strides: Expr | Sequence[int] | None = None,
        span: BaseSpan | None = None,
    ) -> Made:
        """begin, end, strides: integers or constants."""
        attrs = {"begin": integers_of(begin, "begin"), "end": integers_of(end, "end")}
        if strides is not None:
            attrs["strides"] = integers_of(strides, "strides")
        return cls.call([data, v], attrs, span)

    def index(self, shape: Sequence[int]) -> tuple[slice, ...]:
        """The slices that are replaced."""
        steps = list(self.strides or ()) + [1] * (len(self.begin) - len(self.strides or ()))
        found = []
        for d, b, e, s in zip(shape, self.begin, self.end, steps, strict=False):
            start, count = topi.transform.slice_bounds(d, b, e, s)
            stop = start + count * s
            found.append(slice(start, stop if stop >= 0 else None, s))
        return tuple(found)

    def infer(self, data: TensorType, v: TensorType) -> Type:
        t, value = tensor(data, 0), tensor(v, 1)
        same_dtype(t, value)
        need(
            len(self.begin) == len(self.end) <= len(t.shape),
            "begin and end must be equally long, and no longer than data has axes",
            f"they are {self.begin} and {self.end} for {len(t.shape)} axes",
        )
        need(
            len(self.strides or ()) <= len(self.begin),
            "there must be no more strides than begins",
            f"they are {self.strides}",
        )
        shape = dims(t)
        for d in shape[: len(self.begin)]:
            need(isinstance(d, int), "the extents of the sliced axes must be known", f"one is {d}", 0)
        parts = self.index(static(shape[: len(self.begin)]))
        wanted = [len(range(*p.indices(d))) for p, d in zip(parts, static(shape[: len(parts)]), strict=True)]
        fits = len(value.shape) == len(shape) and all(map(may_equal, dims(value), [*wanted, *shape[len(parts) :]]))
        need(
            fits,
            "v must have the shape of the replaced part",
            f"that is {[*wanted, *shape[len(parts) :]]}, and v has {dims(value)}",
            1,
        )
        return t

    def compute(self, data: te.Tensor, v: te.Tensor) -> te.Tensor:
        return topi.strided_set(data, v, self.begin, self.end, self.strides)

    def ref(self, data: np.ndarray, v: np.ndarray) -> np.ndarray:
        out = data.copy()
        out[self.index(data.shape)] = v
        return out

    def grad(self, data: Expr, v: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        own = strided_set.call(
            [dy, op("zeros_like")(v)], {"begin": self.begin, "end": self.end, "strides": self.strides}
        )
        return [own, op("strided_slice")(dy, self.begin, self.end, self.strides)]


class reverse_reshape(OpCard, key="contrib_reverse_reshape"):
    """reshape whose codes are applied from the last axis backwards: (10, 5, 4) with newshape (-1, 0) is (50, 4)."""

    newshape: tuple[int, ...]
    fuse = INJECTIVE
    samples = [(((10, 5, 4),), {"newshape": (-1, 0)}), (((2, 3, 4, 5),), {"newshape": (-3, 0, 0)})]

    def shape(self, shape: Sequence[Dim]) -> list[Dim]:
        """The result's dimensions."""
        codes: list[int] = []
        i = 0
        while i < len(self.newshape):
            if self.newshape[i] == -4:
                # A group keeps its code, with its two extents reversed like the axes.
                codes = [-4, *self.newshape[i + 1 : i + 3][::-1], *codes]
                i += 3
            else:
                codes.insert(0, self.newshape[i])
                i += 1
        return reshaped(list(shape)[::-1], codes, False)[::-1]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        return tensor_type(tuple(self.shape(dims(t))), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.reshape(data, self.shape(topi.utils.shape_of(data)))

    def ref(self, data: np.ndarray) -> np.ndarray:
        return data.reshape(static(self.shape(data.shape)))

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("reshape_like")(dy, data)]


class sequence_mask(OpCard, key="sequence_mask"):
    """data with `mask_value` from position valid_length[b] on along `axis`. axis: 0 or 1; the other of the two is the batch."""

    mask_value: float = 0.0
    axis: int = 0
    fuse = INJECTIVE
    samples = [
        (((4, 3, 2), np.array([2, 4, 1], np.int32)), {"mask_value": -1.5}),
        (((3, 4), np.array([2, 4, 0], np.int64)), {"axis": 1}),
    ]

    def infer(self, data: TensorType, valid_length: TensorType) -> Type:
        t, v = tensor(data, 0), tensor(valid_length, 1, 1)
        need(
            self.axis in (0, 1) and len(t.shape) >= 2,
            "axis must be 0 or 1 of data of two axes or more",
            f"it is {self.axis}",
            0,
        )
        batch = dims(t)[1 - self.axis]
        need(
            may_equal(dims(v)[0], batch),
            "there must be a length for each batch",
            f"there are {dims(v)[0]} for {batch}",
            1,
        )
        return t

    def compute(self, data: te.Tensor, valid_length: te.Tensor) -> te.Tensor:
        return topi.sequence_mask(data, valid_length, self.mask_value, self.axis)

    def ref(self, data: np.ndarray, valid_length: np.ndarray) -> np.ndarray:
        steps = np.arange(data.shape[self.axis])
        outside = steps[:, None] >= valid_length[None, :] if self.axis == 0 else steps[None, :] >= valid_length[:, None]
        out = data.copy()
        out[outside] = self.mask_value
        return out

    def grad(self, data: Expr, valid_length: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("sequence_mask")(dy, valid_length, axis=self.axis), None]


class unravel_index(OpCard, key="unravel_index"):
    """Converts flat indices into indices along each axis of `shape` (a tensor of integers): (axes, ...)."""

    flat = True
    fuse = INJECTIVE
    samples = [
        ((picks(24, 5), np.array([2, 3, 4], np.int32)), {}),
        ((picks(24, 2, 2), np.array([6, 4], np.int32)), {}),
    ]

    @classmethod
    def make(cls, indices: Operand, shape: Expr | Sequence[int], span: BaseSpan | None = None) -> Made:
        """shape: an expression, or integers."""
        if not isinstance(shape, Expr):
            shape = as_expr(np.array([int(v) for v in shape], np.int32))
        return cls.call([indices, shape], {}, span)

    def infer(self, indices: TensorType, shape: TensorType) -> Type:
        i, s = integers(tensor(indices, 0), 0), integers(tensor(shape, 1, 1), 1)
        rank = dims(s)[0]
        need(isinstance(rank, int), "the number of axes (the length of `shape`) must be known", f"it is {rank}", 1)
        return tensor_type((rank, *i.shape), i.dtype)

    def compute(self, indices: te.Tensor, shape: te.Tensor) -> te.Tensor:
        return topi.unravel_index(indices, shape)

    def ref(self, indices: np.ndarray, shape: np.ndarray) -> np.ndarray:
        return np.array(np.unravel_index(indices, tuple(shape))).astype(indices.dtype)


class matrix_set_diag(OpCard, key="matrix_set_diag"):
    """Replaces the diagonals `k1` to `k2` of the last two axes (0 is the main diagonal, higher ones are positive). A single
    diagonal is a vector; several are the rows of `diagonal`, the highest first. Shorter ones are aligned to the right with
    `super_diag_right_align` (those on or above the main diagonal) or `sub_diag_right_align` (those below)."""

    k1: int = 0
    k2: int = 0
    super_diag_right_align: bool = True
    sub_diag_right_align: bool = False
    fuse = INJECTIVE
    samples = [
        (((2, 3, 4), (2, 3)), {}),
        (((4, 3), (2,)), {"k1": 1, "k2": 1}),
        (((4, 5), (4, 4)), {"k1": -1, "k2": 2}),
        (((3, 3), (3, 3)), {"k1": -1, "k2": 1, "super_diag_right_align": False, "sub_diag_right_align": True}),
    ]

    @classmethod
    def make(
        cls,
        data: Operand,
        diagonal: Operand,
        k: int | Sequence[int] = 0,
        align: str = "RIGHT_LEFT",
        span: BaseSpan | None = None,
    ) -> Made:
        """k: one diagonal, or the lowest and the highest. align: the alignment of shorter diagonals above the main one, then below
        it."""
        low, high = (k, k) if isinstance(k, int) else (k[0], k[-1])
        above, _, below = align.partition("_")
        attrs = {
            "k1": low,
            "k2": high,
            "super_diag_right_align": above == "RIGHT",
            "sub_diag_right_align": below == "RIGHT",
        }
        return cls.call([data, diagonal], attrs, span)

    @property
    def align(self) -> str:
        """Both alignments in one string."""
        side = {True: "RIGHT", False: "LEFT"}
        return f"{side[self.super_diag_right_align]}_{side[self.sub_diag_right_align]}"

    def infer(self, data: TensorType, diagonal: TensorType) -> Type:
        t, d = tensor(data, 0), tensor(diagonal, 1)
        same_dtype(t, d)
        shape = dims(t)
        need(len(shape) >= 2, "data must have two axes or more", f"it has {len(shape)}", 0)
        need(
            self.k1 <= self.k2,
            "the lowest diagonal must not lie above the highest",
            f"they are {self.k1} and {self.k2}",
        )
        rows, columns = shape[-2:]
        need(
            isinstance(rows, int) and isinstance(columns, int),
            "the extents of the last two axes must be known",
            f"they are {rows} and {columns}",
            0,
        )
        longest = max(
            [_diagonal_length(known_extent(rows), known_extent(columns), k) for k in range(self.k1, self.k2 + 1)]
        )
        wanted = [*shape[:-2], *([self.k2 - self.k1 + 1] if self.k1 != self.k2 else []), longest]
        fits = len(wanted) == len(d.shape) and all(map(may_equal, wanted, dims(d)))
        need(
            fits,
            "`diagonal` must have the batch's axes, one for several diagonals, and that of the longest",
            f"that is {wanted}, and it has {dims(d)}",
            1,
        )
        return t

    def compute(self, data: te.Tensor, diagonal: te.Tensor) -> te.Tensor:
        return topi.matrix_set_diag(data, diagonal, (self.k1, self.k2), self.align)

    def ref(self, data: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
        out = data.copy()
        rows, columns = data.shape[-2:]
        for k in range(self.k1, self.k2 + 1):
            n = _diagonal_length(rows, columns, k)
            values = diagonal if self.k1 == self.k2 else diagonal[..., self.k2 - k, :]
            right = self.super_diag_right_align if k >= 0 else self.sub_diag_right_align
            skip = values.shape[-1] - n if right and self.k1 != self.k2 else 0
            i = np.arange(n)
            out[..., i + max(-k, 0), i + max(k, 0)] = values[..., skip : skip + n]
        return out


def _diagonal_length(rows: int, columns: int, k: int) -> int:
    return min(rows + min(k, 0), columns - max(k, 0))


class adv_index(OpCard, key="adv_index"):
    """The first tensor of the tuple, indexed along its leading axes by the others, which are broadcast against each other. Indices
    out of bounds are clipped."""

    fuse = INJECTIVE
    samples = [
        (([(4, 5), picks(4, 3), picks(5, 2, 1)],), {}),
        (([(4, 3, 2), picks(4, 2)],), {}),
    ]

    @classmethod
    def make(cls, inputs: Operand, span: BaseSpan | None = None) -> Made:
        """inputs: the data, then its indices."""
        return cls.call([inputs], {}, span)

    def infer(self, data: TupleType) -> Type:
        source, *indices = tuple_fields(data)
        need(
            1 <= len(indices) <= len(source.shape),
            "there must be an index for one axis at least, and for none that data lacks",
            f"there are {len(indices)} for {len(source.shape)} axes",
            0,
        )
        where: list[Dim] = []
        for i in indices:
            where = broadcast_shapes(where, integers(i, 0).shape)
        shape = [*where, *dims(source)[len(indices) :]]
        need_elements(dims(source)[: len(indices)], shape)
        return tensor_type(shape, source.dtype)

    def indexed(self, types: Sequence[Type]) -> Sequence[Indexed]:
        return [Indexed((0, k + 1), (0, 0), (k,)) for k in range(len(tuple_fields(types[0])) - 1)]

    def compute(self, data: Sequence[te.Tensor]) -> te.Tensor:
        return topi.adv_index(data[0], data[1:])

    def ref(self, data: Sequence[np.ndarray]) -> np.ndarray:
        return np.asarray(data[0][tuple([within(i, n) for i, n in zip(data[1:], data[0].shape, strict=False)])])

    def grad(self, data: Tuple, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        source, *indices = data.fields
        whole = indices[0]
        for i in indices[1:]:
            whole = op("add")(whole, i)
        stacked = op("stack")([op("broadcast_to_like")(i, whole) for i in indices], axis=0)
        own = op("scatter_nd")(op("zeros_like")(source), stacked, dy, mode="add")
        return [Tuple((own, *[op("zeros_like")(i) for i in indices]))]


class trilu(OpCard, key="trilu"):
    """The upper (or lower) triangle of the last two axes from diagonal `k` (a scalar) on, and zeros elsewhere."""

    upper: bool = True
    fuse = INJECTIVE
    samples = [
        (((2, 3, 4), np.array(0, np.int32)), {}),
        (((4, 3), np.array(-1, np.int32)), {"upper": False}),
    ]

    @classmethod
    def make(cls, data: Operand, k: Operand, upper: bool = True, span: BaseSpan | None = None) -> Made:
        """k: an expression or an integer."""
        return cls.call([data, as_expr(np.array(k, np.int32)) if isinstance(k, int) else k], {"upper": upper}, span)

    def infer(self, data: TensorType, k: TensorType) -> Type:
        t = tensor(data, 0)
        integers(tensor(k, 1), 1)
        need(len(t.shape) >= 2, "data must have two axes or more", f"it has {len(t.shape)}", 0)
        need(len(k.shape) <= 1, "k must be a scalar", f"it is {k}", 1)
        return t

    def compute(self, data: te.Tensor, k: te.Tensor) -> te.Tensor:
        return topi.trilu(data, k, self.upper)

    def ref(self, data: np.ndarray, k: np.ndarray) -> np.ndarray:
        return (np.triu if self.upper else np.tril)(data, int(k.reshape(-1)[0]))

    def grad(self, data: Expr, k: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("trilu")(dy, k, self.upper), None]


class invert_permutation(OpCard, key="invert_permutation"):
    """result[data[i]] = i, and 0 at positions that no element refers to. Elements that are out of bounds are ignored."""

    flat = True
    fuse = OPAQUE
    samples = [((np.array([2, 0, 3, 1], np.int32),), {})]

    def infer(self, data: TensorType) -> Type:
        return integers(tensor(data, 0, 1), 0)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.invert_permutation(data)

    def ref(self, data: np.ndarray) -> np.ndarray:
        out = np.zeros_like(data)
        inside = (data >= 0) & (data < len(data))
        out[data[inside]] = np.nonzero(inside)[0]
        return out
