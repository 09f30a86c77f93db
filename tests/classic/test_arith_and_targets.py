"""The arithmetic analyzer and targets from Python."""

from __future__ import annotations

import pytest

import tilewright as tvm
from tilewright import te, tir


def test_simplification_and_bounds() -> None:
    ana = tvm.arith.Analyzer()
    x, y = te.var("x"), te.var("y")
    assert ana.simplify(x * 2 + x * 3 - 5 * x).value == 0
    ana.bind(x, tvm.ir.Range(0, 10))
    bound = ana.const_int_bound(x * 2 + 1)
    assert (bound.min_value, bound.max_value) == (1, 19)
    assert ana.can_prove(x < 10)
    assert not ana.can_prove(x < 9)
    assert tvm.ir.structural_equal(ana.canonical_simplify(x // 4 * 4 + x % 4), x)
    assert tvm.ir.structural_equal(ana.rewrite_simplify(y * 4 // 2), y * 2)
    modular = ana.modular_set(y * 4 + 3)
    assert (modular.coeff, modular.base) == (4, 3)
    with ana.constraint_scope(y > 3):
        assert ana.can_prove(y >= 4)
    assert not ana.can_prove(y >= 4)
    ana.update(y, tvm.arith.ConstIntBound(0, 5), override=True)
    assert ana.const_int_bound(y).max_value == 5


def test_sets_and_maps() -> None:
    ana = tvm.arith.Analyzer()
    x, y = te.var("x"), te.var("y")
    found = ana.int_set(x + 1, {x: tvm.arith.IntervalSet(0, 9)})
    assert (int(found.min_value), int(found.max_value)) == (1, 10)
    assert int(tvm.arith.detect_linear_equation(x * 4 + y, [x])[0]) == 4
    ranges = {x: tvm.ir.Range(0, 16)}
    assert len(tvm.arith.detect_iter_map([x // 4, x % 4], ranges).indices) == 2
    assert len(tvm.arith.detect_iter_map([x // 4, x % 5], ranges).indices) == 0


def test_targets() -> None:
    target = tvm.target.Target("llvm -mcpu=skylake-avx512 -num-cores 4")
    assert target.kind.name == "llvm"
    assert (target.attrs["mcpu"], target.attrs["num-cores"]) == ("skylake-avx512", 4)
    assert "cpu" in target.keys
    assert tvm.target.Target({"kind": "llvm", "mcpu": "skylake"}).export()["mcpu"] == "skylake"
    assert tvm.target.Target(str(target)) == target
    assert tvm.target.Target.current() is None
    with target:
        assert tvm.target.Target.current().same_as(target)
    assert tvm.target.Target.current() is None
    assert tvm.target.Target("llvm", host="llvm").host.kind.name == "llvm"
    assert target.with_host(tvm.target.Target("llvm")).host is not None
    assert "llvm" in tvm.target.Target.list_kinds()
    with pytest.raises(tvm.TVMError, match="there is no target kind 'lllvm'; nearest known: llvm"):
        tvm.target.Target("lllvm")


def test_printed_programs() -> None:
    a = te.placeholder((4, 4), name="A")
    b = te.compute((4, 4), lambda i, j: tir.max(a[i, j], 0.0), name="B")
    mod = tvm.IRModule.from_expr(te.create_prim_func([a, b]))
    text = mod.script()
    assert "@I.ir_module" in text
    assert 'def main(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):' in text
    assert "B[v_i, v_j] = T.max(A[v_i, v_j], T.float32(0))" in text
    assert "for i, j in T.grid(4, 4):" in mod["main"].script()
