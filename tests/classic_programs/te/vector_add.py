import numpy as np
import tvm
from tvm import te

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.placeholder((n,), name="B")
C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
assert C.op.name == "C" and isinstance(C.op, te.ComputeOp)
assert [t.name for t in C.op.input_tensors] == ["A", "B"]
s = te.create_schedule(C.op)
xo, xi = s[C].split(C.op.axis[0], factor=8)
s[C].parallel(xo)
s[C].vectorize(xi)
fadd = tvm.build(s, [A, B, C], "llvm", name="myadd")
for size in (8, 13):
    a = tvm.nd.array(np.arange(size, dtype="float32"))
    b = tvm.nd.array(np.full(size, 2, "float32"))
    c = tvm.nd.empty((size,), "float32")
    fadd(a, b, c)
    np.testing.assert_allclose(c.numpy(), a.numpy() + 2)
