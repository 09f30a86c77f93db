import tvm
from tvm import relay
from tvm.script import tir as T


@T.prim_func
def f(A: T.Buffer((4,), "float32")):
    A[0] = 1.0


g = f.with_attr("number", 3).with_attr({"name": "x", "flag": True})
assert g.attrs["number"] == 3 and g.attrs["name"] == "x" and g.attrs["flag"]
assert "number" not in f.attrs and "number" not in g.without_attr("number").attrs
mod = tvm.IRModule({"main": f}, attrs={"runtime": "cpp"})
assert mod.attrs["runtime"] == "cpp" and mod.get_attr("runtime") == "cpp"
mod = mod.with_attr("other", 1)
assert mod.get_attr("other") == 1 and mod.get_attr("none") is None
assert "main" in mod and mod["main"].same_as(f)
gv = mod.get_global_var("main")
assert gv.name_hint == "main" and mod[gv].same_as(f)
both = tvm.IRModule({"main": f, "relay_main": relay.Function([], relay.const(1))})
assert sorted(v.name_hint for v in both.get_global_vars()) == ["main", "relay_main"]
assert len(both.functions) == 2
clone = tvm.IRModule(both.functions)
tvm.ir.assert_structural_equal(clone, both)
try:
    mod["nothing"]
except (ValueError, KeyError, tvm.TVMError) as error:
    assert "nothing" in str(error)
else:
    raise AssertionError
assert f.with_attr("a", [1, 2]).attrs["a"][1] == 2
