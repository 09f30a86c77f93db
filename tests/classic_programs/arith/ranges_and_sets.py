import tvm
from tvm import arith, tir

n = tir.Var("n", "int32")
r = tvm.ir.Range(2, n)
assert str(r.min) == "2" and str(arith.Analyzer().simplify(r.extent - n)) == "-2"
r = tvm.ir.Range.from_min_extent(4, 6)
assert (int(r.min), int(r.extent)) == (4, 6)
assert int(tvm.ir.Range(5).extent) == 5
s = arith.IntervalSet(0, 10)
assert int(s.min_value) == 0 and int(s.max_value) == 10 and not s.is_nothing()
v = arith.IntSet.vector(tir.Ramp(n, 1, 4))
assert isinstance(v, arith.IntervalSet) or v is not None
assert arith.IntSet.single_point(n).is_nothing() is False
assert str(arith.IntSet.single_point(n).min_value) == "n"
u = arith.ConstIntBound(-3, arith.ConstIntBound.POS_INF)
assert u.min_value == -3 and u.max_value == arith.ConstIntBound.POS_INF
