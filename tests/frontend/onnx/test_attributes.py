"""Values of attributes that have no meaning, or one in each runtime: they are refused by the operator's name."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.numpy_helper import from_array

from tilewright import relay
from tilewright.relay.evaluation.interpreter import run_function
from tilewright.support.errors import TVMError

OPSETS = '"" : 24, "ai.onnx.ml" : 5, "ai.onnx.preview.training" : 1'


def parsed(node: str, inputs: str, outputs: str = "float[a, b, c, d] z") -> Any:
    """The model of one node, its outputs of any shape."""
    made = onnx.parser.parse_model(
        f"<ir_version: 11, opset_import: [{OPSETS}]> g ({inputs}) => ({outputs}) {{ {node} }}"
    )
    for o in made.graph.output:
        o.type.tensor_type.ClearField("shape")
    return made


IMAGE, KERNEL, RNN = (
    "float[1, 2, 5, 5] x",
    "float[2, 2, 3, 3] w",
    "float[3, 1, 4] x, float[1, 2, 4] w, float[1, 2, 2] r",
)
CASES = {
    "scatter": (
        'z = ScatterElements <reduction = "mean"> (x, i, x)', "float[3] x, int64[3] i",
        "its attribute reduction is 'mean'; supported: none, add, mul, min, max",
    ),
    "scatter_nd": (
        'z = ScatterND <reduction = "update"> (x, i, u)', "float[3] x, int64[2, 1] i, float[2] u",
        "its attribute reduction is 'update'; supported: none, add, mul, min, max",
    ),
    "flag": ("z = ReduceMax <keepdims = 2> (x)", IMAGE, "its attribute keepdims is 2; supported: 0, 1"),
    "direction": ('z = RNN <hidden_size = 2, direction = "back"> (x, w, r)', RNN, "its attribute direction is 'back'; supported: forward"),
    "clip": ("z = RNN <hidden_size = 2, clip = -1.0> (x, w, r)", RNN, "its attribute clip is -1.0; supported: positive numbers"),
    "padding": ('z = ConvTranspose <auto_pad = "same"> (x, w)', f"{IMAGE}, {KERNEL}", "its attribute auto_pad is 'same'; supported: "),
    "negative pads": (
        "z = ConvTranspose <pads = [-1, 0, 0, 0]> (x, w)", f"{IMAGE}, {KERNEL}",
        r"its attribute pads is \[-1, 0, 0, 0\]; supported: 4 numbers from 0 on",
    ),
    "pads of a pool": (
        "z = MaxPool <kernel_shape = [2, 2], pads = [0, -1, 0, 0]> (x)", IMAGE,
        r"its attribute pads is \[0, -1, 0, 0\]; supported: 4 numbers from 0 on",
    ),
    "both paddings": (
        'z = Conv <auto_pad = "SAME_UPPER", pads = [1, 1, 1, 1]> (x, w)', f"{IMAGE}, {KERNEL}",
        r"it has pads \[1, 1, 1, 1\] beside auto_pad SAME_UPPER; it may have either",
    ),
    "a mean of padding": (
        "z = AveragePool <kernel_shape = [2, 2], pads = [2, 0, 0, 0]> (x)", IMAGE,
        r"its attribute pads is \[2, 0, 0, 0\]; supported: less than the kernel",
    ),
    "steps": (
        "z = LpPool <kernel_shape = [2, 2], strides = [0, 1]> (x)", IMAGE,
        r"its attribute strides is \[0, 1\]; supported: 2 positive numbers",
    ),
    "a large kernel": (
        "z = LpPool <kernel_shape = [99999, 99999]> (x)", "float[1, 1, 99999, 99999] x",
        "it makes 9999800001 elements of a kernel; there may be",
    ),
    "a kernel that does not fit": (
        "z = LpPool <kernel_shape = [7, 2]> (x)", IMAGE, "its kernel reaches over 7 elements, but padded axis 2 has 5",
    ),
    "axis": ("z = Hardmax <axis = 9223372036854775807> (x)", IMAGE, r"its axes are \[9223372036854775807\], but there are 4"),
    "twice": ("z = MeanVarianceNormalization <axes = [-1, 3]> (x)", IMAGE, r"its axes are \[-1, 3\], of which two are the same"),
    "no axis": ("z = MeanVarianceNormalization <axes : ints = []> (x)", IMAGE, "its attribute axes is .*; supported: one axis or more"),
    "alpha": ("z = Celu <alpha = inf> (x)", "float[3] x", "its alpha is inf, by which it divides and multiplies"),
    "precision": (
        "z = QuantizeLinear <precision = 2> (x, s)", "float[3] x, float s",
        "its attribute precision is 2; supported: 0 .* and types of floats",
    ),
    "pattern": (
        'z = RegexFullMatch <pattern = "("> (x)', "string[3] x", r"its pattern '\(' is no regular expression: .*missing \)",
    ),
    "n-grams": (
        'z = TfIdfVectorizer <mode = "TF", min_gram_length = 1, max_gram_length = 1, max_skip_count = 0, ngram_counts = [-9],'
        " ngram_indexes = [0], pool_int64s = [1]> (i)", "int64[3] i", r"its ngram_counts are \[-9\], which are no places in its pool of 1",
    ),
    "n-grams without an index": (
        'z = TfIdfVectorizer <mode = "TF", min_gram_length = 1, max_gram_length = 1, max_skip_count = 0, ngram_counts = [0],'
        " ngram_indexes = [0], pool_int64s = [1, 2]> (i)", "int64[3] i", "it has 2 n-grams, 1 ngram_indexes and 0 weights",
    ),
    "nearest": (
        'z = Resize <nearest_mode = "round"> (x, , , s)', "float[1, 1, 4, 4] x, int64[4] s",
        "its attribute nearest_mode is 'round'; supported: round_prefer_floor, round_prefer_ceil, floor, ceil",
    ),
    "norm": ("z = LpPool <kernel_shape = [2, 2], p = -1> (x)", IMAGE, "its attribute p is -1.0; supported: positive numbers"),
    "far": (
        "z = MaxPool <kernel_shape = [2, 2], strides = [1, 9223372036854775807]> (x)", IMAGE,
        "numbers of windows must be below 2147483648, but one is 9223372036854775807",
    ),
    "elements": (
        "i = Constant <value = int64[1, 2] {0, 2}> () z = GatherElements <axis = 1> (x, i)", "float[2, 2] x", "the index 2 leaves an",
    ),
    "coordinates": (
        "i = Constant <value = int64[1, 2] {1, -4}> () z = GatherND (x, i)", "float[2, 3] x", "the index -4 leaves an axis of 3 elements",
    ),
    "places": (
        "i = Constant <value = int64[1, 1] {2}> () z = ScatterND (x, i, u)", "float[2, 3] x, float[1, 3] u",
        "the index 2 leaves an axis of 2 elements",
    ),
    "taken away": (
        "i = Constant <value = int64[4] {0, -4, 3, 0}> () z = Pad (x, i)", "float[2, 3] x",
        "its pads -4 and 0 take away more than the 3 elements of an axis",
    ),
    "shape": (
        "i = Constant <value = int64[2] {-2, 2}> () z = Reshape (x, i)", "float[2, 3] x",
        "its new shape has the extent -2; -1 alone stands for what is left",
    ),
    "lengths": (
        "i = Constant <value = int64[3] {1, 3, 0}> () z = ReverseSequence (x, i)", "float[2, 3] x",
        r"its sequences are \[1, 3, 0\] long, and there are 2 steps",
    ),
    "slices": ("z = Slice (x, i, e)", "float[2, 3] x, int64[2] i, int64[1] e", "it has 2 starts, 1 ends, 2 axes and 2 steps"),
    "mask": ("z = Attention (x, x, x, m)", "float[1, 2, 3, 4] x, float m", "its mask has 0 axes, and needs one of queries and one of keys"),
    "a key": ("z = Attention (x, x, x, m)", "float[1, 2, 3, 4] x, float[3, 1] m", "its mask is of one key, and there are several"),
    "numbers of keys": (
        "z = Attention (x, x, x, , , , n)", "float[1, 2, 3, 4] x, int64[1, 1] n", "its numbers of keys have 2 axes; there is one for each",
    ),
    "features": ("z = ai.onnx.ml.LinearRegressor <coefficients = [1.0]> (x)", IMAGE, "its input has 4 axes; features have one, or a row"),
    "labels": (
        "z = ai.onnx.ml.LabelEncoder <keys_int64s = [1], values_floats = [1.0], values_int64s = [2]> (i)", "int64[3] i",
        "it has 2 of values_strings, values_int64s, values_floats, values_tensor",
    ),
    "softcap": (
        "z = Attention <softcap = nan> (x, x, x)", "float[1, 2, 3, 4] x",
        "its attribute softcap is nan; supported: 0 .* and positive numbers",
    ),
    "random": ("z = RandomNormal <shape = [2], scale = -1.0> ()", "float x", "its mean is 0, scale is -1, between"),
    "seed": ("z = RandomUniform <shape = [2], seed = inf> ()", "float x", "its seed is inf, from which no numbers begin"),
    "nesterov": (
        'z, v = ai.onnx.preview.training.Momentum <alpha = 0.9, beta = 0.9, mode = "x", norm_coefficient = 0.1> (r, t, x, x, x)',
        "float r, int64 t, float[2] x", "its attribute mode is 'x'; supported: nesterov, standard",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_without_a_meaning(name: str) -> None:
    node, inputs, finding = CASES[name]
    outputs = (
        "float[a] z, float[a] v"
        if "z, v" in node
        else "uint8[a] z"
        if "Quantize" in node
        else "bool[a] z"
        if "Regex" in node
        else "float[a] z"
    )
    with pytest.raises(TVMError, match=finding):
        relay.frontend.from_onnx(parsed(node, inputs, outputs))


@pytest.mark.parametrize(
    ("what", "number", "finding"),
    [
        ("feature", 9, "a node tests the feature 9, and its input has 3"),
        ("feature", -1, "a node tests the feature -1, and its input has 3"),
        ("mode", 7, "a node has the mode 7; there are 7"),
        ("target", -1, "a leaf votes for -1, and there are 2 targets"),
        ("target", 2, "a leaf votes for 2, and there are 2 targets"),
    ],
)
def test_trees(what: str, number: int, finding: str) -> None:
    of = {"feature": 0, "mode": 0, "target": 1, what: number}
    one = {"nodes_truenodeids": [0], "nodes_trueleafs": [1], "nodes_falsenodeids": [1], "nodes_falseleafs": [1]}
    tree = onnx.helper.make_node(
        "TreeEnsemble", ["x"], ["z"], domain="ai.onnx.ml", n_targets=2, tree_roots=[0], nodes_featureids=[of["feature"]],
        nodes_modes=from_array(np.array([of["mode"]], np.uint8)), nodes_splits=from_array(np.zeros(1, np.float32)),
        leaf_targetids=[0, of["target"]], leaf_weights=from_array(np.ones(2, np.float32)), **one,
    )  # fmt: skip
    made = parsed("z = Identity (x)", "float[4, 3] x")
    made.graph.node[0].CopyFrom(tree)
    with pytest.raises(TVMError, match=finding):
        relay.frontend.from_onnx(made)


@pytest.mark.parametrize(
    ("auto_pad", "first"), [("NOTSET", 102), ("VALID", 102), ("SAME_LOWER", 102), ("SAME_UPPER", 10)]
)
def test_an_odd_row_of_padding_of_a_transposed_convolution(auto_pad: str, first: int) -> None:
    """It stands before, but for SAME_UPPER."""
    node = f'z = ConvTranspose <auto_pad = "{auto_pad}", output_shape = [8], strides = [2]> (x, w)'
    mod, _ = relay.frontend.from_onnx(parsed(node, "float[1, 1, 5] x, float[1, 1, 3] w"))
    x, w = np.arange(1, 6, dtype="float32"), np.array([1, 10, 100], "float32")
    made = run_function(mod["main"], [x.reshape(1, 1, 5), w.reshape(1, 1, 3)], mod)
    assert np.asarray(made).reshape(-1)[0] == first


@pytest.mark.parametrize(
    ("node", "inputs"),
    [
        ("z = Hardmax (x)", "float[1073741824] x"),
        ("z = TensorScatter (x, u, i)", "float[1073741824, 1, 1] x, float[1073741824, 1, 1] u, int64[1073741824] i"),
    ],
)
def test_axes_that_no_memory_counts(node: str, inputs: str) -> None:
    with pytest.raises(TVMError, match="1073741824 elements; up to 16777216 are supported there"):
        relay.frontend.from_onnx(parsed(node, inputs))
