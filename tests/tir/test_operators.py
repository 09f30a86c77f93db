"""Python's operators on expressions: types of operands, folded constants, identities and refusals."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import tir
from tilewright.node import structural_equal
from tilewright.tir import Broadcast, Cast, FloatImm, IntImm, Ramp, Var

I, J = Var("i"), Var("j")
L, U = Var("l", "int64"), Var("u", "uint8")
X, D, H = Var("x", "float32"), Var("d", "float64"), Var("h", "float16")
B = Var("b", "bool")
P = Var("p", "handle")


@pytest.mark.parametrize(
    ("a", "b", "dtype"),
    [
        (I, J, "int32"),
        (I, L, "int64"),
        (I, X, "float32"),
        (X, D, "float64"),
        (X, H, "float32"),
        (I, 1, "int32"),
        (L, 1, "int64"),
        (X, 1, "float32"),
        (I, 1.5, "float32"),
        (H, 1.5, "float16"),
        (I, 1 << 40, "int64"),
        (U, 3, "uint8"),
        (U, I, "int32"),
        (X, np.float32(2), "float32"),
        (Broadcast(X, 4), X, "float32x4"),
        (Ramp(I, 1, 4), 1, "int32x4"),
    ],
)
def test_types_of_results(a: Any, b: Any, dtype: str) -> None:
    for f in (operator.add, operator.sub, operator.mul):
        assert f(a, b).dtype == dtype
        assert f(b, a).dtype == dtype
    assert (a < b).dtype == ("boolx4" if dtype.endswith("x4") else "bool")


@pytest.mark.parametrize(
    ("symbol", "cls"),
    [
        (operator.add, tir.Add),
        (operator.sub, tir.Sub),
        (operator.mul, tir.Mul),
        (operator.floordiv, tir.FloorDiv),
        (operator.mod, tir.FloorMod),
        (operator.lt, tir.LT),
        (operator.le, tir.LE),
        (operator.gt, tir.GT),
        (operator.ge, tir.GE),
    ],
)
def test_nodes(symbol: Callable[[Any, Any], Any], cls: type) -> None:
    assert isinstance(symbol(I, J), cls)


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "int64"])
def test_constants_fold_as_the_machine_computes(dtype: str) -> None:
    rng = np.random.default_rng(0)
    kind = np.dtype(dtype)
    info = np.iinfo(kind)
    for _ in range(200):
        a, b = (int(v) for v in rng.integers(info.min, info.max, 2, dtype=kind, endpoint=True))
        x, y = IntImm(dtype, a), IntImm(dtype, b)
        with np.errstate(over="ignore"):
            p, q = np.array(a, kind), np.array(b, kind)
            assert int(x + y) == int(p + q)
            assert int(x - y) == int(p - q)
            assert int(x * y) == int(p * q)
            assert int(tir.min(x, y)) == min(a, b)
            assert int(tir.max(x, y)) == max(a, b)
            if b and not (b == -1 and a == info.min):
                assert int(x // y) == a // b
                assert int(x % y) == a % b
                assert int(tir.truncdiv(x, y)) == int(a / b) if abs(a) < 1 << 50 else True
                assert int(tir.truncmod(x, y)) == a - b * int(tir.truncdiv(x, y))
        assert bool(x < y) == (a < b)
        assert bool(x == y) == (a == b)


def test_floats_fold_in_their_own_precision() -> None:
    third = tir.const(1.0, "float32") / tir.const(3.0, "float32")
    assert isinstance(third, FloatImm)
    assert third.value == float(np.float32(1) / np.float32(3))
    assert tir.const(1e-9, "float16").value == 0.0  # type: ignore[attr-defined]
    assert (tir.const(60000.0, "float16") + tir.const(60000.0, "float16")).value == float("inf")
    assert tir.const(0.1, "bfloat16").value == 0.10009765625  # type: ignore[attr-defined]


def test_identities() -> None:
    assert I + 0 is I
    assert 0 + I is I
    assert I - 0 is I
    assert I * 1 is I
    assert structural_equal(I * 0, IntImm("int32", 0))
    assert I // 1 is I
    assert structural_equal(I % 1, IntImm("int32", 0))
    assert structural_equal(0 // (I + 1), IntImm("int32", 0))
    assert tir.min(I, I) is I
    assert tir.any(B, IntImm("bool", 0)) is B
    assert structural_equal(tir.all(B, IntImm("bool", 0)), IntImm("bool", 0))
    # Floats keep what NaN and infinity could change.
    assert isinstance(X * 0, tir.Mul)
    assert isinstance(X - X, tir.Sub)


def test_bits() -> None:
    assert [int(f(IntImm("int32", 12), 10)) for f in (operator.and_, operator.or_, operator.xor)] == [8, 14, 6]
    assert int(IntImm("int32", 3) << 4) == 48
    assert int(IntImm("int32", -16) >> 2) == -4
    assert (I & J).op.name == "tir.bitwise_and"
    assert isinstance(B & (I < 3), tir.And)
    assert isinstance(B | (I < 3), tir.Or)
    assert isinstance(~B, tir.Not)
    assert (~I).op.name == "tir.bitwise_not"


def test_negation_and_absolute_value() -> None:
    assert structural_equal(-IntImm("int32", 3), IntImm("int32", -3))
    assert (-X).dtype == "float32"
    assert structural_equal(tir.abs(tir.const(-3, "int32")), IntImm("int32", 3))
    assert tir.abs(U) is U
    assert tir.abs(X).op.name == "tir.fabs"  # type: ignore[attr-defined]


def test_equality_is_lazy() -> None:
    assert not (I == J)  # noqa: SIM201
    assert I == I
    assert I != J
    node = tir.Select((I == J).asobject(), I, J)
    assert isinstance(node.condition, tir.EQ)
    assert isinstance(tir.all(I == J, I != 3), tir.And)
    assert tir.if_then_else(I == 3, 1, 2).dtype == "int32"


def test_truth_of_an_unknown_condition() -> None:
    with pytest.raises(ValueError, match=r"the truth of the expression .* use tir.if_then_else, tir.all or tir.any"):
        bool(I < J)


def test_casts() -> None:
    assert I.astype("int32") is I
    assert isinstance(I.astype("float32"), Cast)
    assert structural_equal(tir.const(3, "int32").astype("float32"), FloatImm("float32", 3.0))  # type: ignore[arg-type, attr-defined]
    assert int(tir.const(300, "int32").astype("uint8")) == 44  # type: ignore[attr-defined]
    assert tir.const(1, "float32x4").dtype == "float32x4"
    assert I.astype("int32x4").dtype == "int32x4"


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda: I / J, TypeError, r"/ on integers is ambiguous .* use // or tir.floordiv"),
        (lambda: I // 0, ZeroDivisionError, "floordiv by the constant zero"),
        (lambda: I % 0, ZeroDivisionError, "floormod by the constant zero"),
        (lambda: tir.truncdiv(I, 0), ZeroDivisionError, "division by the constant zero"),
        (lambda: X & 1, TypeError, "bitwise_and takes integers, but was given float32"),
        (lambda: P + 1, TypeError, "no arithmetic on handles"),
        (lambda: Ramp(I, 1, 4) + Ramp(I, 1, 8), TypeError, "vectors of 4 and 8 lanes do not combine"),
        (lambda: tir.Add(I, X), TypeError, "Add takes operands of one type, but was given int32 and float32.*astype"),
        (lambda: tir.Not(I), TypeError, "Not takes a bool, but was given int32"),
        (lambda: tir.And(I, J), TypeError, "And takes bools, but was given int32"),
        (lambda: tir.Select(B, I, X), TypeError, "Select takes a bool and two values of one type"),
        (lambda: Cast("float32x4", X), TypeError, "Cast keeps the number of lanes"),
        (lambda: I + "a", TypeError, None),
        (
            lambda: tir.if_then_else(I, 1, 2),
            TypeError,
            "if_then_else takes a scalar bool condition, but was given int32",
        ),
        (lambda: tir.all(), ValueError, "tir.all takes at least one condition"),
        (lambda: Var(3), TypeError, "Var.name must be a string, but was given int: 3"),
        (lambda: tir.Call("int32", "no_such", ()), AttributeError, "no operator is named 'tir.no_such'"),
        (lambda: tir.Call("int32", I, ()), TypeError, "Call.op must be an Op or a GlobalVar, but was given Var"),
    ],
)
def test_refusals(build: Callable[[], Any], error: type[Exception], text: str | None) -> None:
    with pytest.raises(error, match=text):
        build()


def test_math_of_integers_goes_through_float32() -> None:
    assert tir.exp(I).dtype == "float32"
    assert tir.floor(I) is I
    assert structural_equal(tir.floor(tir.const(-1.5)), FloatImm("float32", -2.0))  # type: ignore[arg-type]
    assert structural_equal(tir.round(tir.const(2.5)), FloatImm("float32", 2.0))  # type: ignore[arg-type]
    assert structural_equal(tir.isnan(I), IntImm("bool", 0))
    assert tir.isnan(Broadcast(X, 4)).dtype == "boolx4"


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "float16", "float32", "float64"])
def test_limits(dtype: str) -> None:
    info: Any = np.iinfo(dtype) if "int" in dtype else np.finfo(dtype)
    assert tir.min_value(dtype).value == info.min  # type: ignore[attr-defined]
    assert tir.max_value(dtype).value == info.max  # type: ignore[attr-defined]


def test_reductions_and_two_operands_share_a_name() -> None:
    from tilewright import te

    k = te.reduce_axis((0, 4), "k")
    a = te.placeholder((4,), name="a")
    assert isinstance(tir.max(a[k], axis=k), tir.Reduce)
    assert isinstance(tir.max(I, J), tir.Max)
    assert isinstance(te.sum(a[k], axis=[k]), tir.Reduce)
    with pytest.raises(TypeError, match=r"sum: a reduction axis comes from te.reduce_axis, but was given str"):
        te.sum(a[0], axis="k")
