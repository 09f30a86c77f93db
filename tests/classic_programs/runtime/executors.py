"""Executors as classic scripts use them: parts saved apart, graph JSON, debugging, profiles, devices, pipelines."""

import json
import os
import tempfile

import numpy as np
import tvm
from tvm import relay, runtime
from tvm.contrib import graph_executor, pipeline_executor, pipeline_executor_build, utils
from tvm.contrib.debugger import debug_executor
from tvm.relay.backend import Executor, Runtime
from tvm.relay.backend.executor_factory import AOTExecutorFactoryModule, GraphExecutorFactoryModule
from tvm.runtime import profiler_vm, profiling
from tvm.runtime import vm as _vm
from tvm.runtime.executor import AotModule

dev = tvm.cpu(0)
x = relay.var("x", relay.TensorType((1, 16), "float32"))
w = relay.var("w", relay.TensorType((8, 16), "float32"))
mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w))))
params = {"w": np.random.uniform(-1, 1, (8, 16)).astype("float32")}
data = np.random.uniform(-1, 1, (1, 16)).astype("float32")
want = np.maximum(data @ params["w"].T, 0)


def check(output):
    tvm.testing.assert_allclose(output.numpy(), want, rtol=1e-5, atol=1e-6)


# The three parts, kept in files of their own.
with tvm.transform.PassContext(opt_level=3):
    graph, lib, built_params = relay.build(mod, "llvm", params=params)
temp = utils.tempdir()
lib.export_library(temp.relpath("deploy_lib.tar"))
with open(temp.relpath("deploy_graph.json"), "w") as fo:
    fo.write(graph)
with open(temp.relpath("deploy_param.params"), "wb") as fo:
    fo.write(relay.save_param_dict(built_params))
loaded_lib = tvm.runtime.load_module(temp.relpath("deploy_lib.tar"))
with open(temp.relpath("deploy_graph.json")) as fi:
    loaded_json = fi.read()
with open(temp.relpath("deploy_param.params"), "rb") as fi:
    loaded_params = bytearray(fi.read())
module = graph_executor.create(loaded_json, loaded_lib, dev)
module.load_params(loaded_params)
module.run(x=data)
check(module.get_output(0))
assert {"nodes", "arg_nodes", "heads", "attrs", "node_row_ptr"} <= set(json.loads(graph))

# One factory for each executor.
factory = relay.build(mod, "llvm", params=params, executor=Executor("graph"), runtime=Runtime("cpp"), mod_name="net")
assert isinstance(factory, GraphExecutorFactoryModule)
module = graph_executor.GraphModule(factory["net"](dev))
module.set_input("x", tvm.nd.array(data))
module.set_input(**factory.get_params())
module.run()
check(module.get_output(0, tvm.nd.empty((1, 8))))
shape_dict, dtype_dict = module.get_input_info()
assert tuple(shape_dict["x"]) == (1, 16) and dtype_dict["x"] == "float32" and "p0" not in shape_dict
factory = relay.build(mod, "llvm", params=params, executor=Executor("aot", {"link-params": True}))
assert isinstance(factory, AOTExecutorFactoryModule) and factory.get_params() == {}
aot = AotModule(factory["default"](dev))
aot.set_input("x", data)
aot.run()
check(aot.get_output(0))

# Debugging.
factory = relay.build(mod, "llvm", params=params)
with tempfile.TemporaryDirectory() as root:
    debug = debug_executor.GraphModuleDebug(
        factory["debug_create"]("default", dev), [dev], factory.get_graph_json(), dump_root=root
    )
    debug.set_input("x", data)
    debug.run()
    check(debug.get_output(0))
    assert os.listdir(root) == ["_tvmdbg_device_CPU:0"]
    names = [node["name"] for node in debug.debug_datum.get_graph_nodes()]
    check(debug.debug_get_output(names[-1], tvm.nd.empty((1, 8))))
    report = debug.profile(x=data)
    assert "Duration (us)" in report.csv() and json.loads(report.json())["calls"]
    assert isinstance(report.calls[0]["Duration (us)"], profiling.Duration)
    debug.exit()

# The virtual machine: saved apart, profiled.
exe = relay.vm.compile(mod, target="llvm", params=params)
code, kernels = exe.save()
kernels.export_library(temp.relpath("lib.so"))
exe = _vm.Executable.load_exec(code, runtime.load_module(temp.relpath("lib.so")))
check(_vm.VirtualMachine(exe, dev).run(data))
profiler = profiler_vm.VirtualMachineProfiler(relay.vm.compile(mod, target="llvm", params=params), dev)
assert "Total" in str(profiler.profile(data, func_name="main"))

# One interface.
for kind in ("graph", "vm", "aot", "debug"):
    check(relay.create_executor(kind, mod=mod, device=dev, target="llvm", params=params).evaluate()(data))

# Two devices.
there = relay.annotation.on_device(relay.exp(x), tvm.cpu(1))
body = relay.annotation.on_device(relay.negative(there), tvm.cpu(0), constrain_result=True)
hetero = tvm.IRModule.from_expr(relay.Function([x], body))
targets = {tvm.cpu(0): tvm.target.Target("llvm"), tvm.cpu(1): tvm.target.Target("llvm")}
config = tvm.target.make_compilation_config(tvm.transform.PassContext.current(), targets)
assert "device_copy" in str(relay.transform.PlanDevices(config)(relay.transform.InferType()(hetero)))
module = graph_executor.GraphModule(relay.build(hetero, target=targets)["default"](tvm.cpu(0), tvm.cpu(1)))
module.run(x=data)
tvm.testing.assert_allclose(module.get_output(0).numpy(), -np.exp(data), rtol=1e-5)

# A pipeline of two modules.
y = relay.var("y", relay.TensorType((1, 8), "float32"))
second = tvm.IRModule.from_expr(relay.Function([y], relay.tanh(y)))
pipe_config = pipeline_executor_build.PipelineConfig()
pipe_config["input"]["data"].connect(pipe_config[mod]["input"]["x"])
pipe_config[mod]["output"][0].connect(pipe_config[second]["input"]["y"])
pipe_config[second]["output"][0].connect(pipe_config["output"]["0"])
for each in (mod, second):
    pipe_config[each].target = "llvm"
    pipe_config[each].dev = tvm.cpu(0)
pipe_config[mod].params = params
with tvm.transform.PassContext(opt_level=3):
    pipeline_mod_factory = pipeline_executor_build.build(pipe_config)
directory_path = temp.relpath("pipeline")
os.makedirs(directory_path)
config_file_name = pipeline_mod_factory.export_library(directory_path)
pipeline = pipeline_executor.PipelineModule.load_library(config_file_name)
for _ in range(3):
    pipeline.set_input("data", tvm.nd.array(data))
    pipeline.run()
outputs = pipeline.get_output()
while len(outputs) == 0:
    outputs = pipeline.get_output()
tvm.testing.assert_allclose(outputs[0].numpy(), np.tanh(want), rtol=1e-5, atol=1e-6)
assert pipeline.num_executing_pipeline == 3
