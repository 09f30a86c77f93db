import numpy as np
import tvm
from tvm import te

n, m = 5, 128
A = te.placeholder((n, m), name="A")
k = te.reduce_axis((0, m), "k")
B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
s = te.create_schedule(B.op)
ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
BF = s.rfactor(B, ki)
assert BF.shape[0].value == 16 and BF.shape[1].value == n
assert BF.op.name == "B.rf"
s[BF].compute_at(s[B], s[B].op.axis[0])
f = tvm.build(s, [A, B])
a = np.random.rand(n, m).astype("float32")
b = tvm.nd.empty((n,))
f(tvm.nd.array(a), b)
np.testing.assert_allclose(b.numpy(), a.sum(1), rtol=1e-4)
