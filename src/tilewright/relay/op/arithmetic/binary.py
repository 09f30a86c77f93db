"""Operators of two tensors with NumPy broadcasting, and `where`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from tilewright import te, topi
from tilewright.ir import TensorType, Type
from tilewright.relay.cards.card import BROADCAST, OpCard, Sample, need, of_topi
from tilewright.relay.cards.relations import Dim, broadcast, broadcast_shapes, dims, same_dtype, tensor, tensor_type
from tilewright.relay.expr import Expr
from tilewright.relay.op.adjoint import number, op, summed_like

FLOATS: tuple[Sample, ...] = ((((2, 3), (2, 3)), {}), (((4, 1, 3), (2, 1)), {}), (((3,), ()), {}))
INTS: tuple[Sample, ...] = (((((2, 3), "int32"), ((3,), "int32")), {}),)
BOOLS: tuple[Sample, ...] = (((((2, 3), "bool"), ((3,), "bool")), {}),)


def _divisor(rng: np.random.Generator) -> np.ndarray:
    return np.asarray(rng.permutation([0, -1, rng.integers(2, 5) * rng.choice([-1, 1])]), np.int32)


def _integers(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(-20, 20, (2, 3)).astype(np.int32)


def _dividend(rng: np.random.Generator) -> np.ndarray:
    return np.concatenate([_integers(rng), np.full((1, 3), np.iinfo(np.int32).min, np.int32)])


def _positive(rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(0.5, 2.0, (2, 3)).astype(np.float32)


def _small_counts(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 5, (3,)).astype(np.int32)


DIVISION: tuple[Sample, ...] = (((_dividend, _divisor), {}), (((2, 3), _positive), {}))


class Binary(OpCard):
    """An operator of two tensors that is computed by one function of topi (`computed_by`) and one of NumPy."""

    fuse = BROADCAST
    result_dtype: ClassVar[str | None] = None
    of_bits: ClassVar[bool] = False
    """Whether the operands must be integers or bools, since these operators work on bits."""
    computed_by: ClassVar[str]
    np_form: ClassVar[Callable[[np.ndarray, np.ndarray], np.ndarray]]
    slopes: ClassVar[Callable[[Expr, Expr, Expr, Expr], tuple[Expr, Expr]] | None] = None
    """The adjoints of both sides before the sum over broadcast axes, from (lhs, rhs, result, adjoint of the result)."""

    def infer(self, lhs: TensorType, rhs: TensorType) -> Type:
        for place, one in enumerate((lhs, rhs) if self.of_bits else ()):
            dtype = str(tensor(one, place).dtype)
            need(
                not dtype.startswith(("float", "bfloat")), "operands must be integers or bool", f"it is {dtype}", place
            )
        return broadcast(lhs, rhs, self.result_dtype)

    def compute(self, lhs: te.Tensor, rhs: te.Tensor) -> te.Tensor:
        result: te.Tensor = of_topi(self.computed_by)(lhs, rhs)
        return result

    def ref(self, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):  # Kernels report no such errors either.
            result = np.asarray(type(self).np_form(lhs, rhs))
        return result.astype(self.result_dtype or lhs.dtype, copy=False)

    def grad(self, lhs: Expr, rhs: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        slopes = type(self).slopes
        assert slopes is not None
        left, right = slopes(lhs, rhs, result, dy)
        return [summed_like(left, lhs), summed_like(right, rhs)]


def _truncated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return whole_quotient(a, b) if a.dtype.kind in "iu" else np.asarray(a / b)


def whole_quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b of integers, rounded towards zero. It is 0 if b is 0; the lowest integer divided by -1 is itself."""
    below = (np.mod(a, b) != 0) & ((a < 0) != (b < 0))
    return np.asarray(np.floor_divide(a, b) + below.astype(a.dtype), a.dtype)


def _binary(
    key: str,
    np_form: Callable[[np.ndarray, np.ndarray], np.ndarray],
    doc: str,
    cases: tuple[Sample, ...] = FLOATS,
    dtype: str | None = None,
    slopes: Callable[[Any, Any, Any, Any], tuple[Any, Any]] | None = None,
    bits: bool = False,
    divides: bool = False,
) -> type[Binary]:
    class card(Binary, key=key):
        samples = cases
        divisors = (1,) if divides else ()
        result_dtype = dtype
        of_bits = bits
        flat = slopes is None

    card.computed_by, card.np_form, card.slopes = key, np_form, slopes
    card.__name__ = card.__qualname__ = key
    card.__doc__ = doc
    return card


def kept(condition: Expr, dy: Expr) -> Expr:
    """dy where the condition holds, else 0."""
    return op("where")(condition, dy, op("zeros_like")(dy))


add = _binary("add", np.add, "lhs + rhs.", FLOATS + INTS, slopes=lambda a, b, y, dy: (dy, dy))
subtract = _binary(
    "subtract",
    np.subtract,
    "lhs - rhs.",
    FLOATS + INTS,
    slopes=lambda a, b, y, dy: (dy, op("negative")(dy)),
)
multiply = _binary("multiply", np.multiply, "lhs * rhs.", FLOATS + INTS, slopes=lambda a, b, y, dy: (dy * b, dy * a))
divide = _binary(
    "divide",
    _truncated,
    "lhs / rhs; integers truncate towards zero, and by 0 give 0.",
    DIVISION,
    divides=True,
    slopes=lambda a, b, y, dy: (dy / b, op("negative")(dy * y / b)),
)
floor_divide = _binary(
    "floor_divide", np.floor_divide, "floor(lhs / rhs); integers by 0 give 0.", DIVISION, divides=True
)
mod = _binary(
    "mod",
    np.fmod,
    "Remainder with the sign of lhs; of integers by 0 it is 0.",
    DIVISION,
    divides=True,
    slopes=lambda a, b, y, dy: (dy, op("negative")(dy) * op("trunc")(a / b)),
)
floor_mod = _binary(
    "floor_mod",
    np.mod,
    "Remainder with the sign of rhs; of integers by 0 it is 0.",
    DIVISION,
    divides=True,
    slopes=lambda a, b, y, dy: (dy, op("negative")(dy) * op("floor")(a / b)),
)
maximum = _binary(
    "maximum",
    np.maximum,
    "The larger.",
    FLOATS + INTS,
    slopes=lambda a, b, y, dy: (kept(op("greater_equal")(a, b), dy), kept(op("less")(a, b), dy)),
)
minimum = _binary(
    "minimum",
    np.minimum,
    "The smaller.",
    FLOATS + INTS,
    slopes=lambda a, b, y, dy: (kept(op("less_equal")(a, b), dy), kept(op("greater")(a, b), dy)),
)
power = _binary(
    "power",
    np.power,
    "lhs to the rhs.",
    (((_positive, (3,)), {}), ((_positive, np.array(2.0, np.float32)), {})),
    slopes=lambda a, b, y, dy: (dy * b * op("power")(a, b - number(1, b)), dy * y * op("log")(a)),
)
equal = _binary("equal", np.equal, "lhs == rhs (bool).", INTS, "bool")
not_equal = _binary("not_equal", np.not_equal, "lhs != rhs (bool).", INTS, "bool")
less = _binary("less", np.less, "lhs < rhs (bool).", FLOATS, "bool")
less_equal = _binary("less_equal", np.less_equal, "lhs <= rhs (bool).", INTS, "bool")
greater = _binary("greater", np.greater, "lhs > rhs (bool).", FLOATS, "bool")
greater_equal = _binary("greater_equal", np.greater_equal, "lhs >= rhs (bool).", INTS, "bool")
logical_and = _binary("logical_and", np.logical_and, "lhs and rhs (bool).", BOOLS, "bool")
logical_or = _binary("logical_or", np.logical_or, "lhs or rhs (bool).", BOOLS, "bool")
logical_xor = _binary("logical_xor", np.logical_xor, "One of lhs, rhs, not both (bool).", BOOLS, "bool")
bitwise_and = _binary("bitwise_and", np.bitwise_and, "Bits in both.", INTS, bits=True)
bitwise_or = _binary("bitwise_or", np.bitwise_or, "Bits in either.", INTS, bits=True)
bitwise_xor = _binary("bitwise_xor", np.bitwise_xor, "Bits in one only.", INTS, bits=True)
SHIFTS: tuple[Sample, ...] = (((_integers, _small_counts), {}),)
left_shift = _binary("left_shift", np.left_shift, "lhs shifted to higher bits.", SHIFTS, bits=True)
right_shift = _binary("right_shift", np.right_shift, "lhs shifted to lower bits.", SHIFTS, bits=True)


class where(OpCard, key="where"):
    """x where `condition` (bool, or nonzero) holds, else y. All three are broadcast."""

    fuse = BROADCAST
    samples = [((((2, 3), "bool"), (2, 3), (2, 3)), {}), ((((3,), "bool"), (2, 1), ()), {})]

    def infer(self, condition: TensorType, x: TensorType, y: TensorType) -> Type:
        c, a, b = tensor(condition, 0), tensor(x, 1), tensor(y, 2)
        dtype = same_dtype(a, b)
        return tensor_type(tuple(broadcast_shapes(broadcast_shapes(c.shape, a.shape), b.shape)), dtype)

    def compute(self, condition: te.Tensor, x: te.Tensor, y: te.Tensor) -> te.Tensor:
        return topi.where(condition, x, y)

    def ref(self, condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(np.where(condition != 0 if condition.dtype != bool else condition, x, y))

    def grad(self, condition: Expr, x: Expr, y: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        zero = op("zeros_like")(dy)
        return [
            None,
            summed_like(op("where")(condition, dy, zero), x),
            summed_like(op("where")(condition, zero, dy), y),
        ]


class broadcast_to(OpCard, key="broadcast_to"):
    """data repeated to `shape`."""

    shape: tuple[int, ...]
    fuse = BROADCAST
    samples = [(((3, 1),), {"shape": (2, 3, 4)}), (((),), {"shape": ()})]

    def infer(self, data: TensorType) -> Type:
        t = tensor(data, 0)
        found = broadcast_shapes(t.shape, self.shape)
        need(
            _same(found, self.shape),
            "data must broadcast to exactly `shape`",
            f"{dims(t)} with {self.shape} gives {found}",
            0,
        )
        return tensor_type(self.shape, t.dtype)

    def compute(self, data: te.Tensor) -> te.Tensor:
        return topi.broadcast_to(data, self.shape)

    def ref(self, data: np.ndarray) -> np.ndarray:
        return np.broadcast_to(data, self.shape).copy()

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [summed_like(dy, data)]


def _same(a: list[Dim], b: tuple[int, ...]) -> bool:
    return len(a) == len(b) and all(
        [not isinstance(x, int) or not isinstance(y, int) or x == y for x, y in zip(a, b, strict=True)]
    )
