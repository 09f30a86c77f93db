"""Loops without marks: LLVM vectorises the innermost one, over consecutive elements, and not one around it with gathers and scatters."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te


def blocked_matmul(size: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """A product in tiles of 32 x 32, the reduction split by 4, and no other mark."""
    k = te.reduce_axis((0, size), "k")
    a, b = te.placeholder((size, size), name="A"), te.placeholder((size, size), name="B")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    i_outer, j_outer, i_inner, j_inner = s[c].tile(c.op.axis[0], c.op.axis[1], 32, 32)
    k_outer, k_inner = s[c].split(k, factor=4)
    s[c].reorder(i_outer, j_outer, k_outer, k_inner, i_inner, j_inner)
    return s, [a, b, c]


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4", "skylake-avx512", "znver4"])
def test_blocked_matmul_has_no_gathers(cpu: str) -> None:
    s, args = blocked_matmul(64)
    text = tvm.build(s, args, f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}").get_source("s")
    assert not re.search("gather|scatter|insertps", text) and re.search(r"vfmadd\w+ps\s.*%[yz]mm", text)


@pytest.mark.parametrize("cpu", ["x86-64-v4", "skylake-avx512", "sapphirerapids", "znver4", "znver5"])
def test_processors_with_more_features_run_the_same_loops(cpu: str) -> None:
    """LLVM's models of single processors do not widen or unroll plain loops further: the loop nest of the product is that of x86-64-v3."""

    def loops(name: str) -> list[str]:
        s, args = blocked_matmul(512)
        text = tvm.build(s, args, f"llvm -mtriple=x86_64-linux-gnu -mcpu={name}").get_source("s")
        lines = [" ".join(line.split()) for line in text[text.index("vfmadd") :].splitlines()]
        return lines[: max([k for k, line in enumerate(lines) if line.startswith("vfmadd")])]

    assert loops(cpu) == loops("x86-64-v3")


def test_blocked_matmul_computes_the_product() -> None:
    s, args = blocked_matmul(64)
    x, y = [np.random.default_rng(i).random((64, 64), "float32") for i in range(2)]
    out = tvm.nd.empty((64, 64))
    tvm.build(s, args)(tvm.nd.array(x), tvm.nd.array(y), out)
    np.testing.assert_allclose(out.numpy(), x @ y, rtol=1e-5)


def test_short_loops_and_sums_are_left_to_llvm() -> None:
    """The hint stands at loops over consecutive elements that are long enough for vectors, and at no others."""

    def hints(shape: tuple[int, ...], transposed: bool = False) -> int:
        a = te.placeholder(shape, name="a")
        b = te.compute(shape, lambda *i: a(*i) + 1.0, name="b")
        s = te.create_schedule(b.op)
        if transposed:
            s[b].reorder(*reversed(b.op.axis))
        return tvm.build(s, [a, b]).get_source("ll").count("label %done4, !llvm.loop")

    assert hints((8, 64)) == 1 and hints((64, 8)) == 0 and hints((64, 64), transposed=True) == 0
    a, k = te.placeholder((8, 64), name="a"), te.reduce_axis((0, 64), "k")
    total = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="total")
    assert "!llvm.loop" not in tvm.build(te.create_schedule(total.op), [a, total]).get_source("ll")
