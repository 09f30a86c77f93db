"""What programs that import models use besides the importers."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.frontend.tflite.ops.writer import Writer
from tilewright import relay
from tilewright.relay.testing import tf, tflite


def test_names_of_classes(tmp_path: Path) -> None:
    labels, names = tmp_path / "map.pbtxt", tmp_path / "names.txt"
    labels.write_text('# classes\nentry {\n  target_class: 449\n  target_class_string: "n01440764"\n}\n')
    names.write_text("n00004475\torganism, being\nn01440764\ttench, Tinca tinca\n")
    lookup = tf.NodeLookup(label_lookup_path=labels, uid_lookup_path=str(names))
    assert [lookup.id_to_string(i) for i in (449, 3)] == ["tench, Tinca tinca", ""]
    names.write_text("n00004475\torganism, being\n")
    with pytest.raises(ValueError, match="has no name for n01440764"):
        tf.NodeLookup(labels, names)


def test_results_of_the_machine_as_lists() -> None:
    x = relay.var("x", shape=(2,))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.Tuple([x, relay.Tuple([relay.abs(x), x])])))
    data = np.float32([1, -2])
    result = relay.create_executor("vm", mod).evaluate()(data)
    np.testing.assert_array_equal(tf.vmobj_to_list(result), [data, np.abs(data), data])
    assert tf.convert_to_list("softmax") == ["softmax"] and tf.convert_to_list(["a", "b"]) == ["a", "b"]
    with pytest.raises(RuntimeError, match="Unknown object type: int"):
        tf.vmobj_to_list(3)


def test_graphs_of_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = SimpleNamespace(node=[], SerializeToString=lambda: b"")
    assert tf.ProcessGraphDefParam(graph) is graph
    with pytest.raises(TypeError, match="graph_def must be a GraphDef proto, but is str"):
        tf.ProcessGraphDefParam("graph.pb")
    package, compat, v1 = (ModuleType(f"tensorflow{part}") for part in ("", ".compat", ".compat.v1"))
    v1.graph_util = SimpleNamespace(convert_variables_to_constants=lambda *args: args)  # type: ignore[attr-defined]
    compat.v1 = v1  # type: ignore[attr-defined]
    for made in (package, compat, v1):
        monkeypatch.setitem(sys.modules, made.__name__, made)
    session = SimpleNamespace(graph=SimpleNamespace(as_graph_def=lambda add_shapes: ("graph", add_shapes)))
    assert tf.AddShapesToGraphDef(session, "softmax") == (session, ("graph", True), ["softmax"])


def test_a_model_beside_its_reference(tmp_path: Path) -> None:
    writer: Any = Writer(1)
    g = writer.main
    x, y = g.input("float32", (2, 3), name="x"), g.input("float32", (2, 3), name="y")
    (z,) = g.op("ADD", [x, y], [("float32", (2, 3))], {}, "AddOptions")
    path = tmp_path / "model.tflite"
    path.write_bytes(writer.finish([z]))
    model = tflite.TFLiteModel("float32")
    with pytest.raises(tvm.TVMError, match="TFLiteModel has no model yet; call load_from_file"):
        model.convert_to_relay()
    model.load_from_file(path, [(2, 3), (2, 3)])
    mod, params = model.convert_to_relay()
    inputs, wanted = model.generate_reference_data()
    executor = relay.create_executor("debug", mod, params=params)
    found = executor.evaluate()(*[inputs[p.name_hint] for p in mod["main"].params])
    np.testing.assert_allclose(found.numpy(), wanted[0], rtol=1e-6)
