"""Every operation on every data type: native code against the interpreter, bit by bit, scalar and vector."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.codegen.small_programs import aligned, both, elementwise, same
from tilewright.codegen.backend import AOT
from tilewright.codegen.interp.values import np_type
from tilewright.codegen.llvm import emit_module
from tilewright.ir import DataType, IRModule
from tilewright.target import Target
from tilewright.tir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
)
from tilewright.tir import op as T

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COUNT = 80


def sample(dtype: str, seed: int, nonzero: bool = False) -> Any:
    rng = np.random.default_rng(seed)
    kind = DataType(dtype)
    if dtype == "bool":
        return aligned(rng.integers(0, 2, COUNT).astype(bool), dtype)
    if kind.is_float:
        values = rng.standard_normal(COUNT) * 10
        values[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-3, 60000.0, -2.5]
        if nonzero:
            values[~np.isfinite(values)] = 3.0
        return aligned(values, dtype)
    info = np.iinfo(np_type(kind))
    small = rng.integers(max(info.min, -20), 20, COUNT, dtype=np.int64)
    wide = rng.integers(info.min, info.max, COUNT, dtype=np_type(kind), endpoint=True)
    values = np.where(np.arange(COUNT) % 2, small.astype(np_type(kind)), wide)
    values[:3] = [info.min, info.max, 1]
    if nonzero:
        values[values == 0] = 7
        if info.min < 0:
            values[values == -1] = 5
    return aligned(values, dtype)


def check(inputs: list[str], output: str, lanes: int, compute: Callable[..., Any], nonzero: bool = False) -> None:
    func = elementwise(inputs, output, COUNT, lanes, compute)
    arrays = [sample(dtype, k, nonzero and k > 0) for k, dtype in enumerate(inputs)]
    got, expected = both(func, arrays, output, COUNT)
    same(got, expected)


@pytest.mark.parametrize("dtype", INTS + FLOATS)
@pytest.mark.parametrize("lanes", [1, 16])
def test_arithmetic(dtype: str, lanes: int) -> None:
    for node in (Add, Sub, Mul, Min, Max):
        check([dtype, dtype], dtype, lanes, node)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nothing_remains_of_a_product_without_itself(dtype: str) -> None:
    """Where a product and a sum are one instruction, the product's rounding would."""
    check([dtype, dtype], dtype, 16, lambda a, b: Sub(Mul(a, b), Mul(b, a)))


@pytest.mark.parametrize("dtype", [*FLOATS, "float8_e5m2"])
@pytest.mark.parametrize("lanes", [1, 16])
def test_extremes_of_nan(dtype: str, lanes: int) -> None:
    """NaN where either is, on whichever side, numbers and constants among them."""
    nan = np.resize([np.nan, 1, -1], COUNT)
    arrays = [aligned(nan, dtype), aligned(np.roll(nan, 1), dtype)]
    for node, reference in ((Min, np.fmin), (Max, np.fmax)):
        func = elementwise([dtype, dtype], dtype, COUNT, lanes, node)
        want = np.where(np.isnan(nan) | np.isnan(np.roll(nan, 1)), np.nan, reference(nan, np.roll(nan, 1)))
        for got in both(func, arrays, dtype, COUNT):
            np.testing.assert_array_equal(got.astype("float64"), want)
        for constant in (0.0, np.nan):
            for turned in (False, True):

                def compute(a: Any, node: Any = node, c: float = constant, turned: bool = turned) -> Any:
                    c = T.const(c, a.dtype)
                    return node(c, a) if turned else node(a, c)

                want = np.where(np.isnan(nan), np.nan, reference(nan, constant)) * (1 if constant == 0 else np.nan)
                for got in both(elementwise([dtype], dtype, COUNT, lanes, compute), arrays[:1], dtype, COUNT):
                    np.testing.assert_array_equal(got.astype("float64"), want)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("lanes", [1, 16])
def test_extremes_of_nan_in_chains(dtype: str, lanes: int) -> None:
    """Every set of NaN among the operands of chains and trees, and among those of what else reads their middle."""
    base = np.array([3, -1, 4, 1, -5])
    rows = [np.where(np.arange(COUNT) >> k & 1, np.nan, base[k]) for k in range(5)]
    arrays = [aligned(r, dtype) for r in rows]
    for node, reference in ((Min, np.minimum), (Max, np.maximum)):

        def chain(*v: Any, n: Any = node) -> Any:
            return n(n(n(n(v[0], v[1]), v[2]), v[3]), v[4])

        def back(*v: Any, n: Any = node) -> Any:
            return n(v[0], n(v[1], n(v[2], n(v[3], v[4]))))

        def tree(*v: Any, n: Any = node) -> Any:
            return n(n(v[0], v[1]), n(n(v[2], v[3]), v[4]))

        def read_between(*v: Any, n: Any = node) -> Any:
            first = n(n(v[0], v[1]), v[2])
            return n(n(first, v[3]), n(n(v[4], v[1]), first))

        for whole in (chain, back, tree, read_between):
            want = reference.reduce(rows)
            for got in both(elementwise([dtype] * 5, dtype, COUNT, lanes, whole), arrays, dtype, COUNT):
                np.testing.assert_array_equal(got.astype("float64"), want)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("lanes", [1, 16])
def test_minima_of_maxima(dtype: str, lanes: int) -> None:
    """One kind of extreme inside the other, as bounds are: every set of NaN, and every order of the operands."""
    orders = list(itertools.permutations([-2.0, 1.0, 3.0]))
    rows = [np.array([np.nan if nans >> k & 1 else o[k] for nans in range(8) for o in orders]) for k in range(3)]
    arrays = [aligned(r, dtype) for r in rows]
    a, b, c = rows
    for inner, outer, first, second in ((Min, Max, np.minimum, np.maximum), (Max, Min, np.maximum, np.minimum)):
        for whole, want in (
            (lambda x, y, z, i=inner, o=outer: o(i(x, y), z), second(first(a, b), c)),
            (lambda x, y, z, i=inner, o=outer: o(x, i(y, z)), second(a, first(b, c))),
            (lambda x, y, z, i=inner, o=outer: o(i(x, y), i(y, z)), second(first(a, b), first(b, c))),
        ):
            for got in both(elementwise([dtype] * 3, dtype, 48, lanes, whole), arrays, dtype, 48):
                np.testing.assert_array_equal(got.astype("float64"), want)


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("lanes", [1, 5])
def test_integer_division(dtype: str, lanes: int) -> None:
    for node in (Div, Mod, FloorDiv, FloorMod):
        check([dtype, dtype], dtype, lanes, node, nonzero=True)


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint16", "int64"])
@pytest.mark.parametrize("divisor", [1, 3, 8, -3])
def test_division_by_constants(dtype: str, divisor: int) -> None:
    if divisor < 0 and dtype.startswith("uint"):
        return
    for node in (Div, Mod, FloorDiv, FloorMod):
        for lanes in (1, 16):
            check([dtype], dtype, lanes, lambda a: node(a, T.const(divisor, a.dtype)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_float_division(dtype: str) -> None:
    for lanes in (1, 8):
        check([dtype, dtype], dtype, lanes, Div)


@pytest.mark.parametrize("dtype", INTS + FLOATS)
def test_comparisons(dtype: str) -> None:
    for node in (EQ, NE, LT, LE, GT, GE):
        for lanes in (1, 16):
            check([dtype, dtype], "bool", lanes, node)


def test_logic() -> None:
    for lanes in (1, 16):
        check(["bool", "bool"], "bool", lanes, And)
        check(["bool", "bool"], "bool", lanes, Or)
        check(["bool"], "bool", lanes, Not)
        check(["bool", "float32", "float32"], "float32", lanes, Select)


@pytest.mark.parametrize("source", [*INTS, *FLOATS, "bool"])
@pytest.mark.parametrize("to", [*INTS, *FLOATS, "bool"])
def test_casts(source: str, to: str) -> None:
    for lanes in (1, 16):
        check([source], to, lanes, lambda a: Cast(DataType(to).with_lanes(a.dtype.lanes), a))


@pytest.mark.parametrize("dtype", INTS)
def test_bits(dtype: str) -> None:
    for lanes in (1, 16):
        for build in (lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b):
            check([dtype, dtype], dtype, lanes, build)
        check([dtype], dtype, lanes, lambda a: ~a)
        check([dtype], dtype, lanes, lambda a: a << T.const(3, a.dtype))
        check([dtype], dtype, lanes, lambda a: a >> T.const(2, a.dtype))


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round", "nearbyint", "fabs", "sqrt"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exact_functions(name: str, dtype: str) -> None:
    for lanes in (1, 16):
        check([dtype], dtype, lanes, lambda a: T.call_intrin(a.dtype, f"tir.{name}", a))


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_classification(name: str, dtype: str) -> None:
    for lanes in (1, 16):
        kind = DataType("bool").with_lanes(lanes)
        check([dtype], "bool", lanes, lambda a: T.call_intrin(kind, f"tir.{name}", a))


def test_copysign_and_reinterpret() -> None:
    for lanes in (1, 16):
        check(["float32", "float32"], "float32", lanes, lambda a, b: T.call_intrin(a.dtype, "tir.copysign", a, b))
        check(["float32"], "int32", lanes, lambda a: T.reinterpret(str(DataType("int32").with_lanes(a.dtype.lanes)), a))


def test_popcount_and_clz() -> None:
    check(["int32"], "int32", 1, T.popcount)
    check(["int32"], "int32", 1, T.clz)


def test_q_multiply_shift() -> None:
    for shift in (-2, 0, 5):
        check(["int32"], "int32", 1, lambda a: T.q_multiply_shift(
            a, T.const(1395864371, "int32"), T.const(31, "int32"), T.const(shift, "int32")))  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_narrow_casts_stay_vectors(dtype: str) -> None:
    """LLVM's saturation to bytes and words works on one element after the other."""
    func = elementwise(["float32"], dtype, COUNT, 16, lambda x: Cast(f"{dtype}x16", x))
    text = emit_module(IRModule({"main": func.with_attr("calling_conv", AOT)}), Target("llvm"))
    assert ".sat." not in text
    values = np.resize(
        np.array([np.nan, np.inf, -np.inf, -0.5, 127.9, 128, -129, 255, 256, 65535.9, -32769, 1e30]), COUNT
    )
    got, wanted = both(func, [aligned(values, "float32")], dtype, COUNT)
    same(got, wanted)
