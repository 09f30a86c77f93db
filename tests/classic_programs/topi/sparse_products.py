import numpy as np
import tvm
from tvm import te, topi
from tvm.contrib import sparse

rng = np.random.default_rng(0)
dense = rng.random((8, 16)).astype("float32") * (rng.random((8, 16)) < 0.3)
a = sparse.array(dense, tvm.cpu())
assert a.stype == "csr" and a.shape == (8, 16)
np.testing.assert_array_equal(a.asnumpy(), dense)
x = rng.random((4, 16)).astype("float32")
X = te.placeholder(x.shape, name="X")
data = te.placeholder((int(a.data.shape[0]),), name="data")
indices = te.placeholder((int(a.indices.shape[0]),), "int32", name="indices")
indptr = te.placeholder((9,), "int32", name="indptr")
Y = topi.nn.sparse_dense(X, data, indices, indptr)
with tvm.target.Target("llvm"):
    s = topi.x86.schedule_sparse_dense(Y)
f = tvm.build(s, [X, data, indices, indptr, Y], "llvm")
out = tvm.nd.empty((4, 8))
parts = [tvm.nd.array(v.numpy().astype(t)) for v, t in ((a.data, "float32"), (a.indices, "int32"), (a.indptr, "int32"))]
f(tvm.nd.array(x), *parts, out)
np.testing.assert_allclose(out.numpy(), x @ dense.T, rtol=1e-4)
