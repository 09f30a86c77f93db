import tvm
from tvm import relay

x = relay.var("x", shape=(2, 3))
y = relay.var("y", shape=(3,), dtype="float32")
f = relay.Function([x, y], relay.Tuple([relay.add(x, y), relay.nn.softmax(x, axis=1)]))
mod = relay.transform.InferType()(tvm.IRModule.from_expr(f))
text = mod.astext()
assert "def @main(%x: Tensor[(2, 3), float32]" in text
assert "%0 = add(%x, %y) /* ty=Tensor[(2, 3), float32] */;" in text
assert "%1 = nn.softmax(%x, axis=1) /* ty=Tensor[(2, 3), float32] */;" in text
assert "-> (Tensor[(2, 3), float32], Tensor[(2, 3), float32]) {" in text and "(%0, %1)" in text
assert text.startswith('#[version = "0.0.5"]')
again = tvm.parser.parse(text)
tvm.ir.assert_structural_equal(again, mod)
expr = tvm.relay.parse_expr("add(1f, 2f)")
assert isinstance(expr, relay.Call)
