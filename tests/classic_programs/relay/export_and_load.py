import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor, utils

x = relay.var("x", shape=(1, 8))
w = relay.var("w", shape=(4, 8))
mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w)))
weights = {"w": tvm.nd.array(np.random.rand(4, 8).astype("float32"))}
lib = relay.build(mod, "llvm", params=weights)
tmp = utils.tempdir()
path = tmp.relpath("lib.so")
lib.export_library(path)
loaded = tvm.runtime.load_module(path)
m = graph_executor.GraphModule(loaded["default"](tvm.cpu()))
a = np.random.rand(1, 8).astype("float32")
m.run(x=a)
np.testing.assert_allclose(m.get_output(0).numpy(), a @ weights["w"].numpy().T, rtol=1e-4)
graph_json, module, params = lib.get_graph_json(), lib.get_lib(), lib.get_params()
m2 = graph_executor.create(graph_json, module, tvm.cpu())
m2.load_params(relay.save_param_dict(params))
m2.set_input(x=a)
m2.run()
np.testing.assert_allclose(m2.get_output(0).numpy(), m.get_output(0).numpy())
again = relay.load_param_dict(tvm.runtime.save_param_dict(weights))
np.testing.assert_array_equal(again["w"].numpy(), weights["w"].numpy())
assert '"nodes"' in graph_json
