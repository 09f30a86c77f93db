import numpy as np
import tvm
from tvm import relay, te, testing
from tvm.contrib import graph_executor
from tvm.relay.qnn import strategy
from tvm.relay.qnn.strategy import generic

testing.utils.install_request_hook(depth=3)

x = relay.var("x", shape=(2, 8), dtype="uint8")
w = relay.var("w", shape=(4, 8), dtype="int8")
points = relay.const(3), relay.const(0), relay.const(0.5), relay.const(0.25)
dense = relay.qnn.op.dense(x, w, *points, units=4)
mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, w], dense)))
call = mod["main"].body

# The strategy of an operator, and functions that give a compute its attributes.
inputs = [te.placeholder(a.checked_type.shape, a.checked_type.dtype, f"p{k}") for k, a in enumerate(call.args)]
target = tvm.target.Target("llvm")
with target:
    (found,) = generic.qnn_dense_strategy(call.attrs, inputs, call.checked_type, target).specializations
assert [str(d) for d in found.implementations[0].compute(call.attrs, inputs, call.checked_type)[0].shape] == ["2", "4"]
seen = []
wrapped = strategy.wrap_topi_qnn_dense(lambda *given: seen.extend(given) or given[0])
wrapped(call.attrs, inputs, call.checked_type)
assert seen[:6] == inputs and seen[-1] == "int32"


# A build that leaves quantised operators whole uses what a program registers.
used = []


def mine(attrs, given, out_type):
    used.append(attrs.units)
    data, weight, data_zero = given[:3]
    k = te.reduce_axis((0, 8), "k")
    left = lambda i: data[i, k].astype("int32") - data_zero()
    return [te.compute((2, 4), lambda i, j: te.sum(left(i) * weight[j, k].astype("int32"), axis=k))]


@strategy.qnn_dense_strategy.register("cpu")
def dense_strategy(attrs, given, out_type, target):
    made = relay.op.OpStrategy()
    made.add_implementation(mine, relay.op.strategy.naive_schedule, name="mine")
    return made


a = np.random.randint(0, 200, (2, 8)).astype("uint8")
b = np.random.randint(-100, 100, (4, 8)).astype("int8")
try:
    for disabled in ([], ["qnn.CanonicalizeOps"]):
        with tvm.transform.PassContext(opt_level=3, disabled_pass=disabled):
            lib = relay.build(tvm.IRModule.from_expr(relay.Function([x, w], dense)), "llvm")
        module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
        module.run(x=a, w=b)
        np.testing.assert_array_equal(module.get_output(0).numpy(), (a.astype("int32") - 3) @ b.T.astype("int32"))
        assert bool(used) == bool(disabled)
finally:
    relay.op.get("qnn.dense").reset_attr("FTVMStrategy")

# Signed bytes on instructions that take data without sign.
p, q = relay.var("p", shape=(3, 16), dtype="int8"), relay.var("q", shape=(5, 16), dtype="int8")
plain = relay.nn.dense(p, q, out_dtype="int32")
mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([p, q], plain)))
product = mod["main"].body
moved = tvm.topi.x86.int8_int8_legalize(
    product.args, [t.checked_type for t in product.args], relay.nn.dense, product.attrs
)
left, right = [np.random.randint(-128, 128, s).astype("int8") for s in ((3, 16), (5, 16))]
result = relay.create_executor("vm").evaluate(relay.Function(mod["main"].params, moved))(left, right).numpy()
np.testing.assert_array_equal(result, left.astype("int32") @ right.T.astype("int32"))
assert "uint8" in str(moved)

# What stays in float32 while a program is quantised.
conv = relay.nn.conv2d(relay.var("i", shape=(1, 3, 8, 8)), relay.var("k", shape=(4, 3, 3, 3)))
with relay.quantize.qconfig(skip_conv_layers=[1], debug_enabled_ops=["nn.conv2d"]) as config:
    with relay.quantize.quantize_context() as context:
        assert [context.check_to_skip(conv) for _ in range(3)] == [False, True, False]
        context.stop_quantize()
        assert context.check_to_skip(conv)
    assert config.guard(conv) and not config.guard(product)
