import tvm
from tvm import relay
from tvm.relay import analysis

t = relay.TypeVar("t")
x = relay.var("x", shape=(2,))
y = relay.var("y", shape=(2,))
f = relay.Function([x], relay.add(x, y))
assert [v.name_hint for v in analysis.free_vars(f)] == ["y"]
assert {v.name_hint for v in analysis.all_vars(f)} == {"x", "y"}
assert [v.name_hint for v in analysis.bound_vars(f)] == ["x"]
assert analysis.well_formed(f)
assert not analysis.well_formed(relay.Let(x, relay.const(1.0), relay.Let(x, relay.const(2.0), x)))
assert analysis.check_constant(relay.const(1)) and not analysis.check_constant(x)
mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, y], relay.add(x, y))))
assert analysis.list_op_freqs(mod) == {"add": 1}
dense = relay.nn.dense(relay.var("d", shape=(4, 8)), relay.var("w", shape=(16, 8)))
macs = relay.transform.InferType()(tvm.IRModule.from_expr(dense))
assert analysis.get_total_mac_number(macs["main"]) == 4 * 8 * 16
Feature = analysis.Feature
assert Feature.fLet not in analysis.detect_feature(mod["main"]) and Feature.fFunction in analysis.detect_feature(
    mod["main"]
)
assert analysis.check_basic_block_normal_form(mod["main"])
counted = {}
analysis.post_order_visit(mod["main"], lambda e: counted.setdefault(type(e).__name__, []).append(e))
assert sorted(counted) == ["Call", "Function", "Op", "Var"] and len(counted["Var"]) == 2
