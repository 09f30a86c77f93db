import numpy as np
import tvm
from tvm import relay, tir

x = tir.Var("x", "int32")
for node in (
    tir.const(3) + x,
    tvm.ir.Range(0, x),
    tir.decl_buffer((4, x), "float16", name="B"),
    tvm.target.Target("llvm -mcpu=x86-64"),
    relay.TensorType((1, relay.Any()), "float32"),
    relay.Function([v := relay.var("v", shape=(2,))], relay.nn.relu(v)),
    tvm.IRModule.from_expr(relay.const(np.arange(4, dtype="float32"))),
    tvm.runtime.convert([1, "a", {"k": 2.5}]),
):
    again = tvm.ir.load_json(tvm.ir.save_json(node))
    assert type(again) is type(node), (type(again), type(node))
    if not isinstance(node, tvm.target.Target):
        tvm.ir.assert_structural_equal(again, node, map_free_vars=True)
    else:
        assert str(again) == str(node)
