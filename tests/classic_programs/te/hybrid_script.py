import numpy as np
import tvm
from tvm import te


@te.hybrid.script
def outer_product(a, b):
    c = output_tensor((a.shape[0], b.shape[0]), "float32")
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            c[i, j] = a[i] * b[j]
    return c


# On arrays, it is Python.
x, y = np.arange(3, dtype="float32"), np.arange(4, dtype="float32")
np.testing.assert_allclose(outer_product(x, y), np.outer(x, y))

A = te.placeholder((3,), name="A")
B = te.placeholder((4,), name="B")
C = outer_product(A, B)
assert isinstance(C.op, te.HybridOp)
s = te.create_schedule(C.op)
i, j = C.op.axis
s[C].reorder(j, i)
f = tvm.build(s, [A, B, C], "llvm")
c = tvm.nd.empty((3, 4))
f(tvm.nd.array(x), tvm.nd.array(y), c)
np.testing.assert_allclose(c.numpy(), np.outer(x, y))
