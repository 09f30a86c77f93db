import numpy as np
import tvm
from tvm import relay

x = relay.var("x", shape=(1, 4, 6, 6))
w = relay.const(np.random.rand(8, 4, 3, 3).astype("float32"))
scale = relay.const(np.random.rand(8, 1, 1).astype("float32") + 0.5)
y = relay.multiply(relay.nn.conv2d(x, w, channels=8, kernel_size=(3, 3)), scale)
mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], y)))
with tvm.transform.PassContext(opt_level=3):
    new = tvm.transform.Sequential([relay.transform.FoldScaleAxis(), relay.transform.FoldConstant()])(mod)
assert relay.analysis.list_op_freqs(new) == {"nn.conv2d": 1}
a = np.random.rand(1, 4, 6, 6).astype("float32")
run = lambda m: relay.create_executor("debug", mod=m).evaluate()(a).numpy()
np.testing.assert_allclose(run(new), run(mod), rtol=1e-4)
