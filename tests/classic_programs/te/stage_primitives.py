"""Every primitive of a stage, on squared distances between points; each schedule must compute the same."""

import numpy as np
import tvm
import tvm.testing
from tvm import te

rows, columns, depth = te.var("rows"), te.var("columns"), 6
P = te.placeholder((rows, depth), name="P")
Q = te.placeholder((columns, depth), name="Q")
D = te.compute((rows, columns, depth), lambda i, j, k: P[i, k] - Q[j, k], name="D")
S = te.compute((rows, columns, depth), lambda i, j, k: D[i, j, k] * D[i, j, k], name="S")
r = te.reduce_axis((0, depth), name="r")
R = te.compute((rows, columns), lambda i, j: te.sum(S[i, j, r], axis=r), name="R")

rng = np.random.default_rng(3)
p, q = rng.random((13, depth), "float32"), rng.random((22, depth), "float32")
want = ((p[:, None] - q[None]) ** 2).sum(-1)


def check(s, text=()):
    lowered = str(tvm.lower(s, [P, Q, R], simple_mode=True))
    assert not [t for t in text if t not in lowered], lowered
    out = tvm.nd.array(np.zeros(want.shape, "float32"))
    tvm.build(s, [P, Q, R])(tvm.nd.array(p), tvm.nd.array(q), out)
    tvm.testing.assert_allclose(out.numpy(), want, rtol=1e-4, atol=1e-6)


def fresh():
    s = te.create_schedule([R.op])
    return s, s[R].op.axis


check(te.create_schedule(R.op))

s, (i, j) = fresh()
s[R].split(i, factor=4)
check(s, ["i_outer", "i_inner"])

s, (i, j) = fresh()
s[R].split(j, nparts=3)
check(s, ["j_outer"])

s, (i, j) = fresh()
io, jo, ii, ji = s[R].tile(i, j, x_factor=4, y_factor=5)
both = s[R].fuse(ii, ji)
check(s, ["i_inner_j_inner_fused"])

s, (i, j) = fresh()
io, jo, ii, ji = s[R].tile(i, j, x_factor=4, y_factor=8)
s[R].reorder(jo, io, ji, s[R].op.reduce_axis[0], ii)
s[R].unroll(ii)
s[R].parallel(jo)
s[R].pragma(io, "auto_unroll_max_step", 8)
check(s, ["T.parallel", "T.unroll(4)"])

s, (i, j) = fresh()
s[D].compute_inline()
s[S].compute_inline()
check(s)

s, (i, j) = fresh()
s[D].compute_at(s[S], s[S].op.axis[2])
s[S].compute_at(s[R], j)
check(s)
s[S].compute_root()
check(s)

s, (i, j) = fresh()
s[D].set_scope("local")
s[D].compute_at(s[S], s[S].op.axis[1])
s[S].vectorize(s[S].split(s[S].op.axis[2], factor=2)[1])
s[D].storage_align(s[D].op.axis[1], 8, 0)
check(s)

s, (i, j) = fresh()
kept = s.cache_write(R, "local")
jo, ji = s[R].split(j, factor=8)
s[kept].compute_at(s[R], jo)
near = s.cache_read(Q, "global", [D])
s[S].compute_at(s[kept], s[kept].op.axis[1])
s[D].compute_at(s[S], s[S].op.axis[2])
s[near].compute_at(s[R], jo)
check(s, ["R_local"])

s, (i, j) = fresh()
ro, ri = s[R].split(s[R].op.reduce_axis[0], factor=3)
partial = s.rfactor(R, ri)
s[S].compute_inline()
s[D].compute_inline()
check(s, ["R_rf"])

s, (i, j) = fresh()
group = s.create_group(outputs=S, inputs=[P, Q], include_inputs=False)
group.compute_at(s[R], i)
check(s)

s, (i, j) = fresh()
s[S].compute_at(s[R], i)
s[S].double_buffer()
s[D].compute_at(s[S], s[S].op.axis[1])
s[R].prefetch(P, i, 1)
check(s)

for stage in s.stages:
    assert stage.op.name in ("P", "Q", "D", "S", "R") and len(stage.leaf_iter_vars) == len(stage.all_iter_vars)
s[R].split(i, factor=2)
assert [type(rel).__name__ for rel in s[R].relations] == ["Split"] and s.outputs == [R.op]

# On a GPU: blocks, threads, virtual threads and a reduction that threads share.
s, (i, j) = fresh()
s[S].compute_inline()
s[D].compute_inline()
thread = te.thread_axis((0, 3), "threadIdx.x")
ro, ri = s[R].split(s[R].op.reduce_axis[0], nparts=3)
partial = s.rfactor(R, ro)
s[R].bind(s[R].op.axis[0], te.thread_axis("blockIdx.x"))
s[R].bind(s[R].op.axis[1], te.thread_axis("blockIdx.y"))
s[R].bind(s[R].op.reduce_axis[0], thread)
s[partial].compute_at(s[R], s[R].op.reduce_axis[0])
s[R].set_store_predicate(thread.var.equal(0))
text = str(tvm.lower(s, [P, Q, R]))
assert "tvm_thread_allreduce" in text and "threadIdx_x == 0" in text and '"local"' in text, text
