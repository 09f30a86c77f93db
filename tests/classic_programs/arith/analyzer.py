import tvm
from tvm import arith, tir

x, y, z = (tir.Var(n, "int32") for n in "xyz")
ana = arith.Analyzer()
assert tvm.ir.structural_equal(ana.simplify(x + 2 - 2), x)
assert str(ana.simplify(x * 4 // 4)) == "x"
assert int(ana.simplify((x * 8 + 3) % 8)) == 3
ana.bind(x, tvm.ir.Range(0, 16))
bound = ana.const_int_bound(x * 2 + 1)
assert (bound.min_value, bound.max_value) == (1, 31)
assert ana.can_prove(x < 16) and not ana.can_prove(x < 15)
assert int(ana.simplify(x // 16)) == 0
mod = ana.modular_set(y * 6 + 4)
assert (mod.coeff, mod.base) == (6, 4)
s = ana.int_set(x + y, {x: arith.IntervalSet(0, 9)})
assert str(ana.simplify(s.max_value - y)) == "9"
with ana.constraint_scope(z % 4 == 0):
    assert int(ana.simplify(z % 2)) == 0
assert str(ana.rewrite_simplify(tir.max(x, x + 1))) == "x + 1"
assert ana.can_prove_equal(x + y, y + x)
assert str(ana.canonical_simplify(x * 3 + x)) == "x * 4"
