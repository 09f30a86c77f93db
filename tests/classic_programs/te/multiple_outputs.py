import numpy as np
import tvm
from tvm import te

A0 = te.placeholder((6, 4), name="A0")
A1 = te.placeholder((6, 4), name="A1")
B0, B1 = te.compute((6, 4), lambda i, j: (A0[i, j] + 2, A1[i, j] * 3), name="B")
s = te.create_schedule(B0.op)
x, y = B0.op.axis
s[B0].reorder(y, x)
f = tvm.build(s, [A0, A1, B0, B1])
a0, a1 = np.random.rand(2, 6, 4).astype("float32")
b0, b1 = tvm.nd.empty((6, 4)), tvm.nd.empty((6, 4))
f(*map(tvm.nd.array, (a0, a1)), b0, b1)
np.testing.assert_allclose(b0.numpy(), a0 + 2)
np.testing.assert_allclose(b1.numpy(), a1 * 3, rtol=1e-6)
