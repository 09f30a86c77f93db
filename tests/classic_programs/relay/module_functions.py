import tvm
from tvm import relay

mod = tvm.IRModule()
x = relay.var("x", shape=(3,))
helper = relay.GlobalVar("helper")
mod[helper] = relay.Function([x], relay.nn.relu(x))
y = relay.var("y", shape=(3,))
mod["main"] = relay.Function([y], helper(helper(y)))
assert sorted(g.name_hint for g in mod.get_global_vars()) == ["helper", "main"]
assert mod.get_global_var("helper") == helper
inlined = relay.transform.Inline()(
    relay.transform.InferType()(
        tvm.IRModule(
            {
                helper: mod[helper].with_attr("Inline", tvm.tir.IntImm("int32", 1)),
                mod.get_global_var("main"): mod["main"],
            }
        )
    )
)
assert "@helper(" not in inlined["main"].astext()
mod.update_func(helper, relay.Function([x], relay.tanh(x)))
assert "tanh" in mod.astext()
other = tvm.IRModule.from_expr(relay.Function([x], x))
other.update(mod)
assert "helper" in [g.name_hint for g in other.get_global_vars()]
del_main = tvm.IRModule({g: f for g, f in mod.functions.items() if g.name_hint != "main"})
assert len(del_main.functions) == 1
removed = relay.transform.RemoveUnusedFunctions()(
    tvm.IRModule({**dict(mod.functions.items()), relay.GlobalVar("unused"): relay.Function([], relay.const(1))})
)
assert "unused" not in [g.name_hint for g in removed.get_global_vars()]
