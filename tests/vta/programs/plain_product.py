"""A matrix product that is computed and stored whole, as a program for TVM v0.18."""

import numpy as np
import tvm
from tvm import rpc, te
from tvm.contrib import utils
from vta.testing import simulator

import vta

env = vta.get_env()
remote = rpc.LocalSession()
vta.reconfig_runtime(remote)
o, n, m = 1, 16, 16
ko = te.reduce_axis((0, n), name="ko")
ki = te.reduce_axis((0, env.BLOCK_IN), name="ki")
A = te.placeholder((o, n, env.BATCH, env.BLOCK_IN), name="A", dtype=env.inp_dtype)
B = te.placeholder((m, n, env.BLOCK_OUT, env.BLOCK_IN), name="B", dtype=env.wgt_dtype)
A_buf = te.compute((o, n, env.BATCH, env.BLOCK_IN), lambda *i: A(*i), "A_buf")
B_buf = te.compute((m, n, env.BLOCK_OUT, env.BLOCK_IN), lambda *i: B(*i), "B_buf")
shape = (o, m, env.BATCH, env.BLOCK_OUT)
C_buf = te.compute(
    shape,
    lambda bo, co, bi, ci: te.sum(
        A_buf[bo, ko, bi, ki].astype(env.acc_dtype) * B_buf[co, ko, ci, ki].astype(env.acc_dtype), axis=[ko, ki]
    ),
    name="C_buf",
)
C = te.compute(shape, lambda *i: C_buf(*i).astype(env.inp_dtype), name="C")

s = te.create_schedule(C.op)
s[A_buf].set_scope(env.inp_scope)
s[B_buf].set_scope(env.wgt_scope)
s[C_buf].set_scope(env.acc_scope)
s[A_buf].compute_at(s[C_buf], ko)
s[B_buf].compute_at(s[C_buf], ko)
s[A_buf].pragma(s[A_buf].op.axis[0], env.dma_copy)
s[B_buf].pragma(s[B_buf].op.axis[0], env.dma_copy)
s[C].pragma(s[C].op.axis[0], env.dma_copy)
rows, columns, row, column = s[C_buf].op.axis
s[C_buf].reorder(ko, rows, columns, row, column, ki)
s[C_buf].tensorize(row, env.gemm)
print(vta.lower(s, [A, B, C], simple_mode=True))

my_gemm = vta.build(s, [A, B, C], tvm.target.Target("ext_dev", host=env.target_host), name="my_gemm")
temp = utils.tempdir()
my_gemm.save(temp.relpath("gemm.o"))
remote.upload(temp.relpath("gemm.o"))
f = remote.load_module("gemm.o")
ctx = remote.ext_dev(0)
left = np.random.randint(-128, 128, size=(o * env.BATCH, n * env.BLOCK_IN)).astype(A.dtype)
right = np.random.randint(-128, 128, size=(m * env.BLOCK_OUT, n * env.BLOCK_IN)).astype(B.dtype)
left_packed = left.reshape(o, env.BATCH, n, env.BLOCK_IN).transpose((0, 2, 1, 3))
right_packed = right.reshape(m, env.BLOCK_OUT, n, env.BLOCK_IN).transpose((0, 2, 1, 3))
out = tvm.nd.array(np.zeros(shape).astype(C.dtype), ctx)
simulator.clear_stats()
f(tvm.nd.array(left_packed, ctx), tvm.nd.array(right_packed, ctx), out)
expected = np.dot(left.astype(env.acc_dtype), right.T.astype(env.acc_dtype)).astype(C.dtype)
expected = expected.reshape(o, env.BATCH, m, env.BLOCK_OUT).transpose((0, 2, 1, 3))
np.testing.assert_equal(expected, out.numpy())
print("steps of products:", simulator.stats()["gemm_counter"])
