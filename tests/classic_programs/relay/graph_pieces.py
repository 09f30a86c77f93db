import json

import tvm
from tvm import relay

x = relay.var("x", shape=(1, 16))
w = relay.var("w", shape=(16, 16))
mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.relu(relay.nn.dense(x, w))))
lib = relay.build(mod, "llvm")

graph = json.loads(lib.get_graph_json())
assert set(graph) >= {"nodes", "arg_nodes", "heads", "node_row_ptr", "attrs"}
names = [n["name"] for n in graph["nodes"]]
assert names[:2] == ["x", "w"] and any("dense" in n and "relu" in n for n in names), names
kernel = [n for n in graph["nodes"] if n["op"] == "tvm_op"][0]
assert kernel["attrs"]["num_inputs"] == "2" and kernel["attrs"]["num_outputs"] == "1"
assert graph["attrs"]["shape"][0] == "list_shape"
assert lib.libmod_name == "default"
