"""A residual network, quantised, packed and run on the accelerator, as a program for TVM v0.18."""

import json

import numpy as np
import tvm
from tvm import autotvm, relay, rpc
from tvm.contrib import graph_executor, utils
from vta.testing import simulator
from vta.top import graph_pack

import vta

env = vta.get_env()
device = "vta"
target = env.target if device == "vta" else env.target_vta_cpu
remote = rpc.LocalSession()
vta.reconfig_runtime(remote)
vta.program_fpga(remote, bitstream=None)
ctx = remote.ext_dev(0) if device == "vta" else remote.cpu(0)
shape = (env.BATCH, 3, 64, 64)

rng = np.random.default_rng(0)
params = {}


def convolution(x, name, inputs, outputs, kernel, stride):
    """A convolution and a batch normalisation with their parameters."""
    scale = (2 / (inputs * kernel**2)) ** 0.5
    params[f"{name}_weight"] = tvm.nd.array(rng.normal(0, scale, (outputs, inputs, kernel, kernel)).astype("float32"))
    y = relay.nn.conv2d(
        x,
        relay.var(f"{name}_weight"),
        strides=(stride, stride),
        padding=(kernel // 2, kernel // 2),
        channels=outputs,
        kernel_size=(kernel, kernel),
    )
    for what, low, high in (("gamma", 0.5, 1.5), ("beta", -0.1, 0.1), ("mean", -0.1, 0.1), ("variance", 0.5, 1.5)):
        params[f"{name}_{what}"] = tvm.nd.array(rng.uniform(low, high, outputs).astype("float32"))
    return relay.nn.batch_norm(y, *[relay.var(f"{name}_{what}") for what in ("gamma", "beta", "mean", "variance")])[0]


def block(x, name, inputs, outputs, stride):
    y = relay.nn.relu(convolution(x, f"{name}_a", inputs, outputs, 3, stride))
    y = convolution(y, f"{name}_b", outputs, outputs, 3, 1)
    if stride != 1:
        x = convolution(x, f"{name}_c", inputs, outputs, 1, stride)
    return relay.nn.relu(relay.add(y, x))


x = relay.nn.relu(convolution(relay.var("data", shape=shape), "first", 3, 32, 7, 2))
x = relay.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
for n, (inputs, outputs, stride) in enumerate([(32, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2)]):
    x = block(x, f"block{n}", inputs, outputs, stride)
x = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(x))
params["dense_weight"] = tvm.nd.array(rng.normal(0, 0.1, (10, 128)).astype("float32"))
x = relay.nn.dense(x, relay.var("dense_weight"), units=10)
mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(x), x))

with autotvm.tophub.context(target):
    with tvm.transform.PassContext(opt_level=3):
        with relay.quantize.qconfig(global_scale=8.0, skip_conv_layers=[0]):
            mod = relay.quantize.quantize(mod, params=params)
        assert env.BLOCK_IN == env.BLOCK_OUT
        packed = graph_pack(
            mod["main"],
            env.BATCH,
            env.BLOCK_OUT,
            env.WGT_WIDTH,
            start_name="nn.max_pool2d",
            stop_name="nn.global_avg_pool2d",
            device_annot=(env.TARGET == "intelfocl"),
        )
    with vta.build_config(opt_level=3, disabled_pass={"AlterOpLayout", "tir.CommonSubexprElimTIR"}):
        graph, lib, params = relay.build(packed, target=tvm.target.Target(target, host=env.target_host), params=params)

temp = utils.tempdir()
lib.export_library(temp.relpath("graphlib.tar"))
remote.upload(temp.relpath("graphlib.tar"))
lib = remote.load_module("graphlib.tar")
m = graph_executor.create(graph, lib, ctx)
m.set_input(**params)
image = rng.normal(0, 1, shape).astype("float32")
m.set_input("data", image)
timer = m.module.time_evaluator("run", ctx, number=1, repeat=1)
simulator.clear_stats()
timer()
steps = simulator.stats()["gemm_counter"]
scores = m.get_output(0, tvm.nd.empty((env.BATCH, 10), "float32", remote.cpu(0))).numpy()

with tvm.transform.PassContext(opt_level=3):
    on_cpu = relay.build(mod, target="llvm")
reference = graph_executor.GraphModule(on_cpu["default"](tvm.cpu(0)))
reference.set_input("data", image)
reference.run()
np.testing.assert_allclose(scores, reference.get_output(0).numpy(), rtol=1e-4, atol=1e-5)
kernels = [n for n in json.loads(graph)["nodes"] if "func_name" in n.get("attrs", {})]
print("best classes:", scores.argmax(axis=1), "by", len(kernels), "kernels")
# All convolutions but the first one.
assert steps >= 2 * 16 * 16 * 2 * 2 * 9 * 4
print("steps of products:", steps)
