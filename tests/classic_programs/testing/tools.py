import numpy as np
import tvm
import tvm.testing

tvm.testing.assert_allclose(np.array([1.0]), np.array([1.0 + 1e-9]))
try:
    tvm.testing.assert_allclose(np.array([1.0]), np.array([2.0]))
except AssertionError:
    pass
else:
    raise RuntimeError
assert any(t == "llvm" for t, _ in tvm.testing.enabled_targets())
assert tvm.testing.device_enabled("llvm")
tvm.testing.check_numerical_grads(lambda x: (x**2).sum(), [np.array([1.0, 2.0])], [np.array([2.0, 4.0])])
x = tvm.tir.Var("x", "int32")
tvm.testing.assert_prim_expr_equal(x + 1, x + 1)
tvm.testing.check_bool_expr_is_true(x * 2 >= x, {x: tvm.ir.Range(0, 5)}) if hasattr(
    tvm.testing, "check_bool_expr_is_true"
) else None
