import numpy as np
import tvm
from tvm import relay

x = relay.var("x", shape=(2, 8))
w = relay.const(np.random.rand(4, 8).astype("float32"))
mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp(relay.nn.dense(x, w))))
mod = relay.transform.InferType()(mod)
half = relay.transform.ToMixedPrecision("float16")(mod)
text = half.astext()
assert 'cast(%x, dtype="float16")' in text
assert "nn.dense" in text and "float16" in text
half = relay.transform.InferType()(half)
a = np.random.rand(2, 8).astype("float32")
run = lambda m: relay.create_executor("graph", mod=m, device=tvm.cpu(), target="llvm").evaluate()(a).numpy()
np.testing.assert_allclose(run(half).astype("float32"), run(mod), rtol=2e-2)
