import numpy as np
import tvm
from tvm import te

X = te.placeholder((4, 5), name="X")
W = te.placeholder((5, 3), name="W")
k = te.reduce_axis((0, 5), name="k")
Y = te.compute((4, 3), lambda i, j: te.sum(X[i, k] * W[k, j], axis=k), name="Y")
Z = te.compute((4, 3), lambda i, j: te.tanh(Y[i, j]), name="Z")
dX, dW = te.gradient(Z, [X, W])
assert [int(v) for v in dX.shape] == [4, 3, 4, 5]
s = te.create_schedule([dX.op, dW.op])
f = tvm.build(s, [X, W, dX, dW], "llvm")
x, w = np.random.rand(4, 5).astype("float32"), np.random.rand(5, 3).astype("float32")
gx, gw = tvm.nd.empty((4, 3, 4, 5)), tvm.nd.empty((4, 3, 5, 3))
f(tvm.nd.array(x), tvm.nd.array(w), gx, gw)
d = 1 - np.tanh(x @ w) ** 2
want = np.einsum("ij,ia,kj->ijak", d, np.eye(4), w)
np.testing.assert_allclose(gx.numpy(), want, rtol=1e-4, atol=1e-5)
