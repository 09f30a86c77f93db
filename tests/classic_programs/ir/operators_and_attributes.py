import tvm
from tvm import relay

op = tvm.ir.Op.get("nn.conv2d")
assert op.name == "nn.conv2d" and op.num_inputs == 2
assert tvm.ir.Op.get("tir.exp").name == "tir.exp"
assert "add" in tvm.ir.Op.list_op_names() and "nn.dense" in relay.op.op.Op.list_op_names()
try:
    tvm.ir.Op.get("no.such.op")
except tvm.TVMError as error:
    assert "no.such.op" in str(error)
else:
    raise AssertionError
tvm.ir.register_op_attr("nn.relu", "classic_programs.note", "kept")
assert tvm.ir.Op.get("nn.relu").get_attr("classic_programs.note") == "kept"
assert tvm.ir.Op.get("nn.dense").get_attr("classic_programs.note") is None
p = relay.nn.max_pool2d(relay.var("x", shape=(1, 1, 4, 4)), pool_size=(2, 2), strides=(2, 2))
assert dict((k, p.attrs[k]) for k in ("layout", "ceil_mode"))["layout"] == "NCHW"
assert p.attrs.get_int_tuple("pool_size") == (2, 2) and p.attrs.get_str("layout") == "NCHW"
assert "pool_size" in [f.name for f in p.attrs.list_field_info()]
one = tvm.ir.make_node("IntImm", dtype="int32", value=1)
assert isinstance(one, tvm.tir.IntImm) and int(one) == 1
free = tvm.ir.make_node("DictAttrs", name="x", size=3)
assert free["name"] == "x" and dict(free.items())["size"] == 3 and free.get("none", 7) == 7
