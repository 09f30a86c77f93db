import numpy as np
import tvm
from tvm import te

m, n = te.var("m"), te.var("n")
X = te.placeholder((m, n), name="X")
s_state = te.placeholder((m, n))
s_init = te.compute((1, n), lambda _, i: X[0, i])
s_update = te.compute((m, n), lambda t, i: s_state[t - 1, i] + X[t, i])
s_scan = tvm.te.scan(s_init, s_update, s_state, inputs=[X])
assert isinstance(s_scan.op, te.ScanOp)
s = te.create_schedule(s_scan.op)
f = tvm.build(s, [X, s_scan])
a = np.random.rand(7, 5).astype("float32")
out = tvm.nd.empty((7, 5))
f(tvm.nd.array(a), out)
np.testing.assert_allclose(out.numpy(), a.cumsum(0), rtol=1e-5)
