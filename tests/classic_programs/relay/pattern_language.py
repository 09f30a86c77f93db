import tvm
from tvm import relay
from tvm.relay.dataflow_pattern import (
    DFPatternCallback,
    is_constant,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    rewrite,
    wildcard,
)

x = relay.var("x", shape=(1, 4, 8, 8))
w = relay.var("w", shape=(4, 4, 3, 3))
b = relay.var("b", shape=(4,))
conv = relay.nn.conv2d(x, w)
out = relay.nn.relu(relay.nn.bias_add(conv, b))
pattern = is_op("nn.relu")(is_op("nn.bias_add")(is_op("nn.conv2d")(wildcard(), wildcard()), wildcard()))
assert pattern.match(out) and not pattern.match(conv)
optional = is_op("nn.bias_add")(wildcard(), wildcard()).optional(lambda p: is_op("nn.relu")(p))
assert optional.match(out) and optional.match(out.args[0])
assert is_op("nn.conv2d")(wildcard(), wildcard()).has_attr({"groups": 1}).match(conv)
assert not is_op("nn.conv2d")(wildcard(), wildcard()).has_attr({"groups": 2}).match(conv)
assert (is_op("nn.relu")(wildcard()) | is_op("tanh")(wildcard())).match(relay.tanh(x))
assert is_var("x").match(x) and not is_var("y").match(x)
assert wildcard().has_dtype("float32").match(x) and is_constant().match(relay.const(1))
assert is_tuple([wildcard(), wildcard()]).match(relay.Tuple([x, w]))
assert is_tuple_get_item(wildcard(), 0).match(relay.TupleGetItem(relay.Tuple([x]), 0))
parted = pattern.partition(out)
assert "PartitionedFromPattern" in tvm.IRModule.from_expr(parted).astext() or "PartitionedFromPattern" in str(parted)


class NoRelu(DFPatternCallback):
    def __init__(self):
        super().__init__()
        self.inner = wildcard()
        self.pattern = is_op("nn.relu")(self.inner)

    def callback(self, pre, post, node_map):
        return node_map[self.inner][0]


assert tvm.ir.structural_equal(rewrite(NoRelu(), out), out.args[0])
