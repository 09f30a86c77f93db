"""Damaged and unsupported TFLite models: the text of messages, and that nothing worse happens."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frontend.tflite.ops.samples import F, values
from tests.frontend.tflite.ops.writer import Writer, camel, schema
from tests.frontend.tflite.test_models import branches, counter, network
from tilewright.formats.flatbuffer import Damaged
from tilewright.formats.flexbuffer import options_of
from tilewright.formats.tflite_schema import OPERATORS, TABLES, TYPES, UNIONS
from tilewright.relay.frontend.tflite import from_tflite, supported_operators
from tilewright.support.errors import ModelError, OpNotImplemented, TVMError


def test_schema() -> None:
    """The tables are those of LiteRT's schema."""
    s = schema()
    assert {n: k for k, n in enumerate(OPERATORS)} == {k: v for k, v in vars(s.BuiltinOperator).items() if k[0] != "_"}
    assert {n: k for k, n in enumerate(TYPES)} == {k: v for k, v in vars(s.TensorType).items() if k[0] != "_"}
    for name, table in (("builtin_options", s.BuiltinOptions), ("builtin_options2", s.BuiltinOptions2)):
        assert {n: k for k, n in enumerate(UNIONS[name])} == {k: v for k, v in vars(table).items() if k[0] != "_"}
    for name, fields in TABLES.items():
        made = getattr(s, f"{name}T")()
        assert {camel(f.name) for f in fields} <= set(vars(made)), name
        for f in fields:
            if not f.many and f.kind not in ("string", "|") and f.kind not in TABLES:
                assert getattr(made, camel(f.name)) == f.default, (name, f.name)


UNSUPPORTED = {
    "CONCAT_EMBEDDINGS", "CUSTOM", "DELEGATE", "LSH_PROJECTION", "PLACEHOLDER_FOR_GREATER_OP_CODES",
    "SKIP_GRAM", "STABLEHLO_CUSTOM_CALL", "STABLEHLO_RNG_BIT_GENERATOR",
}  # fmt: skip


def test_which_operators() -> None:
    assert set(OPERATORS) - set(supported_operators()) == UNSUPPORTED


def refused(data: Any, error: type[Exception] = ModelError, **options: Any) -> str:
    with pytest.raises(error) as found:
        from_tflite(data, **options)
    return str(found.value)


def test_scales_of_some_tensors_only() -> None:
    w = Writer()
    x, y = w.main.input("uint8", (3,), name="x"), w.main.input("uint8", (3,), (0.5, 3), name="y")
    data = w.finish(
        w.main.op("DIV", [x, y], [("uint8", (3,), (0.25, 0))], {"fused_activation_function": 0}, "DivOptions")
    )
    assert "its tensor 'x' of uint8 has no scale, but others of the operator have one" in refused(
        data, OpNotImplemented
    )


def test_a_result_of_another_kind_than_the_inputs() -> None:
    w = Writer()
    x, y = [w.main.input("uint8", (3,), (0.5, 3), name=n) for n in "xy"]
    data = w.finish(w.main.op("MUL", [x, y], [(F, (3,))], {"fused_activation_function": 0}, "MulOptions"))
    assert "its inputs are quantised, but its result 'mul0_0' is float32" in refused(data, OpNotImplemented)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"padding": 5}, "its padding is 5; supported: 0 (SAME), 1 (VALID)"),
        ({"filter_width": 0}, "its windows are (2, 0) elements large and (2, 2) apart; each must be at least 1"),
        ({"stride_h": -1}, "its windows are (2, 2) elements large and (-1, 2) apart; each must be at least 1"),
    ],
)
@pytest.mark.parametrize("dtype", [F, "int8"])
def test_windows_that_cannot_be(options: dict[str, int], said: str, dtype: str) -> None:
    w, quant = Writer(), () if dtype == F else ((0.5, 0),)
    x = w.main.input(dtype, (1, 5, 6, 3), *quant)
    given = {"padding": 1, "filter_height": 2, "filter_width": 2, "stride_h": 2, "stride_w": 2, **options}
    data = w.finish(w.main.op("AVERAGE_POOL_2D", [x], [(dtype, (1, 2, 3, 3), *quant)], given, "Pool2DOptions"))
    assert said in refused(data, OpNotImplemented)


def test_a_reduction_to_another_type() -> None:
    w = Writer()
    x = w.main.input("uint8", (3, 4), (0.5, 3))
    axes = w.main.constant(np.array([0], np.int32))
    data = w.finish(
        w.main.op("REDUCE_MIN", [x, axes], [("int16", (4,), (0.5, 3))], {"keep_dims": False}, "ReducerOptions")
    )
    assert "its input is uint8, but its result int16; both have one type" in refused(data, OpNotImplemented)


def test_slopes_beyond_the_arithmetic() -> None:
    w = Writer()
    x = w.main.input("uint8", (3,), (0.5, 3))
    data = w.finish(w.main.op("LEAKY_RELU", [x], [("uint8", (3,), (0.5, 3))], {"alpha": 1e9}, "LeakyReluOptions"))
    assert "its factors are 1 and 1e+09; supported below 65536" in refused(data, OpNotImplemented)


def test_one_variable_as_two_states() -> None:
    w = Writer()
    x, state = w.main.input(F, (2, 3)), w.main.tensor("state", F, (2, 3), isVariable=True)
    weights = [w.main.constant(np.ones(s, "float32")) for s in ((3, 3), (3, 3), (3,))]
    inputs = [x, *weights, state, *weights, state, -1, -1, -1, -1]
    data = w.finish(
        w.main.op("BIDIRECTIONAL_SEQUENCE_RNN", inputs, [(F, ())] * 2, {}, "BidirectionalSequenceRNNOptions")
    )
    assert "two of its inputs are one variable" in refused(data, OpNotImplemented)


@pytest.mark.parametrize(
    ("op", "kind", "inputs", "finding"),
    [
        ("DILATE", F, [np.array([0, 3], np.int32), np.array(0.5, F)], "strides must be positive"),
        ("DILATE", "int32", [np.array([0, 3], np.int32), np.array(5, np.int32)], "its dilations (0, 3) must be positive"),
        (
            "REDUCE_WINDOW", F,
            [np.array(0, F), np.array([1 << 32] * 2), np.array([1, 1]), np.array([1, 1])],
            "its windows have 18446744073709551616 elements",
        ),
        ("REDUCE_WINDOW", F, [np.array(0, F), np.array([2, 2]), np.array([1, 0]), np.array([1, 1])], "must be of positive numbers"),
    ],
)  # fmt: skip
def test_steps_and_windows(op: str, kind: str, inputs: list[Any], finding: str) -> None:
    w = Writer()
    x = w.main.input(kind, (3, 4))
    options = {"reduce_function": 1} if op == "REDUCE_WINDOW" else {}
    places = [x, *[w.main.constant(v) for v in inputs]]
    data = w.finish(
        w.main.op(op, places, [(kind, ())], options, f"{camel(op.lower())[0].upper()}{camel(op.lower())[1:]}Options")
    )
    assert finding in refused(data, TVMError)


@pytest.mark.parametrize("op", ["ATAN2", "ADD_N"])
def test_shapes_that_differ(op: str) -> None:
    w = Writer()
    x, y = w.main.input(F, (2, 3)), w.main.input(F, (1, 3))
    data = w.finish(w.main.op(op, [x, y], [(F, (2, 3))]))
    assert "have the shapes (2, 3) and (1, 3); it does not broadcast them" in refused(data, TVMError)


def test_sizes_of_other_types() -> None:
    w = Writer()
    x, order = w.main.input(F, (2, 3)), w.main.constant(np.array([1, 0], np.uint8))
    data = w.finish(w.main.op("TRANSPOSE", [x, order], [(F, ())], {}, "TransposeOptions"))
    assert "its order of axes must be of int32 or int64, and has the type uint8" in refused(data, TVMError)


@pytest.mark.parametrize(("kind", "shape"), [(F, (1, 3)), (F, (1, 2, 3)), ("float16", (2, 3))])
def test_states_of_no_rows(kind: str, shape: tuple[int, ...]) -> None:
    w = Writer()
    x, state = w.main.input(F, (2, 3)), w.main.tensor("state", kind, shape, isVariable=True)
    weights = [w.main.constant(np.ones(s, F)) for s in ((3, 3), (3, 3), (3,))]
    data = w.finish(w.main.op("RNN", [x, *weights, state], [(F, (2, 3))], {}, "RNNOptions"))
    assert f"its state is {kind} of the shape {shape}, where 2 examples have a row each" in refused(data, TVMError)


@pytest.mark.parametrize("count", [1, 4, 32])
def test_weights_of_a_narrower_type(count: int) -> None:
    w = Writer()
    x, weights = w.main.input(F, (count,)), w.main.constant(np.ones(count, F), name="w")
    w.main.table.tensors[weights].type = 1
    data = w.finish(w.main.op("MUL", [x, weights], [(F, (count,))], {}, "MulOptions"))
    assert f"and type FLOAT16 needs {2 * count} bytes, but its buffer holds {4 * count}" in refused(data)


def test_keys_out_of_order() -> None:
    w = Writer()
    keys, table = w.main.constant(np.array([3, 1], np.int32)), w.main.constant(np.ones((2, 2), F))
    data = w.finish(w.main.op("HASHTABLE_LOOKUP", [w.main.input("int32", (3,)), keys, table], [(F, ()), ("uint8", ())]))
    assert "its keys [3, 1] must be in ascending order" in refused(data, TVMError)


def test_options_that_are_cut_off() -> None:
    assert issubclass(Damaged, ValueError)
    with pytest.raises(Damaged, match="its options are no flexbuffer"):
        options_of(b"\x00\x28\x01")


def test_comparisons_of_scales_that_are_no_fractions() -> None:
    w = Writer()
    x, y = [w.main.input("int8", (3,), (scale, 0), name=n) for n, scale in (("x", 0.5), ("y", 2.0))]
    assert (
        "LESS 'less0_0': it compares numbers of the scales 0.5 and 2; TFLite compares those of different scales below 1 only"
        in refused(w.finish(w.main.op("LESS", [x, y], [("bool", (3,))], {}, "LessOptions")), OpNotImplemented)
    )


@pytest.mark.parametrize("far", [2**47, -(2**47) - 1])
def test_a_bias_wider_than_sums(far: int) -> None:
    w = Writer()
    x = w.main.input("int16", (1, 2), (1.0, 0))
    weights = w.main.constant(np.ones((1, 2), np.int8), (1.0, 0))
    bias = w.main.constant(np.array([far], np.int64), (1.0, 0), name="b")
    made = w.main.op(
        "FULLY_CONNECTED", [x, weights, bias], [("int16", (1, 1), (2.0**33, 0))], {}, "FullyConnectedOptions"
    )
    assert "its bias 'b' has numbers of more than 48 bits, the most that TFLite's sums hold" in refused(
        w.finish(made), OpNotImplemented
    )


@pytest.mark.parametrize(
    ("weights", "result", "text"),
    [
        ("uint8", "int16", "its weights uint8, where int8 or int4 are"),
        ("int8", "uint8", "its result uint8, where int16 is"),
    ],
)
def test_words_that_no_kernel_takes(weights: str, result: str, text: str) -> None:
    w = Writer()
    x = w.main.input("int16", (1, 2), (1.0, 0))
    by = w.main.constant(np.ones((1, 2), weights), (1.0, 0))
    made = w.main.op("FULLY_CONNECTED", [x, by, -1], [(result, (1, 1), (1.0, 0))], {}, "FullyConnectedOptions")
    assert f"its data are int16 and {text} taken" in refused(w.finish(made), OpNotImplemented)


def test_a_product_of_words_without_a_scale() -> None:
    w = Writer()
    x = w.main.input("int16", (2, 3))
    weights = w.main.constant(np.ones((3, 2), np.int16))
    made = w.main.op("BATCH_MATMUL", [x, weights], [("int16", (2, 2))], {}, "BatchMatMulOptions")
    assert "its result is of int16 without a scale" in refused(w.finish(made), OpNotImplemented)


def test_a_dilation_of_less_than_nothing() -> None:
    w = Writer()
    x, weights = w.main.input(F, (1, 7, 8, 1)), w.main.constant(np.ones((1, 3, 2, 1), np.float32))
    options = {"padding": 0, "stride_h": 1, "stride_w": 2, "dilation_h_factor": -3}
    text = refused(w.finish(w.main.op("CONV_2D", [x, weights], [(F, ())], options, "Conv2DOptions")), TVMError)
    assert "strides and dilations must be positive, but a stride is 1, a dilation -3" in text


def test_all_unsupported_at_once() -> None:
    w = Writer()
    x = w.main.input(F, (3,))
    first = w.main.op("SKIP_GRAM", [x], [(F, (3,))])
    second = w.main.op("FlexErf", first, [(F, (3,))])
    third = w.main.op("Mine", second, [(F, (3,))])
    assert refused(w.finish(w.main.op("Mine", third, [(F, (3,))])), OpNotImplemented) == (
        "the given bytes: 3 things are not supported\n"
        "  custom operator FlexErf (1 operator: 'flexerf1_0'); TensorFlow's own operators (SELECT_TF_OPS) run in TensorFlow only:"
        " convert with TFLITE_BUILTINS, or import the SavedModel\n"
        "  custom operator Mine (2 operators: 'mine2_0', 'mine3_0'); give its converter: op_converter, see docs/tflite.md\n"
        "  SKIP_GRAM (1 operator: 'skip_gram0_0')"
    )


def test_forms_that_are_not_supported() -> None:
    w = Writer()
    x = w.main.input("complex64", (3,))
    assert "the input 'x0' is of type COMPLEX64; tensors of real numbers and of strings are supported" in refused(
        w.finish([x]), OpNotImplemented
    )
    w = Writer()
    x = w.main.input(F, (3, 4))
    weights = w.main.constant(values(np.random.default_rng(0), F, (5, 4)))
    made = w.main.op("FULLY_CONNECTED", [x, weights, -1], [(F, ())], {"weights_format": 1}, "FullyConnectedOptions")
    assert refused(w.finish(made), OpNotImplemented) == (
        "the given bytes: 1 thing is not supported\n  FULLY_CONNECTED 'fully_connected0_0': its weights are shuffled (SHUFFLED4x16INT8);"
        " supported: the DEFAULT format"
    )


@pytest.mark.parametrize("op", ["RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"])
def test_sizes_of_nothing(op: str) -> None:
    w = Writer()
    x, size = w.main.input(F, (1, 2, 2, 1)), w.main.constant(np.array([0, 2], np.int32))
    options = "ResizeBilinearOptions" if "BIL" in op else "ResizeNearestNeighborOptions"
    text = refused(w.finish(w.main.op(op, [x, size], [(F, ())], {}, options)), OpNotImplemented)
    assert text.endswith("its size is (0, 2); it must be positive")


def test_shapes_that_do_not_fit() -> None:
    w = Writer()
    x, y = w.main.input(F, (3,)), w.main.input(F, (4,))
    text = refused(w.finish(w.main.op("ADD", [x, y], [(F, ())], {}, "AddOptions")), TVMError)
    assert text.startswith("the given bytes: ADD 'add0_0': add, argument 1 (rhs): shapes must broadcast")


def test_options_of_another_operator() -> None:
    """TFLite reads none of these; its activation would be another."""
    w = Writer()
    x = w.main.input(F, (3,))
    data = w.finish(w.main.op("ADD", [x, x], [(F, (3,))], {"fused_activation_function": 1}, "DivOptions"))
    assert "its options are DivOptions, where AddOptions belong" in refused(data, TVMError)


def test_sequences_longer_than_their_axis() -> None:
    """TFLite reads what lies behind them."""
    w = Writer()
    x, lengths = w.main.input(F, (2, 4)), w.main.constant(np.array([2, 5], np.int32))
    options = {"seq_dim": 1, "batch_dim": 0}
    data = w.finish(w.main.op("REVERSE_SEQUENCE", [x, lengths], [(F, (2, 4))], options, "ReverseSequenceOptions"))
    assert "its sequences are [2, 5] long, but there are 4 elements along axis 1" in refused(data, OpNotImplemented)


def test_results_that_are_declared_as_no_tensors() -> None:
    w = Writer()
    x = w.main.input(F, (3, 5))
    text = refused(
        w.finish(w.main.op("ADD", [x, x], [("resource", ())], {"fused_activation_function": 0}, "AddOptions"))
    )
    assert "makes the tensor 'add0_0' of float32, but the model declares it as resource. The file is damaged" in text


def test_one_element_by_a_step_backwards() -> None:
    """LiteRT reads beyond the tensor."""
    w = Writer()
    x = w.main.input(F, (2, 3))
    places = [w.main.constant(np.array(v, np.int32)) for v in ([1, 0], [0, 3], [-1, 1])]
    options = {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 1}
    text = refused(w.finish(w.main.op("STRIDED_SLICE", [x, *places], [(F, (3,))], options, "StridedSliceOptions")))
    assert "it takes one element of an axis by the step -1, where TensorFlow takes only steps forward" in text


def test_results_of_another_type_than_is_declared() -> None:
    w = Writer()
    x, axis = w.main.input("int64", (3, 5)), w.main.constant(np.array(1, np.int32))
    options = {"exclusive": False, "reverse": False}
    text = refused(w.finish(w.main.op("CUMSUM", [x, axis], [(F, (3, 5))], options, "CumsumOptions")))
    assert text == (
        "the given bytes: CUMSUM 'cumsum0_0' makes the tensor 'cumsum0_0' of int64, but the model declares it as float32."
        " The file is damaged; copy or convert it again"
    )


def test_whole_numbers_without_a_scale() -> None:
    """Weights of a float layer that are counted numbers stand for nothing that is known."""
    w = Writer()
    parts = [(4, 5), (4, 4), (4,)]
    weights = [w.main.constant(np.ones(s, "float32" if k else "uint32"), name=f"c{k}") for k, s in enumerate(parts)]
    inputs = [w.main.input(F, (2, 5)), *weights, w.main.tensor("state", F, (2, 4), isVariable=True)]
    text = refused(w.finish(w.main.op("RNN", inputs, [(F, (2, 4))], {}, "RNNOptions")), OpNotImplemented)
    assert "its tensor 'c0' of uint32 has no scale, so its real values are not known" in text


def test_weights_that_kernels_read_otherwise() -> None:
    """Bytes whose scales or zero points TFLite's kernels do not take, or take for others."""

    def dense(weights: np.ndarray, quant: Any, data: Any = (F, (2, 4), None)) -> bytes:
        w = Writer(9)
        inputs = [w.main.input(*data), w.main.constant(weights, quant)]
        out = (data[0], (2, 3), data[2])
        return w.finish(w.main.op("FULLY_CONNECTED", inputs, [out], {}, "FullyConnectedOptions"))

    whole = np.ones((3, 4), np.int8)
    text = refused(dense(whole, ([0.1] * 4, [0] * 4, 1)), OpNotImplemented)
    assert (
        "its weights 'c1' are int8 with 4 scales; times floats are supported: int8 with 1 or 3, uint8 with 1 or 3"
        in text
    )
    text = refused(dense(whole, (0.1, 0), ("int16", (2, 4), (0.1, 7))), OpNotImplemented)
    assert "its tensor 'x0' of int16 has the zero point 7; supported: 0" in text


def test_data_of_another_type_than_a_quantised_result() -> None:
    w = Writer()
    x, axes = w.main.input("int32", (2, 5), (0.1, 3)), w.main.constant(np.array([1], np.int32))
    text = refused(
        w.finish(w.main.op("REDUCE_MAX", [x, axes], [("int8", (2,), (0.1, 3))], {}, "ReducerOptions")), OpNotImplemented
    )
    assert "its tensor 'x0' is int32, but its result 'reduce_max0_0' is int8 for others" in text


def test_zero_points_outside_their_type() -> None:
    w = Writer()
    data = w.finish(
        w.main.op("QUANTIZE", [w.main.input(F, (3,))], [("int16", (3,), (0.5, 1 << 31))], {}, "QuantizeOptions")
    )
    assert "the tensor 'quantize0_0' of int16 has the zero point 2147483648, which is none of its numbers" in refused(
        data
    )


def test_names() -> None:
    w, out = network()
    data = w.finish(out)
    assert refused(data, shape_dict={"imag": (1, 6, 6, 3)}) == (
        "the given bytes: shape_dict names 'imag', but the model's inputs are 'image' (1, 6, 6, 3) float32. Did you mean 'image'?"
    )
    assert refused(data, shape_dict={"image": (1, 6)}) == (
        "the given bytes: the input 'image' has 4 axes (-1, 6, 6, 3), but shape_dict gives it 2: (1, 6)"
    )
    assert refused(data, dtype_dict={"image": "int8"}) == (
        "the given bytes: dtype_dict gives the input 'image' the type int8, but the model takes float32"
    )


def test_no_models(tmp_path: Path) -> None:
    assert (
        refused(tmp_path / "a.tflite")
        == f"{tmp_path / 'a.tflite'}: there is no such file. Give the path of a .tflite file"
    )
    (tmp_path / "a.tflite").write_bytes(b"")
    assert "this is no TFLite model: its 0 bytes do not begin with the mark TFL3 at byte 4" in refused(
        tmp_path / "a.tflite"
    )
    assert refused(b"    TFL3    ") == (
        "the given bytes: this TFLite model is truncated or damaged: Model is at byte 538976288, outside the 12 bytes."
        " Copy or convert it again"
    )
    w, out = network()
    data = w.finish(out)
    assert "truncated or damaged" in refused(data[: len(data) // 2])
    broken = Writer()
    x = broken.main.input(F, (3,))
    made = broken.main.op("NEG", [x + 1], [(F, (3,))], {}, "NegOptions")
    text = refused(broken.finish(made))
    assert text.startswith(
        "the given bytes: NEG 'neg0_0' reads the tensor 'neg0_0' (1), which no earlier operator makes"
    )


def test_calls_without_end() -> None:
    w = Writer()
    g = w.graph("loop")
    g.table.outputs = g.op("CALL", [g.input(F, (3,))], [(F, (3,))], {"subgraph": 1}, "CallOptions")
    x = w.main.input(F, (3,))
    text = refused(w.finish(w.main.op("CALL", [x], [(F, (3,))], {"subgraph": 1}, "CallOptions")))
    assert text == "the given bytes: subgraph 1 is called from itself, or 32 deep"


def test_shared_parts_do_not_multiply() -> None:
    """Three hundred subgraphs that are one table, whose three hundred tensors are one."""

    def vector(at: int, count: int, target: int) -> bytes:
        return struct.pack(f"<I{count}I", count, *[target - (at + 4 + 4 * k) for k in range(count)])

    n = 300
    subgraph = 36 + 4 * n
    tensor = subgraph + 12 + 4 * n
    data = (
        struct.pack("<I4s5H3H", 24, b"TFL3", 10, 8, 0, 0, 4, 6, 8, 4)
        + struct.pack("<iI", 24 - 8, 4)
        + vector(32, n, subgraph)
    )
    data += (
        struct.pack("<iI", subgraph - 18, 4) + vector(subgraph + 8, n, tensor) + struct.pack("<iII", tensor - 18, 4, 0)
    )
    assert "Model.subgraphs[2].tensors has 300 elements, more than fit in 2460 bytes" in refused(data)


def test_huge_results_are_not_computed() -> None:
    w = Writer()
    dims, one = w.main.constant(np.array([1 << 30, 64], np.int32)), w.main.constant(np.array(1.0, np.float32))
    made = w.main.op("FILL", [dims, one], [(F, ())], {}, "FillOptions")
    mod, _ = from_tflite(w.finish(made))
    assert [int(d) for d in mod["main"].checked_type.ret_type.shape] == [1 << 30, 64]
    w = Writer()
    ends = [w.main.constant(np.array(v, np.int32)) for v in (0, 1 << 30, 1)]
    text = refused(w.finish(w.main.op("RANGE", ends, [("int32", ())], {}, "RangeOptions")), OpNotImplemented)
    assert "RANGE 'range0_0': its result has 1073741824 elements; up to 16777216 are supported there" in text


@pytest.mark.parametrize("which", ["network", "branches", "counter"])
def test_mutations(which: str) -> None:
    """Bits flipped, bytes overwritten, ends cut off: a clear error or an import, never anything else."""
    if which == "network":
        w, out = network()
        data = w.finish(out)
    else:
        data = {"branches": branches, "counter": counter}[which]()
    r = np.random.default_rng(3)
    for k in range(150):
        bad = bytearray(data)
        for _ in range(int(r.integers(1, 6))):
            place = int(r.integers(8, len(bad)))
            bad[place] = int(r.integers(0, 256)) if k % 2 else bad[place] ^ 1 << int(r.integers(0, 8))
        if k % 5 == 0:
            bad = bad[: int(r.integers(8, len(bad)))]
        try:
            from_tflite(bytes(bad))
        except TVMError as error:
            assert str(error)
