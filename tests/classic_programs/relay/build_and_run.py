import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor

data = relay.var("data", shape=(1, 3, 8, 8))
weight = relay.var("weight", shape=(4, 3, 3, 3))
bias = relay.var("bias", shape=(4,))
out = relay.nn.conv2d(data, weight, kernel_size=(3, 3), padding=(1, 1), channels=4)
out = relay.nn.relu(relay.nn.bias_add(out, bias))
mod = tvm.IRModule.from_expr(relay.Function([data, weight, bias], out))
params = {"weight": np.random.rand(4, 3, 3, 3).astype("float32"), "bias": np.random.rand(4).astype("float32")}
with tvm.transform.PassContext(opt_level=3):
    lib = relay.build(mod, target="llvm", params=params)
m = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
x = np.random.rand(1, 3, 8, 8).astype("float32")
m.set_input("data", x)
m.run()
got = m.get_output(0).numpy()
want = tvm.topi.testing.conv2d_nchw_python(x, params["weight"], 1, 1) + params["bias"][None, :, None, None]
np.testing.assert_allclose(got, np.maximum(want, 0), rtol=1e-4)
assert m.get_num_outputs() == 1 and m.get_input("data").shape == (1, 3, 8, 8)
