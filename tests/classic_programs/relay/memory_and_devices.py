import numpy as np
import tvm
from tvm import relay

x = relay.var("x", shape=(2, 3))
y = relay.annotation.on_device(relay.exp(x), tvm.cpu(0), constrain_result=True)
mod = tvm.IRModule.from_expr(relay.Function([x], relay.tanh(y)))
assert "on_device" in mod.astext()
lib = relay.build(mod, "llvm")
m = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
a = np.random.rand(2, 3).astype("float32")
m.run(x=a)
np.testing.assert_allclose(m.get_output(0).numpy(), np.tanh(np.exp(a)), rtol=1e-5)
v = tvm.target.VirtualDevice(tvm.cpu(0), tvm.target.Target("llvm"), "global")
assert v.memory_scope == "global" and v.device_type() == 1
