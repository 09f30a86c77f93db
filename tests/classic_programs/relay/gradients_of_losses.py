import numpy as np
import tvm
from tvm import relay

x = relay.var("x", shape=(4, 6))
w = relay.var("w", shape=(3, 6))
t = relay.var("t", shape=(4, 3))
loss = relay.nn.cross_entropy(relay.nn.softmax(relay.nn.dense(x, w)), t)
f = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, w, t], loss)))["main"]
back = relay.transform.InferType()(tvm.IRModule.from_expr(relay.transform.gradient(f)))["main"]
a, b = np.random.rand(4, 6).astype("float32"), np.random.rand(3, 6).astype("float32")
target = np.eye(3, dtype="float32")[[0, 2, 1, 1]]
run = relay.create_executor("debug").evaluate(back)
losses = []
for _ in range(5):
    value, (_, gw, _) = run(a, b, target)
    losses.append(float(value.numpy()))
    b = b - 0.5 * gw.numpy()
assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]
