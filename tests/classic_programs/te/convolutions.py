"""A convolution on the CPU, built and run, and on a GPU's blocks, threads and shared memory, lowered and verified."""

import numpy as np
import tvm
import tvm.testing
from tvm import te, topi

C, H, W, O, R = 8, 14, 14, 16, 3
data, weight = te.placeholder((1, C, H, W), name="data"), te.placeholder((O, C, R, R), name="weight")


def declare(pad):
    padded = topi.nn.pad(data, (0, 0, pad, pad), (0, 0, pad, pad), name="padded")
    c, y, x = te.reduce_axis((0, C), "c"), te.reduce_axis((0, R), "y"), te.reduce_axis((0, R), "x")
    shape = (1, O, H + 2 * pad - R + 1, W + 2 * pad - R + 1)
    conv = te.compute(
        shape,
        lambda n, o, i, j: te.sum(padded[n, c, i + y, j + x] * weight[o, c, y, x], axis=[c, y, x]),
        name="conv",
    )
    return padded, conv, topi.nn.relu(conv)


rng = np.random.default_rng(0)
d, w = rng.random((1, C, H, W), "float32"), rng.random((O, C, R, R), "float32") - 0.5
for pad in (0, 1):
    padded, conv, out = declare(pad)
    s = te.create_schedule(out.op)
    n, o, i, j = s[out].op.axis
    oo, oi = s[out].split(o, factor=4)
    s[out].reorder(n, oo, i, oi, j)
    s[out].vectorize(j)
    s[out].parallel(s[out].fuse(n, oo))
    s[conv].compute_at(s[out], i)
    n, o, i, j = s[conv].op.axis
    c, y, x = s[conv].op.reduce_axis
    s[conv].reorder(n, i, c, y, x, o, j)
    s[conv].unroll(x)
    s[conv].vectorize(j)
    s[padded].compute_inline() if pad else None
    f = tvm.build(s, [data, weight, out], target="llvm", name="conv")
    result = tvm.nd.array(np.zeros([int(v) for v in out.shape], "float32"))
    f(tvm.nd.array(d), tvm.nd.array(w), result)
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(d, ((0, 0), (0, 0), (pad, pad), (pad, pad))), (R, R), (2, 3)
    )
    want = np.einsum("nchwyx,ocyx->nohw", windows, w)
    tvm.testing.assert_allclose(result.numpy(), np.maximum(want, 0), rtol=1e-4, atol=1e-5)

# Lowering only: a tile of 8 x 8 outputs for each thread, inputs staged through shared memory by all threads together.
batch, channels, filters, size = 64, 32, 64, 8
I = te.placeholder((size, size, channels, batch), name="I")
F = te.placeholder((R, R, channels, filters), name="F")
P = te.compute(
    (size + 2, size + 2, channels, batch),
    lambda y, x, c, n: tvm.tir.if_then_else(
        tvm.tir.all(y >= 1, y <= size, x >= 1, x <= size), I[y - 1, x - 1, c, n], tvm.tir.const(0.0, "float32")
    ),
    name="P",
)
rc, ry, rx = te.reduce_axis((0, channels), "rc"), te.reduce_axis((0, R), "ry"), te.reduce_axis((0, R), "rx")
B = te.compute(
    (size, size, filters, batch),
    lambda y, x, f, n: te.sum(P[y + ry, x + rx, rc, n] * F[ry, rx, rc, f], axis=[rc, ry, rx]),
    name="B",
)
s = te.create_schedule(B.op)
s[P].compute_inline()
shared_p, shared_f = s.cache_read(P, "shared", [B]), s.cache_read(F, "shared", [B])
local_p, local_f = s.cache_read(shared_p, "local", [B]), s.cache_read(shared_f, "local", [B])
local_b = s.cache_write(B, "local")
threads, tile, step = 4, 8, 4
bx, by, bz = (te.thread_axis(f"blockIdx.{a}") for a in "xyz")
tx, ty = te.thread_axis((0, threads), "threadIdx.x"), te.thread_axis((0, threads), "threadIdx.y")
vx, vy = te.thread_axis((0, 2), "vthread", name="vx"), te.thread_axis((0, 2), "vthread", name="vy")

y, x, f, n = s[B].op.axis
z = s[B].fuse(y, x)
fo, fi = s[B].split(f, factor=threads * tile)
no, ni = s[B].split(n, factor=threads * tile)
vf, fi = s[B].split(fi, nparts=2)
vn, ni = s[B].split(ni, nparts=2)
tf, fi = s[B].split(fi, nparts=threads)
tn, ni = s[B].split(ni, nparts=threads)
s[B].reorder(z, fo, no, vf, vn, tf, tn, fi, ni)
for axis, thread in ((z, bz), (fo, by), (no, bx), (vf, vy), (vn, vx), (tf, ty), (tn, tx)):
    s[B].bind(axis, thread)
s[local_b].compute_at(s[B], tn)
y, x, f, n = s[local_b].op.axis
co, ci = s[local_b].split(rc, factor=step)
s[local_b].reorder(co, ry, rx, ci, f, n)
for copy, loop in ((shared_p, rx), (shared_f, rx), (local_p, ci), (local_f, ci)):
    s[copy].compute_at(s[local_b], loop)
for copy in (shared_p, shared_f):
    a, b, c, d = s[copy].op.axis
    to, c = s[copy].split(c, nparts=threads)
    ti, d = s[copy].split(d, nparts=threads)
    lanes = s[copy].split(d, factor=4)[1]
    s[copy].reorder(to, ti, a, b, c)
    s[copy].bind(to, ty)
    s[copy].bind(ti, tx)
    s[copy].vectorize(lanes)

lowered = tvm.lower(s, [I, F, B], name="conv")
text = str(lowered)
for part in ('"blockIdx.z", 64', '"threadIdx.x", 4', 'T.allocate([128], "float32", "shared")', "T.if_then_else"):
    assert part in text, (part, text)
limits = {"max_threads_per_block": 16, "max_shared_memory_per_block": 48 * 1024, "max_thread_x": 4, "max_thread_y": 4}
assert tvm.tir.analysis.verify_gpu_code(lowered["conv"], limits)
assert not tvm.tir.analysis.verify_gpu_code(lowered["conv"], {**limits, "max_threads_per_block": 15})
assert not tvm.tir.analysis.verify_gpu_code(lowered["conv"], {**limits, "max_shared_memory_per_block": 64})
