import numpy as np
import tvm
from tvm import te, topi

A = te.placeholder((1, 4, 8, 8), name="A")
W = te.placeholder((6, 4, 3, 3), name="W")
D = te.placeholder((4, 1, 3, 3), name="D")
conv = topi.nn.conv2d_nchw(A, W, stride=2, padding=1, dilation=1)
deep = topi.nn.depthwise_conv2d_nchw(A, D, stride=1, padding=1, dilation=1)
trans = topi.nn.conv2d_transpose_nchw(A, te.placeholder((4, 2, 3, 3), name="T"), (2, 2), (1, 1), "float32", (0, 0))
assert [int(d) for d in conv.shape] == [1, 6, 4, 4] and [int(d) for d in trans.shape] == [1, 2, 15, 15]
with tvm.target.Target("llvm"):
    s1 = topi.generic.schedule_conv2d_nchw([conv])
    s2 = te.create_schedule(deep.op)
    f1, f2 = tvm.build(s1, [A, W, conv]), tvm.build(s2, [A, D, deep])
a, w, d = (np.random.rand(*s).astype("float32") for s in ((1, 4, 8, 8), (6, 4, 3, 3), (4, 1, 3, 3)))
y1, y2 = tvm.nd.empty((1, 6, 4, 4)), tvm.nd.empty((1, 4, 8, 8))
f1(tvm.nd.array(a), tvm.nd.array(w), y1)
f2(tvm.nd.array(a), tvm.nd.array(d), y2)
np.testing.assert_allclose(y1.numpy(), topi.testing.conv2d_nchw_python(a, w, 2, 1), rtol=1e-4)
np.testing.assert_allclose(y2.numpy(), topi.testing.depthwise_conv2d_python_nchw(a, d, 1, "SAME"), rtol=1e-4)
assert conv.op.tag == "conv2d_nchw" and "depthwise" in deep.op.tag
