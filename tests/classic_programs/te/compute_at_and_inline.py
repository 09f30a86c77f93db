import numpy as np
import tvm
from tvm import te

A = te.placeholder((32, 32), name="A")
B = te.compute((32, 32), lambda i, j: A[i, j] + 1.0, name="B")
C = te.compute((32, 32), lambda i, j: B[i, j] * 3.0, name="C")
D = te.compute((32, 32), lambda i, j: C[i, j] - 2.0, name="D")
s = te.create_schedule(D.op)
s[C].compute_inline()
x, y = D.op.axis
s[B].compute_at(s[D], x)
lowered = tvm.lower(s, [A, D])
text = str(lowered)
assert "T.allocate([32]" in text or "T.decl_buffer((32,)" in text
assert "C" not in [b.name for b in lowered["main"].buffer_map.values()]
f = tvm.build(s, [A, D], "llvm")
a = np.random.rand(32, 32).astype("float32")
d = tvm.nd.empty((32, 32))
f(tvm.nd.array(a), d)
np.testing.assert_allclose(d.numpy(), (a + 1) * 3 - 2, rtol=1e-5)
