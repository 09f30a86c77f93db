"""Softmax and its logarithm, normalisations, dropout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, TupleType, Type
from tilewright.ir.span import BaseSpan
from tilewright.relay.cards.card import OPAQUE, OUT_ELEMWISE, Draw, Made, OpCard, constructor, need
from tilewright.relay.cards.relations import dims, may_equal, normal_axis, tensor, vectors_along
from tilewright.relay.expr import Expr, Tuple, TupleGetItem, const
from tilewright.relay.op.adjoint import op


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


def _floats(t: TensorType, arg: int = 0) -> TensorType:
    """A tensor type, which must be of floats."""
    need(tensor(t, arg).dtype.is_float, "it must be of floats", f"it is of {t.dtype}", arg, "Cast it to float32")
    return t


def _along(v: np.ndarray, axis: int, ndim: int) -> np.ndarray:
    shape = [1] * ndim
    shape[axis] = -1
    return v.reshape(shape)


def _normalised(data: np.ndarray, axes: int | tuple[int, ...], epsilon: float) -> np.ndarray:
    """data with zero mean and unit variance over the axes."""
    d = data - data.mean(axes, keepdims=True)
    return np.asarray(d / np.sqrt((d * d).mean(axes, keepdims=True) + data.dtype.type(epsilon)))


def _affine(
    card: batch_norm | layer_norm | instance_norm | group_norm, data: np.ndarray, gamma: np.ndarray, beta: np.ndarray
) -> np.ndarray:
    """data times gamma plus beta, vectors along the card's axis, as far as it scales and centers."""
    out = data * _along(gamma, card.axis, data.ndim) if card.scale else data
    return np.asarray(out + _along(beta, card.axis, data.ndim) if card.center else out)


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
        mean, var = (_along(v, self.axis, data.ndim) for v in (moving_mean, moving_var))
        out = (data - mean) / np.sqrt(var + np.float32(self.epsilon))
        return _affine(self, out, gamma, beta), moving_mean, moving_var

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
        return _floats(_vectors(data, self.axis, gamma, beta))

    def compute(self, data: te.Tensor, gamma: te.Tensor, beta: te.Tensor) -> te.Tensor:
        return topi.nn.layer_norm(
            data, gamma if self.scale else None, beta if self.center else None, self.axis, self.epsilon
        )

    def ref(self, data: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
        return _affine(self, _normalised(data, self.axis, self.epsilon), gamma, beta)


class rms_norm(OpCard, key="nn.contrib_rms_norm"):
    """data / sqrt(mean of its squares over the last axis + epsilon). `FuseRmsNorm` makes it."""

    epsilon: float = 1e-5
    fuse = OUT_ELEMWISE
    samples = [(((2, 3, 8),), {}), (((6, 3),), {"epsilon": 1e-3})]

    def infer(self, data: TensorType) -> Type:
        need(len(tensor(data, 0).shape) > 0, "the data must have an axis", "it has none", 0)
        return _floats(data)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.nn.divided_by_rms(data, [len(data.shape) - 1], self.epsilon)

    def ref(self, data: np.ndarray) -> np.ndarray:
        power = (data * data).mean(-1, keepdims=True)
        return np.asarray(data / np.sqrt(power + data.dtype.type(self.epsilon)))


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
        return _floats(_vectors(data, self.axis, gamma, beta))

    def compute(self, data: te.Tensor, gamma: te.Tensor, beta: te.Tensor) -> te.Tensor:
        return topi.nn.instance_norm(data, gamma, beta, None, self.epsilon, self.center, self.scale, self.axis)

    def ref(self, data: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
        axes = tuple([k for k in range(1, data.ndim) if k != self.axis % data.ndim])
        return _affine(self, _normalised(data, axes, self.epsilon), gamma, beta)


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
        t = _floats(_vectors(data, self.axis, gamma, beta))
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
        return _affine(self, _normalised(split, axes, self.epsilon).reshape(s), gamma, beta)


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
        need(self.size > 0, "size must be positive", f"it is {self.size}")
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
