import numpy as np
import tvm
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float16"), C: T.Buffer((4,), "int64")):
    for i in range(4):
        B[i] = A[i]
        C[i] = i
        A[i] = 0


a = np.array([0.5, 1.5, 2.5, 3.5], "float32")
x, y, z = tvm.nd.array(a), tvm.nd.empty((4,), "float16"), tvm.nd.empty((4,), "int64")
tvm.build(f, target="llvm")(x, y, z)
np.testing.assert_array_equal(y.numpy(), a.astype("float16"))
np.testing.assert_array_equal(z.numpy(), np.arange(4))
np.testing.assert_array_equal(x.numpy(), 0)
assert 'T.Cast("float16", A[i])' in f.script()
