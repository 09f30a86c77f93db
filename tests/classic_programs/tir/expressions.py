import tvm
from tvm import tir

x, y = tir.Var("x", "int32"), tir.Var("y", "int32")
e = x * 2 + y - 3
assert isinstance(e, tir.Sub) and isinstance(e.a, tir.Add) and isinstance(e.a.a, tir.Mul)
assert str(e) == "x * 2 + y - 3"
assert str(x // 4 + y % 3) == "x // 4 + y % 3"
assert str(tir.truncdiv(x, 4)) == "T.Div(x, 4)"
assert str(tir.max(x, y)) == "T.max(x, y)" and str(tir.min(x, 1)) == "T.min(x, 1)"
assert str(tir.Select(x < y, x, y)) == "T.Select(x < y, x, y)"
assert str(tir.all(x < 1, y > 2)) == "x < 1 and y > 2"
assert str(tir.any(x == 1, tir.Not(y >= 2))) in ("x == 1 or not y >= 2", "x == 1 or y < 2")
assert (x.astype("float32")).dtype == "float32"
assert str(x.astype("int64")) == 'T.Cast("int64", x)'
assert isinstance(x == y, tvm.tir.expr.EqualOp) or isinstance((x == y).asobject(), tir.EQ)
assert tir.const(3).dtype == "int32" and tir.const(2.5).dtype == "float32"
assert tir.const(True, "bool").value == 1
assert tir.IntImm("int64", 7).value == 7 and tir.FloatImm("float16", 0.5).value == 0.5
assert int(tir.IntImm("int32", 7)) == 7
assert tir.Ramp(x, 1, 4).dtype == "int32x4" and tir.Broadcast(x, 8).dtype == "int32x8"
assert str(x << 2) == "T.shift_left(x, 2)" and str(x & y) == "T.bitwise_and(x, y)" and str(~x) == "T.bitwise_not(x)"
assert str(-x) in ("x * -1", "0 - x", "-1 * x", "-x")
assert tir.exp(tir.Var("f", "float32")).op.name == "tir.exp"
assert tir.reinterpret("int32", tir.const(1.0)).dtype == "int32"
