import tvm
from tvm import tir
from tvm.runtime import _ffi_node_api, object_path
from tvm.runtime.object_path import ArrayIndexPath, AttributeAccessPath, MissingArrayElementPath, ObjectPath, RootPath

x = tir.Var("x", "int32")
one, two = tir.Evaluate(x + 1), tir.Evaluate(x + 2)
left, right = tvm.ir.get_first_structural_mismatch(tir.SeqStmt([one, one]), tir.SeqStmt([one, two]))
assert str(left) == "<root>.seq[1].value.b.value" and left == right
kinds = [type(left.get_prefix(n)) for n in range(1, len(left) + 1)]
assert kinds == [
    RootPath,
    AttributeAccessPath,
    ArrayIndexPath,
    AttributeAccessPath,
    AttributeAccessPath,
    AttributeAccessPath,
]
longer, _ = tvm.ir.get_first_structural_mismatch(tir.SeqStmt([one, one, one]), tir.SeqStmt([one, one]))
assert isinstance(longer, ArrayIndexPath) and isinstance(_, MissingArrayElementPath)
path = ObjectPath.root().attr("body").map_value("key").missing_map_entry()
assert isinstance(path.parent, object_path.MapValuePath) and isinstance(path, object_path.MissingMapEntryPath)
assert ObjectPath.root().attr("body").is_prefix_of(path) and path != path.parent and len(path) == 4
assert ObjectPath.root().attr("a") != ObjectPath.root().map_value("a")

assert _ffi_node_api.AsRepr(x) == repr(x) and _ffi_node_api.NodeGetAttr(x, "name") == "x"
names = _ffi_node_api.NodeListAttrNames(one)
assert "value" in [names(k) for k in range(names(-1))]
assert tvm.ir.structural_equal(_ffi_node_api.LoadJSON(_ffi_node_api.SaveJSON(one)), one, map_free_vars=True)
