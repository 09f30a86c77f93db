import tvm
from tvm import relay

x = relay.var("x", shape=(1, 4, 4))


def simplified(y):
    mod = tvm.IRModule.from_expr(relay.Function([x], y))
    with tvm.transform.PassContext(opt_level=4):
        return relay.transform.SimplifyExpr()(relay.transform.InferType()(mod))["main"].body


assert simplified(relay.reshape(relay.reshape(x, (16,)), (4, 4))).args[0].name_hint == "x"
assert simplified(relay.transpose(relay.transpose(x, (0, 2, 1)), (0, 2, 1))).name_hint == "x"
assert simplified(relay.add(x, relay.zeros_like(x))).name_hint == "x"
assert simplified(relay.multiply(x, relay.const(1.0))).name_hint == "x"
assert simplified(relay.cast(x, "float32")).name_hint == "x"
r = simplified(relay.divide(relay.const(1.0), relay.sqrt(x)))
assert r.op.name == "rsqrt"
