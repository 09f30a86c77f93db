import numpy as np
import tvm
from tvm import te


def combine(x, y):
    lhs = tvm.tir.Select(x[1] >= y[1], x[0], y[0])
    rhs = tvm.tir.Select(x[1] >= y[1], x[1], y[1])
    return lhs, rhs


def identity(t0, t1):
    return tvm.tir.const(-1, t0), tvm.te.min_value(t1)


argmax = te.comm_reducer(combine, identity, name="argmax")
m, n = te.var("m"), te.var("n")
idx = te.placeholder((m, n), name="idx", dtype="int32")
val = te.placeholder((m, n), name="val", dtype="float32")
k = te.reduce_axis((0, n), "k")
T0, T1 = te.compute((m,), lambda i: argmax((idx[i, k], val[i, k]), axis=k), name="T")
assert T0.op.same_as(T1.op) and (T0.value_index, T1.value_index) == (0, 1)
s = te.create_schedule(T0.op)
f = tvm.build(s, [idx, val, T0, T1])
v = np.random.rand(3, 7).astype("float32")
i = np.tile(np.arange(7, dtype="int32"), (3, 1))
where, best = tvm.nd.empty((3,), "int32"), tvm.nd.empty((3,), "float32")
f(tvm.nd.array(i), tvm.nd.array(v), where, best)
np.testing.assert_array_equal(where.numpy(), v.argmax(1))
np.testing.assert_array_equal(best.numpy(), v.max(1))
