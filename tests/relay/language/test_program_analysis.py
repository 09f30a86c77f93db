"""What programs consist of: layers, products, fused functions, calls of functions, values for calibration."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import relay
from tilewright.ir import IRModule
from tilewright.relay import analysis, transform
from tilewright.support.errors import TVMError

HEAD = '#[version = "0.0.5"]\n'


def values(*shape: int) -> relay.Constant:
    return relay.const(np.random.default_rng(0).standard_normal(shape).astype("float32"))


def network() -> IRModule:
    x = relay.var("x", shape=(2, 4, 8, 8))
    y = relay.nn.conv2d(x, values(6, 4, 3, 3), padding=(1, 1))
    y = relay.nn.relu(y) + relay.nn.conv2d(x, values(6, 4, 1, 1))
    y = relay.nn.conv2d(y, values(6, 1, 3, 3), groups=6)
    y = relay.nn.dense(relay.nn.batch_flatten(y), values(5, 216))
    return transform.InferType()(IRModule.from_expr(y))


def test_layers_on_the_longest_way() -> None:
    mod = network()
    assert analysis.count_layers(mod, ["nn.conv2d"]) == 2
    assert analysis.count_layers(mod["main"], ["nn.conv2d", "nn.dense"]) == 3
    with pytest.raises(ValueError, match="count_layers takes the names of the operators"):
        analysis.count_layers(mod, [])


def test_multiply_accumulates() -> None:
    first, side, depthwise, dense = 2 * 6 * 64 * 4 * 9, 2 * 6 * 64 * 4, 2 * 6 * 36 * 9, 2 * 5 * 216
    assert analysis.get_total_mac_number(network()) == first + side + depthwise + dense
    x = relay.var("x", shape=(3, 4, 5))
    product = relay.nn.batch_matmul(x, relay.var("y", shape=(3, 7, 5)))
    assert analysis.get_total_mac_number(transform.InferType()(IRModule.from_expr(product))) == 3 * 4 * 7 * 5
    blocked = transform.AlterOpLayout()(transform.SimplifyInference()(network()))
    assert analysis.get_total_mac_number(blocked) == analysis.get_total_mac_number(network())
    image = relay.var("i", shape=(1, 3, 4, 4))
    up = relay.nn.conv2d_transpose(image, values(3, 2, 2, 2), channels=2, kernel_size=(2, 2), strides=(2, 2))
    assert analysis.get_total_mac_number(transform.InferType()(IRModule.from_expr(up))) == 48 * 2 * 4
    open_ = relay.nn.dense(relay.var("x", shape=(relay.Any(), 4)), values(5, 4))
    with pytest.raises(TVMError, match="counts programs of fixed shapes, but nn.dense has the type"):
        analysis.get_total_mac_number(transform.InferType()(IRModule.from_expr(open_)))


def test_fused_functions() -> None:
    x = relay.var("x", shape=(4,))
    fused = transform.FuseOps()(IRModule.from_expr(relay.sort(relay.sort(relay.tanh(relay.exp(x))))))
    found = analysis.extract_fused_functions(fused)
    assert len(found) == 2
    assert all([f.is_primitive for f in found.values()])


def test_intermediate_results() -> None:
    x, y = relay.var("x", shape=(4,)), relay.var("y", shape=(4,))
    mod = IRModule.from_expr(relay.Function([x, y], relay.tanh(relay.exp(x)) + y))
    part = analysis.extract_intermdeiate_expr(mod, 1)["main"]
    assert [p.name_hint for p in part.params] == ["x"]
    assert part.body.op.name == "tanh"
    with pytest.raises(ValueError, match="main has 3 calls, but the number 3 was asked for"):
        analysis.extract_intermdeiate_expr(mod, 3)


def test_transposed_weights_are_found() -> None:
    x, w, v = relay.var("x", shape=(2, 8)), relay.var("w", shape=(8, 6)), relay.var("v", shape=(3, 6))
    y = relay.nn.dense(relay.nn.dense(x, relay.transpose(w, [1, 0])), v)
    assert analysis.search_fc_transpose(y) == ["w"]


CALLS = (
    HEAD + "def @double(%x: Tensor[(3,), float32]) -> Tensor[(3,), float32] { add(%x, %x) }\n"
    "def @loop(%x: Tensor[(3,), float32]) -> Tensor[(3,), float32] { @loop(@double(%x)) }\n"
    "def @main(%x: Tensor[(3,), float32]) { add(@double(%x), @double(tanh(%x))) }\n"
)


def test_who_calls_whom() -> None:
    mod = relay.fromtext(CALLS)
    assert isinstance(mod, IRModule)
    graph = analysis.CallGraph(mod)
    assert len(graph) == 3 and "double" in graph and "other" not in graph
    assert {g.name_hint: n for g, n in graph.callees("main").items()} == {"double": 2}
    assert (graph.ref_count("double"), graph.ref_count("main")) == (3, 1)
    assert graph.global_call_count("loop") == 2
    assert graph.is_recursive("loop") and not graph.is_recursive("main")
    assert "call graph node: main, referred to 1 times\n  calls double, 2 times" in str(graph)
    with pytest.raises(TVMError, match="the call graph has no function 'other'; it has double, loop, main"):
        graph.callees("other")


def test_values_for_calibration() -> None:
    mod = relay.fromtext(CALLS.replace("@loop(@double(%x))", "@double(%x)"))
    assert isinstance(mod, IRModule)
    x = np.array([1, 2, 3], "float32")
    data = analysis.get_calibration_data(transform.InferType()(mod), {"x": x})
    (found,) = data.values()
    np.testing.assert_allclose(np.stack([v.numpy() for v in found["inputs"]]), np.stack([x, np.tanh(x)]), rtol=1e-6)
    np.testing.assert_allclose(
        np.stack([v.numpy() for v in found["outputs"]]), 2 * np.stack([x, np.tanh(x)]), rtol=1e-6
    )


def test_kinds() -> None:
    mod = relay.fromtext(
        HEAD + "type List[A] { Cons(A, List[A]), Nil }\ntype Unit { One }\ndef @main(%x: float32) { %x }\n"
    )
    assert isinstance(mod, IRModule)
    of, unit, number = mod.get_global_type_var("List"), mod.get_global_type_var("Unit"), relay.TensorType((2,))
    shape = relay.TypeVar("s", relay.TypeKind.ShapeVar)
    kinds = relay.TypeKind
    assert analysis.check_kind(number) == kinds.Type
    assert analysis.check_kind(shape) == kinds.ShapeVar
    assert analysis.check_kind(relay.TypeCall(of, [number]), mod) == kinds.Type
    assert (
        analysis.check_kind(relay.FuncType([number, unit], relay.TupleType([relay.RefType(number)])), mod) == kinds.Type
    )
    assert analysis.check_kind(mod[of], mod) == kinds.TypeData
    with pytest.raises(TVMError, match="is not well-kinded: List takes 1 types, but is given 2"):
        analysis.check_kind(relay.TypeCall(of, [number, number]), mod)
    with pytest.raises(TVMError, match="is not well-kinded: List takes 1 types, but is given 0"):
        analysis.check_kind(relay.TupleType([of]), mod)
    with pytest.raises(TVMError, match="s in it is not a type of values"):
        analysis.check_kind(relay.TupleType([shape]))
