"""What from_onnx is told besides the model: how products are written, and where the model goes with names for its nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tilewright as tvm
from tilewright import relay
from tilewright.relay.frontend import from_onnx
from tilewright.relay.functor import post_order
from tilewright.support.errors import TVMError


def unnamed(inside: bool = False) -> Any:
    """y = relu(a @ b) of batches, one node of it with a name that another could get; inside: the product in both branches of an If."""
    a, b, y = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("a", [2, 3, 4]), ("b", [2, 4, 5]), ("y", [2, 3, 5]))
    )
    product = helper.make_node("MatMul", ["a", "b"], ["p"])
    inputs = [a, b]
    if inside:
        p = helper.make_tensor_value_info("p", TensorProto.FLOAT, [2, 3, 5])
        branches = {k: helper.make_graph([product], k, [], [p]) for k in ("then_branch", "else_branch")}
        inputs.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
        product = helper.make_node("If", ["c"], ["p"], **branches)
    nodes = [product, helper.make_node("Relu", ["p"], ["q"], name="Relu_0"), helper.make_node("Relu", ["q"], ["y"])]
    graph = helper.make_graph(nodes, "g", inputs, [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def calls(mod: tvm.IRModule, key: str) -> list[relay.Call]:
    return [e for e in post_order(mod["main"]) if isinstance(e, relay.Call) and e.op == relay.op.get(key)]


def test_products_of_batches_with_the_second_factor_transposed() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3, 4)).astype("float32"), rng.standard_normal((2, 4, 5)).astype("float32")
    for wanted in (True, False):
        mod, _ = from_onnx(unnamed(), convert_config={"use_nt_batch_matmul": wanted})
        (product,) = calls(mod, "nn.batch_matmul")
        assert bool(product.attrs.transpose_b) == wanted and len(calls(mod, "transpose")) == wanted
        got = relay.create_executor("debug", mod).evaluate()(a, b).numpy()
        np.testing.assert_allclose(got, np.maximum(a @ b, 0), rtol=1e-5, atol=1e-5)


def test_options_that_are_none() -> None:
    with pytest.raises(TVMError) as caught:
        from_onnx(unnamed(), convert_config={"use_dense": True})
    assert str(caught.value) == "convert_config has the entry 'use_dense'; known: use_nt_batch_matmul"


@pytest.mark.parametrize("kind", ["model", "path", "bytes"])
def test_nodes_without_names_get_some(tmp_path: Path, kind: str) -> None:
    model = unnamed()
    onnx.save(model, str(tmp_path / "m.onnx"))
    given = {"model": model, "path": tmp_path / "m.onnx", "bytes": model.SerializeToString()}[kind]
    place = tmp_path / "new" / "named.onnx"
    mod, _ = from_onnx(given, export_node_renamed_model_path=str(place))
    assert [n.name for n in onnx.load(str(place)).graph.node] == ["MatMul_0", "Relu_0", "Relu_1"]
    assert [n.name for n in model.graph.node] == ["", "Relu_0", ""]
    assert [str(c.span.source_name.name) for c in calls(mod, "nn.relu")] == ["Relu_0", "Relu_1"]


def test_nodes_inside_of_others_get_names_and_a_folder_takes_the_model(tmp_path: Path) -> None:
    from_onnx(unnamed(inside=True), export_node_renamed_model_path=str(tmp_path / "models"))
    (path,) = (tmp_path / "models").glob("tvm_exported_model_*.onnx")
    nodes = onnx.load(str(path)).graph.node
    inner = [a.g.node[0].name for a in nodes[0].attribute]
    assert nodes[0].name == "If_0" and sorted(inner) == ["MatMul_0", "MatMul_1"]


def test_what_is_no_model_is_told_first(tmp_path: Path) -> None:
    with pytest.raises(TVMError, match="there is no such file"):
        from_onnx(tmp_path / "none.onnx", export_node_renamed_model_path=str(tmp_path / "named.onnx"))
    assert not (tmp_path / "named.onnx").exists()
