import numpy as np
import tvm
from tvm import relay

x = relay.var("x", shape=(3, 4))
w = relay.var("w", shape=(2, 4))
f = relay.Function([x, w], relay.sum(relay.tanh(relay.nn.dense(x, w))))
f = relay.transform.InferType()(tvm.IRModule.from_expr(f))["main"]
for mode in ("higher_order", "first_order"):
    back = relay.transform.gradient(f, mode=mode)
    back = relay.transform.InferType()(tvm.IRModule.from_expr(back))["main"]
    a, b = np.random.rand(3, 4).astype("float32"), np.random.rand(2, 4).astype("float32")
    value, (ga, gb) = relay.create_executor("debug").evaluate(back)(a, b)
    d = 1 - np.tanh(a @ b.T) ** 2
    np.testing.assert_allclose(value.numpy(), np.tanh(a @ b.T).sum(), rtol=1e-4)
    np.testing.assert_allclose(ga.numpy(), d @ b, rtol=1e-3)
    np.testing.assert_allclose(gb.numpy(), d.T @ a, rtol=1e-3)
