import tvm
from tvm import relay

x = relay.var("x", shape=(1, 3, 224, 224))
w = relay.var("w")
conv = relay.nn.conv2d(x, w, kernel_size=(7, 7), strides=(2, 2), padding=(3, 3), channels=64)
f = relay.Function([x, w], relay.nn.max_pool2d(conv, pool_size=(2, 2), strides=(2, 2)))
mod = relay.transform.InferType()(tvm.IRModule.from_expr(f))
main = mod["main"]
assert main.params[1].checked_type == relay.TensorType((64, 3, 7, 7), "float32")
assert main.ret_type == relay.TensorType((1, 64, 56, 56), "float32")
assert main.checked_type == relay.FuncType([main.params[0].checked_type, main.params[1].checked_type], main.ret_type)
assert [int(d) for d in main.body.checked_type.shape] == [1, 64, 56, 56]
bad = relay.Function([x], relay.add(x, relay.const([1.0, 2.0])))
try:
    relay.transform.InferType()(tvm.IRModule.from_expr(bad))
except (tvm.error.DiagnosticError, tvm.TVMError) as error:
    assert "224" in str(error)
else:
    raise AssertionError("2 is no 224")
