import tvm
from tvm import relay

mod = tvm.IRModule()
a = relay.TypeVar("a")
box = relay.GlobalTypeVar("Box")
full = relay.Constructor("Full", [a], box)
empty = relay.Constructor("Empty", [], box)
mod[box] = relay.TypeData(box, [a], [full, empty])
b = relay.var("b", relay.TypeCall(box, [relay.scalar_type("float32")]))
v = relay.Var("v")
body = relay.Match(
    b,
    [
        relay.Clause(relay.PatternConstructor(full, [relay.PatternVar(v)]), relay.add(v, relay.const(1.0))),
        relay.Clause(relay.PatternConstructor(empty), relay.const(-1.0)),
    ],
)
open_box = relay.GlobalVar("open_box")
mod[open_box] = relay.Function([b], body)
mod["main"] = relay.Function([], relay.Tuple([open_box(full(relay.const(2.0))), open_box(empty())]))
mod = relay.transform.InferType()(mod)
got = relay.create_executor("debug", mod=mod).evaluate()()
assert [float(v.numpy()) for v in got] == [3.0, -1.0]
text = mod.astext()
assert "type Box[a]" in text or "type Box[A]" in text
assert "match (%b)" in text
