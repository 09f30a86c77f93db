import numpy as np
import tvm
from tvm import relay

mod = tvm.IRModule()
sum_up = relay.GlobalVar("sum_up")
i = relay.var("i", shape=(), dtype="int32")
acc = relay.var("acc", shape=(), dtype="int32")
sb = relay.ScopeBuilder()
with sb.if_scope(relay.equal(i, relay.const(0, "int32"))):
    sb.ret(acc)
with sb.else_scope():
    one_less = sb.let("one_less", relay.subtract(i, relay.const(1, "int32")))
    sb.ret(relay.Call(sum_up, [one_less, relay.add(acc, i)]))
mod[sum_up] = relay.Function([i, acc], sb.get(), relay.scalar_type("int32"))
n = relay.var("n", shape=(), dtype="int32")
mod["main"] = relay.Function([n], sum_up(n, relay.const(0, "int32")))
mod = relay.transform.InferType()(mod)
for kind in ("debug", "vm"):
    f = relay.create_executor(kind, mod=mod, device=tvm.cpu(), target="llvm").evaluate()
    assert int(f(np.array(10, "int32")).numpy()) == 55, kind
text = mod.astext()
assert "def @sum_up(" in text and "if (" in text and "let %one_less" in text
