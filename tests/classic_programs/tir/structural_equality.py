import tvm
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    for i in range(4):
        A[i] = 1.0


@T.prim_func
def g(Z: T.Buffer((4,), "float32")):
    for k in range(4):
        Z[k] = 1.0


@T.prim_func
def h(A: T.Buffer((4,), "float32")):
    for i in range(4):
        A[i] = 2.0


f, g, h = [v.without_attr("global_symbol") for v in (f, g, h)]
assert tvm.ir.structural_equal(f, g) and not tvm.ir.structural_equal(f, h)
assert tvm.ir.structural_hash(f) == tvm.ir.structural_hash(g)
x, y = tvm.tir.Var("x", "int32"), tvm.tir.Var("y", "int32")
assert not tvm.ir.structural_equal(x, y)
assert tvm.ir.structural_equal(x, y, map_free_vars=True)
try:
    tvm.ir.assert_structural_equal(f, h)
except ValueError as error:
    assert "StructuralEqual check failed" in str(error)
else:
    raise AssertionError
again = tvm.ir.load_json(tvm.ir.save_json(f))
tvm.ir.assert_structural_equal(again, f)
