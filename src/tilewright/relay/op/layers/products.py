"""Matrix products: dense layers, also by packed weights and by Strassen's algorithm, batches of products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.cards.card import INJECTIVE, OUT_ELEMWISE, OpCard, any_bytes, need
from tilewright.relay.cards.relations import (
    broadcast_shapes,
    dims,
    is_static,
    may_equal,
    product,
    product_dtype,
    tensor,
    tensor_type,
)
from tilewright.relay.expr import Expr
from tilewright.relay.op.adjoint import derived, op, summed_like


class batch_flatten(OpCard, key="nn.batch_flatten"):
    """data with all axes but the first merged into one."""

    fuse = INJECTIVE
    samples = [(((2, 3, 4),), {})]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        return tensor_type((t.shape[0], product(t.shape[1:])), t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.nn.flatten(data)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return data.reshape(data.shape[0], -1)

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("reshape_like")(dy, data)]


class matmul(OpCard, key="nn.matmul"):
    """tensor_a (.., M, K) times tensor_b (K, N), each transposed on request: (.., M, N). tensor_b has two axes."""

    units: int | None = None
    out_dtype: str = ""
    transpose_a: bool = False
    transpose_b: bool = False
    fuse = OUT_ELEMWISE
    samples = [
        (((3, 4), (4, 5)), {}),
        (((2, 3, 4), (5, 4)), {"transpose_b": True}),
        (((4, 3), (4, 5)), {"transpose_a": True}),
    ]

    def infer(self, tensor_a: TensorType, tensor_b: TensorType) -> Type:
        return _matmul_type(tensor_a, tensor_b, self.transpose_a, self.transpose_b, self.out_dtype)

    def simplify(self, tensor_a: Expr, tensor_b: Expr) -> Expr | None:
        """Sums of one product are the products of all pairs."""
        return None if self.out_dtype else _of_pairs(tensor_a, tensor_b, self.transpose_a, self.transpose_b)

    def compute(self, tensor_a: te.Tensor, tensor_b: te.Tensor) -> te.Tensor:
        return topi.nn.matmul(tensor_a, tensor_b, None, self.out_dtype or None, self.transpose_a, self.transpose_b)

    def ref(self, tensor_a: np.ndarray, tensor_b: np.ndarray) -> np.ndarray:
        a, b = (t.astype(self.out_dtype) if self.out_dtype else t for t in (tensor_a, tensor_b))
        return np.asarray(np.matmul(a.swapaxes(-1, -2) if self.transpose_a else a, b.T if self.transpose_b else b))

    def grad(self, tensor_a: Expr, tensor_b: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        if self.out_dtype or len(tensor(tensor_a.checked_type).shape) < 2:
            return derived(self, [tensor_a, tensor_b], dy)
        da: Expr = op("nn.matmul")(dy, tensor_b, transpose_b=not self.transpose_b)
        ndim = len(tensor(tensor_a.checked_type).shape)
        d = as_matrix(dy, ndim)
        if self.transpose_a:
            da, a = swapped(da, ndim), as_matrix(swapped(tensor_a, ndim), ndim)
        else:
            a = as_matrix(tensor_a, ndim)
        return [da, op("nn.matmul")(*((d, a) if self.transpose_b else (a, d)), transpose_a=True)]


def swapped(x: Expr, ndim: int) -> Expr:
    """x with its last two axes swapped."""
    return op("transpose")(x, axes=(*range(ndim - 2), ndim - 1, ndim - 2))


def _of_pairs(a: Expr, b: Expr, transpose_a: bool, transpose_b: bool) -> Expr | None:
    """The product of matrices (.., M, 1) and (.., 1, N), each transposed on request, as a multiplication; None for other extents."""
    left, right = tensor(a.checked_type), tensor(b.checked_type)
    ndim = len(left.shape), len(right.shape)
    if min(ndim) < 2 or left.dtype != right.dtype or dims(left)[-2 if transpose_a else -1] != 1:
        return None
    return op("multiply")(swapped(a, ndim[0]) if transpose_a else a, swapped(b, ndim[1]) if transpose_b else b)


def as_matrix(x: Expr, ndim: int) -> Expr:
    """x with all axes but the last merged."""
    for _ in range(ndim - 2):
        x = op("reshape")(x, (-3, -2))
    return x


def _matmul_type(a: TensorType, b: TensorType, transpose_a: bool, transpose_b: bool, out_dtype: str) -> TensorType:
    tensor(a, 0)
    tensor(b, 1, 2)
    need(
        len(a.shape) >= (2 if transpose_a else 1),
        "the first matrix must have axes to multiply",
        f"it has {len(a.shape)}",
        0,
    )
    dtype = product_dtype(a, b)
    left, right = dims(a), dims(b)
    inner_a = left[-2] if transpose_a else left[-1]
    inner_b, columns = (right[1], right[0]) if transpose_b else (right[0], right[1])
    need(may_equal(inner_a, inner_b), "the inner dimensions must be equal", f"they are {inner_a} and {inner_b}", 1)
    rows = left[-1:] if transpose_a else left[-2:-1]
    return tensor_type((*left[:-2], *rows, columns), out_dtype or dtype)


class dense(OpCard, key="nn.dense"):
    """data (.., K) times the transpose of weight (N, K): (.., N)."""

    units: int | None = None
    out_dtype: str = ""
    fuse = OUT_ELEMWISE
    samples = [(((3, 4), (5, 4)), {}), (((2, 3, 4), (5, 4)), {})]

    def complete(self, args: Sequence[Type | None]) -> Sequence[Type | None]:
        data, weight = args
        if weight is None and isinstance(data, TensorType) and self.units is not None and data.shape:
            weight = tensor_type((self.units, data.shape[-1]), data.dtype)
        return [data, weight]

    def infer(self, data: TensorType, weight: TensorType) -> Type:
        return _matmul_type(data, weight, False, True, self.out_dtype)

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        return topi.nn.dense(data, weight, None, self.out_dtype or None)

    def ref(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        a, b = (t.astype(self.out_dtype) if self.out_dtype else t for t in (data, weight))
        return np.asarray(np.matmul(a, b.T))

    def grad(self, data: Expr, weight: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        if self.out_dtype:
            return derived(self, [data, weight], dy)
        ndim = len(tensor(data.checked_type).shape)
        return [
            op("nn.matmul")(dy, weight),
            op("nn.matmul")(as_matrix(dy, ndim), as_matrix(data, ndim), transpose_a=True),
        ]


class dense_pack(OpCard, key="nn.contrib_dense_pack"):
    """data (.., K) times weights packed into panels: (.., N), or its first `units` columns. weight_layout: "NC<nr>n" or "NK<nr>n":
    (N // nr, K, nr); "NC": the same, of any width; "NK<nr>n<g>k": (N // nr, K // g, nr, g), for instructions that add up g
    products."""

    weight_layout: str = "NC"
    units: int | None = None
    out_dtype: str = ""
    fuse = OUT_ELEMWISE
    samples = [
        (((3, 4), (2, 4, 8)), {"weight_layout": "NK8n"}),
        (((3, 4), (2, 4, 8)), {}),
        (((7, 4), (2, 4, 16)), {"weight_layout": "NK16n", "units": 22}),
        ((any_bytes((3, 8), "uint8"), any_bytes((2, 2, 16, 4))), {"weight_layout": "NK16n4k", "out_dtype": "int32"}),
    ]

    def infer(self, data: TensorType, weight: TensorType) -> Type:
        d, w = tensor(data, 0), tensor(weight, 1)
        need(
            len(w.shape) in (3, 4),
            "weights must be packed in panels, of three or four axes",
            f"they have {len(w.shape)}",
            1,
        )
        dtype = product_dtype(d, w)
        panels, inner, nr, *group = dims(w)
        need(
            may_equal(product([inner, *group]), dims(d)[-1]),
            "the inner dimensions must be equal",
            f"they are {dims(d)[-1]} and {product([inner, *group])}",
            1,
        )
        named = (
            self.weight_layout == f"NK{nr}n" + "".join([f"{g}k" for g in group])
            or not group
            and self.weight_layout in ("NC", f"NC{nr}n")
        )
        need(
            named,
            "weight_layout must name the panel width" + (", and the group's" if group else ""),
            f"it is {self.weight_layout} and the panels have " + " by ".join([str(n) for n in (nr, *group)]),
            1,
        )
        columns = product([panels, nr])
        need(
            self.units is None or not isinstance(columns, int) or 0 < self.units <= columns,
            "units must be columns that the weights have",
            f"it is {self.units}, and they have {columns}",
            1,
        )
        return tensor_type((*d.shape[:-1], self.units or columns), self.out_dtype or dtype)

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        return topi.nn.dense_pack(data, weight, None, self.out_dtype or None, self.units)

    def ref(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        by_columns = weight.transpose(1, 3, 0, 2) if weight.ndim == 4 else weight.transpose(1, 0, 2)
        plain = by_columns.reshape(-1, weight.shape[0] * weight.shape[2])
        a, b = (t.astype(self.out_dtype) if self.out_dtype else t for t in (data, plain))
        return np.asarray(np.matmul(a, b))[..., : self.units]


class dense_strassen(OpCard, key="nn.contrib_dense_strassen"):
    """data (.., K) times weights in the form of Strassen's algorithm, (N // 2 // nr * 7, K // 2, nr): (.., N). Sums are taken
    in another order than by `nn.dense`."""

    out_dtype: str = ""
    fuse = OUT_ELEMWISE
    samples = [(((5, 8), (14, 4, 8)), {}), (((2, 3, 4), (7, 2, 4)), {})]

    def infer(self, data: TensorType, weight: TensorType) -> Type:
        d, w = tensor(data, 0), tensor(weight, 1)
        need(is_static(d) and is_static(w), "all extents must be known", f"data is {d}, weights are {w}", 0)
        shape = dims(w)
        need(
            len(shape) == 3 and isinstance(shape[0], int) and shape[0] % 7 == 0,
            "weights must be packed as (panels * 7, K // 2, nr)",
            f"they are {w}",
            1,
        )
        inner = dims(d)[-1]
        panels, half, nr = shape
        need(
            may_equal(product([half, 2]), inner),
            "the inner dimensions must be equal",
            f"they are {inner} and {product([half, 2])}",
            1,
        )
        return tensor_type((*d.shape[:-1], product([panels // 7, nr, 2])), self.out_dtype or product_dtype(d, w))

    def compute(self, data: te.Tensor, weight: te.Tensor) -> te.Tensor:
        return topi.nn.dense_strassen(data, weight, self.out_dtype or None)

    def ref(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        from tilewright.topi.nn.strassen import np_product

        rows = data.reshape(-1, data.shape[-1])
        return np_product(rows, weight).reshape(*data.shape[:-1], -1).astype(self.out_dtype or data.dtype)


class batch_matmul(OpCard, key="nn.batch_matmul"):
    """A matrix product for each leading index, which are broadcast: (.., M, K) times the transpose of (.., N, K), the classic
    default."""

    out_dtype: str = ""
    transpose_a: bool = False
    transpose_b: bool = True
    fuse = OUT_ELEMWISE
    samples = [
        (((2, 3, 4), (2, 5, 4)), {}),
        (((2, 3, 4), (1, 4, 5)), {"transpose_b": False}),
        (((1, 2, 4, 3), (2, 1, 4, 5)), {"transpose_a": True, "transpose_b": False}),
    ]

    def infer(self, tensor_a: TensorType, tensor_b: TensorType) -> Type:
        a, b = tensor(tensor_a, 0), tensor(tensor_b, 1)
        need(
            len(a.shape) >= 2 and len(b.shape) >= 2,
            "both must hold matrices",
            f"they have {len(a.shape)} and {len(b.shape)} axes",
            0,
        )
        dtype = product_dtype(a, b)
        left, right = dims(a), dims(b)
        m, inner_a = (left[-1], left[-2]) if self.transpose_a else (left[-2], left[-1])
        n, inner_b = (right[-2], right[-1]) if self.transpose_b else (right[-1], right[-2])
        need(may_equal(inner_a, inner_b), "the inner dimensions must be equal", f"they are {inner_a} and {inner_b}", 1)
        return tensor_type((*broadcast_shapes(left[:-2], right[:-2]), m, n), self.out_dtype or dtype)

    def simplify(self, tensor_a: Expr, tensor_b: Expr) -> Expr | None:
        """Sums of one product are the products of all pairs."""
        return None if self.out_dtype else _of_pairs(tensor_a, tensor_b, self.transpose_a, self.transpose_b)

    def compute(self, tensor_a: te.Tensor, tensor_b: te.Tensor) -> te.Tensor:
        return topi.nn.batch_matmul(
            tensor_a, tensor_b, None, self.out_dtype or None, self.transpose_a, self.transpose_b
        )

    def ref(self, tensor_a: np.ndarray, tensor_b: np.ndarray) -> np.ndarray:
        a, b = (t.astype(self.out_dtype) if self.out_dtype else t for t in (tensor_a, tensor_b))
        a = a.swapaxes(-1, -2) if self.transpose_a else a
        return np.asarray(np.matmul(a, b.swapaxes(-1, -2) if self.transpose_b else b))

    def grad(self, tensor_a: Expr, tensor_b: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        if self.out_dtype:
            return derived(self, [tensor_a, tensor_b], dy)

        def by(x: Expr, y: Expr, ta: bool, tb: bool) -> Expr:
            return op("nn.batch_matmul")(x, y, transpose_a=ta, transpose_b=tb)

        da = (
            by(tensor_b, dy, self.transpose_b, True)
            if self.transpose_a
            else by(dy, tensor_b, False, not self.transpose_b)
        )
        db = (
            by(dy, tensor_a, True, self.transpose_a)
            if self.transpose_b
            else by(tensor_a, dy, not self.transpose_a, False)
        )
        return [summed_like(da, tensor_a), summed_like(db, tensor_b)]
