import numpy as np
import tvm
from tvm import relay

x = relay.var("x", shape=(1, 4, 8, 8))
w = relay.const(np.random.rand(8, 4, 3, 3).astype("float32") - 0.5)
y = relay.nn.relu(relay.nn.conv2d(x, w, channels=8, kernel_size=(3, 3), padding=(1, 1)))
y = relay.nn.relu(
    relay.nn.conv2d(y, relay.const(np.random.rand(8, 8, 3, 3).astype("float32") - 0.5), channels=8, kernel_size=(3, 3))
)
mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], y)))
with relay.quantize.qconfig(calibrate_mode="global_scale", global_scale=4.0, skip_conv_layers=[]):
    assert relay.quantize.current_qconfig().global_scale == 4.0
    q = relay.quantize.quantize(mod, {})
assert "int8" in q.astext()
a = np.random.rand(1, 4, 8, 8).astype("float32")
run = lambda m: relay.create_executor("graph", mod=m, device=tvm.cpu(), target="llvm").evaluate()(a).numpy()
full, small = run(mod), run(q)
assert np.abs(full - small).mean() < 0.15 * np.abs(full).mean() + 0.1
