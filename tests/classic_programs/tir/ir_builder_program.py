import numpy as np
import tvm
from tvm import tir

ib = tir.ir_builder.create()
n = tir.Var("n", "int32")
A = tir.decl_buffer((n,), "float32", name="A")
B = tir.decl_buffer((n,), "float32", name="B")
pa, pb = ib.buffer_ptr(A), ib.buffer_ptr(B)
acc = ib.allocate("float32", (1,), name="acc", scope="local")
acc[0] = 0.0
with ib.for_range(0, n, name="i") as i:
    acc[0] += pa[i]
    pb[i] = acc[0]
    with ib.while_loop(acc[0] > 10.0):
        acc[0] -= 10.0
body = ib.get()
a, b = tir.Var("a", "handle"), tir.Var("b", "handle")
func = tir.PrimFunc([a, b], body, buffer_map={a: A, b: B}).with_attr("global_symbol", "running")
f = tvm.build(func, target="llvm")
x = np.array([3, 4, 5, 6], "float32")
y = tvm.nd.empty((4,))
f(tvm.nd.array(x), y)
np.testing.assert_allclose(y.numpy(), [3, 7, 12, 8])
