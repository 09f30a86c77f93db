import numpy as np
import tvm
from tvm import tir
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(16, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi] * 2.0


sch = tir.Schedule(f)
block = sch.get_block("B")
read = sch.cache_read(block, 0, "local")
write = sch.cache_write(block, 0, "global")
assert sch.get(read).name_hint == "A_local" and sch.get(write).name_hint == "B_global"
text = sch.mod.script()
assert 'A_local = T.alloc_buffer((16, 16), scope="local")' in text
assert "A_local[v0, v1] = A[v0, v1]" in text
assert "B_global[vi, vj] = A_local[vj, vi] * T.float32(2)" in text
i, j = sch.get_loops(block)
sch.compute_at(read, i)
sch.reverse_compute_at(write, i)
fn = tvm.build(sch.mod, target="llvm")
a = np.random.rand(16, 16).astype("float32")
b = tvm.nd.empty((16, 16))
fn(tvm.nd.array(a), b)
np.testing.assert_allclose(b.numpy(), a.T * 2)
sch.set_scope(block, 0, "shared")
assert 'scope="shared"' in sch.mod.script()
