import numpy as np
import tvm
from tvm import relay

c = relay.const(np.ones((2, 3), "float32"))
x = relay.var("x", shape=(2, 3))
y = relay.add(c, c)
f = relay.Function([x], relay.add(relay.multiply(x, relay.const(2.0)), y))
mod = tvm.IRModule.from_expr(f)
folded = relay.transform.FoldConstant()(mod)
assert relay.analysis.list_op_freqs(folded) == {"multiply": 1, "add": 1}
dead = relay.Let(relay.var("z"), relay.add(x, x), x)
assert not isinstance(
    relay.transform.DeadCodeElimination()(tvm.IRModule.from_expr(relay.Function([x], dead)))["main"].body, relay.Let
)
anf = relay.transform.ToANormalForm()(mod)
assert anf.astext().count("let %") >= 3
back = relay.transform.ToGraphNormalForm()(anf)
assert "let" not in back.astext()
fused = relay.transform.FuseOps(2)(relay.transform.InferType()(folded))
assert "Primitive=1" in fused.astext()
assert isinstance(fused["main"].body.op, relay.Function)
defused = relay.transform.DefuseOps()(fused)
tvm.ir.assert_structural_equal(relay.transform.InferType()(defused), relay.transform.InferType()(folded))
