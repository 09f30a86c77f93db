import numpy as np
import tvm
from tvm import te, topi

A = te.placeholder((3, 4), name="A")
B = te.placeholder((4,), name="B")
cases = {
    "add": (topi.add(A, B), lambda a, b: a + b),
    "max": (topi.maximum(A, B), np.maximum),
    "sum": (topi.sum(A, axis=1, keepdims=True), lambda a, b: a.sum(1, keepdims=True)),
    "argmax": (topi.argmax(A, axis=0), lambda a, b: a.argmax(0)),
    "clip": (topi.clip(A, 0.2, 0.8), lambda a, b: a.clip(0.2, 0.8)),
    "transpose": (topi.transpose(A), lambda a, b: a.T),
    "reshape": (topi.reshape(A, (2, 6)), lambda a, b: a.reshape(2, 6)),
    "softmax": (topi.nn.softmax(A, axis=-1), lambda a, b: np.exp(a) / np.exp(a).sum(1, keepdims=True)),
    "take": (topi.take(A, te.compute((2,), lambda i: 2 - i * 2), axis=0, mode="clip"), lambda a, b: a[[2, 0]]),
    "concat": (topi.concatenate((A, A), axis=0), lambda a, b: np.concatenate([a, a])),
    "strided": (topi.strided_slice(A, [0, 1], [3, 4], [2, 2]), lambda a, b: a[0:3:2, 1:4:2]),
    "where": (topi.where(topi.greater(A, B), A, topi.full_like(A, 0.0)), lambda a, b: np.where(a > b, a, 0)),
}
a, b = np.random.rand(3, 4).astype("float32"), np.random.rand(4).astype("float32")
with tvm.target.Target("llvm"):
    for name, (out, want) in cases.items():
        plain = name in ("sum", "argmax", "softmax")
        s = te.create_schedule(out.op) if plain else topi.generic.schedule_injective(out)
        f = tvm.build(s, [A, B, out])
        got = tvm.nd.empty([int(d) for d in out.shape], out.dtype)
        f(tvm.nd.array(a), tvm.nd.array(b), got)
        np.testing.assert_allclose(got.numpy(), want(a, b), rtol=1e-5, err_msg=name)
