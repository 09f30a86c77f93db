"""From a tensor expression to a timed, saved and reloaded library: y = alpha * x + y on vectors of any length."""

import numpy as np
import tvm
import tvm.testing
from tvm import te
from tvm.contrib import cc, utils

target = tvm.target.Target("llvm", host="llvm")
dev = tvm.device(target.kind.name, 0)

n = te.size_var("n")
alpha = te.var("alpha", dtype="float32")
X = te.placeholder((n,), dtype="float32", name="X")
Y = te.placeholder((n,), dtype="float32", name="Y")
Z = te.compute(X.shape, lambda i: alpha * X[i] + Y[i], name="Z")


def schedule(lanes):
    s = te.create_schedule(Z.op)
    if lanes:
        outer, inner = s[Z].split(Z.op.axis[0], factor=lanes)
        s[Z].parallel(outer)
        s[Z].vectorize(inner)
    return s


timings = {}
for lanes in (0, 4, 16):
    s = schedule(lanes)
    lowered = tvm.lower(s, [alpha, X, Y, Z], name="saxpy", simple_mode=True)
    assert isinstance(lowered, tvm.IRModule) and "saxpy" in str(lowered)
    assert ("T.parallel" in str(lowered)) == bool(lanes)
    saxpy = tvm.build(s, [alpha, X, Y, Z], target, name="saxpy")
    for length in (1, 100, 4099):
        x, y = np.random.uniform(size=(2, length)).astype(X.dtype)
        z = tvm.nd.array(np.zeros(length, dtype=Z.dtype), dev)
        saxpy(2.5, tvm.nd.array(x, dev), tvm.nd.array(y, dev), z)
        tvm.testing.assert_allclose(z.numpy(), 2.5 * x + y, rtol=1e-5)
    evaluator = saxpy.time_evaluator(saxpy.entry_name, dev, number=5, repeat=2)
    timings[lanes] = evaluator(2.5, tvm.nd.array(x, dev), tvm.nd.array(y, dev), z).mean
assert all(0 < t < 1 for t in timings.values())

folder = utils.tempdir()
saxpy.save(folder.relpath("saxpy.o"))
cc.create_shared(folder.relpath("saxpy.so"), [folder.relpath("saxpy.o")])
saxpy.export_library(folder.relpath("whole.so"))
saxpy.export_library(folder.relpath("packed.tar"))
assert sorted(folder.listdir()) == ["packed.tar", "saxpy.o", "saxpy.so", "whole.so"]
for name in ("saxpy.so", "whole.so", "packed.tar"):
    library = tvm.runtime.load_module(folder.relpath(name))
    z = tvm.nd.array(np.zeros(length, dtype="float32"), dev)
    library["saxpy"](2.5, tvm.nd.array(x, dev), tvm.nd.array(y, dev), z)
    tvm.testing.assert_allclose(z.numpy(), 2.5 * x + y, rtol=1e-5)

# The same on the axes of a GPU.
s = te.create_schedule(Z.op)
block, thread = s[Z].split(Z.op.axis[0], factor=64)
s[Z].bind(block, te.thread_axis("blockIdx.x"))
s[Z].bind(thread, te.thread_axis("threadIdx.x"))
text = str(tvm.lower(s, [alpha, X, Y, Z]))
assert 'T.launch_thread("blockIdx.x"' in text and 'T.launch_thread("threadIdx.x", 64)' in text
kernels = tvm.build(s, [alpha, X, Y, Z], target="cuda").imported_modules[0]
assert "__global__ void __launch_bounds__(64)" in kernels.get_source()
