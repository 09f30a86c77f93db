import numpy as np
import tvm
from tvm import te

product = te.comm_reducer(lambda x, y: x * y, lambda t: tvm.tir.const(1, dtype=t), name="product")
A = te.placeholder((4, 5), name="A", dtype="int32")
k = te.reduce_axis((0, 5), "k")
P = te.compute((4,), lambda i: product(A[i, k], axis=k), name="P")
s = te.create_schedule(P.op)
f = tvm.build(s, [A, P])
a = np.random.randint(1, 5, (4, 5)).astype("int32")
p = tvm.nd.empty((4,), "int32")
f(tvm.nd.array(a), p)
np.testing.assert_array_equal(p.numpy(), a.prod(1))
