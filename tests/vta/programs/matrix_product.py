"""A blocked matrix product with virtual threads, requantised and clipped, as a program for TVM v0.18."""

import numpy as np
import tvm
from tvm import rpc, te
from tvm.contrib import utils
from vta.testing import simulator

import vta

env = vta.get_env()
remote = rpc.LocalSession()
vta.reconfig_runtime(remote)
batch, inputs, outputs, threads = 4 * env.BATCH, 256, 512, 2
data_shape = (batch // env.BATCH, inputs // env.BLOCK_IN, env.BATCH, env.BLOCK_IN)
weight_shape = (outputs // env.BLOCK_OUT, inputs // env.BLOCK_IN, env.BLOCK_OUT, env.BLOCK_IN)
out_shape = (batch // env.BATCH, outputs // env.BLOCK_OUT, env.BATCH, env.BLOCK_OUT)
ko = te.reduce_axis((0, data_shape[1]), name="ko")
ki = te.reduce_axis((0, env.BLOCK_IN), name="ki")

data = te.placeholder(data_shape, name="data", dtype=env.inp_dtype)
weight = te.placeholder(weight_shape, name="weight", dtype=env.wgt_dtype)
data_buf = te.compute(data_shape, lambda *i: data(*i), "data_buf")
weight_buf = te.compute(weight_shape, lambda *i: weight(*i), "weight_buf")
product = te.compute(
    out_shape,
    lambda bo, co, bi, ci: te.sum(
        data_buf[bo, ko, bi, ki].astype(env.acc_dtype) * weight_buf[co, ko, ci, ki].astype(env.acc_dtype), axis=[ko, ki]
    ),
    name="product",
)
shifted = te.compute(out_shape, lambda *i: product(*i) >> tvm.tir.const(8, env.acc_dtype), name="shifted")
high = tvm.tir.const((1 << (env.INP_WIDTH - 1)) - 1, env.acc_dtype)
largest = te.compute(out_shape, lambda *i: tvm.te.max(shifted(*i), tvm.tir.const(0, env.acc_dtype)), "largest")
clipped = te.compute(out_shape, lambda *i: tvm.te.min(largest(*i), high), "clipped")
res = te.compute(out_shape, lambda *i: clipped(*i).astype(env.inp_dtype), name="res")

s = te.create_schedule(res.op)
s[data_buf].set_scope(env.inp_scope)
s[weight_buf].set_scope(env.wgt_scope)
for stage in (product, shifted, largest, clipped):
    s[stage].set_scope(env.acc_scope)
b, oc, bi, ci = s[res].op.axis
oc_out, oc_in = s[res].split(oc, 16)
s[res].reorder(oc_out, b, oc_in, bi, ci)
v_t, oc_out = s[res].split(oc_out, nparts=threads)
s[res].reorder(v_t, oc_out)
s[res].bind(v_t, te.thread_axis("cthread"))
for stage in (product, shifted, largest, clipped):
    s[stage].compute_at(s[res], oc_out)
for stage in (shifted, largest, clipped):
    s[stage].pragma(s[stage].op.axis[0], env.alu)
s[res].pragma(b, env.dma_copy)
bo, co, bi, ci = s[product].op.axis
ko_out, ko_in = s[product].split(ko, 4)
s[product].reorder(ko_out, bo, co, ko_in, bi, ci, ki)
s[data_buf].compute_at(s[product], ko_out)
s[weight_buf].compute_at(s[product], ko_out)
s[data_buf].pragma(s[data_buf].op.axis[0], env.dma_copy)
s[weight_buf].pragma(s[weight_buf].op.axis[1], env.dma_copy)
s[product].tensorize(bi, env.gemm)

f = vta.build(s, [data, weight, res], tvm.target.Target("ext_dev", host=env.target_host), name="my_product")
temp = utils.tempdir()
f.save(temp.relpath("my_product.o"))
remote.upload(temp.relpath("my_product.o"))
f = remote.load_module("my_product.o")
ctx = remote.ext_dev(0)
x = np.random.randint(-128, 128, size=data_shape).astype(data.dtype)
w = np.random.randint(-128, 128, size=weight_shape).astype(weight.dtype)
y = tvm.nd.array(np.zeros(out_shape, res.dtype), ctx)
simulator.clear_stats()
f(tvm.nd.array(x, ctx), tvm.nd.array(w, ctx), y)
expected = np.einsum("bkxi,okyi->boxy", x.astype("int64"), w.astype("int64")) >> 8
np.testing.assert_equal(y.numpy(), np.clip(expected, 0, 127).astype(res.dtype))
print("steps of products:", simulator.stats()["gemm_counter"])
