import numpy as np
import tvm
from tvm import relay

x = relay.var("x", shape=(1, 4, 8, 8), dtype="int8")
w = relay.var("w", shape=(4, 4, 3, 3), dtype="int8")
one, zero = relay.const(0.5), relay.const(0)
y = relay.nn.conv2d(
    relay.qnn.op.dequantize(x, relay.const(2.0), zero), relay.qnn.op.dequantize(w, one, zero), kernel_size=(3, 3)
)
y = relay.qnn.op.quantize(y, relay.const(8.0), zero, out_dtype="int8")
mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, w], y)))
new = relay.transform.FakeQuantizationToInteger()(mod)
text = new.astext()
assert "qnn.conv2d" in text and "qnn.requantize" in text and "qnn.dequantize" not in text
a = np.random.randint(-8, 8, (1, 4, 8, 8)).astype("int8")
b = np.random.randint(-8, 8, (4, 4, 3, 3)).astype("int8")
run = lambda m: relay.create_executor("graph", mod=m, device=tvm.cpu(), target="llvm").evaluate()(a, b).numpy()
assert np.abs(run(new).astype(int) - run(mod).astype(int)).max() <= 1
