import numpy as np
from tvm import relay

c = relay.const(1)
assert c.data.dtype == "int32" and c.data.shape == ()
assert relay.const(1.5).data.dtype == "float32" and relay.const(True).data.dtype == "bool"
assert relay.const(np.arange(3, dtype="int64")).data.dtype == "int64"
x = relay.var("x", shape=(2,), dtype="float32")
e = x + relay.const(1.0) * x - x / x
assert e.op.name == "subtract" and e.args[1].op.name == "divide"
assert (-x).op.name == "negative" and (x > x).op.name == "greater"
assert x.astype("int32").op.name == "cast"
t = relay.Tuple([x, c])
assert len(t) == 2 and t[1].same_as(c)
got = relay.TupleGetItem(t, 0)
assert got.tuple_value.same_as(t) and got.index == 0
call = relay.Call(relay.op.get("add"), [x, x])
assert call.op.name == "add" and len(call.type_args) == 0
conv = relay.nn.conv2d(relay.var("a", shape=(1, 3, 8, 8)), relay.var("b", shape=(4, 3, 3, 3)), strides=(2, 2))
assert [int(v) for v in conv.attrs.strides] == [2, 2] and conv.attrs.data_layout == "NCHW"
assert conv.attrs.get_int("groups") == 1 and "padding" in conv.attrs.keys()
