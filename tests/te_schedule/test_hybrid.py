"""Hybrid scripts: as operations between scheduled stages, and as plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.te_schedule.helpers import check, random
from tilewright import te

# ruff: noqa: F821  (names of the script are defined where it runs)
SCALE = 3


@te.hybrid.script
def outer_product(a: Any, b: Any) -> Any:
    c = output_tensor((a.shape[0], b.shape[0]), "float32")  # type: ignore[name-defined]
    for i in parallel(a.shape[0]):  # type: ignore[name-defined]
        for j in vectorize(b.shape[0]):  # type: ignore[name-defined]
            c[i, j] = a[i] * b[j]
    return c


@te.hybrid.script
def window_sums(a: Any, width: Any) -> Any:
    out = output_tensor((a.shape[0],), "float32")  # type: ignore[name-defined]
    square = allocate((a.shape[0],), "float32", "local")  # type: ignore[name-defined]
    for i in range(a.shape[0]):
        square[i] = a[i] * a[i]
    for i in range(a.shape[0]):
        total = 0.0
        for j in const_range(3):  # type: ignore[name-defined]
            if 0 <= i + j - 1 < a.shape[0]:
                total += square[i + j - 1]
        if total > 1.0 and not width < 0:
            out[i] = sqrt(total) * SCALE  # type: ignore[name-defined]
        else:
            out[i] = max(total, 0.5) if i % 2 == 0 else -total
    return out


@te.hybrid.script
def split_halves(a: Any) -> Any:
    low = output_tensor((a.shape[0] // 2,), a.dtype)  # type: ignore[name-defined]
    high = output_tensor((a.shape[0] // 2,), a.dtype)  # type: ignore[name-defined]
    for i in range(0, a.shape[0], 2):
        low[i // 2] = a[i]
        high[i // 2] = a[i + 1]
    return low, high


def test_outer_product_between_stages() -> None:
    a, b = te.placeholder((7,), name="A"), te.placeholder((9,), name="B")
    twice = te.compute((7,), lambda i: a[i] * 2.0, name="twice")
    product = outer_product(twice, b)
    out = te.compute((7, 9), lambda i, j: product[i, j] + 1.0, name="out")
    s = te.create_schedule(out.op)
    s[out].vectorize(s[out].split(out.op.axis[1], factor=4)[1])
    av, bv = random(7), random(9)
    check(s, [a, b, out], [av, bv], [np.outer(av * 2, bv) + 1])
    np.testing.assert_allclose(outer_product(av, bv), np.outer(av, bv))


def test_conditions_scalars_and_local_tensors_match_python() -> None:
    a = te.placeholder((11,), name="A")
    out = window_sums(a, 3)
    value = random(11)
    check(te.create_schedule(out.op), [a, out], [value], [window_sums(value, 3)])


def test_several_outputs_and_steps() -> None:
    a = te.placeholder((10,), name="A")
    low, high = split_halves(a)
    value = random(10)
    check(te.create_schedule(low.op), [a, low, high], [value], [value[::2], value[1::2]])


def test_errors_name_the_line() -> None:
    @te.hybrid.script
    def writes_its_input(a: Any) -> Any:
        a[0] = 1.0
        return a

    @te.hybrid.script
    def loops_over_a_list(a: Any) -> Any:
        c = output_tensor((2,), "float32")  # type: ignore[name-defined]
        for i in [0, 1]:
            c[i] = a[i]
        return c

    a = te.placeholder((4,), name="A")
    first = writes_its_input.__wrapped__.__code__.co_firstlineno  # type: ignore[attr-defined]
    with pytest.raises(ValueError) as caught:
        writes_its_input(a)
    assert str(caught.value) == (
        f"te.hybrid: {__file__}:{first + 2}: a must be an output or allocated tensor to be assigned to"
    )
    with pytest.raises(ValueError, match="^te.hybrid.script takes a function that is written with def, but was given"):
        te.hybrid.script(lambda a: a)(a)
    with pytest.raises(ValueError, match="a loop has the form `for i in range"):
        loops_over_a_list(a)
    with pytest.raises(ValueError, match="outer_product takes 2 arguments, but was given 1"):
        outer_product(a)
