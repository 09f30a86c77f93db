"""A convolution whose copies and steps passes make calls of the driver, as a program for TVM v0.18."""

import numpy as np
import tvm
from tvm import rpc, te, topi
from tvm.contrib import utils
from vta.testing import simulator

import vta

env = vta.get_env()
remote = rpc.LocalSession()
vta.reconfig_runtime(remote)
height = width = 12
channels, filters, kernel, pad = 32, 64, 3, 1
ic, oc = channels // env.BLOCK_IN, filters // env.BLOCK_OUT
data_shape = (1, ic, height, width, env.BATCH, env.BLOCK_IN)
kernel_shape = (oc, ic, kernel, kernel, env.BLOCK_OUT, env.BLOCK_IN)
out_shape = (1, oc, height, width, env.BATCH, env.BLOCK_OUT)
dy, dx = (te.reduce_axis((0, kernel), name=n) for n in ("dy", "dx"))
ko, ki = te.reduce_axis((0, ic), name="ko"), te.reduce_axis((0, env.BLOCK_IN), name="ki")

data = te.placeholder(data_shape, name="data", dtype=env.inp_dtype)
weight = te.placeholder(kernel_shape, name="weight", dtype=env.wgt_dtype)
data_buf = topi.nn.pad(data, [0, 0, pad, pad, 0, 0], name="data_buf")
weight_buf = te.compute(kernel_shape, lambda *i: weight(*i), "weight_buf")
conv = te.compute(
    out_shape,
    lambda bo, co, i, j, bi, ci: te.sum(
        data_buf[bo, ko, i + dy, j + dx, bi, ki].astype(env.acc_dtype)
        * weight_buf[co, ko, dy, dx, ci, ki].astype(env.acc_dtype),
        axis=[ko, dy, dx, ki],
    ),
    name="conv",
)
other = te.placeholder(out_shape, name="other", dtype=env.acc_dtype)
other_buf = te.compute(out_shape, lambda *i: other(*i), "other_buf")
summed = te.compute(out_shape, lambda *i: conv(*i) + other_buf(*i), name="summed")
shifted = te.compute(out_shape, lambda *i: summed(*i) >> 8, name="shifted")
clipped = te.compute(out_shape, lambda *i: tvm.te.min(tvm.te.max(shifted(*i), 0), 127), name="clipped")
res = te.compute(out_shape, lambda *i: clipped(*i).astype(env.inp_dtype), name="res")

s = te.create_schedule(res.op)
s[data_buf].set_scope(env.inp_scope)
s[weight_buf].set_scope(env.wgt_scope)
for stage in (conv, other_buf, summed, shifted, clipped):
    s[stage].set_scope(env.acc_scope)
b, c, y, x, bi, ci = s[res].op.axis
y_out, y_in = s[res].split(y, 4)
s[res].reorder(c, y_out, b, y_in, x, bi, ci)
v_t, c = s[res].split(c, nparts=2)
s[res].reorder(v_t, c)
s[res].bind(v_t, te.thread_axis("cthread"))
for stage in (conv, other_buf, summed, shifted, clipped):
    s[stage].compute_at(s[res], y_out)
for stage in (summed, shifted, clipped):
    s[stage].pragma(s[stage].op.axis[0], env.alu)
bo, co, i, j, bi, ci = s[conv].op.axis
k_out, k_in = s[conv].split(ko, 1)
s[conv].reorder(bo, k_out, j, dy, dx, co, i, k_in, bi, ci, ki)
s[data_buf].compute_at(s[conv], k_out)
s[weight_buf].compute_at(s[conv], k_out)
s[data_buf].pragma(s[data_buf].op.axis[0], env.dma_copy)
s[weight_buf].pragma(s[weight_buf].op.axis[0], env.dma_copy)
s[other_buf].pragma(s[other_buf].op.axis[0], env.dma_copy)
s[conv].tensorize(bi, env.gemm)
s[res].pragma(y_in, env.dma_copy)

passes = [
    (0, vta.transform.InjectConv2DTransposeSkip()),
    (1, vta.transform.InjectDMAIntrin()),
    (1, vta.transform.InjectSkipCopy()),
    (1, vta.transform.AnnotateALUCoProcScope()),
    (1, tvm.tir.transform.LiftAttrScope("coproc_uop_scope")),
    (1, vta.transform.LiftAllocToScopeBegin()),
    (1, tvm.tir.transform.LiftAttrScope("coproc_scope")),
    (1, vta.transform.InjectCoProcSync()),
    (1, vta.build_module.EarlyRewrite()),
    (2, vta.transform.InjectALUIntrin()),
    (3, tvm.tir.transform.LowerDeviceStorageAccessInfo()),
    (3, vta.transform.FoldUopLoop()),
    (3, vta.transform.CPUAccessRewrite()),
]
with tvm.transform.PassContext(opt_level=3, config={"tir.add_lower_pass": passes}):
    f = vta.build(s, [data, weight, other, res], tvm.target.Target("ext_dev", host=env.target_host), name="my_conv")
temp = utils.tempdir()
f.save(temp.relpath("my_conv.o"))
remote.upload(temp.relpath("my_conv.o"))
f = remote.load_module("my_conv.o")
ctx = remote.ext_dev(0)
image = np.random.randint(-128, 128, size=(env.BATCH, channels, height, width)).astype("int8")
filter_ = np.random.randint(-128, 128, size=(filters, channels, kernel, kernel)).astype("int8")
packed = image.reshape(1, env.BATCH, ic, env.BLOCK_IN, height, width).transpose((0, 2, 4, 5, 1, 3))
weights = filter_.reshape(oc, env.BLOCK_OUT, ic, env.BLOCK_IN, kernel, kernel).transpose((0, 2, 4, 5, 1, 3))
residual = np.random.randint(-(1 << 16), 1 << 16, size=out_shape).astype(env.acc_dtype)
out = tvm.nd.array(np.zeros(out_shape, "int8"), ctx)
simulator.clear_stats()
f(tvm.nd.array(packed, ctx), tvm.nd.array(weights, ctx), tvm.nd.array(residual, ctx), out)
padded = np.pad(image.astype("int64"), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
expected = np.zeros((env.BATCH, filters, height, width), "int64")
for v in range(kernel):
    for u in range(kernel):
        part = padded[:, :, v : v + height, u : u + width]
        expected += np.einsum("bchw,oc->bohw", part, filter_[:, :, v, u].astype("int64"))
expected = expected.reshape(1, env.BATCH, oc, env.BLOCK_OUT, height, width).transpose((0, 2, 4, 5, 1, 3))
np.testing.assert_equal(out.numpy(), np.clip((expected + residual) >> 8, 0, 127).astype("int8"))
print("steps of products:", simulator.stats()["gemm_counter"])
