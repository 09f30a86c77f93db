import numpy as np
import tvm
from tvm import te

W = 4


def intrin_dot():
    a = te.placeholder((W,), name="a")
    b = te.placeholder((W,), name="b")
    k = te.reduce_axis((0, W), name="k")
    c = te.compute((1,), lambda i: te.sum(a[k] * b[k], axis=k), name="c")
    ab = tvm.tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1])
    bb = tvm.tir.decl_buffer(b.shape, b.dtype, name="B", offset_factor=1, strides=[te.var("s1")])
    cb = tvm.tir.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[te.var("s2")])

    def func(ins, outs):
        aa, bb = ins
        (cc,) = outs

        def update():
            ib = tvm.tir.ir_builder.create()
            total = cc.vload([0])
            for i in range(W):
                total = total + aa.vload([i]) * bb.vload([i])
            ib.emit(cc.vstore([0], total))
            return ib.get()

        def reset():
            ib = tvm.tir.ir_builder.create()
            ib.emit(cc.vstore([0], tvm.tir.const(0, "float32")))
            return ib.get()

        return update(), reset(), update()

    return te.decl_tensor_intrin(c.op, func, binds={a: ab, b: bb, c: cb}, default_buffer_params={"offset_factor": 1})


n = 8
A = te.placeholder((n, n), name="A")
B = te.placeholder((n, n), name="B")
k = te.reduce_axis((0, n), name="k")
C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
s = te.create_schedule(C.op)
x, y = C.op.axis
yo, yi = s[C].split(y, factor=1)
ko, ki = s[C].split(C.op.reduce_axis[0], factor=W)
s[C].reorder(x, yo, ko, yi, ki)
s[C].tensorize(yi, intrin_dot())
f = tvm.build(s, [A, B, C])
a, b = np.random.rand(2, n, n).astype("float32")
c = tvm.nd.empty((n, n))
f(tvm.nd.array(a), tvm.nd.array(b), c)
np.testing.assert_allclose(c.numpy(), a @ b.T, rtol=1e-4)
