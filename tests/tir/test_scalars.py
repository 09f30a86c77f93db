"""Constants fold to what code computes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.codegen.small_programs import aligned, both, elementwise
from tilewright import arith, tir
from tilewright.ir import DataType
from tilewright.tir import scalars

NUMBERS = [0.0, 0.4, -0.5, 1.5, 127.9, 300.0, -300.0, 70000.0, 3e9, -3e9, 1e20, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_casts_of_floats(dtype: str) -> None:
    x = aligned(NUMBERS, "float32")
    func = elementwise(["float32"], dtype, len(NUMBERS), 1, lambda v: tir.Cast(dtype, v))
    native, interpreted = both(func, [x], dtype, len(NUMBERS))
    simplify = arith.Analyzer().simplify
    folded = [simplify(tir.Cast(dtype, tir.FloatImm("float32", float(v)))) for v in x]
    assert all(isinstance(v, tir.IntImm) for v in folded)
    values = [v.value for v in folded]
    assert values == native.tolist() == interpreted.tolist()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint64"])
@pytest.mark.parametrize("kind", [*scalars.ARITHMETIC, *scalars.DIVISIONS, *scalars.EXTREMES, *scalars.COMPARISONS])
def test_integers(kind: type, dtype: str) -> None:
    low, high = scalars.int_range(DataType(dtype))
    pairs = [(a, b) for a in (low, high, 7, -7 if low else 5) for b in (3, -3 if low else 200, high) if b]
    a, b = (aligned([p[k] for p in pairs], dtype) for k in (0, 1))
    output = "bool" if kind in scalars.COMPARISONS else dtype
    func = elementwise([dtype, dtype], output, len(pairs), 1, kind)
    native, interpreted = both(func, [a, b], output, len(pairs))
    analyzer = arith.Analyzer()
    folded = [analyzer.simplify(kind(tir.IntImm(dtype, int(x)), tir.IntImm(dtype, int(y)))) for x, y in pairs]
    assert [v.value for v in folded] == native.tolist() == interpreted.tolist()


def test_wrapping() -> None:
    assert scalars.wrap_int(300, DataType("int8")) == 44
    assert scalars.wrap_int(-1, DataType("uint16")) == 65535
    assert np.isnan(scalars.lesser(1.0, math.nan)) and np.isnan(scalars.greater(math.nan, 1.0))
