"""Recurrences by te.scan and by hybrid scripts: exponential smoothing, a leaky counter, and the same loops as Python."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

m, n = te.var("m"), te.var("n")
X = te.placeholder((m, n), name="X")
x = np.random.default_rng(0).random((14, 9), "float32")

smooth_state = te.placeholder((m, n), name="smooth_state")
smooth_first = te.compute((1, n), lambda _, i: X[0, i], name="smooth_first")
kept = te.compute((m, n), lambda t, i: smooth_state[t - 1, i] * 0.75, name="kept")
smooth_next = te.compute((m, n), lambda t, i: kept[t, i] + X[t, i] * 0.25, name="smooth_next")
smooth = te.scan(smooth_first, smooth_next, smooth_state, inputs=[X], name="smooth")

want = x.copy()
for t in range(1, 14):
    want[t] = want[t - 1] * 0.75 + x[t] * 0.25


def check(s):
    out = tvm.nd.array(np.zeros((14, 9), "float32"))
    tvm.build(s, [X, smooth], "llvm")(tvm.nd.array(x), out)
    tvm.testing.assert_allclose(out.numpy(), want, rtol=1e-5)


check(te.create_schedule(smooth.op))
s = te.create_schedule(smooth.op)
outer, inner = s[smooth_next].split(smooth_next.op.axis[1], factor=4)
s[smooth_next].vectorize(inner)
s[kept].compute_at(s[smooth_next], outer)
check(s)
s = te.create_schedule(smooth.op)
s[kept].compute_inline()
check(s)

# Within one kernel of a GPU: columns on threads, steps in order.
s = te.create_schedule(smooth.op)
block, thread = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
s[kept].compute_inline()
for stage in (smooth_first, smooth_next):
    outer, inner = s[stage].split(stage.op.axis[1], factor=32)
    s[stage].bind(outer, block)
    s[stage].bind(inner, thread)
text = str(tvm.lower(s, [X, smooth], simple_mode=True))
assert 'T.launch_thread("blockIdx.x", (n + 31) // 32)' in text and 'T.launch_thread("threadIdx.x", 32)' in text, text

# Two states of different shapes; the second counts what the first did.
total_state, high_state = te.placeholder((m, n)), te.placeholder((m,))
total_first = te.compute((1, n), lambda _, i: X[0, i])
high_first = te.compute((1,), lambda _: 0.0)
total_next = te.compute((m, n), lambda t, i: total_state[t - 1, i] + X[t, i])
high_next = te.compute((m,), lambda t: high_state[t - 1] * 0.5 + total_state[t - 1, 0])
total, high = te.scan([total_first, high_first], [total_next, high_next], [total_state, high_state], inputs=[X])
f = tvm.build(te.create_schedule(total.op), [X, total, high])
sums, counts = tvm.nd.array(np.zeros((14, 9), "float32")), tvm.nd.array(np.zeros(14, "float32"))
f(tvm.nd.array(x), sums, counts)
tvm.testing.assert_allclose(sums.numpy(), np.cumsum(x, 0), rtol=1e-5)
level = 0.0
for t in range(1, 14):
    level = level * 0.5 + np.cumsum(x, 0)[t - 1, 0]
    tvm.testing.assert_allclose(counts.numpy()[t], level, rtol=1e-5)


@te.hybrid.script
def smoothed(a, weight):
    out = output_tensor(a.shape, a.dtype)
    for i in parallel(a.shape[1]):
        out[0, i] = a[0, i]
        for t in range(a.shape[0] - 1):
            if weight > 0.0:
                out[t + 1, i] = out[t, i] * (1.0 - weight) + a[t + 1, i] * weight
            else:
                out[t + 1, i] = out[t, i]
    return out


A = te.placeholder((14, 9), name="A")
weight = te.var("weight", "float32")
S = smoothed(A, weight)
f = tvm.build(te.create_schedule(S.op), [A, weight, S])
out = tvm.nd.array(np.zeros((14, 9), "float32"))
f(tvm.nd.array(x), 0.25, out)
tvm.testing.assert_allclose(out.numpy(), want, rtol=1e-5)
tvm.testing.assert_allclose(smoothed(x, np.float32(0.25)), want, rtol=1e-5)
f(tvm.nd.array(x), 0.0, out)
tvm.testing.assert_allclose(out.numpy(), np.tile(x[0], (14, 1)))
