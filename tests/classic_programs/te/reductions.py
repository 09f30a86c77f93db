import numpy as np
import tvm
from tvm import te

A = te.placeholder((6, 10), name="A")
k = te.reduce_axis((0, 10), name="k")
sums = te.compute((6,), lambda i: te.sum(A[i, k], axis=k), name="sums")
k2 = te.reduce_axis((0, 10), name="k2")
largest = te.compute((6,), lambda i: te.max(A[i, k2], axis=k2), name="largest")
k3 = te.reduce_axis((0, 10), name="k3")
even = te.compute((6,), lambda i: te.sum(A[i, k3], axis=k3, where=tvm.tir.all(k3 % 2 == 0)), name="even")
assert sums.op.reduce_axis[0].dom.extent.value == 10
assert sums.op.axis[0].iter_type == 0 and k.iter_type == 2
s = te.create_schedule([sums.op, largest.op, even.op])
f = tvm.build(s, [A, sums, largest, even], "llvm")
a = np.random.rand(6, 10).astype("float32")
out = [tvm.nd.empty((6,)) for _ in range(3)]
f(tvm.nd.array(a), *out)
np.testing.assert_allclose(out[0].numpy(), a.sum(1), rtol=1e-5)
np.testing.assert_allclose(out[1].numpy(), a.max(1))
np.testing.assert_allclose(out[2].numpy(), a[:, ::2].sum(1), rtol=1e-5)
