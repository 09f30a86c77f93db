"""Operators on sparse matrices, and on lists of indices and values. Entries whose row bounds or columns are out of bounds are
ignored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, TupleType, Type
from tilewright.ir.span import BaseSpan
from tilewright.relay.cards.card import (
    DYNAMIC,
    OPAQUE,
    OUT_ELEMWISE,
    Made,
    OpCard,
    Operand,
    TypeRuleError,
    as_expr,
    need,
)
from tilewright.relay.cards.relations import Dim, dims, each, is_any, may_equal, same_dtype, tensor, tensor_type
from tilewright.relay.expr import Constant, Expr, Tuple, const
from tilewright.relay.op.adjoint import op
from tilewright.relay.op.data_dependent.counted import argwhere
from tilewright.relay.op.data_dependent.dynamic import Dynamic
from tilewright.relay.op.movement.indexing import integers
from tilewright.tir import Any as AnyDim

CSR = (
    np.array([1.5, -2.0, 3.0, 0.5], np.float32),
    np.array([0, 2, 1, 2], np.int32),
    np.array([0, 2, 3, 4], np.int32),
)
"""A sample: the matrix [[1.5, 0, -2], [0, 3, 0], [0, 0, 0.5]]."""
NO_GRADIENT = "multiply by a dense matrix (nn.dense) to train it"


def fields_of(matrix: Any) -> list[Expr]:
    """(data, indices, indptr) of a sparse matrix: a tuple, or an object with these attributes, as in SciPy."""
    if hasattr(matrix, "indptr"):
        return [as_expr(v) for v in (matrix.data, matrix.indices, matrix.indptr)]
    if isinstance(matrix, Tuple):
        return list(matrix.fields)
    return [as_expr(v) for v in matrix]


def np_dense(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, columns: int) -> np.ndarray:
    """A CSR or BSR matrix as an array."""
    blocks = data if data.ndim == 3 else data[:, None, None]
    br, bc = blocks.shape[1:]
    out = np.zeros(((len(indptr) - 1) * br, columns), data.dtype)
    for row, e in np_entries(data, indices, indptr, columns // bc):
        c = int(indices[e])
        out[row * br : (row + 1) * br, c * bc : (c + 1) * bc] += blocks[e]
    return out


def np_entries(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, columns: int) -> list[tuple[int, int]]:
    """(row, position in data) of the entries whose columns are in bounds."""
    bounds = np.clip(indptr.astype(np.int64), 0, min(len(data), len(indices)))
    return [
        (row, e)
        for row in range(len(indptr) - 1)
        for e in range(bounds[row], bounds[row + 1])
        if 0 <= indices[e] < columns
    ]


def _parts(data: TensorType, indices: TensorType, indptr: TensorType, first: int) -> tuple[Dim, int, int]:
    """(rows, block rows, block columns) of a sparse matrix."""
    d = tensor(data, first)
    integers(tensor(indices, first + 1, 1), first + 1)
    p = integers(tensor(indptr, first + 2, 1), first + 2)
    need(len(d.shape) in (1, 3), "the data must be one axis (CSR) or three (BSR)", f"it has {len(d.shape)}", first)
    br, bc = (1, 1) if len(d.shape) == 1 else (dims(d)[1], dims(d)[2])
    if not isinstance(br, int) or not isinstance(bc, int):
        raise TypeRuleError("the block's extents must be known", f"they are {br} x {bc}", first)
    given = dims(indices)[0]
    need(
        may_equal(given, dims(d)[0]),
        "there must be an index for each entry",
        f"there are {given} for {dims(d)[0]}",
        first + 1,
    )
    count = dims(p)[0]
    need(
        not isinstance(count, int) or count,
        "indptr must have a bound more than the matrix rows",
        "it is empty",
        first + 2,
    )
    return AnyDim() if is_any(count) else (count - 1) * br, br, bc


class sparse_dense(OpCard, key="nn.sparse_dense"):
    """Dense (M, K) times the transpose of a sparse matrix (N, K): (M, N). With `sparse_lhs`: sparse (M, K) times the transpose of
    dense (N, K). The sparse matrix is (data, indices, indptr): CSR, or BSR if data has three axes."""

    sparse_lhs: bool = False
    fuse = OUT_ELEMWISE
    undifferentiable = NO_GRADIENT
    samples = [
        (((2, 3), *CSR), {}),
        (((2, 3), *CSR), {"sparse_lhs": True}),
        (((3, 6), (2, 2, 3), np.array([1, 0], np.int32), np.array([0, 1, 2], np.int32)), {}),
    ]

    @classmethod
    def make(
        cls, dense_mat: Operand, sparse_mat: Operand, sparse_lhs: bool = False, span: BaseSpan | None = None
    ) -> Made:
        """sparse_mat: (data, indices, indptr)."""
        if sparse_lhs and not isinstance(dense_mat, Expr):
            dense_mat, sparse_mat = sparse_mat, dense_mat
        return cls.call([dense_mat, *fields_of(sparse_mat)], {"sparse_lhs": sparse_lhs}, span)

    def infer(
        self, dense: TensorType, weight_data: TensorType, weight_indices: TensorType, weight_indptr: TensorType
    ) -> Type:
        d = tensor(dense, 0, 2)
        rows, _, _ = _parts(weight_data, weight_indices, weight_indptr, 1)
        dtype = same_dtype(d, weight_data)
        m = dims(d)[0]
        return tensor_type((rows, m) if self.sparse_lhs else (m, rows), dtype)

    def compute(
        self, dense: te.Tensor, weight_data: te.Tensor, weight_indices: te.Tensor, weight_indptr: te.Tensor
    ) -> te.Tensor:
        return topi.nn.sparse_dense(dense, weight_data, weight_indices, weight_indptr, self.sparse_lhs)

    def ref(
        self, dense: np.ndarray, weight_data: np.ndarray, weight_indices: np.ndarray, weight_indptr: np.ndarray
    ) -> np.ndarray:
        w = np_dense(weight_data, weight_indices, weight_indptr, dense.shape[1])
        return np.asarray(w @ dense.T if self.sparse_lhs else dense @ w.T)


class sparse_transpose(OpCard, key="nn.sparse_transpose"):
    """(data, indices, indptr) of the transpose of a square CSR matrix."""

    outputs = 3
    fuse = OPAQUE
    undifferentiable = NO_GRADIENT
    samples = [(CSR, {})]

    @classmethod
    def make(cls, x: Operand, span: BaseSpan | None = None) -> Made:
        """x: (data, indices, indptr)."""
        return cls.call(fields_of(x), {}, span)

    def infer(self, sparse_data: TensorType, sparse_indices: TensorType, sparse_indptr: TensorType) -> Type:
        tensor(sparse_data, 0, 1)
        _parts(sparse_data, sparse_indices, sparse_indptr, 0)
        return TupleType((sparse_data, sparse_indices, sparse_indptr))

    def compute(self, sparse_data: te.Tensor, sparse_indices: te.Tensor, sparse_indptr: te.Tensor) -> list[te.Tensor]:
        return topi.nn.sparse_transpose(sparse_data, sparse_indices, sparse_indptr)

    def ref(
        self, sparse_data: np.ndarray, sparse_indices: np.ndarray, sparse_indptr: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        n = len(sparse_indptr) - 1
        found = np_entries(sparse_data, sparse_indices, sparse_indptr, n)
        found = sorted(found, key=lambda entry: sparse_indices[entry[1]])
        data, rows = np.zeros_like(sparse_data), np.zeros_like(sparse_indices)
        for place, (row, e) in enumerate(found[: len(data)]):
            data[place], rows[place] = sparse_data[e], row
        columns = [sparse_indices[e] for _, e in found]
        begin = np.searchsorted(columns, np.arange(n + 1))
        return data, rows, begin.astype(sparse_indptr.dtype)


class sparse_add(OpCard, key="nn.sparse_add"):
    """dense (M, N) plus a CSR matrix (data, indices, indptr)."""

    fuse = OPAQUE
    undifferentiable = NO_GRADIENT
    samples = [(((3, 3), *CSR), {})]

    @classmethod
    def make(cls, dense_mat: Operand, sparse_mat: Operand, span: BaseSpan | None = None) -> Made:
        """sparse_mat: (data, indices, indptr)."""
        return cls.call([dense_mat, *fields_of(sparse_mat)], {}, span)

    def infer(
        self, dense: TensorType, sparse_data: TensorType, sparse_indices: TensorType, sparse_indptr: TensorType
    ) -> Type:
        d = tensor(dense, 0, 2)
        tensor(sparse_data, 1, 1)
        rows, _, _ = _parts(sparse_data, sparse_indices, sparse_indptr, 1)
        same_dtype(d, sparse_data)
        need(may_equal(rows, dims(d)[0]), "both must have as many rows", f"they have {dims(d)[0]} and {rows}", 3)
        return d

    def compute(self, *args: te.Tensor) -> te.Tensor:
        form: Any = topi.nn.sparse_add
        return form(*args)  # type: ignore[no-any-return]

    def ref(
        self, dense: np.ndarray, sparse_data: np.ndarray, sparse_indices: np.ndarray, sparse_indptr: np.ndarray
    ) -> np.ndarray:
        return np.asarray(dense + np_dense(sparse_data, sparse_indices, sparse_indptr, dense.shape[1]))


class sparse_conv2d(OpCard, key="nn.sparse_conv2d"):
    """Convolution of data with a 1 x 1 kernel whose weights are a sparse matrix (O, C): CSR or BSR."""

    layout: str = "NHWC"
    kernel_size: tuple[int, ...] = (1, 1)
    fuse = OPAQUE
    undifferentiable = NO_GRADIENT
    samples = [(((1, 2, 2, 3), *CSR), {}), (((1, 3, 2, 2), *CSR), {"layout": "NCHW"})]

    @classmethod
    def make(
        cls,
        dense_mat: Operand,
        sparse_mat: Operand,
        layout: str = "NHWC",
        kernel_size: Operand = (1, 1),
        span: BaseSpan | None = None,
    ) -> Made:
        """sparse_mat: (data, indices, indptr)."""
        attrs = {"layout": layout, "kernel_size": kernel_size}
        return cls.call([dense_mat, *fields_of(sparse_mat)], attrs, span)

    def infer(
        self, dense: TensorType, sparse_data: TensorType, sparse_indices: TensorType, sparse_indptr: TensorType
    ) -> Type:
        t = tensor(dense, 0, 4)
        need(self.layout in ("NHWC", "NCHW"), "layout must be NHWC or NCHW", f"it is {self.layout}")
        need(
            set(each(self.kernel_size, 2, "kernel_size")) == {1},
            "the kernel must have one element",
            f"it has {self.kernel_size}",
        )
        rows, _, _ = _parts(sparse_data, sparse_indices, sparse_indptr, 1)
        shape: list[Dim] = dims(t)
        shape[self.layout.index("C")] = rows
        return tensor_type(tuple(shape), t.dtype)

    def compute(self, dense: te.Tensor, *matrix: te.Tensor) -> te.Tensor:
        data, indices, indptr = matrix
        return topi.nn.sparse_conv2d(dense, data, indices, indptr, self.layout, self.kernel_size)

    def ref(
        self, dense: np.ndarray, sparse_data: np.ndarray, sparse_indices: np.ndarray, sparse_indptr: np.ndarray
    ) -> np.ndarray:
        last = dense if self.layout == "NHWC" else dense.transpose(0, 2, 3, 1)
        out = last @ np_dense(sparse_data, sparse_indices, sparse_indptr, last.shape[-1]).T
        return np.ascontiguousarray(out if self.layout == "NHWC" else out.transpose(0, 3, 1, 2))


class sparse_to_dense(OpCard, key="sparse_to_dense"):
    """A tensor of `output_shape` with the values at their indices (a scalar, a vector, or rows of indices), and a default
    elsewhere."""

    output_shape: tuple[int, ...]
    fuse = OPAQUE
    samples = [
        ((np.array([[0, 1], [2, 0]], np.int32), (2,), np.array(0.5, np.float32)), {"output_shape": (3, 2)}),
        ((np.array([3, 1], np.int64), np.array(2.0, np.float32), np.array(0, np.float32)), {"output_shape": (5,)}),
    ]

    @classmethod
    def make(
        cls,
        sparse_indices: Operand,
        output_shape: Operand,
        sparse_values: Operand,
        default_value: Operand = 0,
        span: BaseSpan | None = None,
    ) -> Made:
        """output_shape: integers, or an expression."""
        if not isinstance(default_value, Expr):
            from tilewright.relay.typing.infer_type import infer_types

            default_value = const(np.array(default_value, tensor(infer_types(as_expr(sparse_values))).dtype))
        shape = output_shape.value.tolist() if isinstance(output_shape, Constant) else output_shape
        return cls.call([sparse_indices, sparse_values, default_value], {"output_shape": shape}, span)

    def infer(self, sparse_indices: TensorType, sparse_values: TensorType, default_value: TensorType) -> Type:
        i, v = integers(tensor(sparse_indices, 0), 0), tensor(sparse_values, 1)
        need(
            tensor(default_value, 2).dtype == v.dtype,
            "the default must have the values' dtype",
            f"it is {default_value.dtype}",
            2,
        )
        rank = dims(i)[1] if len(i.shape) == 2 else 1
        need(
            len(i.shape) <= 2 and may_equal(rank, len(self.output_shape)),
            "the indices must have a number for each axis of output_shape",
            f"they are {i} for {self.output_shape}",
            0,
        )
        need(
            not v.shape or may_equal(dims(v)[0], dims(i)[0] if i.shape else 1),
            "there must be a value for each index",
            f"they are {v} and {i}",
            1,
        )
        return tensor_type(self.output_shape, v.dtype)

    def compute(self, sparse_indices: te.Tensor, sparse_values: te.Tensor, default_value: te.Tensor) -> te.Tensor:
        return topi.sparse_to_dense(sparse_indices, self.output_shape, sparse_values, default_value)

    def ref(self, sparse_indices: np.ndarray, sparse_values: np.ndarray, default_value: np.ndarray) -> np.ndarray:
        out = np.full(self.output_shape, default_value.reshape(-1)[0], sparse_values.dtype)
        rows = sparse_indices.reshape(-1, 1) if sparse_indices.ndim < 2 else sparse_indices
        for k, row in enumerate(rows):
            if ((row >= 0) & (row < out.shape)).all():
                out[tuple(row)] = sparse_values[k] if sparse_values.ndim else sparse_values
        return out

    def grad(self, sparse_indices: Any, sparse_values: Any, default_value: Any, result: Any, dy: Any) -> Sequence[Any]:
        at = sparse_indices
        if len(at.checked_type.shape) < 2:
            at = op("reshape")(at, (-1, 1))
        at = op("transpose")(at, (1, 0))
        picked = op("gather_nd")(dy, at)
        own = picked if sparse_values.checked_type.shape else op("sum")(picked)
        covered = op("scatter_nd")(op("ones_like")(dy), at, op("zeros_like")(picked))
        return [None, own, op("reshape_like")(op("sum")(dy * covered), default_value)]


class dyn_sparse_to_dense(Dynamic, key="dyn.sparse_to_dense"):
    """sparse_to_dense with `output_shape` as a tensor."""

    of = sparse_to_dense
    samples = [
        ((np.array([[0, 1], [2, 0]], np.int32), np.array([3, 2], np.int64), (2,), np.array(0.5, np.float32)), {}),
    ]

    def infer(
        self,
        sparse_indices: TensorType,
        output_shape: TensorType,
        sparse_values: TensorType,
        default_value: TensorType,
    ) -> Type:
        return self.inferred([sparse_indices, output_shape, sparse_values, default_value])

    def grad(self, *args: Any) -> Sequence[Expr | None]:
        indices, _, values, default, result, dy = args
        first, *rest = sparse_to_dense(output_shape=()).grad(indices, values, default, result, dy)
        return [first, None, *rest]


DYNAMIC[sparse_to_dense] = dyn_sparse_to_dense.call_of


class sparse_reshape(OpCard, key="sparse_reshape"):
    """(the indices in a tensor of `new_shape` of the elements at `sparse_indices` in one of `prev_shape`, the new shape).
    `new_shape` may contain one -1."""

    outputs = 2
    flat = True
    fuse = OPAQUE
    samples = [
        (
            (np.array([[0, 1, 2], [1, 0, 3]], np.int64), np.array([2, 3, 4], np.int64), np.array([6, -1], np.int64)),
            {},
        )
    ]

    def infer(self, sparse_indices: TensorType, prev_shape: TensorType, new_shape: TensorType) -> Type:
        i = integers(tensor(sparse_indices, 0, 2), 0)
        p, n = integers(tensor(prev_shape, 1, 1), 1), integers(tensor(new_shape, 2, 1), 2)
        rank = dims(n)[0]
        known = isinstance(rank, int) and isinstance(dims(p)[0], int)
        need(known, "how many axes there are must be known", f"the shapes are {p} and {n}", 2)
        need(may_equal(dims(i)[1], dims(p)[0]), "there must be an index for each axis", f"they are {i} for {p}", 0)
        return TupleType((tensor_type((dims(i)[0], rank), i.dtype), n))

    def compute(self, sparse_indices: te.Tensor, prev_shape: te.Tensor, new_shape: te.Tensor) -> list[te.Tensor]:
        return topi.sparse_reshape(sparse_indices, prev_shape, new_shape)

    def ref(self, sparse_indices: np.ndarray, prev_shape: np.ndarray, new_shape: np.ndarray) -> tuple[np.ndarray, ...]:
        shape = new_shape.copy()
        if (shape < 0).any():
            shape[shape < 0] = prev_shape.prod() // shape[shape >= 0].prod()
        flat = np.ravel_multi_index(tuple(sparse_indices.T), tuple(prev_shape))
        return np.stack(np.unravel_index(flat, tuple(shape)), 1).astype(sparse_indices.dtype), shape


class sparse_fill_empty_rows(OpCard, key="sparse_fill_empty_rows"):
    """(indices, values, which rows were empty (rows,)): indices (count, 2) and values, with an entry `default_value` at column 0 of
    each empty row of `dense_shape`, sorted by rows."""

    outputs = 3
    fuse = OPAQUE
    expand_in = "SimplifyInference"
    samples = [
        (
            (np.array([[0, 1], [0, 3], [2, 0], [3, 1]], np.int64), (4,), np.array([5, 6], np.int64), np.array([7.5], np.float32)),
            {},
        )
    ]  # fmt: skip

    def infer(
        self, sparse_indices: TensorType, sparse_values: TensorType, dense_shape: TensorType, default_value: TensorType
    ) -> Type:
        i, v = integers(tensor(sparse_indices, 0, 2), 0), tensor(sparse_values, 1, 1)
        integers(tensor(dense_shape, 2, 1), 2)
        need(may_equal(dims(i)[1], 2), "indices are of matrices: two for each value", f"they are {i}", 0)
        need(
            tensor(default_value, 3).dtype == v.dtype,
            "the default must have the values' dtype",
            f"it is {default_value.dtype}",
            3,
        )
        return TupleType(
            (tensor_type((AnyDim(), 2), i.dtype), tensor_type((AnyDim(),), v.dtype), tensor_type((AnyDim(),), "bool"))
        )

    def expand(self, sparse_indices: Expr, sparse_values: Expr, dense_shape: Expr, default_value: Expr) -> Expr:
        dtype = str(tensor(sparse_indices.checked_type).dtype)
        rows = op("reshape")(op("take")(dense_shape, const(0, "int64"), axis=0), (1,))
        row = op("take")(sparse_indices, const(0, "int64"), axis=1)
        counts = op("scatter_elements")(
            op("zeros")(rows, "int32"), row, op("ones_like")(op("cast")(row, "int32")), reduction="add"
        )
        empty = op("equal")(counts, const(0, "int32"))
        more = op("cast")(argwhere().expand(empty), dtype)
        more = op("concatenate")([more, op("zeros_like")(more)], axis=1)
        every = op("concatenate")([sparse_indices, more], axis=0)
        default = op("reshape")(default_value, (1,))
        added = op("take")(default, op("zeros_like")(op("take")(more, const(0, "int64"), axis=1)), axis=0)
        values = op("concatenate")([sparse_values, added], axis=0)
        order = op("argsort")(op("take")(every, const(0, "int64"), axis=1), dtype="int32")
        return Tuple((op("take")(every, order, axis=0), op("take")(values, order, axis=0), empty))

    def ref(
        self,
        sparse_indices: np.ndarray,
        sparse_values: np.ndarray,
        dense_shape: np.ndarray,
        default_value: np.ndarray,
    ) -> tuple[np.ndarray, ...]:
        empty = ~np.isin(np.arange(dense_shape[0]), sparse_indices[:, 0])
        rows = np.flatnonzero(empty)
        more = np.stack([rows, np.zeros_like(rows)], 1).astype(sparse_indices.dtype)
        every = np.concatenate([sparse_indices, more])
        values = np.concatenate([sparse_values, np.full(len(rows), default_value.reshape(-1)[0], sparse_values.dtype)])
        order = np.argsort(every[:, 0], kind="stable")
        return every[order], values[order], empty


def segment_sum(data: Any, segment_ids: Any, num_segments: int | None = None) -> Expr:
    """The sums of segments: result[s] is the sum of data[i] over all i with segment_ids[i] == s. num_segments: default, one more
    than the largest id."""
    ids = op("cast")(segment_ids, "int64")
    whole = op("shape_of")(data, dtype="int64")
    rest = op("strided_slice")(whole, [1], [2**31 - 1])
    if num_segments is not None:
        count: Expr = const(np.array([num_segments], np.int64))
    else:
        count = op("reshape")(op("add")(op("max")(ids), const(1, "int64")), (1,))
    shape = op("concatenate")([count, rest], axis=0)
    from tilewright.relay.typing.infer_type import infer_types

    dtype = tensor(infer_types(as_expr(data))).dtype
    start = op("zeros")(shape, dtype)
    return op("scatter_nd")(start, op("expand_dims")(ids, axis=0), data, mode="add")
