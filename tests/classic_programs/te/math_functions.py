import math

import numpy as np
import tvm
from tvm import te

names = [
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "tanh",
    "sigmoid",
    "erf",
    "floor",
    "ceil",
    "round",
    "trunc",
    "cos",
    "sin",
    "atan",
    "abs",
    "log2",
    "log10",
    "nearbyint",
]
A = te.placeholder((6,), name="A")
outs = [te.compute((6,), lambda i, f=getattr(te, n): f(A[i]), name="o_" + n) for n in names]
s = te.create_schedule([o.op for o in outs])
f = tvm.build(s, [A, *outs], "llvm")
a = np.array([0.25, 0.5, 1.0, 1.5, 2.25, 3.75], "float32")
got = [tvm.nd.empty((6,)) for _ in names]
f(tvm.nd.array(a), *got)
own = {
    "rsqrt": lambda v: 1 / np.sqrt(v),
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "erf": np.vectorize(math.erf),
    "atan": np.arctan,
    "nearbyint": np.rint,
}
for name, value in zip(names, got, strict=True):
    np.testing.assert_allclose(value.numpy(), own.get(name, getattr(np, name, None))(a), rtol=1e-4, err_msg=name)
