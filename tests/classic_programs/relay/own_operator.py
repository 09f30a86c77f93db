import numpy as np
import tvm
from tvm import relay, te

name = "classic_programs.cube"
relay.op.op.register(name)
op = relay.op.get(name)
op.set_num_inputs(1)
op.add_argument("data", "Tensor", "The input")
op.set_support_level(10)


def rel(args, attrs):
    return args[0]


op.add_type_rel("CubeRel", rel)
relay.op.op.register_pattern(name, relay.op.op.OpPattern.ELEMWISE)


@relay.op.op.register_compute(name)
def compute(attrs, inputs, out_type):
    (x,) = inputs
    return [te.compute(x.shape, lambda *i: x(*i) * x(*i) * x(*i))]


relay.op.op.register_injective_schedule(name)
x = relay.var("x", shape=(5,))
mod = tvm.IRModule.from_expr(relay.Function([x], relay.Call(op, [x])))
a = np.arange(5, dtype="float32")
got = relay.create_executor("graph", mod=mod, device=tvm.cpu(), target="llvm").evaluate()(a)
np.testing.assert_allclose(got.numpy(), a**3)
