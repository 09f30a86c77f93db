import numpy as np
import tvm
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(4):
        B[i * 4 : i * 4 + 4] = A[i * 4 : i * 4 + 4] + T.Broadcast(T.float32(1), 4)


@T.prim_func
def g(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    B[T.Ramp(0, 1, 16)] = A[T.Ramp(15, -1, 16)]


a = np.arange(16, dtype="float32")
b = tvm.nd.empty((16,))
tvm.build(f, target="llvm")(tvm.nd.array(a), b)
np.testing.assert_array_equal(b.numpy(), a + 1)
tvm.build(g, target="llvm")(tvm.nd.array(a), b)
np.testing.assert_array_equal(b.numpy(), a[::-1])
assert "A[15:-1:-1]" in g.script() or "T.Ramp(15, -1, 16)" in g.script()
