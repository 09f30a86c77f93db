import numpy as np
import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((13, 15), "float32"), B: T.Buffer((15, 7), "float32"), C: T.Buffer((13, 7), "float32")):
    for i, j, k in T.grid(13, 7, 15):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


sch = tir.Schedule(f)
sch.pad_einsum("C", [8, 8, 8])
text = sch.mod.script()
assert "for i, j, k in T.grid(16, 8, 16):" in text
assert "A_pad = T.alloc_buffer((16, 16))" in text and "C_pad = T.alloc_buffer((16, 8))" in text
fn = tvm.build(sch.mod, target="llvm")
a, b = np.random.rand(13, 15).astype("float32"), np.random.rand(15, 7).astype("float32")
c = tvm.nd.empty((13, 7))
fn(tvm.nd.array(a), tvm.nd.array(b), c)
np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4)
