import math

import numpy as np
import tvm
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = T.call_extern("float32", "cosf", A[i])


a = np.linspace(0, 1, 4).astype("float32")
b = tvm.nd.empty((4,))
tvm.build(f, target="llvm")(tvm.nd.array(a), b)
np.testing.assert_allclose(b.numpy(), [math.cos(v) for v in a], rtol=1e-6)
