import numpy as np
import tvm
from tvm import te

A = te.placeholder((8, 8), name="A", dtype="float32")
B = te.compute((8, 8), lambda i, j: A[i, j] + 1.0, name="B")
C = te.compute((8, 8), lambda i, j: B[i, j] * B[j, i], name="C")
func = te.create_prim_func([A, C])
assert isinstance(func, tvm.tir.PrimFunc)
text = func.script()
for line in (
    'with T.block("B"):',
    'with T.block("C"):',
    "T.func_attr({",
    "T.reads(A[v_i, v_j])",
    "B = T.alloc_buffer((8, 8))",
):
    assert line in text, text
f = tvm.build(func, target="llvm")
a = np.random.rand(8, 8).astype("float32")
c = tvm.nd.empty((8, 8))
f(tvm.nd.array(a), c)
np.testing.assert_allclose(c.numpy(), (a + 1) * (a + 1).T, rtol=1e-5)
