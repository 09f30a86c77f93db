import numpy as np
import tvm
from tvm import te, tir, topi

X = te.placeholder((1, 4, 10, 10), name="X")
W = te.placeholder((8, 4, 3, 3), name="W")
Y = topi.nn.conv2d(X, W, 1, 1, 1)
Z = topi.nn.relu(Y)
func = te.create_prim_func([X, W, Z])
sch = tir.Schedule(func)
names = [sch.get(b).name_hint for b in sch.get_child_blocks(sch.get_block("root"))]
assert names[:2] == ["pad_temp", "conv2d_nchw"] and len(names) == 3
sch.compute_inline("pad_temp")
sch.reverse_compute_at(sch.get_block(names[2]), sch.get_loops("conv2d_nchw")[1])
fn = tvm.build(sch.mod, target="llvm")
x, w = np.random.rand(1, 4, 10, 10).astype("float32") - 0.5, np.random.rand(8, 4, 3, 3).astype("float32")
got = tvm.nd.empty((1, 8, 10, 10))
fn(tvm.nd.array(x), tvm.nd.array(w), got)
want = np.maximum(tvm.topi.testing.conv2d_nchw_python(x, w, 1, 1), 0)
np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-5)
