"""Neural-network operators: softmax, normalisations, matrix products, padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, TupleType, Type
from tilewright.ir.span import BaseSpan
from tilewright.relay.cards.card import (
    INJECTIVE,
    OPAQUE,
    OUT_ELEMWISE,
    Draw,
    Made,
    OpCard,
    any_bytes,
    constructor,
    need,
)
from tilewright.relay.cards.relations import (
    broadcast_shapes,
    dims,
    is_static,
    may_equal,
    normal_axis,
    product,
    product_dtype,
    tensor,
    tensor_type,
    vectors_along,
)
from tilewright.relay.expr import Expr, Tuple, TupleGetItem, const
from tilewright.relay.op.adjoint import derived, op, summed_like


class softmax(OpCard, key="nn.softmax"):
    """exp(data) normalised along `axis`."""

    axis: int = -1
    fuse = OUT_ELEMWISE
    samples = [(((2, 5),), {}), (((3, 4, 7),), {"axis": 1})]

    def infer(self, data: TensorType) -> Type:
        normal_axis(self.axis, len(tensor(data, 0).shape))
        return data

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.nn.softmax(data, self.axis)

    def ref(self, data: np.ndarray) -> np.ndarray:
        e = np.exp(data - data.max(self.axis, keepdims=True))
        return np.asarray(e / e.sum(self.axis, keepdims=True))

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        product_ = op("multiply")(dy, result)
        return [(dy - op("sum")(product_, axis=self.axis, keepdims=True)) * result]


class log_softmax(softmax, key="nn.log_softmax"):
    """log(softmax(data)) along `axis`."""

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.nn.log_softmax(data, self.axis)

    def ref(self, data: np.ndarray) -> np.ndarray:
        d = data - data.max(self.axis, keepdims=True)
        return np.asarray(d - np.log(np.exp(d).sum(self.axis, keepdims=True)))

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [dy - op("exp")(result) * op("sum")(dy, axis=self.axis, keepdims=True)]


def _vectors(data: TensorType, axis: int, *vectors: TensorType) -> TensorType:
    d = tensor(data, 0)
    at = normal_axis(axis, len(d.shape))
    for k, v in enumerate(vectors, 1):
        need(
            may_equal(dims(tensor(v, k, 1))[0], dims(d)[at]),
            f"this vector must be as long as the data's axis {at}",
            f"it has {dims(v)[0]} and the axis {dims(d)[at]}",
            k,
        )
    return d


def _along(v: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    shape = [1] * ndim
    shape[axis] = -1
    return v.reshape(shape)


def _positive(*shape: int) -> Draw:
    return lambda rng: rng.uniform(0.5, 2.0, shape).astype(np.float32)


class batch_norm(OpCard, key="nn.batch_norm"):
    """(data - moving_mean) / sqrt(moving_var + epsilon) * gamma + beta along `axis`. Returns (result, mean, var)."""

    axis: int = 1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True
    outputs = 3
    fuse = OUT_ELEMWISE
    samples = [
        (((2, 3, 4, 4), (3,), (3,), (3,), _positive(3)), {}),
        (((2, 4, 3), (3,), (3,), (3,), _positive(3)), {"axis": -1, "scale": False}),
    ]

    def complete(self, args: Sequence[Type | None]) -> Sequence[Type | None]:
        return vectors_along(args, self.axis)

    def infer(
        self, data: TensorType, gamma: TensorType, beta: TensorType, moving_mean: TensorType, moving_var: TensorType
    ) -> Type:
        t = _vectors(data, self.axis, gamma, beta, moving_mean, moving_var)
        return TupleType((t, moving_mean, moving_var))

    def compute(
        self, data: te.Tensor, gamma: te.Tensor, beta: te.Tensor, moving_mean: te.Tensor, moving_var: te.Tensor
    ) -> list[te.Tensor]:
        return topi.nn.batch_norm(
            data, gamma, beta, moving_mean, moving_var, self.axis, self.epsilon, self.center, self.scale
        )

    def ref(
        self, data: np.ndarray, gamma: np.ndarray, beta: np.ndarray, moving_mean: np.ndarray, moving_var: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        along = [_along(v, self.axis, data.ndim) for v in (gamma, beta, moving_mean, moving_var)]
        out = (data - along[2]) / np.sqrt(along[3] + np.float32(self.epsilon))
        out = out * along[0] if self.scale else out
        return out + along[1] if self.center else out, moving_mean, moving_var

    def expand(self, data: Expr, gamma: Expr, beta: Expr, moving_mean: Expr, moving_var: Expr) -> Expr:
        """A multiplication and an addition, by vectors that constant folding computes."""
        add, multiply = constructor("add"), constructor("multiply")
        ndim = len(tensor(data.checked_type).shape)
        at = normal_axis(self.axis, ndim)
        eps = const(np.array(self.epsilon, str(tensor(moving_var.checked_type).dtype)))
        factor = constructor("divide")(const(np.array(1, eps.value.dtype)), constructor("sqrt")(add(moving_var, eps)))
        factor = multiply(factor, gamma) if self.scale else factor
        shift = multiply(constructor("negative")(moving_mean), factor)
        shift = add(shift, beta) if self.center else shift

        def spread(v: Expr) -> Expr:
            return constructor("expand_dims")(v, 1, ndim - 1 - at) if at < ndim - 1 else v

        return Tuple((add(multiply(data, spread(factor)), spread(shift)), moving_mean, moving_var))


class layer_norm(OpCard, key="nn.layer_norm"):
    """Zero mean and unit variance along `axis`, then times gamma plus beta."""

    axis: int = -1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True
    fuse = OUT_ELEMWISE
    samples = [(((2, 3, 8), (8,), (8,)), {}), (((2, 6, 3), (6,), (6,)), {"axis": 1, "epsilon": 1e-3})]

    def complete(self, args: Sequence[Type | None]) -> Sequence[Type | None]:
        return vectors_along(args, self.axis)

    def infer(self, data: TensorType, gamma: TensorType, beta: TensorType) -> Type:
        return _vectors(data, self.axis, gamma, beta)

    def compute(self, data: te.Tensor, gamma: te.Tensor, beta: te.Tensor) -> te.Tensor:
        return topi.nn.layer_norm(
            data, gamma if self.scale else None, beta if self.center else None, self.axis, self.epsilon
        )

    def ref(self, data: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
        d = data - data.mean(self.axis, keepdims=True)
        out = d / np.sqrt((d * d).mean(self.axis, keepdims=True) + data.dtype.type(self.epsilon))
        out = out * _along(gamma, self.axis, data.ndim) if self.scale else out
        return np.asarray(out + _along(beta, self.axis, data.ndim) if self.center else out)


class instance_norm(OpCard, key="nn.instance_norm"):
    """Zero mean and unit variance over all axes but the batch and `axis`, then times gamma plus beta."""

    axis: int = 1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True
    fuse = OUT_ELEMWISE
    samples = [(((2, 3, 4, 5), (3,), (3,)), {})]

    def complete(self, args: Sequence[Type | None]) -> Sequence[Type | None]:
        return vectors_along(args, self.axis)

    def infer(self, data: TensorType, gamma: TensorType, beta: TensorType) -> Type:
        return _vectors(data, self.axis, gamma, beta)

    def compute(self, data: te.Tensor, gamma: te.Tensor, beta: te.Tensor) -> te.Tensor:
        return topi.nn.instance_norm(data, gamma, beta, None, self.epsilon, self.center, self.scale, self.axis)

    def ref(self, data: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
        axes = tuple([k for k in range(1, data.ndim) if k != self.axis % data.ndim])
        d = data - data.mean(axes, keepdims=True)
        out = d / np.sqrt((d * d).mean(axes, keepdims=True) + data.dtype.type(self.epsilon))
        out = out * _along(gamma, self.axis, data.ndim) if self.scale else out
        return np.asarray(out + _along(beta, self.axis, data.ndim) if self.center else out)


class group_norm(OpCard, key="nn.group_norm"):
    """Like instance_norm, over `num_groups` groups of adjacent channels."""

    num_groups: int
    axis: int = 1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True
    fuse = OUT_ELEMWISE
    samples = [(((2, 6, 4, 3), (6,), (6,)), {"num_groups": 3})]

    def complete(self, args: Sequence[Type | None]) -> Sequence[Type | None]:
        return vectors_along(args, self.axis)

    def infer(self, data: TensorType, gamma: TensorType, beta: TensorType) -> Type:
        t = _vectors(data, self.axis, gamma, beta)
        channels = dims(t)[normal_axis(self.axis, len(t.shape))]
        need(
            not isinstance(channels, int) or channels % self.num_groups == 0,
            "num_groups must divide the channels",
            f"{self.num_groups} and {channels}",
            0,
        )
        return t

    def compute(self, data: te.Tensor, gamma: te.Tensor, beta: te.Tensor) -> te.Tensor:
        return topi.nn.group_norm(
            data, gamma, beta, self.num_groups, self.axis, None, self.epsilon, self.center, self.scale
        )

    def ref(self, data: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
        at = self.axis % data.ndim
        s = data.shape
        split = data.reshape(*s[:at], self.num_groups, s[at] // self.num_groups, *s[at + 1 :])
        axes = tuple([k for k in range(1, split.ndim) if k != at])
        d = split - split.mean(axes, keepdims=True)
        out = (d / np.sqrt((d * d).mean(axes, keepdims=True) + data.dtype.type(self.epsilon))).reshape(s)
        out = out * _along(gamma, at, data.ndim) if self.scale else out
        return np.asarray(out + _along(beta, at, data.ndim) if self.center else out)


class lrn(OpCard, key="nn.lrn"):
    """data / (bias + alpha / size * sum of squares of `size` neighbours along `axis`) ** beta."""

    size: int = 5
    axis: int = 1
    bias: float = 2.0
    alpha: float = 1e-5
    beta: float = 0.75
    fuse = OUT_ELEMWISE
    samples = [(((1, 7, 3, 3),), {"alpha": 0.1}), (((1, 7, 2),), {"size": 4, "beta": 0.6, "alpha": 1.0, "bias": 1.0})]

    def infer(self, data: TensorType) -> Type:
        normal_axis(self.axis, len(tensor(data, 0).shape))
        return data

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.nn.lrn(data, self.size, self.axis, self.alpha, self.beta, self.bias)

    def ref(self, data: np.ndarray) -> np.ndarray:
        at = self.axis % data.ndim
        before = (self.size - 1) // 2
        widths = [(before, self.size - 1 - before) if k == at else (0, 0) for k in range(data.ndim)]
        squares = np.lib.stride_tricks.sliding_window_view(np.pad(data * data, widths), self.size, at).sum(-1)
        return np.asarray(data / (self.bias + self.alpha / self.size * squares) ** self.beta).astype(data.dtype)


class l2_normalize(OpCard, key="nn.l2_normalize"):
    """data / sqrt(max(sum of squares along `axis`, eps))."""

    eps: float
    axis: tuple[int, ...] | None = None
    fuse = OUT_ELEMWISE
    samples = [(((2, 5),), {"eps": 1e-6, "axis": 1})]

    def infer(self, data: TensorType) -> Type:
        return tensor(data, 0)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.nn.l2_normalize(data, self.eps, self.axis)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return np.asarray(
            data / np.sqrt(np.maximum((data * data).sum(self.axis, keepdims=True), data.dtype.type(self.eps)))
        )


class dropout(OpCard, key="nn.dropout"):
    """data itself, as in inference. Returns (data, mask of ones)."""

    rate: float = 0.5
    outputs = 2
    fuse = OPAQUE
    samples = [(((2, 5),), {})]

    @classmethod
    def make(cls, data: Expr, rate: float = 0.5, span: BaseSpan | None = None) -> Made:
        return TupleGetItem(cls.call([data], {"rate": rate}, span), 0)

    def infer(self, data: TensorType) -> Type:
        return TupleType((tensor(data, 0), data))

    def compute(self, data: te.Tensor) -> list[te.Tensor]:
        return [topi.identity(data), topi.full_like(data, 1)]

    def ref(self, data: np.ndarray) -> tuple[np.ndarray, ...]:
        return data, np.ones_like(data)

    def expand(self, data: Expr) -> Expr:
        """The data, and ones."""
        return Tuple((data, constructor("ones_like")(data)))


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


class attention(OpCard, key="nn.contrib_attention"):
    """softmax(query key^T * scale + mask) value: (.., N, D), (.., M, D), (.., M, E) -> (.., N, E). mask, if given, broadcasts to
    the scores (.., N, M). transpose_key: False if keys are already transposed, (.., D, M). zero_rows: rows whose scores are all
    -inf give 0 instead of NaN."""

    scale: float = 1.0
    transpose_key: bool = True
    zero_rows: bool = False
    fuse = OUT_ELEMWISE
    samples = [
        (((2, 5, 4), (2, 7, 4), (2, 7, 3)), {"scale": 0.5}),
        (((1, 2, 3, 4), (1, 2, 4, 5), (1, 2, 5, 4), (1, 1, 1, 5)), {"transpose_key": False}),
    ]

    def infer(self, query: TensorType, key: TensorType, value: TensorType, mask: TensorType | None = None) -> Type:
        q, k, v = tensor(query, 0), tensor(key, 1), tensor(value, 2)
        for place, one in enumerate([q, k, v]):
            need(
                len(one.shape) >= 2 and str(one.dtype) in ("float32", "float64") and one.dtype == q.dtype,
                "queries, keys and values must be matrices of float32, or all of float64",
                f"argument {place} is {one}",
                place,
            )
            need(is_static(one), "all extents must be known", f"argument {place} is {one}", place)
        *lead, n, d = dims(q)
        *_, m, width = dims(v)
        need(
            dims(k) == ([*lead, m, d] if self.transpose_key else [*lead, d, m]) and dims(v)[:-2] == lead,
            "queries, keys and values must have equal numbers of heads, keys as long as queries, and one value for each key",
            f"they are {q}, {k} and {v}",
            1,
        )
        scores = [*lead, n, m]
        need(
            mask is None or list(broadcast_shapes(dims(tensor(mask, 3)), scores)) == scores,
            "the mask must broadcast to the scores",
            f"it is {mask}, and they are {tuple(scores)}",
            3,
        )
        return tensor_type((*lead, n, width), str(q.dtype))

    def compute(self, query: te.Tensor, key: te.Tensor, value: te.Tensor, mask: te.Tensor | None = None) -> te.Tensor:
        return topi.nn.attention(query, key, value, mask, self.scale, self.transpose_key, self.zero_rows)

    def ref(self, query: np.ndarray, key: np.ndarray, value: np.ndarray, mask: np.ndarray | float = 0.0) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            scores = query @ (key.swapaxes(-1, -2) if self.transpose_key else key) * query.dtype.type(self.scale) + mask
            e = np.exp(scores - scores.max(-1, keepdims=True))
            weights = e / e.sum(-1, keepdims=True)
        weights = np.where(np.isnan(weights), query.dtype.type(0), weights) if self.zero_rows else weights
        return np.asarray(weights @ value, query.dtype)


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
