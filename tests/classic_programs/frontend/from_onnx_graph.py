import numpy as np
import onnx
import tvm
from onnx import TensorProto, helper
from tvm import relay

weight = np.random.rand(4, 3, 3, 3).astype("float32")
nodes = [
    helper.make_node("Conv", ["data", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    helper.make_node("Relu", ["c"], ["r"]),
    helper.make_node("GlobalAveragePool", ["r"], ["out"]),
]
graph = helper.make_graph(
    nodes,
    "small",
    [helper.make_tensor_value_info("data", TensorProto.FLOAT, ["batch", 3, 8, 8])],
    [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["batch", 4, 1, 1])],
    [onnx.numpy_helper.from_array(weight, "w")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
mod, params = relay.frontend.from_onnx(model, shape={"data": (2, 3, 8, 8)}, freeze_params=False)
assert list(params) == ["w"] and [p.name_hint for p in mod["main"].params] == ["data", "w"]
frozen, none = relay.frontend.from_onnx(model, shape={"data": (2, 3, 8, 8)}, freeze_params=True)
assert not none and [p.name_hint for p in frozen["main"].params] == ["data"]
dynamic, _ = relay.frontend.from_onnx(model)
assert not isinstance(dynamic["main"].params[0].type_annotation.shape[0], tvm.tir.IntImm)
x = np.random.rand(2, 3, 8, 8).astype("float32")
by_graph = relay.create_executor("graph", frozen, tvm.cpu(), "llvm").evaluate()(x).numpy()
by_vm = relay.create_executor("vm", dynamic, tvm.cpu(), "llvm").evaluate()(x).numpy()
np.testing.assert_allclose(by_graph, by_vm, rtol=1e-5)
padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
conv = np.einsum("ncijkl,ockl->noij", windows, weight)
np.testing.assert_allclose(by_graph[..., 0, 0], np.maximum(conv, 0).mean((2, 3)), rtol=1e-4)
