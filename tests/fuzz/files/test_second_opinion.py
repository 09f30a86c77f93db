"""Damaged files that we take: who is right where ONNX Runtime answers differently, and what counts as its failure."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from tests.fuzz.files import mutations
from tests.fuzz.files.mutations import NATIVE, fate, opinion
from tests.fuzz.files.second_opinion import Open, Unknown, judged, of_reference, own, weighed
from tests.fuzz.files.tflite_departures import departure, without_unwritten
from tilewright import IRModule, relay


def resize(mode: str, scales: list[float], **more: Any) -> Any:
    """ONNX Runtime's "align_corners" differs from that of ONNX's own tests if an extent times its scale is not an integer."""
    node = helper.make_node(
        "Resize", ["x", "", "s"], ["y"], mode=mode, coordinate_transformation_mode="align_corners", **more
    )
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [1, 2, 9, 7]), ("y", None))]
    known = [numpy_helper.from_array(np.array(scales, np.float32), "s")]
    return helper.make_graph([node], "g", info[:1], info[1:], known)


def attention() -> Any:
    """What a causal mask hides is minus infinity by ONNX's function, the lowest number in ONNX Runtime."""
    shapes = {"q": [1, 2, 4, 8], "k": [1, 2, 6, 8], "v": [1, 2, 6, 8]}
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    out = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "qk")]
    node = helper.make_node("Attention", ["q", "k", "v"], ["y", "", "", "qk"], is_causal=1, qk_matmul_output_mode=2)
    return helper.make_graph([node], "g", info, out)


@pytest.mark.parametrize(
    ("graph", "opset"),
    [
        (resize("cubic", [1, 1, 0.6, 2.3], cubic_coeff_a=-0.5), 14),
        (resize("cubic", [1, 1, 0.6, 2], cubic_coeff_a=-0.5), 21),
        (resize("nearest", [1, 1, 2.125, 0.6], nearest_mode="floor"), 20),
        (attention(), 23),
    ],
    ids=["resize 14", "resize 21", "nearest 20", "attention"],
)
def test_the_reference_decides(graph: Any, opset: int, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9), str(path))
    text, args, results, made = fate(path, 1)
    assert text == "ran"
    assert opinion(path, args, results, made) == "right"


def test_units_apart() -> None:
    got, want = [np.array([1, 255], "uint8")], [np.array([2, 255], "uint8")]
    assert judged(got, want, 1) == "right"
    assert judged(got, want).startswith("wrong: output 0 uint8[2]: 1 of 2 elements")
    with pytest.raises(Unknown):
        judged(got, [[1]])


def test_what_differences_of_equal_numbers_leave() -> None:
    got = [np.array([6e-8, -1.2e-7], "float32")]
    assert judged(got, [np.array([-6e-8, 0], "float32")]) == "right"
    assert judged(got, [np.array([-6e-8, 2e-6], "float32")]).startswith("wrong: ")


def test_errors_of_the_tests_are_no_opinion() -> None:
    def fails(error: Exception) -> Exception:
        try:
            raise error
        except Exception as caught:
            return caught

    assert own(fails(KeyError("x")))
    assert not own(fails(RuntimeError("of compiled code")))


def test_numbers_that_overflow() -> None:
    """What a huge weight makes infinite hangs on the order of steps; a number lost without one is a finding."""
    x = relay.var("x", shape=(2,))
    got, want = [np.array([0, 1], "float32")], [np.array([np.nan, 1], "float32")]
    for weight in (1e30, 1.0):
        mod = IRModule.from_expr(relay.Function([x], x * relay.const(np.float32(weight))))
        if weight > 1:
            with pytest.raises(Unknown, match="overflow"):
                weighed(mod, got, want)
        else:
            assert weighed(mod, got, want).startswith("wrong")


def test_a_verdict_that_memory_does_not_hold_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge computes the model twice more, in the memory that the file's own run had."""

    def large(*_: Any) -> str:
        raise MemoryError

    monkeypatch.setattr(mutations, "verdict", large)
    assert opinion(tmp_path, [], [], None) == "unchecked (no memory for a verdict)"


def test_old_softmax_has_no_second_opinion(tmp_path: Path) -> None:
    nodes = [helper.make_node("LogSoftmax", ["x"], ["y"])]
    infos = [helper.make_tensor_value_info(n, 1, [2, 3, 4]) for n in "xy"]
    made = helper.make_model(
        helper.make_graph(nodes, "g", infos[:1], infos[1:]), opset_imports=[helper.make_opsetid("", 6)]
    )
    path = tmp_path / "model.onnx"
    onnx.save(made, str(path))
    with pytest.raises(Unknown, match="today's softmax"):
        of_reference(path, {"x": np.zeros((2, 3, 4), "float32")})


def of_text(text: str, **inputs: Any) -> Any:
    """What ONNX's reference makes of a model; Unknown where its answer is not taken."""
    folder = Path(tempfile.mkdtemp())
    onnx.save(parser.parse_model(text), str(folder / "model.onnx"))
    try:
        return of_reference(folder / "model.onnx", {k: np.asarray(v) for k, v in inputs.items()})[0]
    finally:
        shutil.rmtree(folder)


def test_depths_that_are_no_whole_numbers_have_no_second_opinion() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (int64[2] i, float d, float[2] v) => (float[2, n] y) { y = OneHot (i, d, v) }'
    values = {"i": [0, 1], "v": np.array([0, 1], "float32")}
    np.testing.assert_array_equal(of_text(text, d=np.float32(2), **values), np.eye(2))
    with pytest.raises(Unknown, match="rounds a depth up"):
        of_text(text, d=np.float32(2.5), **values)


def test_what_rounds_give_has_a_second_opinion_where_it_is_vectors() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (int64 n, bool c, float[k] x) => (y) {{
        z, y = Loop (n, c, x) <body = b (int64 i, bool a, float[k] v) => (a2, v2, s)
        {{ a2 = Identity (a) v2 = Add (v, v) s = {of} (v) }}> }}"""
    given = {"n": np.int64(2), "c": np.bool_(True), "x": np.array([1, 2], "float32")}
    np.testing.assert_array_equal(of_text(text.format(of="Identity"), **given), [[1, 2], [2, 4]])
    with pytest.raises(Unknown, match="rows"):
        of_text(text.format(of="ReduceSum <keepdims = 0>"), **given)


def test_the_only_row_has_no_second_opinion_where_filters_are_wide() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[n] x, int64[1] s) => (y) {{
        y = Resize <mode = "{mode}", coordinate_transformation_mode = "pytorch_half_pixel"> (x, , , s) }}"""
    x = np.arange(5, dtype="float32") + 1
    np.testing.assert_array_equal(of_text(text.format(mode="linear"), x=x, s=np.array([1])), [1])
    assert of_text(text.format(mode="cubic"), x=x, s=np.array([2])).size == 2
    with pytest.raises(Unknown, match="half a row before"):
        of_text(text.format(mode="cubic"), x=x, s=np.array([1]))


def test_floats_that_whole_numbers_do_not_hold_have_no_second_opinion(tmp_path: Path) -> None:
    """Compiled code takes the nearest number, processors the least; other wrong answers beside them are wrong."""
    text = '<ir_version: 8, opset_import: ["" : 15]> g (int64[3] x) => (int64[3] y, int64[3] z) { y = Pow (x, e) z = Add (y, x) }'
    path = tmp_path / "model.onnx"
    made = parser.parse_model(text)
    made.graph.initializer.append(numpy_helper.from_array(np.array([300, 1, 2], "float32"), "e"))
    onnx.save(made, str(path))
    said, _, _, found = fate(path, NATIVE)
    args = [np.array([10, 3, -2])]
    ours, others = np.array([(1 << 63) - 1, 3, 4]), np.array([-(1 << 63), 3, 4])
    assert said == "ran"
    assert opinion(path, args, [others, others + args[0]], found) == "right"
    assert "do not hold" in opinion(path, args, [ours, ours + args[0]], found)
    for wrong in ([ours, ours], [ours, ours + args[0] + np.array([0, 0, 1])]):
        assert opinion(path, args, wrong, found).startswith("wrong")


def test_rows_that_rounding_decides_have_no_second_opinion() -> None:
    """3 / 0.6 is 5 in float32, a little less in float64."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[n] x, float[1] s) => (y) {
        y = Resize <mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric"> (x, , s) }"""
    x = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(of_text(text, x=x, s=np.array([0.5], "float32")), [0, 2, 4, 6])
    np.testing.assert_array_equal(of_text(text, x=x[:4], s=np.array([0.7], "float32")), [0, 1])
    with pytest.raises(Unknown, match="rounding"):
        of_text(text, x=x, s=np.array([0.6], "float32"))


def test_neighbours_that_are_as_near_have_no_second_opinion() -> None:
    """Row 8 of 17 of a tensor of 7 is row 3; the reference computes 3.0000000000000004, and takes row 2 for one of the nearest two."""
    text = """<ir_version: 8, opset_import: ["" : 18]> g (float[n] x, int64[1] s) => (float[m] y) {
        y = Resize <coordinate_transformation_mode = "pytorch_half_pixel", nearest_mode = "round_prefer_ceil"> (x, , , s) }"""
    with pytest.raises(Unknown, match="rounding"):
        of_text(text, x=np.arange(7, dtype="float32"), s=np.array([17]))


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("layout", [0, 1])
def test_sequences_that_end_early_have_no_second_opinion(op: str, gates: int, layout: int) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[a, b, 1] x, float[1, k, 1] w, float[1, k, 1] r, int32[2] n) => (y)
        {{ y = {op} <hidden_size = 1, layout = {layout}> (x, w, r, , n) }}"""
    x, weights = np.ones((3, 2, 1), "float32"), np.ones((1, gates, 1), "float32")
    given = {"x": np.swapaxes(x, 0, layout), "w": weights, "r": weights}
    assert of_text(text, **given, n=np.full(2, 3, "int32")).size == 6
    with pytest.raises(Unknown, match="whole"):
        of_text(text, **given, n=np.array([3, 2], "int32"))
    with pytest.raises(Open, match="without steps"):
        of_text(text, **given, n=np.array([3, 0], "int32"))


def test_magnitudes_that_are_not_taken_have_no_second_opinion() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = LpNormalization <p = 1> (x) }'
    np.testing.assert_array_equal(of_text(text, x=np.array([1, 3], "float32")), [0.25, 0.75])
    with pytest.raises(Unknown, match="magnitudes"):
        of_text(text, x=np.array([-1, 3], "float32"))


def tflite_of(name: str, options: dict[str, Any], change: Any = None, version: int = 1) -> bytes:
    """A sample of the importer's tests with an option of its only operator changed, or an input's tensor."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    from tests.frontend.tflite.ops import quantised, recurrent_and_images  # noqa: F401 (samples)
    from tests.frontend.tflite.ops.samples import SAMPLES

    model = schema.ModelT.InitFromPackedBuf(SAMPLES[name](version)[0], 0)
    (op,) = model.subgraphs[0].operators
    for key, value in options.items():
        setattr(op.builtinOptions, key, value)
    if change is not None:
        change(model, [model.subgraphs[0].tensors[i] for i in op.inputs if i >= 0])
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def a_least_weight(model: Any, inputs: Any) -> None:
    buffer = model.buffers[inputs[1].buffer]
    buffer.data = np.where(np.arange(len(buffer.data)) == 5, np.uint8(128), buffer.data)


def a_huge_scale(model: Any, inputs: Any) -> None:
    inputs[1].quantization.scale = [1e38]


def a_huge_scale_of_a_row(model: Any, inputs: Any) -> None:
    scales = inputs[1].quantization
    scales.scale = np.where(np.arange(len(scales.scale)) == 5, np.float32(1e38), scales.scale)


def a_huge_bias(model: Any, inputs: Any) -> None:
    buffer = model.buffers[inputs[2].buffer]
    buffer.data = np.where(np.arange(len(buffer.data)) == 5, np.uint8(63), buffer.data)


@pytest.mark.parametrize(
    ("name", "options", "change", "why"),
    [
        ("int16-many-CONV_2D-False", {}, a_huge_bias, "sums of 32 bits overflow"),
        ("int16-many-CONV_2D-False", {}, None, None),
        ("int8-SUB-1", {}, a_huge_scale, "sums of 32 bits overflow"),
        ("int8-SUB-1", {}, None, None),
        ("int8-many-FULLY_CONNECTED-True", {}, a_huge_scale_of_a_row, "sums of 32 bits overflow"),
        ("int8-many-FULLY_CONNECTED-True", {}, None, None),
        ("hybrid-FULLY_CONNECTED-FalseFalse", {}, a_least_weight, "do not hold a weight of -128"),
        ("hybrid-BIDIRECTIONAL_RNN-False", {"timeMajor": True}, None, "as many times as there are"),
        ("RNN", {}, None, None),
        ("SEQUENCE_LSTM-plainFalse", {"fusedActivationFunction": 0}, None, "an LSTM without an activation"),
        ("hybrid-FULLY_CONNECTED-FalseFalse", {}, None, None),
        ("hybrid-BIDIRECTIONAL_RNN-False", {}, None, None),
    ],
)
def test_departures_of_litert(name: str, options: dict[str, Any], change: Any, why: str | None) -> None:
    found = departure(tflite_of(name, options, change))
    assert found is None if why is None else why in str(found)


def test_a_departure_decides_nothing(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(tflite_of("SEQUENCE_LSTM-plainFalse", {"fusedActivationFunction": 0}))
    text, args, results, made = fate(path, 1)
    assert text == "ran"
    assert opinion(path, args, results, made).startswith("unchecked (LiteRT takes what memory holds")


def test_only_what_was_detected_is_compared() -> None:
    boxes, scores = np.ones((1, 3, 4), np.float32), np.ones((1, 3), np.float32)
    found = without_unwritten(tflite_of("PostProcess-True", {}), [boxes, scores, scores, np.float32([2])])
    assert [int(f.sum()) for f in found] == [8, 2, 2, 2]
