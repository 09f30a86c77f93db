import tvm
from tvm import relay
from tvm.relay.prelude import Prelude

mod = tvm.IRModule()
p = Prelude(mod)
rlist, cons, nil = p.mod.get_type("List")
x = relay.var("x", shape=(), dtype="int32")
values = cons(relay.const(1), cons(relay.const(2), cons(relay.const(3), nil())))
doubled = p.map(relay.Function([x], relay.multiply(x, relay.const(2))), values)
a, b = relay.var("a", shape=(), dtype="int32"), relay.var("b", shape=(), dtype="int32")
add = relay.Function([a, b], relay.add(a, b))
mod["main"] = relay.Function([], p.foldl(add, relay.const(0), doubled))
f = relay.create_executor("vm", mod=mod, device=tvm.cpu(), target="llvm").evaluate()
assert int(f().numpy()) == 12
assert rlist.name_hint == "List" and cons.tag != nil.tag
assert cons.belong_to == rlist

# Lists of tensors of one type: of any rank, and of one shape.
mod = tvm.IRModule()
prelude = relay.prelude.Prelude(mod)
free, fixed = (
    relay.prelude.TensorArrayOps(prelude, "int32"),
    relay.prelude.StaticTensorArrayOps(prelude, "float32", (2, 3)),
)
assert not fixed.is_cached("tensor_array_read")
free.define_tensor_array_read()
fixed.define_tensor_array_write()
fixed.define_tensor_array_scatter(indices_shape=(2,))
assert fixed.is_cached("tensor_array_read") and free.get_name("tensor_array_read") == "tensor_array_read_int32"
assert isinstance(free.get_global_var("tensor_array_read"), relay.GlobalVar)
