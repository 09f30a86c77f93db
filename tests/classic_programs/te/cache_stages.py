import numpy as np
import tvm
from tvm import te

n = 24
A = te.placeholder((n, n), name="A")
B = te.placeholder((n, n), name="B")
k = te.reduce_axis((0, n), name="k")
C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
s = te.create_schedule(C.op)
CC = s.cache_write(C, "local")
AA = s.cache_read(A, "local", [CC])
assert CC.op.name == "C.local" and AA.op.name == "A.local"
xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], 8, 8)
s[CC].compute_at(s[C], yo)
s[AA].compute_at(s[CC], CC.op.axis[0])
f = tvm.build(s, [A, B, C], target="llvm")
a, b = np.random.rand(2, n, n).astype("float32")
c = tvm.nd.empty((n, n))
f(tvm.nd.array(a), tvm.nd.array(b), c)
np.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4)
