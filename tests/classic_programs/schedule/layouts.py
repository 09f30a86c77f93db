import numpy as np
import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    B = T.alloc_buffer((16, 16))
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + 1.0
    for i, j in T.grid(16, 16):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * 2.0


sch = tir.Schedule(f)
sch.transform_layout("B", ("write", 0), lambda i, j: (i // 4, j // 4, i % 4, j % 4))
text = sch.mod.script()
assert "B = T.alloc_buffer((4, 4, 4, 4))" in text
assert "C[vi, vj] = B[vi // 4, vj // 4, vi % 4, vj % 4] * T.float32(2)" in text
sch.transform_block_layout("C", lambda i, j: (j, i))
sch.transform_layout("C", "B", lambda a, b, c, d: (b, a, c, d))
fn = tvm.build(sch.mod, target="llvm")
a = np.random.rand(16, 16).astype("float32")
c = tvm.nd.empty((16, 16))
fn(tvm.nd.array(a), c)
np.testing.assert_allclose(c.numpy(), (a + 1) * 2, rtol=1e-6)
