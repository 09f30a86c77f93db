"""Element-wise operators of one tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from tilewright import te, topi
from tilewright.ir import DataType, TensorType, Type
from tilewright.relay.cards.card import BROADCAST, ELEMWISE, OpCard, Sample, need, of_topi
from tilewright.relay.cards.relations import dims, may_equal, normal_axis, tensor, tensor_type, vectors_along
from tilewright.relay.expr import Expr
from tilewright.relay.op.adjoint import number, op

NEAR: Sample = (((2, 3, 4),), {})
POSITIVE: Sample = ((lambda rng: rng.uniform(0.1, 2.0, (2, 5)).astype(np.float32),), {})
INSIDE: Sample = ((lambda rng: rng.uniform(-0.9, 0.9, (2, 5)).astype(np.float32),), {})
ABOVE_ONE: Sample = ((lambda rng: rng.uniform(1.1, 3.0, (2, 5)).astype(np.float32),), {})
SPECIAL: Sample = ((np.array([0.5, np.inf, -np.inf, np.nan], np.float32),), {})


Slope = Callable[[Any, Any], Expr]


class Unary(OpCard):
    """An operator of one tensor that is computed by one function of topi (`computed_by`) and one of NumPy."""

    fuse = ELEMWISE
    result_dtype: ClassVar[str | None] = None
    computed_by: ClassVar[str]
    np_form: ClassVar[Callable[[np.ndarray], np.ndarray]]
    of_reals: ClassVar[bool] = False
    """Whether integers are computed as floats, and the result is rounded towards zero."""
    slope: ClassVar[Slope | None] = None
    """The derivative, from data and the result."""

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        return t if self.result_dtype is None else tensor_type(t.shape, self.result_dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        # topi computes other integers in float32, and what makes kernels converts results to the operator's type.
        wide = self.of_reals and data.dtype in ("int64", "uint64")
        result: te.Tensor = of_topi(self.computed_by)(topi.cast(data, "float64") if wide else data)
        return result

    def ref(self, data: np.ndarray) -> np.ndarray:
        whole = self.of_reals and data.dtype.kind in "iub"
        x = data.astype(np.float64 if data.dtype.itemsize == 8 else np.float32) if whole else data
        result = np.asarray(type(self).np_form(x))
        return result if self.result_dtype else result.astype(data.dtype, copy=False)

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        slope = type(self).slope
        assert slope is not None
        return [op("multiply")(dy, slope(data, result))]


def np_erf(x: np.ndarray) -> np.ndarray:
    """The error function: a series below 2 and a continued fraction above, to full double precision."""
    a = np.abs(x.astype(np.float64))
    small = np.minimum(a, 2.0)
    term, total = small.copy(), small.copy()
    for n in range(1, 60):
        term = term * (-small * small) / n
        total = total + term / (2 * n + 1)
    large = np.minimum(np.maximum(a, 2.0), 30.0)
    f = np.zeros_like(large)
    for n in range(60, 0, -1):
        f = (n / 2) / (large + f)
    tail = np.exp(-large * large) / ((large + f) * np.sqrt(np.pi))
    return np.asarray(np.sign(x) * np.where(a < 2.0, total * 2 / np.sqrt(np.pi), 1.0 - tail))


def np_sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)) without overflow."""
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + e), e / (1 + e)))


def unary(
    key: str,
    np_form: Callable[[np.ndarray], np.ndarray],
    doc: str,
    sample: Sample = NEAR,
    dtype: str | None = None,
    slack: float = 1e-5,
    slope: Slope | None = None,
    by: str | None = None,
    reals: bool = False,
) -> type[Unary]:
    """A card for one function. `by`: the name of the function of topi, if it differs from the operator's. reals: whether it computes
    integers as floats."""

    class card(Unary, key=key):
        samples = (sample,)
        result_dtype = dtype
        tolerance = slack
        flat = slope is None
        of_reals = reals

    card.computed_by, card.np_form, card.slope = by or key, np_form, slope
    card.__name__ = card.__qualname__ = key.rpartition(".")[2]
    card.__doc__ = doc
    return card


of_reals = partial(unary, reals=True)

exp = of_reals("exp", np.exp, "e to the data.", slope=lambda x, y: y)
log = of_reals("log", np.log, "Natural logarithm.", POSITIVE, slope=lambda x, y: number(1, x) / x)
log2 = of_reals("log2", np.log2, "Logarithm to base 2.", POSITIVE, slope=lambda x, y: number(1 / np.log(2), x) / x)
log10 = of_reals("log10", np.log10, "Logarithm to base 10.", POSITIVE, slope=lambda x, y: number(1 / np.log(10), x) / x)
sqrt = of_reals("sqrt", np.sqrt, "Square root.", POSITIVE, slope=lambda x, y: number(0.5, x) / y)
rsqrt = of_reals(
    "rsqrt",
    lambda x: 1 / np.sqrt(x),
    "1 / sqrt(data).",
    POSITIVE,
    slope=lambda x, y: number(-0.5, x) * y / x,
)
tanh = of_reals("tanh", np.tanh, "Hyperbolic tangent.", slope=lambda x, y: number(1, x) - y * y)
sigmoid = of_reals("sigmoid", np_sigmoid, "1 / (1 + exp(-data)).", slope=lambda x, y: y * (number(1, x) - y))
erf = of_reals(
    "erf",
    np_erf,
    "Error function.",
    slope=lambda x, y: number(2 / np.sqrt(np.pi), x) * op("exp")(op("negative")(x * x)),
)
sin = of_reals("sin", np.sin, "Sine of radians.", slope=lambda x, y: op("cos")(x))
cos = of_reals("cos", np.cos, "Cosine of radians.", slope=lambda x, y: op("negative")(op("sin")(x)))
tan = of_reals("tan", np.tan, "Tangent of radians.", INSIDE, slope=lambda x, y: number(1, x) + y * y)
asin = of_reals(
    "asin",
    np.arcsin,
    "Inverse sine, in radians.",
    INSIDE,
    slack=1e-4,
    slope=lambda x, y: op("rsqrt")(number(1, x) - x * x),
)
acos = of_reals(
    "acos",
    np.arccos,
    "Inverse cosine, in radians.",
    INSIDE,
    slack=1e-4,
    slope=lambda x, y: op("negative")(op("rsqrt")(number(1, x) - x * x)),
)
atan = of_reals(
    "atan",
    np.arctan,
    "Inverse tangent, in radians.",
    slack=1e-4,
    slope=lambda x, y: number(1, x) / (number(1, x) + x * x),
)
sinh = of_reals("sinh", np.sinh, "Hyperbolic sine.", slack=1e-4, slope=lambda x, y: op("cosh")(x))
cosh = of_reals("cosh", np.cosh, "Hyperbolic cosine.", slack=1e-4, slope=lambda x, y: op("sinh")(x))
asinh = of_reals(
    "asinh",
    np.arcsinh,
    "Inverse hyperbolic sine.",
    slack=1e-4,
    slope=lambda x, y: op("rsqrt")(x * x + number(1, x)),
)
acosh = of_reals(
    "acosh",
    np.arccosh,
    "Inverse hyperbolic cosine.",
    ABOVE_ONE,
    slack=1e-4,
    slope=lambda x, y: op("rsqrt")(x * x - number(1, x)),
)
atanh = of_reals(
    "atanh",
    np.arctanh,
    "Inverse hyperbolic tangent.",
    INSIDE,
    slack=1e-4,
    slope=lambda x, y: number(1, x) / (number(1, x) - x * x),
)
floor = unary("floor", np.floor, "Largest integer not above data.")
ceil = unary("ceil", np.ceil, "Smallest integer not below data.")
trunc = unary("trunc", np.trunc, "data without its fraction.")
round_ = unary("round", np.rint, "Nearest integer, halves to even.")
abs_ = unary("abs", np.abs, "Magnitude.", slope=lambda x, y: op("sign")(x))
negative = unary("negative", np.negative, "-data.", slope=lambda x, y: number(-1, x))
sign = unary("sign", np.sign, "-1, 0 or 1.")
isnan = unary("isnan", np.isnan, "Whether data is NaN (bool).", SPECIAL, "bool")
isinf = unary("isinf", np.isinf, "Whether data is infinite (bool).", SPECIAL, "bool")
isfinite = unary("isfinite", np.isfinite, "Whether data is a finite number (bool).", SPECIAL, "bool")
logical_not = unary("logical_not", np.logical_not, "Not data (bool).", ((((2, 3), "bool"),), {}), "bool")
bitwise_not = unary("bitwise_not", np.invert, "All bits of data inverted.", ((((2, 3), "int32"),), {}))
copy = unary("copy", lambda x: x, "data itself.", slope=lambda x, y: number(1, x), by="identity")
relu = unary(
    "nn.relu",
    lambda x: np.maximum(x, 0),
    "max(data, 0).",
    slope=lambda x, y: op("cast")(op("greater")(x, number(0, x)), str(tensor(x.checked_type).dtype)),
)


class cast(OpCard, key="cast"):
    """data converted to `dtype`; to bool by comparison with zero, from float to integer towards zero."""

    dtype: str
    fuse = ELEMWISE
    samples = [
        (((2, 3),), {"dtype": "int32"}),
        ((((4,), "int32"),), {"dtype": "float32"}),
        (((4,),), {"dtype": "bool"}),
        (((2, 3),), {"dtype": "float64"}),
    ]

    def infer(self, data: TensorType) -> Type:
        holds_numbers = DataType(self.dtype).code not in ("void", "handle")
        need(holds_numbers, "dtype must be a type of numbers", f"it is {self.dtype or 'empty'}")
        return tensor_type(tensor(data, 0).shape, self.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.cast(data, self.dtype)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return np.asarray(data != 0 if self.dtype == "bool" else data.astype(self.dtype))

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        source = tensor(data.checked_type)
        target = tensor(result.checked_type)
        return [op("cast")(dy, str(source.dtype)) if source.dtype.is_float and target.dtype.is_float else None]


class clip(OpCard, key="clip"):
    """min(max(a, a_min), a_max); a bound may be infinite."""

    a_min: float
    a_max: float
    fuse = ELEMWISE
    samples = [(((2, 30),), {"a_min": -0.5, "a_max": 0.25}), (((7,),), {"a_min": 0.0, "a_max": float("inf")})]

    def infer(self, a: TensorType) -> Type:
        return tensor(a, 0)

    def compute(self, a: te.Tensor) -> te.Tensor:
        return topi.clip(a, self.a_min, self.a_max)

    def ref(self, a: np.ndarray) -> np.ndarray:
        if a.dtype.kind in "iu":
            info = np.iinfo(a.dtype)
            return np.asarray(np.clip(a, int(max(self.a_min, info.min)), int(min(self.a_max, info.max))))
        return np.asarray(np.clip(a, a.dtype.type(self.a_min), a.dtype.type(self.a_max)))

    def grad(self, a: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [op("where")(op("equal")(a, result), dy, op("zeros_like")(dy))]


class leaky_relu(OpCard, key="nn.leaky_relu"):
    """data where positive, else alpha * data."""

    alpha: float = 0.01
    fuse = ELEMWISE
    samples = [(((2, 9),), {"alpha": 0.1})]

    def infer(self, data: TensorType) -> Type:
        return tensor(data, 0)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.nn.leaky_relu(data, self.alpha)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return np.asarray(np.where(data > 0, data, data * data.dtype.type(self.alpha)))


class AlongAxis(OpCard):
    """Base of operators of data and a vector along one of its axes."""

    axis: int = 1
    fuse = BROADCAST
    samples = [(((2, 3, 4, 5), (3,)), {}), (((2, 6), (6,)), {"axis": -1})]

    def complete(self, args: Sequence[Type | None]) -> Sequence[Type | None]:
        return vectors_along(args, self.axis)

    def _check(self, data: TensorType, vector: TensorType) -> Type:
        d, v = tensor(data, 0), tensor(vector, 1, 1)
        at = normal_axis(self.axis, len(d.shape))
        need(
            may_equal(dims(d)[at], dims(v)[0]),
            "the vector must be as long as the data's axis",
            f"axis {at} has {dims(d)[at]} and the vector {dims(v)[0]}",
            1,
        )
        return d

    def _along(self, data: np.ndarray, vector: np.ndarray) -> np.ndarray:
        shape = [1] * data.ndim
        shape[self.axis] = -1
        return vector.reshape(shape)


class bias_add(AlongAxis, key="nn.bias_add"):
    """data + bias[i] with i the position along `axis`."""

    def infer(self, data: TensorType, bias: TensorType) -> Type:
        return self._check(data, bias)

    def compute(self, data: te.Tensor, bias: te.Tensor) -> te.Tensor:
        return topi.nn.bias_add(data, bias, self.axis)

    def ref(self, data: np.ndarray, bias: np.ndarray) -> np.ndarray:
        return np.asarray(data + self._along(data, bias))

    def grad(self, data: Expr, bias: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [dy, op("sum")(dy, axis=(self.axis,), exclude=True)]


class prelu(AlongAxis, key="nn.prelu"):
    """data where positive, else alpha[i] * data with i the position along `axis`."""

    def infer(self, data: TensorType, alpha: TensorType) -> Type:
        return self._check(data, alpha)

    def compute(self, data: te.Tensor, alpha: te.Tensor) -> te.Tensor:
        return topi.nn.prelu(data, alpha, self.axis)

    def ref(self, data: np.ndarray, alpha: np.ndarray) -> np.ndarray:
        return np.where(data > 0, data, data * self._along(data, alpha))
