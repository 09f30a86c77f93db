import numpy as np
import tvm
from tvm.script import tir as T


@T.prim_func
def scaled(a: T.handle, b: T.handle):
    row = T.int32()
    A = T.match_buffer(a, (4, 3, 2), strides=[row], dtype="float32")
    B = T.match_buffer(b, (4, 3, 2), "float32")
    for i, j, k in T.grid(4, 3, 2):
        with T.block("B"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            B[vi, vj, vk] = A[vi, vj, vk] * T.float32(2)


A = scaled.buffer_map[scaled.params[0]]
assert isinstance(A.strides[0], tvm.tir.Var) and [int(s) for s in A.strides[1:]] == [2, 1]
tvm.ir.assert_structural_equal(tvm.script.from_source(scaled.script()), scaled)
wide = np.random.rand(4, 10).astype("float32")
rows = np.lib.stride_tricks.as_strided(wide, (4, 3, 2), (40, 8, 4))
out = tvm.nd.array(np.zeros((4, 3, 2), "float32"))
f = tvm.build(scaled, target="llvm")
f(tvm.nd.array(np.ascontiguousarray(rows)), out)
np.testing.assert_array_equal(out.numpy(), rows * 2)
f(tvm.nd.from_dlpack(rows), out)
np.testing.assert_array_equal(out.numpy(), rows * 2)
