import numpy as np
import tvm
from tvm import rpc, te

remote = rpc.LocalSession()
dev = remote.cpu()
x = tvm.nd.array(np.arange(4, dtype="float32"), dev)
np.testing.assert_array_equal(x.numpy(), [0, 1, 2, 3])
A = te.placeholder((4,), name="A")
B = te.compute((4,), lambda i: A[i] * 3, name="B")
f = tvm.build(te.create_schedule(B.op), [A, B], "llvm", name="triple")
tmp = tvm.contrib.utils.tempdir()
f.export_library(tmp.relpath("f.so"))
remote.upload(tmp.relpath("f.so"))
g = remote.load_module("f.so")
y = tvm.nd.empty((4,), device=dev)
g["triple"](x, y)
np.testing.assert_array_equal(y.numpy(), [0, 3, 6, 9])
