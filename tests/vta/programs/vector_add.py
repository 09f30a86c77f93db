"""A vector addition on the accelerator, as a program for TVM v0.18: one step of the ALU between two loads and a store."""

import numpy as np
import tvm
from tvm import rpc, te
from tvm.contrib import utils
from vta.testing import simulator

import vta

env = vta.get_env()
if env.TARGET in ("sim", "tsim"):
    remote = rpc.LocalSession()
vta.reconfig_runtime(remote)
vta.program_fpga(remote, bitstream=None)

m, o = 64, 1
shape = (o, m, env.BATCH, env.BLOCK_OUT)
A = te.placeholder(shape, name="A", dtype=env.acc_dtype)
B = te.placeholder(shape, name="B", dtype=env.acc_dtype)
A_buf = te.compute(shape, lambda *i: A(*i), "A_buf")
B_buf = te.compute(shape, lambda *i: B(*i), "B_buf")
C_buf = te.compute(shape, lambda *i: A_buf(*i).astype(env.acc_dtype) + B_buf(*i).astype(env.acc_dtype), name="C_buf")
C = te.compute(shape, lambda *i: C_buf(*i).astype(env.inp_dtype), name="C")

s = te.create_schedule(C.op)
s[A_buf].set_scope(env.acc_scope)
s[B_buf].set_scope(env.acc_scope)
s[C_buf].set_scope(env.acc_scope)
s[A_buf].pragma(s[A_buf].op.axis[0], env.dma_copy)
s[B_buf].pragma(s[B_buf].op.axis[0], env.dma_copy)
s[C].pragma(s[C].op.axis[0], env.dma_copy)
s[C_buf].pragma(C_buf.op.axis[0], env.alu)
print(vta.lower(s, [A, B, C], simple_mode=True))

my_vadd = vta.build(s, [A, B, C], tvm.target.Target("ext_dev", host=env.target_host), name="my_vadd")
temp = utils.tempdir()
my_vadd.save(temp.relpath("vadd.o"))
remote.upload(temp.relpath("vadd.o"))
f = remote.load_module("vadd.o")

ctx = remote.ext_dev(0)
A_orig = np.random.randint(-128, 128, size=(o * env.BATCH, m * env.BLOCK_OUT)).astype(A.dtype)
B_orig = np.random.randint(-128, 128, size=(o * env.BATCH, m * env.BLOCK_OUT)).astype(B.dtype)
A_packed = A_orig.reshape(o, env.BATCH, m, env.BLOCK_OUT).transpose((0, 2, 1, 3))
B_packed = B_orig.reshape(o, env.BATCH, m, env.BLOCK_OUT).transpose((0, 2, 1, 3))
A_nd, B_nd = tvm.nd.array(A_packed, ctx), tvm.nd.array(B_packed, ctx)
C_nd = tvm.nd.array(np.zeros(shape).astype(C.dtype), ctx)
simulator.clear_stats()
f(A_nd, B_nd, C_nd)
C_ref = (A_orig + B_orig).astype(C.dtype).reshape(o, env.BATCH, m, env.BLOCK_OUT).transpose((0, 2, 1, 3))
np.testing.assert_equal(C_ref, C_nd.numpy())
print("steps of the ALU:", simulator.stats()["alu_counter"])
