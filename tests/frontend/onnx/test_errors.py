"""What is said of models that cannot be imported: the whole text, for every kind of fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright import relay
from tilewright.relay.frontend.onnx import from_onnx
from tilewright.support.errors import DiagnosticError, ModelError, OpNotImplemented, TVMError


def model(
    nodes: list[Any],
    inputs: dict[str, list[Any]],
    outputs: list[str],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 17,
) -> Any:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(k, TensorProto.FLOAT, v) for k, v in inputs.items()],
        [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs],
        [numpy_helper.from_array(v, k) for k, v in (weights or {}).items()],
    )
    domains = sorted({n.domain for n in nodes} - {""})
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset), *[helper.make_opsetid(d, 1) for d in domains]]
    )


def relu(**kw: Any) -> Any:
    return model([helper.make_node("Relu", ["x"], ["y"], name="act")], {"x": ["batch", 3]}, ["y"], **kw)


def message(error: type[Exception], *args: Any, **kw: Any) -> str:
    with pytest.raises(error) as info:
        from_onnx(*args, **kw)
    return str(info.value)


def test_all_unsupported_operators_at_once() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("NoSuchSuppression", ["a", "a"], ["b"], name="nms"),
        helper.make_node("FusedMatPow", ["b", "b"], ["c"], name="mm", domain="com.microsoft"),
        helper.make_node("Dett", ["c"], ["d"], name="det1"),
        helper.make_node("Dett", ["c"], ["y"], name="det2"),
    ]
    assert message(OpNotImplemented, model(nodes, {"x": [1, 3]}, ["y"])).splitlines() == [
        "model 'g' (opset 17): 3 things are not supported",
        "  Dett (2 nodes: 'det1', 'det2'); nearest supported: Det",
        "  NoSuchSuppression (1 node: 'nms'); nearest supported: NonMaxSuppression",
        "  com.microsoft::FusedMatPow (1 node: 'mm'); nearest supported: Pow;"
        " of ONNX Runtime's own operators docs/onnx.md names those that are imported; its optimizer writes them: give the model as it was"
        " before that",
    ]


def test_operators_and_attributes_in_one_message() -> None:
    nodes = [
        helper.make_node("GroupNorm", ["x"], ["a"], name="gn"),
        helper.make_node("Pad", ["x", "pads"], ["b"], name="p", mode="mirror"),
        helper.make_node("Add", ["a", "b"], ["y"], name="after"),
        helper.make_node("MatMul", ["x", "x"], ["z"], name="wrong"),
    ]
    found = message(OpNotImplemented, model(nodes, {"x": [1, 3, 8, 9]}, ["y"], {"pads": np.ones(8, np.int64)}))
    assert found.splitlines() == [
        "model 'g' (opset 17): 2 things are not supported",
        "  GroupNorm (1 node: 'gn'); nearest supported: GroupNormalization (from opset 18)",
        "  Pad 'p': its attribute mode is 'mirror'; supported: constant, edge, reflect, wrap",
    ]


def test_unsupported_attributes_are_collected() -> None:
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["a"], name="p1", mode="mirror"),
        helper.make_node("Pad", ["x", "pads"], ["b"], name="p2", mode="periodic"),
        helper.make_node("Add", ["a", "b"], ["y"], name="after"),
    ]
    found = message(OpNotImplemented, model(nodes, {"x": [1, 3, 8, 8]}, ["y"], {"pads": np.ones(8, np.int64)}))
    assert found.splitlines() == [
        "model 'g' (opset 17): 2 things are not supported",
        "  Pad 'p1': its attribute mode is 'mirror'; supported: constant, edge, reflect, wrap",
        "  Pad 'p2': its attribute mode is 'periodic'; supported: constant, edge, reflect, wrap",
    ]


def test_what_must_be_known() -> None:
    """The remedy is one that was not followed yet: where all shapes are pinned it is the values that are missing."""
    nodes = [helper.make_node("Squeeze", ["x"], ["y"], name="t")]
    graph = model(nodes, {"x": [1, "h", 6]}, ["y"])
    asked = (
        "model 'g': Squeeze 't': axis {} of its input {} must be known at import, since the number of its result's axes depends on whether"
        " it is 1. Name the axes that go, or declare how many axes the output has. "
    )
    assert message(OpNotImplemented, graph) == (
        asked.format(1, "(1, h, 6)") + "Pin the dynamic dimensions of 'x' (1, h, 6): shape={name: [...]}"
    )
    nodes = [helper.make_node("Expand", ["x", "s"], ["wide"]), helper.make_node("Squeeze", ["wide"], ["y"], name="t")]
    graph = model(nodes, {"x": [1, 4]}, ["y"])
    graph.graph.input.append(helper.make_tensor_value_info("s", TensorProto.INT64, [2]))
    assert message(OpNotImplemented, graph) == (
        asked.format(0, "(?, ?)") + "It depends on the elements of 's': put a constant in place of that input"
    )


def test_run_time_shape_ahead_of_time() -> None:
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"], name="r")]
    graph = model(nodes, {"x": [1, 4]}, ["y"])
    graph.graph.input.append(helper.make_tensor_value_info("s", TensorProto.INT64, [2]))
    mod, params = relay.frontend.from_onnx(graph)
    with pytest.raises(TVMError) as caught:
        relay.build(mod, "llvm", params=params)
    assert str(caught.value) == (
        "dyn.reshape has no kernel of its own, since the values of newshape decide its shape. Make them constants or shapes of inputs,"
        " so that relay.transform.DynamicToStatic() finds them, or compile for the virtual machine (relay.vm.compile,"
        ' create_executor("vm")), which reads them when it runs'
    )


def test_numbers_that_a_run_finds_out_ahead_of_time() -> None:
    graph = model([helper.make_node("NonZero", ["x"], ["y"])], {"x": [2, 3]}, ["y"])
    graph.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    mod, params = relay.frontend.from_onnx(graph)
    with pytest.raises(TVMError) as caught:
        relay.build(mod, "llvm", params=params)
    assert str(caught.value) == (
        "dyn.prefix has no kernel of its own: how many elements its result has is found out when the program runs (argwhere, unique,"
        " boxes that are kept). relay.build makes programs of fixed sizes; compile for the virtual machine instead: relay.vm.compile, or"
        ' create_executor("vm")'
    )


def test_newer_operator_in_an_older_model() -> None:
    nodes = [helper.make_node("DFT", ["x"], ["y"], name="dft")]
    found = message(OpNotImplemented, model(nodes, {"x": [1, 4]}, ["y"], opset=13))
    assert found.splitlines()[1] == "  DFT (1 node: 'dft'); supported from opset 17, the model uses 13"


def test_opsets_outside_the_range() -> None:
    assert message(OpNotImplemented, relu(opset=99)) == (
        "model 'g': the model uses opset 99; opsets 1 to 28 are supported. Convert it: onnx.version_converter.convert_version(model, 17)"
    )


def test_files_that_are_no_models(tmp_path: Path) -> None:
    good = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [1, 64]}, ["y"], {"w": np.ones((64, 64), np.float32)}
    )
    data = good.SerializeToString()
    path = tmp_path / "m.onnx"
    assert message(ModelError, str(path)) == f"{path}: there is no such file. Give the path of an .onnx file"
    for part in (data[: len(data) // 2], data[:-100], b"\x00" * 50, bytes(range(255, 0, -1)), b"", b"hello"):
        path.write_bytes(part)
        found = message(ModelError, path)
        assert found.startswith(f"{path}: this is no ONNX model")
        assert str(len(part)) in found
    with pytest.raises(TypeError, match="from_onnx takes an onnx.ModelProto, a path or bytes, but was given int"):
        from_onnx(3)


def test_random_corruption_never_escapes() -> None:
    """Any byte may be wrong: a clear error or an import, never anything else."""
    data = bytearray(relu(weights={"w": np.ones((4, 4), np.float32)}).SerializeToString())
    rng = np.random.default_rng(0)
    for _ in range(300):
        broken = bytearray(data)
        for at in rng.integers(0, len(data), 3):
            broken[at] = int(rng.integers(0, 256))
        try:
            from_onnx(bytes(broken))
        except (ModelError, OpNotImplemented, DiagnosticError) as error:
            assert str(error)


def test_wrong_shape_names_and_extents() -> None:
    images = model([helper.make_node("Relu", ["images"], ["y"])], {"images": ["batch", 3]}, ["y"])
    assert message(ModelError, images, shape={"image": [1, 3]}) == (
        "model 'g': shape names 'image', but the model's inputs are 'images' (batch, 3). Did you mean 'images'?"
    )
    assert message(ModelError, relu(), shape={"x": [1, 4]}) == (
        "model 'g': axis 1 of the input 'x' is declared 3, but shape gives it 4. The declared shape is (batch, 3)"
    )
    assert message(ModelError, relu(), shape={"x": [1, 3, 3]}) == (
        "model 'g': the input 'x' has 2 axes (batch, 3), but shape gives it 3: (1, 3, 3)"
    )
    assert "cannot have the extent -3" in message(ModelError, relu(), shape={"x": [-3, 3]})


def test_unknown_tensor() -> None:
    nodes = [helper.make_node("Add", ["x", "nowhere"], ["y"], name="sum")]
    assert message(ModelError, model(nodes, {"x": [1]}, ["y"])) == (
        "model 'g': Add 'sum' reads the tensor 'nowhere', which no node before it makes."
        " The graph is incomplete, or a circle; onnx.checker.check_model shows where"
    )


def test_an_input_that_no_memory_holds() -> None:
    found = message(ModelError, model([helper.make_node("Abs", ["x"], ["y"])], {"x": [2, 0, 2**63 - 1]}, ["y"]))
    assert found == (
        "model 'g': the input 'x': the dimensions of a tensor must have a product below 2^59,"
        f" but they are (2, 0, {2**63 - 1})"
    )


def test_type_error_names_the_node() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"], name="mm"), helper.make_node("Relu", ["a"], ["y"])]
    found = message(DiagnosticError, model(nodes, {"x": [1, 5]}, ["y"], {"w": np.ones((4, 4), np.float32)}))
    assert "mm" in found
    assert "the inner dimensions must be equal, but they are 5 and 4" in found


def test_external_data(tmp_path: Path) -> None:
    weights = np.arange(4096, dtype=np.float32).reshape(64, 64)
    whole = model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": [1, 64]}, ["y"], {"w": weights})
    path = tmp_path / "m.onnx"
    onnx.save(whole, str(path), save_as_external_data=True, location="m.bin", size_threshold=16)
    body = from_onnx(path)[0]["main"].body
    constant = body.args[1].value
    np.testing.assert_array_equal(constant, weights)
    # Programs that were imported keep the file that they have mapped.
    (tmp_path / "m.bin").unlink()
    (tmp_path / "m.bin").write_bytes(b"\x00" * 100)
    assert message(ModelError, path) == (
        f"{path}: the values of 'w' need bytes 0 to 16384 of 'm.bin', which has 100. The file is truncated; copy it again"
    )
    (tmp_path / "m.bin").unlink()
    assert message(ModelError, path) == (
        f"{path}: the values of 'w' lie in 'm.bin', which is not in {tmp_path.resolve()}."
        " Copy that file beside the model, or pass the model's path rather than its ModelProto"
    )


def test_external_data_stays_in_the_folder(tmp_path: Path) -> None:
    whole = relu(weights={"w": np.ones(4, np.float32)})
    t = whole.graph.initializer[0]
    t.ClearField("raw_data")
    t.data_location = TensorProto.EXTERNAL
    t.external_data.add(key="location", value="../../secret")
    path = tmp_path / "m.onnx"
    path.write_bytes(whole.SerializeToString())
    assert "points to the file '../../secret' outside the model's folder, which is not read" in message(
        ModelError, path
    )


@pytest.mark.parametrize("value", [2, -1])
def test_flags_that_are_neither(value: int) -> None:
    """Readers of Attention take them differently."""
    nodes = [helper.make_node("Attention", ["q", "q", "q"], ["y"], name="a", is_causal=value)]
    text = message(OpNotImplemented, model(nodes, {"q": [1, 2, 3, 4]}, ["y"], opset=24))
    assert text.splitlines()[1] == f"  Attention 'a': its attribute is_causal is {value}; supported: 0, 1"


def test_layouts_of_one_machine() -> None:
    nodes = [helper.make_node("Conv", ["x", "x"], ["y"], name="c", domain="com.microsoft.nchwc")]
    text = message(OpNotImplemented, model(nodes, {"x": [1, 8, 3, 3]}, ["y"]))
    assert "com.microsoft.nchwc::Conv (1 node: 'c')" in text
    assert text.endswith(
        "its weights are laid out for one machine: let ONNX Runtime save the model at ORT_ENABLE_EXTENDED"
    )


def test_a_missing_operator_inside_a_branch_is_told_once() -> None:
    inner = [helper.make_node("Mystery", ["x"], ["z"], name="inner")]
    body = helper.make_graph(inner, "then", [], [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)])
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["s"], keepdims=0),
        helper.make_node("Cast", ["s"], ["c"], to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["a"], name="if", then_branch=body, else_branch=body),
        helper.make_node("Loop", ["", "c", "x"], ["y"], name="loop", body=_loop_body()),
    ]
    found = message(OpNotImplemented, model(nodes, {"x": [1, 4]}, ["y"], opset=17)).splitlines()
    assert [line.split(";")[0] for line in found[1:]] == [
        "  Mystery (3 nodes: 'inner', 'inner', 'round')",
    ]


def _loop_body() -> Any:
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Mystery", ["v"], ["w"], name="round"), helper.make_node("Identity", ["on"], ["more"])]
    inputs = [info("k", TensorProto.INT64, []), info("on", TensorProto.BOOL, []), info("v", TensorProto.FLOAT, None)]
    return helper.make_graph(
        nodes, "body", inputs, [info("more", TensorProto.BOOL, []), info("w", TensorProto.FLOAT, None)]
    )


def test_wrong_counts_and_types(tmp_path: Path) -> None:
    few = model([helper.make_node("Add", ["x"], ["y"], name="add")], {"x": [1, 4]}, ["y"])
    assert message(ModelError, few) == "model 'g': Add 'add': it has 1 input, and Add takes 2 in opset 17"
    cast = model([helper.make_node("Cast", ["x"], ["y"], name="cast", to=99)], {"x": [1, 4]}, ["y"])
    assert message(DiagnosticError, cast).endswith("Cast 'cast': the element type 99 is none that ONNX defines")
    kind = model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": [1, 4]}, ["y"], {"w": np.ones(4, np.float32)})
    kind.graph.initializer[0].data_type = 77
    assert "the tensor 'w' has elements of type 77, which ONNX does not define" in message(ModelError, kind)
    assert message(ModelError, tmp_path).endswith("this is a folder. Give the path of an .onnx file")
    lost = model([helper.make_node("Relu", ["x"], ["a"])], {"x": [1, 4]}, ["y"])
    assert "an output of the model reads the tensor 'y', which no node before it makes" in message(ModelError, lost)


def test_attributes_of_functions_have_the_kind_that_onnx_defines() -> None:
    """ONNX writes this loss as a function. It cannot, if the reduction is not a string."""
    given = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 13]>
        agraph (float[3, 5] x, int64[3] y) => (float z) {
            z = SoftmaxCrossEntropyLoss <reduction: int = 1> (x, y)
        }
    """)
    with pytest.raises(ModelError, match="its attribute 'reduction' is of the kind int, and ONNX defines it as string"):
        relay.frontend.from_onnx(given)


WRONG_KINDS = [
    ("Concat", "", {"axis": 1.0}, "axis", "float", "ONNX defines it as int"),
    ("Transpose", "", {"perm": [1.0, 0.0]}, "perm", "floats", "ONNX defines it as ints"),
    ("LeakyRelu", "", {"alpha": 1}, "alpha", "int", "ONNX defines it as float"),
    ("DepthToSpace", "", {"blocksize": 1, "mode": 3}, "mode", "int", "ONNX defines it as string"),
    ("MaxPool", "", {"kernel_shape": 2}, "kernel_shape", "int", "ONNX defines it as ints"),
    (
        "Softmax",
        "",
        {"axis": numpy_helper.from_array(np.ones(2, "float32"))},
        "axis",
        "tensor",
        "ONNX defines it as int",
    ),
    ("Scaler", "ai.onnx.ml", {"scale": 2.0}, "scale", "float", "ONNX defines it as floats"),
    ("QuickGelu", "com.microsoft", {"alpha": "one"}, "alpha", "string", "ONNX Runtime defines it as float"),
]


@pytest.mark.parametrize(("op_type", "domain", "attributes", "name", "found", "wanted"), WRONG_KINDS)
def test_attributes_have_the_kind_that_is_defined(
    op_type: str, domain: str, attributes: dict[str, Any], name: str, found: str, wanted: str
) -> None:
    """Whatever a converter would have made of it."""
    node = helper.make_node(op_type, ["x"], ["y"], name="one", domain=domain, **attributes)
    assert message(ModelError, model([node], {"x": [2, 4]}, ["y"])) == (
        f"model 'g': {op_type} 'one': its attribute {name!r} is of the kind {found}, and {wanted}. The file is damaged, or says a"
        " wrong opset; export the model again"
    )


def test_tables_without_values() -> None:
    node = helper.make_node("LabelEncoder", ["x"], ["y"], name="one", domain="ai.onnx.ml", keys_floats=[1.0])
    given = model([node], {"x": [2]}, ["y"])
    given.opset_import[1].version = 2
    assert (
        "LabelEncoder 'one' is not a valid node of opset 2 (it has none of values_strings, values_int64s,"
        in message(ModelError, given)
    )


def test_one_result_twice_at_one_node() -> None:
    """The second would have been left out in silence."""
    twice = model([helper.make_node("Dropout", ["x"], ["y", "y"], name="act")], {"x": [2]}, ["y"])
    assert message(ModelError, twice) == "model 'g': Dropout 'act' names one of its results twice: 'y', 'y'"


@pytest.mark.parametrize(
    "operator, attributes, text",
    [
        ("Softmax", {"Axis": 0}, "Softmax 'n': its attribute 'Axis' is none that ONNX defines for it in opset 17 (it has axis)."),
        ("Clip", {"min": 0.0}, "Clip 'n': its attribute 'min' is none that ONNX defines for it in opset 17 (it has none)."),
        ("Cast", {}, "Cast 'n': its attribute 'to' is missing"),
        ("Concat", {}, "Concat 'n': its attribute 'axis' is missing"),
        ("MaxPool", {}, "MaxPool 'n': its attribute 'kernel_shape' is missing"),
        ("MaxPool", {"kernel_shape": [2, 0]}, "MaxPool 'n': its attribute kernel_shape is [2, 0]; supported: 2 positive numbers"),
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [0, 1]}, "its attribute strides is [0, 1]; supported: 2 positive numbers"),
    ],
)  # fmt: skip
def test_attributes_that_do_not_belong(operator: str, attributes: dict[str, Any], text: str) -> None:
    node = helper.make_node(operator, ["x", "x"] if operator == "Concat" else ["x"], ["y"], name="n", **attributes)
    assert text in message(TVMError, model([node], {"x": [1, 2, 4, 4]}, ["y"], opset=17))


@pytest.mark.parametrize(
    "operator, inputs, outputs, attributes, text",
    [
        ("Relu", "xx", "y", {}, "Relu 'n': it has 2 inputs, and Relu takes 1 in opset 17"),
        ("Relu", "x", "yz", {}, "Relu 'n': it has 2 outputs, and Relu makes 1 in opset 17"),
        ("Clip", "xxxx", "y", {}, "Clip 'n': it has 4 inputs, and Clip takes at most 3 in opset 17"),
        ("Where", "xxx", "y", {}, "Where 'n': its input 'x' has elements of type float32, and ONNX defines it as bool"),
        ("Gather", "xi", "y", {"axis": 9}, "Gather 'n' is not a valid node of opset 17 (its attribute 'axis' is 9, and its input 'x' has"),
        ("Softmax", "x", "y", {"axis": 9}, "Softmax 'n'"),
        ("Add", "xi", "y", {}, "Add 'n': add, argument 1 (rhs): all arguments must have one dtype"),
        ("Split", "x", "yz", {"axis": 1}, "Split 'n': split, argument 0 (data): the pieces must be equal, but 3 does not divide by 2"),
        ("Split", "xs", "yz", {"axis": 3}, "Split 'n': its parts are [1, 2] long, and axis 3 of its input 4"),
        ("Split", "xs", "y", {"axis": 1}, "Split 'n': it names 1 outputs, and makes 2 parts"),
    ],
)  # fmt: skip
def test_nodes_that_their_operators_do_not_define(
    operator: str, inputs: str, outputs: str, attributes: dict[str, Any], text: str
) -> None:
    node = helper.make_node(operator, [*inputs], [*outputs], name="n", **attributes)
    given = model([node], {"x": [1, 3, 4, 4]}, ["y"], {"s": np.array([1, 2])})
    given.graph.input.append(helper.make_tensor_value_info("i", TensorProto.INT64, [1]))
    assert text in message(TVMError, given)


def test_attributes_for_tools_and_of_tolerant_operators_are_passed_over() -> None:
    """As ONNX and ONNX Runtime do."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], __level=3),
        helper.make_node("LayerNormalization", ["a", "w"], ["y"], level=3),
        helper.make_node("QuickGelu", ["y"], ["z"], domain="com.microsoft", __level=3),
        helper.make_node("Other", ["z"], ["u"], domain="com.others", level=3),
    ]
    relay.frontend.from_onnx(model(nodes[:3], {"x": [2, 3]}, ["z"], {"w": np.ones(3, np.float32)}))
    assert "com.others::Other" in message(TVMError, model(nodes, {"x": [2, 3]}, ["u"], {"w": np.ones(3, np.float32)}))


def test_equal_parts_of_a_dynamic_axis() -> None:
    node = helper.make_node("Split", ["x"], ["y", "z"], axis=1)
    mod, _ = relay.frontend.from_onnx(model([node], {"x": [2, "n"]}, ["y", "z"], opset=13))
    run = relay.create_executor("vm", mod=mod, target="llvm").evaluate()
    assert [r.numpy().tolist() for r in run(np.array([[1, 2, 3, 4]] * 2, "float32"))] == [[[1, 2]] * 2, [[3, 4]] * 2]
    with pytest.raises(ValueError, match="must be equal .split., but they are 5 and 4"):
        run(np.ones((2, 5), "float32"))


def test_a_kernel_that_its_weights_do_not_have() -> None:
    made = model(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="c", kernel_shape=[5, 5])], {"x": [1, 3, 8, 8]}, ["y"]
    )
    made.graph.initializer.append(numpy_helper.from_array(np.zeros((4, 3, 3, 3), np.float32), "w"))
    assert "Conv 'c': its attribute kernel_shape is [5, 5], but its weights have the kernel [3, 3]" in message(
        TVMError, made
    )


@pytest.mark.parametrize("known", [False, True])
def test_an_axis_sliced_twice(known: bool) -> None:
    """Of a constant too, which is sliced at import."""
    values = {"s": [2, 1], "e": [9, 5], "a": [1, -2], "x": np.zeros((2, 7, 3), np.int64)}
    held = [numpy_helper.from_array(np.asarray(v, np.int64), n) for n, v in values.items() if n != "x" or known]
    inputs = [] if known else [helper.make_tensor_value_info("x", TensorProto.INT64, (2, 7, 3))]
    node = helper.make_node("Slice", ["x", "s", "e", "a"], ["y"], "cut")
    result = helper.make_tensor_value_info("y", TensorProto.INT64, None)
    graph = helper.make_graph([node], "g", inputs, [result], held)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    assert "Slice 'cut'" in (text := message(DiagnosticError, proto)) and "of which two are the same" in text


def test_remainders_of_no_kind() -> None:
    node = helper.make_node("Mod", ["x", "x"], ["y"], name="m", fmod=-1)
    text = message(OpNotImplemented, model([node], {"x": [3]}, ["y"]))
    assert "Mod 'm': its attribute fmod is -1; supported: 0, 1" in text


def test_numbers_of_attributes_and_inputs_that_have_no_meaning() -> None:
    """Found among damaged files: each was imported, and gave numbers that no other runtime gives."""
    rnn = helper.make_node("RNN", ["x", "w", "r"], ["y"], name="rnn", hidden_size=2, layout=4)
    weights = {"w": np.zeros((1, 2, 3), "float32"), "r": np.zeros((1, 2, 2), "float32")}
    assert "its attribute layout is 4; supported: 0, 1" in message(
        TVMError, model([rnn], {"x": [1, 1, 3]}, ["y"], weights)
    )
    pool = helper.make_node("MaxPool", ["x"], ["y"], name="pool", kernel_shape=[3, 3], pads=[1, 5, 1, 1])
    assert "its attribute pads is [1, 5, 1, 1]; supported: less than the kernel" in message(
        TVMError, model([pool], {"x": [1, 1, 7, 7]}, ["y"])
    )
    resize = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], name="resize", mode="nearest")
    sizes = {"sizes": np.array([1, 1, 2.5, 2.5])}
    assert "sizes must be of int64, but is of float64" in message(
        ModelError, model([resize], {"x": [1, 1, 7, 7]}, ["y"], sizes)
    )


@pytest.mark.parametrize("loss", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
def test_losses_of_other_reductions(loss: str) -> None:
    body = f'z = {loss} <reduction = "reflect"> (x, y)'
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[3, 5] x, int64[3] y) => (float z) {{ {body} }}'
    proto = onnx.parser.parse_model(text)
    assert "its attribute reduction is 'reflect'; supported: mean, none, sum" in message(TVMError, proto)


def test_attention_with_a_negative_cap() -> None:
    body, kind = "z = Attention <softcap = -0.5> (x, x, x)", "float[2, 3, 4, 8]"
    proto = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 23]> g ({kind} x) => ({kind} z) {{ {body} }}'
    )
    assert "its attribute softcap is -0.5; supported: 0 (none) and positive numbers" in message(TVMError, proto)
