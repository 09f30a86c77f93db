import numpy as np
import tvm
from tvm import te


def body(ins, outs):
    ib = tvm.tir.ir_builder.create()
    src, dst = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    with ib.for_range(0, n, "i") as i:
        with ib.if_scope(ib.likely(i % 2 == 0)):
            dst[i] = src[i] * 10.0
        with ib.else_scope():
            dst[i] = src[i]
    return ib.get()


n = 9
A = te.placeholder((n,), name="A")
B = te.extern((n,), [A], body, name="B", dtype="float32")
assert isinstance(B.op, te.ExternOp)
s = te.create_schedule(B.op)
f = tvm.build(s, [A, B], "llvm")
a = np.arange(n, dtype="float32")
b = tvm.nd.empty((n,))
f(tvm.nd.array(a), b)
np.testing.assert_allclose(b.numpy(), np.where(np.arange(n) % 2 == 0, a * 10, a))
