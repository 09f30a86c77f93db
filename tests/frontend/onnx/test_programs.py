"""Models that are more than graphs of tensors: control flow at run time, sequences, strings, small types, functions; compiled and run."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from tilewright import relay
from tilewright.error import ModelWarning
from tilewright.relay.frontend.common.compatibility import collected_notes
from tilewright.relay.frontend.onnx import from_onnx
from tilewright.relay.frontend.onnx.compatibility import DECLARED_SHAPES
from tilewright.relay.frontend.onnx.program import Program
from tilewright.runtime.host_functions.strings import string_table
from tilewright.support.errors import ModelError

HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'


def program(text: str, head: str = HEAD) -> Program:
    return Program(parser.parse_model(head + text))


def test_a_branch_is_chosen_at_run_time() -> None:
    run = program("""g (bool c, float[3] x) => (float[3] y) {
        y = If (c) <then_branch = t () => (float[3] a) { a = Neg (x) }, else_branch = e () => (float[3] b) { b = Exp (x) }>
    }""")
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(run([np.array(True), x])[0], -x)
    np.testing.assert_allclose(run([np.array(False), x])[0], np.exp(x), rtol=1e-6)
    assert len(run.variants) == 1


def test_branches_of_different_shapes() -> None:
    run = program("""g (bool c, float[3] x) => (float[n] y) {
        y = If (c) <then_branch = t () => (float[3] a) { a = Neg (x) },
                    else_branch = e () => (float[6] b) { b = Concat <axis = 0> (x, x) }>
    }""")
    x = np.array([1, 2, 3], np.float32)
    for c, want in ((True, -x), (False, np.concatenate([x, x])), (True, -x)):
        np.testing.assert_array_equal(run([np.array(c), x])[0], want)
    assert len(run.variants) == 1


def test_axes_to_squeeze_are_found_by_a_run() -> None:
    """A branch squeezes every axis of 1, of which there are as many as elements of `n` say. Three choices of them leave two axes."""
    run = program("""g (int64[3] n, float[1, 1, 3] x) => (float[a, b] y) {
        three = Constant <value_ints = [3]> ()
        count = Shape (n)
        yes = Equal (count, three)
        y = If (yes) <then_branch = t () => (float[p, q] first) {
            wide = Expand (x, n)
            flat = Squeeze (wide)
            first, second, third = Split <axis = 1, num_outputs = 3> (flat)
        }, else_branch = e () => (float[p, q] same) { same = Identity (x) }>
    }""")
    for values, shape in (((2, 1, 1), (2, 1)), ((1, 4, 3), (4, 1))):
        for x in (np.array([[[1, 2, 3]]], np.float32), np.array([[[4, 5, 6]]], np.float32)):
            np.testing.assert_array_equal(run([np.array(values), x])[0], np.full(shape, x[0, 0, 0]), strict=True)
    assert not run.bound and len(run.variants) == 1


WHILE = """g (int64 m, float[2] x) => (float[2] last, float[k, 2] rows) {
    t = Constant <value_int = 1> ()
    going = Cast <to = 9> (t)
    limit = Constant <value_float = 100.0> ()
    last, rows = Loop (m, going, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] n, float[2] r) {
        n = Add (s, s)
        r = Identity (s)
        total = ReduceSum <keepdims = 0> (n)
        d = Less (total, limit)
    }>
}"""


@pytest.mark.parametrize("most", [0, 3, 1000])
def test_a_loop_goes_on_until_its_data_say_so(most: int) -> None:
    run = program(WHILE)
    state, rows = np.array([1, 2], np.float32), []
    for _ in range(most):
        rows.append(state)
        state = state + state
        if not state.sum() < 100:
            break
    last, gathered = run([np.array(most, np.int64), np.array([1, 2], np.float32)])
    np.testing.assert_array_equal(last, state)
    np.testing.assert_array_equal(gathered, np.array(rows, np.float32).reshape(-1, 2))
    assert len(run.variants) == 1 and not run.bound


def test_a_state_that_grows() -> None:
    run = program("""g (int64 m, float[1] x) => (float[n] y) {
        y = Loop (m, , x) <body = b (int64 i, bool c, float[n] s) => (bool d, float[k] t) {
            d = Identity (c)
            one = Constant <value_floats = [1.0]> ()
            t = Concat <axis = 0> (s, one)
        }>
    }""")
    for m in (0, 2, 50):
        np.testing.assert_array_equal(run([np.array(m, np.int64), np.zeros(1, np.float32)])[0], [0.0] + [1.0] * m)


@pytest.mark.parametrize("length", [3, 50])
def test_scan(length: int) -> None:
    run = program("""g (float[2] s, float[n, 2] x) => (float[2] z, float[n, 2] y) {
        z, y = Scan <num_scan_inputs = 1, body = b (float[2] a, float[2] r) => (float[2] c, float[2] d) {
            c = Add (a, r)
            d = Mul (c, r)
        }> (s, x)
    }""")
    x = np.random.default_rng(0).standard_normal((length, 2), dtype=np.float32)
    sums = np.cumsum(x, 0)
    last, rows = run([np.zeros(2, np.float32), x])
    np.testing.assert_allclose(last, sums[-1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rows, sums * x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op, gates", [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("steps", [5, 40])
def test_recurrent_layers_of_both_directions_and_given_lengths(op: str, gates: int, steps: int) -> None:
    rng = np.random.default_rng(1)

    def weights(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32) * 0.3

    given = {
        "w": weights(2, gates * 3, 4), "r": weights(2, gates * 3, 3), "b": weights(2, 2 * gates * 3),
        "n": np.array([steps, steps - 2], np.int32), "h": weights(2, 2, 3),
    }  # fmt: skip
    outputs = ["y", "yh", "yc"] if op == "LSTM" else ["y", "yh"]
    node = helper.make_node(op, ["x", *given], outputs, hidden_size=3, direction="bidirectional")
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [steps, 2, 4])]
    results = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs]
    graph = helper.make_graph([node], "g", infos, results, [numpy_helper.from_array(v, k) for k, v in given.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    x = weights(steps, 2, 4)
    wanted = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    for got, want in zip(Program(model)([x]), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_texts_are_forgotten_after_a_run() -> None:
    run = program("""g (string[n] x, string[n] y) => (string[n] z, bool[n] same) {
        z = StringConcat (x, y)
        same = Equal (x, y)
    }""")
    before = len(string_table._strings)
    x, y = np.array(["a", "bc"], object), np.array(["a", "d"], object)
    z, same = run([x, y])
    assert z.tolist() == ["aa", "bcd"] and same.tolist() == [True, False]
    assert len(string_table._strings) == before


def test_an_input_of_dynamic_size_that_decides_nothing() -> None:
    run = program("""g (float[n] x, int64[3] sizes) => (int64 count) {
        parts = SplitToSequence (x, sizes)
        count = SequenceLength (parts)
    }""")
    assert run([np.arange(6, dtype=np.float32), np.array([1, 2, 3])])[0] == 3


def test_sequences_go_in_and_out() -> None:
    run = program("""g (seq(float) s, float[2] x) => (seq(float) t, float[n] joined) {
        t = SequenceInsert (s, x)
        joined = ConcatFromSequence <axis = 0> (t)
    }""")
    parts = [np.array([1], np.float32), np.array([2, 3, 4], np.float32)]
    t, joined = run([parts, np.array([5, 6], np.float32)])
    assert [v.tolist() for v in t] == [[1.0], [2.0, 3.0, 4.0], [5.0, 6.0]]
    assert joined.tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
def test_weights_of_small_types(dtype: str) -> None:
    values = np.array([[-2, -1, 0, 1], [1, 0, 1, 0]], np.float32)
    weights = np.abs(values).astype(getattr(ml_dtypes, dtype))
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s"], ["w"]),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4])],
        [numpy_helper.from_array(weights, "q"), numpy_helper.from_array(np.array(0.5, np.float32), "s")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    x = np.random.default_rng(0).standard_normal((3, 2), dtype=np.float32)
    np.testing.assert_allclose(Program(model)([x])[0], x @ (weights.astype(np.float32) * 0.5), rtol=1e-5, atol=1e-6)


def test_functions_of_the_model() -> None:
    run = program(
        """g (float[3] x) => (float[3] y) { y = own.twice <slope = 0.5> (x) }
        <domain: "own", opset_import: ["" : 21]> leaky <alpha> (a) => (b) { b = LeakyRelu <alpha: float = @alpha> (a) }
        <domain: "own", opset_import: ["" : 21, "own" : 1]> twice <slope> (x) => (z) {
            y = own.leaky <alpha: float = @slope> (x)
            z = Add (y, y)
        }""",
        '<ir_version: 10, opset_import: ["" : 21, "own" : 1]>\n',
    )
    assert run([np.array([-2, 0, 3], np.float32)])[0].tolist() == [-2, 0, 6]


def test_sparse_initializers() -> None:
    model = parser.parse_model(HEAD + "g (float[2, 3] x) => (float[2, 3] y) { y = Add (x, w) }")
    values = numpy_helper.from_array(np.array([5, 7], np.float32), "w")
    places = numpy_helper.from_array(np.array([1, 5], np.int64))
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [2, 3]))
    assert Program(model)([np.zeros((2, 3), np.float32)])[0].tolist() == [[0, 5, 0], [0, 0, 7]]


def test_determinants_of_matrices_without_elements() -> None:
    run = program("g (float[2, 0, 0] x) => (float[2] y) { y = Det (x) }")
    assert run([np.zeros((2, 0, 0), np.float32)])[0].tolist() == [1, 1]


@pytest.mark.parametrize(
    "text, opset, want",
    [
        ("y = Add <axis = 1, broadcast = 1> (x, b)", 6, lambda x, b: x + b[:, None]),
        ("y = Reshape <shape = [3, 4]> (x)", 1, lambda x, b: x.reshape(3, 4)),
        ("y = Pad <paddings = [0, 1, 0, 0, 0, 0], mode = \"constant\"> (x)", 1, lambda x, b: np.pad(x, ((0, 0), (1, 0), (0, 0)))),
        ("y = Cast <to = \"INT32\"> (x)", 1, lambda x, b: x.astype(np.int32)),
    ],
)  # fmt: skip
def test_old_operator_sets(text: str, opset: int, want: Any) -> None:
    model = parser.parse_model(HEAD + "g (float[2, 2, 3] x, float[2] b) => (y) { " + text + " }")
    model.opset_import[0].version = opset
    x, b = np.arange(12, dtype=np.float32).reshape(2, 2, 3), np.array([10, 20], np.float32)
    np.testing.assert_array_equal(Program(model)([x, b])[0], want(x, b))


@pytest.mark.parametrize(
    "declared, text",
    [
        ("float[2, 4]", "as (2, 4), but it is (2, 3): axis 1 is 3, not 4"),
        ("float[6]", "with 1 axes (6,), but it has 2: (2, 3)"),
        ("float[]", "with 0 axes (), but it has 2: (2, 3)"),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_declared_shapes_that_are_not_those_of_the_nodes(declared: str, text: str, inside: bool) -> None:
    """A warning, as ONNX Runtime has it, and its results."""
    if inside:
        model = parser.parse_model(
            HEAD + f"g (float[2, 3] x) => (float[2, 3] z) <{declared} y> {{ y = Relu (x) z = Exp (y) }}"
        )
    else:
        model = parser.parse_model(HEAD + f"g (float[2, 3] x) => ({declared} y) {{ y = Relu (x) }}")
    if declared == "float[]":
        info = model.graph.value_info[0] if inside else model.graph.output[0]
        info.type.tensor_type.shape.SetInParent()
    x = np.array([[-1, 0, 1], [2, -3, 4]], np.float32)
    (want,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    with pytest.warns(ModelWarning) as caught:
        mod, _ = from_onnx(model)
    (warning,) = caught
    assert str(warning.message) == (
        f"model 'g': the model declares the tensor 'y', which Relu 'y' makes, {text}. What the node makes counts."
        " Correct the model's value_info or outputs, or leave them out: they follow from the nodes"
    )
    assert warning.filename == __file__
    got = relay.create_executor("graph", mod).evaluate()(x).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-6, strict=True)
    with collected_notes() as noted, pytest.warns(ModelWarning):
        (got,) = Program(model)([x])
    np.testing.assert_allclose(got, want, rtol=1e-6, strict=True)
    assert noted[DECLARED_SHAPES] == {"y": None}


def test_declared_element_types_that_are_not_those_of_the_nodes() -> None:
    """ONNX Runtime refuses these, too."""
    model = parser.parse_model(HEAD + "g (float[2, 3] x) => (int32[2, 3] y) { y = Relu (x) }")
    with pytest.raises(ModelError) as info:
        from_onnx(model)
    text = "the model declares the tensor 'y', which Relu 'y' makes, as int32, but it is float32"
    assert text in str(info.value)


def test_the_backend_runs_nodes() -> None:
    from tilewright import backend

    node = helper.make_node("Add", ["a", "b"], ["c"])
    a = np.ones((2, 2), np.float32)
    found: Any = backend.run_node(node, [a, a])
    assert found["c"].tolist() == [[2, 2], [2, 2]]
    assert backend.supports_device("CPU") and not backend.supports_device("CUDA:0")
    model = parser.parse_model(HEAD + "g (float[2, 2] x) => (float[2, 2] y) { y = Relu (x) }")
    onnx.checker.check_model(model)
    assert backend.run_model(model, {"x": -a})[0].tolist() == [[0, 0], [0, 0]]


def test_quantised_models_become_integer_programs() -> None:
    weights = numpy_helper.from_array(np.ones((4, 3), np.int8), "w")
    model = parser.parse_model(
        HEAD
        + """g (float[2, 4] x) => (float[2, 3] y) {
        s = Constant <value_float = 0.05> ()
        z = Constant <value = uint8 {128}> ()
        o = Constant <value = int8 {0}> ()
        q = QuantizeLinear (x, s, z)
        d = DequantizeLinear (q, s, z)
        v = DequantizeLinear (w, s, o)
        m = MatMul (d, v)
        p = QuantizeLinear (m, s, z)
        y = DequantizeLinear (p, s, z)
    }"""
    )
    model.graph.initializer.append(weights)
    mod, _ = from_onnx(model)
    whole = relay.transform.FakeQuantizationToInteger()(mod)
    assert "qnn.dense" in str(whole) or "qnn.batch_matmul" in str(whole)
    x = np.random.default_rng(0).uniform(-1, 1, (2, 4)).astype(np.float32)
    held = np.clip(np.round(x / np.float32(0.05)) + 128, 0, 255) - 128
    want = np.clip(np.round((held * 0.05) @ np.full((4, 3), 0.05) / 0.05), -128, 127) * 0.05
    np.testing.assert_allclose(Program(model)([x])[0], want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_place_of_the_largest_along_any_axis(axis: int) -> None:
    run = program("g (float[2, 3, 4] x) => (int64[n, m, k] y) { y = ArgMax <axis = " + str(axis) + "> (x) }")
    x = np.random.default_rng(axis).standard_normal((2, 3, 4), dtype=np.float32)
    np.testing.assert_array_equal(run([x])[0], np.argmax(x, axis, keepdims=True))


def test_nodes_before_what_they_read() -> None:
    """As converters to float16 write them; a subgraph reads what is made later, too."""
    run = program("""g (bool c, float[3] x) => (float[3] y) {
        y = If (c) <then_branch = t () => (float[3] q) { q = Neg (a) }, else_branch = e () => (float[3] q) { r = Neg (q0)
            q0 = Exp (b) q = Neg (r) }>
        b = Neg (a)
        a = Add (x, x)
    }""")
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(run([np.array(True), x])[0], -2 * x)
    np.testing.assert_allclose(run([np.array(False), x])[0], np.exp(-2 * x), rtol=1e-6)


def test_nodes_in_a_circle() -> None:
    model = parser.parse_model(HEAD + "g (float[3] x) => (float[3] y) { a = Add (x, b) b = Neg (a) y = Exp (b) }")
    with pytest.raises(
        ModelError, match="reads the tensor 'b', which no node before it makes. The graph is incomplete, or a circle"
    ):
        from_onnx(model)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_are_moved(dtype: str) -> None:
    run = program(f"""g ({dtype}[n,2] x, bool c) => ({dtype}[m] y, {dtype}[p,q] z) {{
        joined = Concat <axis = 0> (x, x)
        turned = Transpose (joined)
        size = Constant <value = int64[1] {{-1}}> ()
        row = Reshape (turned, size)
        y = Where (c, row, row)
        around = Constant <value = int64[4] {{0, 1, 1, 0}}> ()
        z = Pad (x, around)
    }}""")
    x = np.array([[1 + 2j, complex(np.nan, -np.inf)], [complex(-0.0, 0.1), -3j]], dtype)
    y, z = run([x, np.array(True)])
    assert y.dtype == z.dtype == dtype
    assert y.tobytes() == np.concatenate([x, x]).T.reshape(-1).tobytes()
    assert z.tobytes() == np.pad(x, [(0, 1), (1, 0)]).tobytes()


def test_weights_that_are_complex_numbers() -> None:
    w = np.array([1j, 2.5, complex(0.1, -1e300)], np.complex128)
    node = helper.make_node("Gather", ["w", "i"], ["y"])
    ends = [
        helper.make_tensor_value_info(n, t, [2]) for n, t in (("i", TensorProto.INT64), ("y", TensorProto.COMPLEX128))
    ]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [numpy_helper.from_array(w, "w")])
    run = Program(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))
    assert run([np.array([2, 0])])[0].tobytes() == w[[2, 0]].tobytes()


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("op", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_windows_are_exact_at_their_ends(op: str, periodic: int, known: bool) -> None:
    run = {
        kind: program(f"""g (int32 n) => ({name}[k] y) {{
            {"n1 = Constant <value = int32 {9}> ()" if known else "n1 = Identity (n)"}
            y = {op} <periodic = {periodic}, output_datatype = {kind}> (n1)
        }}""")
        for kind, name in ((1, "float"), (11, "double"), (10, "float16"))
    }
    for count in (9,) if known else (0, 1, 2, 3, 8, 301):
        steps = count - 1 + periodic
        with np.errstate(invalid="ignore"):
            cosine = np.cos(2 * np.pi * np.arange(count) / np.float64(steps))
        wanted = {
            "HannWindow": 0.5 - 0.5 * cosine,
            "HammingWindow": (25 - 21 * cosine) / 46,
            "BlackmanWindow": 0.42 - 0.5 * cosine + 0.08 * (2 * cosine**2 - 1),
        }[op]
        for kind, dtype in ((1, np.float32), (11, np.float64), (10, np.float16)):
            (found,) = run[kind]([np.array(count, np.int32)])
            assert found.dtype == dtype
            np.testing.assert_allclose(found, wanted, rtol=0, atol=4 * np.finfo(dtype).eps)
            if count and steps:
                end = np.float32(4 / 46).astype(dtype) if op == "HammingWindow" and dtype != np.float64 else 4 / 46
                assert found[0] == (end if op == "HammingWindow" else 0)
                assert periodic or found[-1] == found[0]


@pytest.mark.parametrize(("axis", "bias"), [(0, ""), (1, ", b"), (-2, ", b")])
def test_layers_normalised_over_several_axes_are_rows(axis: int, bias: str) -> None:
    sizes = (2, 3, 4)[axis:]
    of = ",".join(map(str, sizes))
    parameters = [f"float[{of}] {name}" for name in ("w", "b") if name == "w" or bias]
    run = program(f"""g (float[2,3,4] x, {", ".join(parameters)}) => (float[2,3,4] y) {{
        y = LayerNormalization <axis = {axis}> (x, w{bias})
    }}""")
    rng = np.random.default_rng(0)
    x, *given = [rng.standard_normal(s).astype("float32") for s in ((2, 3, 4), *[sizes] * len(parameters))]
    along = tuple(range(axis % 3, 3))
    want = (x - x.mean(along, keepdims=True)) / np.sqrt(x.var(along, keepdims=True) + 1e-5) * given[0]
    np.testing.assert_allclose(run([x, *given])[0], want + sum(given[1:]), rtol=1e-4, atol=1e-5)


def test_an_empty_batch_of_layers_is_normalised() -> None:
    run = program(
        """g (float[0,3,4] x, float[3,4] w) => (float[0,3,4] y) { y = LayerNormalization <axis = 1> (x, w) }"""
    )
    assert run([np.zeros((0, 3, 4), np.float32), np.ones((3, 4), np.float32)])[0].shape == (0, 3, 4)
