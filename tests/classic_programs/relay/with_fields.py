import numpy as np
import tvm
from tvm import relay
from tvm.relay.expr import CallWithFields, IfWithFields, LetWithFields, TupleWithFields, VarWithFields
from tvm.relay.function import FunctionWithFields
from tvm.relay.op import op_attrs

x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
call = relay.add(x, y)
assert CallWithFields(call) is call or tvm.ir.structural_equal(CallWithFields(call), call, map_free_vars=True)
assert CallWithFields(call, relay.op.get("subtract")).op.name == "subtract"
assert CallWithFields(call, args=[y, x]).args[0].same_as(y)
f = relay.Function([x, y], call)
g = FunctionWithFields(f, body=relay.multiply(x, y))
got = relay.create_executor("debug").evaluate(g)(np.array([1, 2], "float32"), np.array([3, 4], "float32"))
np.testing.assert_array_equal(got.numpy(), [3, 8])
assert VarWithFields(x, vid="z").name_hint == "z" and len(TupleWithFields(relay.Tuple([x]), [x, y])) == 2
let = LetWithFields(relay.Let(x, relay.const(1.0), x), value=relay.const(2.0))
assert float(let.value.data.numpy()) == 2.0
choice = IfWithFields(relay.If(relay.const(True), x, y), false_branch=x)
assert choice.false_branch.same_as(x)
assert isinstance(relay.op.debug(x).attrs, op_attrs.DebugAttrs)
assert isinstance(relay.einsum([x, y], "i,i->i").attrs, op_attrs.EinsumAttrs)
assert tvm.DataType("float32x4").itemsize == 16 and tvm.DataType("bool").itemsize == 1
