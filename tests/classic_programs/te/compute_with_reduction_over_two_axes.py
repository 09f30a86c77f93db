import numpy as np
import tvm
from tvm import te

A = te.placeholder((3, 4, 5), name="A")
j, k = te.reduce_axis((0, 4), "j"), te.reduce_axis((0, 5), "k")
S = te.compute((3,), lambda i: te.sum(A[i, j, k], axis=[j, k]), name="S")
M = te.compute((3,), lambda i: te.min(A[i, j, k] * 2.0, axis=[j, k]), name="M")
s = te.create_schedule([S.op, M.op])
jk = s[S].fuse(*S.op.reduce_axis)
outer, inner = s[S].split(jk, nparts=2)
s[S].unroll(inner)
f = tvm.build(s, [A, S, M], "llvm")
a = np.random.rand(3, 4, 5).astype("float32")
x, y = tvm.nd.empty((3,)), tvm.nd.empty((3,))
f(tvm.nd.array(a), x, y)
np.testing.assert_allclose(x.numpy(), a.sum((1, 2)), rtol=1e-5)
np.testing.assert_allclose(y.numpy(), a.min((1, 2)) * 2, rtol=1e-6)
