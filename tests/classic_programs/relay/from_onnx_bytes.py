import numpy as np
import tvm
from onnx import TensorProto, helper
from tvm import relay

node = helper.make_node("Gemm", ["a", "b", "c"], ["y"], transB=1)
graph = helper.make_graph(
    [node],
    "g",
    [helper.make_tensor_value_info("a", TensorProto.FLOAT, [2, 3])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
    [
        helper.make_tensor("b", TensorProto.FLOAT, [4, 3], list(range(12))),
        helper.make_tensor("c", TensorProto.FLOAT, [4], [1, 2, 3, 4]),
    ],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
mod, params = relay.frontend.from_onnx(model, shape={"a": (2, 3)}, freeze_params=False)
assert set(params) >= {"b", "c"}
lib = relay.build(mod, "llvm", params=params)
m = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
a = np.random.rand(2, 3).astype("float32")
m.set_input("a", a)
m.run()
np.testing.assert_allclose(m.get_output(0).numpy(), a @ np.arange(12).reshape(4, 3).T + [1, 2, 3, 4], rtol=1e-5)
