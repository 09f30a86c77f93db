"""Axes of symbolic extent: what can be run in parallel after splitting, and values against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.codegen.interp import run
from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import Schedule
from tilewright.tir.schedule.facts.linear_forms import Forms


def scaled(n: tir.Var) -> tir.PrimFunc:
    a = te.placeholder((n, 4), name="a")
    return te.create_prim_func([a, te.compute((n, 4), lambda i, j: a[i, j] * 2.0, name="b")])


@pytest.mark.parametrize("factors", [[None, 8], [None, 2, 4], [2, None]])
@pytest.mark.parametrize("size", [1, 7, 8, 16, 21])
def test_splits_of_a_symbolic_axis(factors: list[int | None], size: int) -> None:
    func = scaled(te.var("n"))
    s = Schedule(func)
    i, _ = s.get_loops("b")
    parts = s.split(i, factors)
    if factors[0] is None:
        s.parallel(parts[0])
    x, y = np.random.default_rng(0).random((size, 4), np.float32), np.zeros((size, 4), np.float32)
    run(s.mod, [x, y])
    np.testing.assert_array_equal(y, x * 2)


def test_forms_come_out_the_same_whatever_was_met_before() -> None:
    """A primitive that is refused leaves no trace, so what it looked at must not decide how later indices are written."""
    n, m = tir.Var("n", "int32"), tir.Var("m", "int32")
    pairs = [(tir.IntImm("int32", 2), n), (m, n), (n * m, m * m), (n + m, n)]
    for a, b in pairs:
        texts = set()
        for first, second in ((a, b), (b, a)):
            forms = Forms()
            forms.minimum(forms.of(first), forms.of(second))
            forms.maximum(forms.of(first), forms.of(second))
            low = forms.minimum(forms.of(a), forms.of(b))
            texts.add((str(forms.emit(low)), str(forms.emit(forms.maximum(forms.of(b), forms.of(a))))))
        assert len(texts) == 1, texts


def test_a_fused_loop_that_was_split_gives_its_digits() -> None:
    """What lies below a digit plays no part in it: (9 * f + t) // 99 is f // 11 where t < 9."""
    s = Schedule(te.create_prim_func([*copy_of((3, 11, 9))]))
    fused = s.fuse(*s.get_loops("b"))
    s.split(fused, [None, 9])
    text = str(s.mod["main"])
    assert "v_i = T.axis.spatial(3, i_j_k_fused_0 // 11)" in text, text
    assert "v_j = T.axis.spatial(11, i_j_k_fused_0 % 11)" in text, text


def copy_of(shape: tuple[int, ...]) -> tuple[te.Tensor, te.Tensor]:
    a = te.placeholder(shape, name="a")
    return a, te.compute(shape, lambda i, j, k: a[i, j, k], name="b")


def test_a_symbolic_domain_that_is_not_covered() -> None:
    n = te.var("n")
    out = tir.decl_buffer((n,), "float32", "out")
    i, v = te.var("i"), tir.IterVar((0, n), "v", tir.IterVar.DataPar)
    block = tir.Block(
        [v], [], [tir.BufferRegion(out, [tir.Range(v.var, v.var + 1)])], "b", tir.BufferStore(out, 1.0, [v.var])
    )
    # Only every other element is written, so iterations do not cover the domain one to one.
    body = tir.For(i, 0, (n + 1) // 2, tir.ForKind.SERIAL, tir.BlockRealize([i * 2], True, block))
    root = tir.BlockRealize([], True, tir.Block([], [], [], "root", body))
    s = Schedule(tir.PrimFunc([out], root))
    with pytest.raises(ScheduleError, match=r"v has a symbolic domain, which i \* 2 does not cover digit by digit"):
        s.parallel(s.get_loops("b")[0])
