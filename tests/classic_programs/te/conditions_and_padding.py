import numpy as np
import tvm
from tvm import te

A = te.placeholder((5, 5), name="A")
P = te.compute(
    (7, 7),
    lambda y, x: te.if_then_else(te.all(y >= 1, y < 6, x >= 1, x < 6), A[y - 1, x - 1], 0.0),
    name="P",
)
dy, dx = te.reduce_axis((0, 3), name="dy"), te.reduce_axis((0, 3), name="dx")
F = te.placeholder((3, 3), name="F")
C = te.compute((5, 5), lambda y, x: te.sum(P[y + dy, x + dx] * F[dy, dx], axis=[dy, dx]), name="C")
s = te.create_schedule(C.op)
s[P].compute_inline()
f = tvm.build(s, [A, F, C])
a, w = np.random.rand(5, 5).astype("float32"), np.random.rand(3, 3).astype("float32")
c = tvm.nd.empty((5, 5))
f(tvm.nd.array(a), tvm.nd.array(w), c)
p = np.pad(a, 1)
want = sum(p[i : i + 5, j : j + 5] * w[i, j] for i in range(3) for j in range(3))
np.testing.assert_allclose(c.numpy(), want, rtol=1e-4)
