"""Relay passes alone and in sequence, by level and by name, passes of one's own, and instruments that watch them."""

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.ir.instrument import PassTimingInstrument, pass_instrument

x = relay.var("x", relay.TensorType((1, 4, 10, 10), "float32"))
w = relay.var("w", shape=(8, 4, 3, 3))
scale = relay.add(relay.const(1.5), relay.const(0.5))
once, twice = [relay.nn.relu(relay.multiply(relay.nn.conv2d(x, w), scale)) for _ in range(2)]
mod = tvm.IRModule.from_expr(relay.Function([x, w], relay.add(once, twice)))


def count(mod, name):
    found = []
    relay.analysis.post_order_visit(
        mod["main"],
        lambda e: found.append(e) if isinstance(e, relay.Call) and getattr(e.op, "name", "") == name else None,
    )
    return len(found)


typed = relay.transform.InferType()(mod)
assert typed["main"].checked_type.ret_type == relay.TensorType((1, 8, 8, 8), "float32")
assert count(relay.transform.FoldConstant()(typed), "add") == 1
assert count(relay.transform.EliminateCommonSubexpr()(typed), "nn.conv2d") == 1

sequence = tvm.transform.Sequential(
    [
        relay.transform.FoldConstant(),
        relay.transform.EliminateCommonSubexpr(),
        relay.transform.FuseOps(fuse_opt_level=2),
    ]
)
assert str(sequence(mod)).count("nn.conv2d") == 2, "common subexpressions go at level 3"
with tvm.transform.PassContext(opt_level=3):
    fused = str(sequence(mod))
assert fused.count("Primitive=1") == 1 and fused.count("nn.conv2d") == 1
with tvm.transform.PassContext(opt_level=3, disabled_pass=["EliminateCommonSubexpr"]):
    assert str(sequence(mod)).count("nn.conv2d") == 2
with tvm.transform.PassContext(opt_level=0, required_pass=["FoldConstant"]):
    assert count(sequence(mod), "add") == 1


@relay.transform.function_pass(opt_level=1)
class TimesConstant:
    """Multiplies every constant."""

    def __init__(self, factor):
        self.factor = factor

    def transform_function(self, func, mod, ctx):
        outer = self

        class Replace(relay.ExprMutator):
            def visit_constant(self, constant):
                return relay.multiply(outer.factor, constant)

        return Replace().visit(func)


times = TimesConstant(relay.const(3.0))
assert times.info.name == "TimesConstant" and times.info.opt_level == 1
assert count(times(mod), "multiply") == count(mod, "multiply") + 2


@tvm.transform.module_pass(opt_level=2)
def with_helper(mod, ctx):
    v = relay.var("v", shape=(3,))
    extended = tvm.IRModule({relay.GlobalVar("helper"): relay.Function([v], relay.abs(v))})
    extended.update(mod)
    return extended


assert sorted(g.name_hint for g in with_helper(mod).get_global_vars()) == ["helper", "main"]

timing = PassTimingInstrument()
with tvm.transform.PassContext(opt_level=3, instruments=[timing]):
    sequence(mod)
    table = timing.render()
assert all(name in table for name in ("FoldConstant", "EliminateCommonSubexpr", "FuseOps")), table


@pass_instrument
class Counts:
    """How many calls there are before and after each pass; vetoes one pass."""

    def __init__(self, veto=""):
        self.veto, self.log, self.depth = veto, [], []

    def enter_pass_ctx(self):
        self.log.append("enter")

    def exit_pass_ctx(self):
        self.log.append("exit")
        assert not self.depth

    def should_run(self, mod, info):
        return info.name != self.veto

    def run_before_pass(self, mod, info):
        self.depth.append((info.name, count(mod, "nn.conv2d")))

    def run_after_pass(self, mod, info):
        name, before = self.depth.pop()
        assert name == info.name
        self.log.append((name, before, count(mod, "nn.conv2d")))


counts = Counts(veto="FuseOps")
with tvm.transform.PassContext(opt_level=3, instruments=[counts]):
    sequence(mod)
log = {entry[0]: entry[1:] for entry in counts.log if isinstance(entry, tuple)}
assert log["EliminateCommonSubexpr"] == (2, 1) and "FuseOps" not in log
assert counts.log[0] == "enter" and counts.log[-1] == "exit"

order = []


class Told:
    def __init__(self, name, fails=""):
        self.name, self.fails = name, fails

    def enter_pass_ctx(self):
        order.append(f"{self.name} in")
        if self.fails == "enter":
            raise tvm.error.TVMError(f"{self.name} will not")

    def exit_pass_ctx(self):
        order.append(f"{self.name} out")


try:
    with tvm.transform.PassContext(instruments=[Told("a"), Told("b", "enter"), Told("c")]):
        raise AssertionError("the context is not entered")
except tvm.error.TVMError as error:
    assert "b will not" in str(error)
assert order == ["a in", "b in", "a out"]
current = tvm.transform.PassContext.current()
current.override_instruments([Told("d")])
current.override_instruments(None)
assert order[3:] == ["d in", "d out"] and not current.instruments

with tvm.transform.PassContext(opt_level=3):
    lib = relay.build(mod, target="llvm")

model = graph_executor.GraphModule(lib["default"](tvm.cpu()))
data, weights = np.random.rand(1, 4, 10, 10).astype("float32"), np.random.rand(8, 4, 3, 3).astype("float32")
model.run(x=data, w=weights)
windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3), (2, 3))
want = 2 * np.maximum(2 * np.einsum("nchwyx,ocyx->nohw", windows, weights), 0)
tvm.testing.assert_allclose(model.get_output(0).numpy(), want, rtol=1e-4)
