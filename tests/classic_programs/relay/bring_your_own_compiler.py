import tvm
from tvm import relay

x = relay.var("x", shape=(8, 8))
y = relay.var("y", shape=(8, 8))
z = relay.nn.relu(relay.add(relay.multiply(x, y), y))


@tvm.ir.register_op_attr("multiply", "target.classic_acc")
def _multiply(expr):
    return True


@tvm.ir.register_op_attr("add", "target.classic_acc")
def _add(expr):
    return True


mod = tvm.IRModule.from_expr(relay.Function([x, y], z))
mod = relay.transform.AnnotateTarget("classic_acc")(mod)
assert "compiler_begin" in mod.astext()
mod = relay.transform.MergeCompilerRegions()(mod)
mod = relay.transform.PartitionGraph()(mod)
names = [g.name_hint for g in mod.get_global_vars()]
(region,) = [n for n in names if n != "main"]
assert region == "tvmgen_default_classic_acc_main_0", region
assert mod[region].attrs["Compiler"] == "classic_acc"
assert mod[region].attrs["global_symbol"] == region
assert mod[region].attrs["Inline"] == 1
assert relay.analysis.list_op_freqs(mod)["nn.relu"] == 1
