"""tvmc from Python as classic scripts use it: load, compile, run, save; older names; a model for a board."""

import io
import os
import tarfile

import numpy as np
import onnx
import tvm
from tvm import relay, rpc
from tvm.contrib import utils
from tvm.driver import tvmc
from tvm.driver.tvmc.frontends import load_model
from tvm.driver.tvmc.model import TVMCModel, TVMCPackage, TVMCResult
from tvm.driver.tvmc.transform import convert_graph_layout
from tvm.relay.backend import Executor, Runtime

temp = utils.tempdir()
path = temp.relpath("my_model.onnx")
rng = np.random.default_rng(0)
weights = {"w": rng.standard_normal((8, 3, 3, 3)).astype("float32")}
onnx.save(
    onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node("Conv", ["data", "w"], ["a"]), onnx.helper.make_node("Relu", ["a"], ["b"])],
            "net",
            [onnx.helper.make_tensor_value_info("data", onnx.TensorProto.FLOAT, ["batch", 3, 16, 16])],
            [onnx.helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT, None)],
            [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()],
        )
    ),
    path,
)

# Load, compile, run.
shape_dict = {"data": [1, 3, 16, 16]}
model = tvmc.load(path, shape_dict=shape_dict)
text = io.StringIO()
model.summary(file=text)
assert "nn.conv2d" in text.getvalue()
package_path = temp.relpath("module.tar")
package = tvmc.compile(model, target="llvm", package_path=package_path)
result = tvmc.run(package, device="cpu")
assert isinstance(result, TVMCResult) and "output_0" in str(result)
inputs = {"data": rng.standard_normal((1, 3, 16, 16)).astype("float32")}
want = tvmc.run(package, device="cpu", inputs=inputs).get_output("output_0")
with tarfile.open(package_path) as tar:
    assert {"mod.so", "mod.json", "mod.params"} <= set(tar.getnames())

# What was written is read again.
model.save(temp.relpath("desired.tar"))
model = TVMCModel(model_path=temp.relpath("desired.tar"))
package = TVMCPackage(package_path=package_path)
for new in (package, tvmc.compile(model, target="llvm")):
    result = tvmc.run(new, device="cpu", inputs=inputs, benchmark=True, number=2, repeat=3)
    tvm.testing.assert_allclose(result.outputs["output_0"], want, rtol=1e-5, atol=1e-5)
    assert result.times.mean > 0 and "mean (ms)" in result.format_times()

# Modules of the importers, other layouts, executors and dynamic dimensions.
mod, params = relay.frontend.from_onnx(onnx.load(path), shape_dict)
for options in (
    {"executor": Executor("aot"), "runtime": Runtime("cpp")},
    {"executor": Executor("graph", {"link-params": True}), "mod_name": "classify"},
    {"desired_layout": "NHWC", "opt_level": 2, "disabled_pass": ["FoldScaleAxis"]},
    {"use_vm": True, "pass_context_configs": ["tir.disable_vectorize=1"]},
    {"target": "llvm -num-cores=1", "additional_target_options": {"llvm": {"opt-level": 2}}},
):
    package = tvmc.compile(TVMCModel(mod, params), **{"target": "llvm", **options})
    found = tvmc.run(package, device="cpu", inputs=inputs).get_output("output_0")
    tvm.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
nhwc = convert_graph_layout(mod, "NHWC")
assert 'data_layout="NHWC"' in str(nhwc)
dynamic = tvmc.compile(load_model(path, model_format="onnx"), target="llvm", use_vm=True)
inputs["data"] = np.repeat(inputs["data"], 3, axis=0)
found = tvmc.run(dynamic, device="cpu", inputs=inputs).get_output("output_0")
assert found.shape[0] == 3
tvm.testing.assert_allclose(found[2:], want, rtol=1e-4, atol=1e-4)

# Records of measurements are in a file, and compilation takes them.
records = tvmc.tune(model, target="llvm", tuning_records=temp.relpath("records.json"), trials=3, number=1, repeat=1)
assert records == temp.relpath("records.json") and os.path.getsize(records) > 0
tuned = tvmc.compile(model, target="llvm", tuning_records=records)
inputs["data"] = inputs["data"][:1]
found = tvmc.run(tuned, device="cpu", inputs=inputs).get_output("output_0")
tvm.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)

# A board of a tracker.
tracker = rpc.Tracker(host="127.0.0.1", port=9190, port_end=9290, silent=True)
server = rpc.Server(
    host="127.0.0.1", port=9090, port_end=9199, key="rasp4b", tracker_addr=("127.0.0.1", tracker.port), silent=True
)
package = TVMCPackage(package_path=package_path)
result = tvmc.run(
    package,
    device="cpu",
    rpc_key="rasp4b",
    hostname="127.0.0.1",
    port=tracker.port,
    fill_mode="ones",
    benchmark=True,
    number=1,
    repeat=2,
)
assert len(result.times.results) == 2
server.terminate()
tracker.terminate()

# The same for the processor of a board, whose code does not run here.
target = tvm.target.arm_cpu("rasp4b64")
tvmc.compile(model, target=target, package_path=temp.relpath("board.tar"))
with tvm.transform.PassContext(opt_level=3):
    graph, lib, built = relay.build(mod, target=target, params=params, executor=Executor("graph"))
for name in ("net.tar", "net.so"):
    lib.export_library(temp.relpath(name))
    assert os.path.getsize(temp.relpath(name)) > 1000
try:
    lib["default"]
except AttributeError as error:
    assert "compiled for aarch64" in str(error)
else:
    raise AssertionError("code for another machine was called")
