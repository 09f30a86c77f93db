import tvm
from tvm import relay, te, topi
from tvm.relay.op import strategy
from tvm.relay.op.strategy import arm_cpu, cuda, generic, x86

assert all(m.wrap_compute_nms is strategy.wrap_compute_nms for m in (arm_cpu, cuda, generic, x86))
assert strategy.logger.name == "strategy"


def given(wrapper, call, **flags):
    """The arguments that a wrapper gives to a compute of a call."""
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(call), call)))
    call = mod["main"].body
    seen = []

    def compute(*args):
        seen.extend(args)
        return args[0]

    types = [a.checked_type for a in call.args]
    inputs = [te.placeholder(t.shape, t.dtype, f"p{k}") for k, t in enumerate(types)]
    (result,) = wrapper(compute, **flags)(call.attrs, inputs, call.checked_type)
    assert result is inputs[0] and seen[: len(inputs)] == inputs
    return seen[len(inputs) :]


x, w = relay.var("x", shape=(1, 4, 8, 8)), relay.var("w", shape=(6, 4, 3, 3))
conv = relay.nn.conv2d(x, w, channels=6, kernel_size=(3, 3), padding=(1, 1))
assert given(strategy.wrap_compute_conv2d, conv)[2:] == [(1, 1), "float32"]
assert given(strategy.wrap_compute_conv2d, conv, need_auto_scheduler_layout=True)[-2:] == ["float32", ""]
assert given(strategy.wrap_compute_conv2d, conv, need_meta_schedule_layout=True)[-3:] == ["float32", "", None]
assert strategy.get_auto_scheduler_rewritten_layout(conv.attrs) == ""
dense = relay.nn.dense(relay.var("a", shape=(2, 4)), relay.var("b", shape=(3, 4)))
assert given(strategy.wrap_compute_dense, dense, need_auto_scheduler_layout=True) == [None, "float32", ""]
rows = relay.nn.conv1d_transpose(
    relay.var("r", shape=(1, 4, 8)), relay.var("k", shape=(4, 6, 3)), channels=6, kernel_size=(3,)
)
assert given(strategy.wrap_compute_conv1d_transpose, rows)[-2:] == ["float32", (0,)]
assert given(strategy.wrap_compute_conv1d_transpose, rows, has_groups=True)[-1] == 1
back = relay.nn.conv2d_transpose(x, relay.var("k", shape=(4, 6, 3, 3)), channels=6, kernel_size=(3, 3))
assert given(strategy.wrap_compute_conv2d_transpose, back, has_groups=True, add_layout=True)[-2:] == ["NCHW", 1]
grad = relay.nn.conv2d_backward_weight(relay.var("g", shape=(1, 6, 8, 8)), x, kernel_size=(3, 3), padding=(1, 1))
assert given(strategy.wrap_compute_conv2d_backward_weight, grad)[0] == (3, 3)

# Detection: the computes of topi, with attributes in their order.
boxes = relay.var("boxes", shape=(1, 5, 6))
counts = relay.vision.get_valid_counts(boxes, 0.5)[0]
assert given(strategy.wrap_compute_get_valid_counts, counts.tuple_value) == [0, 1]


def built(target):
    """How often a build uses a program's implementation of box suppression."""
    computed = []

    def compute(*arguments):
        computed.append(arguments)
        return topi.vision.get_valid_counts(*arguments)

    @strategy.get_valid_counts_strategy.register("cpu")
    def mine(attrs, inputs, out_type, target):
        made = relay.op.OpStrategy()
        made.add_implementation(strategy.wrap_compute_get_valid_counts(compute), strategy.naive_schedule, name="mine")
        return made

    try:
        found = relay.vision.get_valid_counts(boxes, 0.5)
        relay.build(tvm.IRModule.from_expr(relay.Function([boxes], found.astuple())), target)
        return len(computed)
    finally:
        relay.op.get("vision.get_valid_counts").reset_attr("FTVMStrategy")


assert built("llvm")
