import numpy as np
import tvm
from tvm import relay

x = relay.var("x", shape=(3,))
f = relay.var("f")
body = relay.Let(
    f, relay.Function([x], relay.add(x, x)), relay.Call(f, [relay.Call(f, [relay.const(np.ones(3, "float32"))])])
)
mod = tvm.IRModule.from_expr(relay.Function([], body))
mod = relay.transform.InferType()(mod)
out = tvm.transform.Sequential(
    [relay.transform.PartialEvaluate(), relay.transform.DeadCodeElimination(), relay.transform.FoldConstant()]
)(mod)
result = relay.create_executor("debug", mod=out).evaluate()()
np.testing.assert_array_equal(result.numpy(), [4, 4, 4])
eta = relay.transform.EtaExpand(expand_global_var=True)
lifted = relay.transform.LambdaLift()(mod)
assert len(lifted.get_global_vars()) >= 1
