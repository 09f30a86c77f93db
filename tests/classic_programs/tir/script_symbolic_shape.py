import numpy as np
import tvm
from tvm.script import tir as T


@T.prim_func
def add_one(a: T.handle, b: T.handle):
    m = T.int32()
    n = T.int32()
    A = T.match_buffer(a, (m, n), "float32")
    B = T.match_buffer(b, (m, n), "float32")
    for i, j in T.grid(m, n):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)


f = tvm.build(add_one, target="llvm")
for shape in ((2, 3), (5, 1)):
    a = np.random.rand(*shape).astype("float32")
    b = tvm.nd.empty(shape)
    f(tvm.nd.array(a), b)
    np.testing.assert_allclose(b.numpy(), a + 1)
text = add_one.script()
assert "m = T.int32()" in text and "A = T.match_buffer(a, (m, n))" in text
try:
    f(tvm.nd.array(a), tvm.nd.empty((4, 4)))
except tvm.TVMError as error:
    assert "B" in str(error)
else:
    raise AssertionError("shapes that do not agree")
