"""Old versions of operators: a share of them through ONNX's own tests (`onnx_versions` has all), and by hand those that no test fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import parser

from tests.frontend.onnx.versions import alike, findings, versions
from tilewright.relay.frontend.onnx.program import Program

SHARE = 4
BY_HAND = {
    ("BatchNormalization", 1), ("BatchNormalization", 6), ("Cast", 1), ("Clip", 1), ("DepthToSpace", 1), ("Dropout", 1), ("Dropout", 6),
    ("Gemm", 1), ("GlobalLpPool", 1), ("GlobalLpPool", 2), ("Loop", 1), ("LpPool", 1), ("MaxRoiPool", 1), ("Multinomial", 7),
    ("Optional", 15), ("PRelu", 1), ("PRelu", 6), ("Pad", 1), ("RNN", 1), ("RandomNormal", 1), ("RandomNormalLike", 1),
    ("RandomUniform", 1), ("RandomUniformLike", 1), ("Resize", 10), ("Resize", 11), ("RoiAlign", 10), ("Split", 1), ("Tile", 1),
    ("Upsample", 1),
}  # fmt: skip
"""Versions that none of ONNX's tests fits, or no reference knows."""


@pytest.mark.parametrize("part", range(4))
def test_versions(part: int) -> None:
    chosen = [v for v in versions()[part :: 4 * SHARE] if v not in BY_HAND]
    assert {v: found for v in chosen if (found := list(findings(*v, 1)))} == {}


def model(opset: int, text: str) -> Any:
    return parser.parse_model(f'<ir_version: {3 if opset < 7 else 8}, opset_import: ["" : {opset}]>\n g {text}')


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


X = numbers(1, 4, 6, 6)
S = {"s": np.abs(numbers(4)), "b": numbers(4), "m": numbers(4)[::-1].copy(), "v": np.abs(numbers(4)) + 1}
NORM = "(float[1,4,6,6] x, float[4] s, float[4] b, float[4] m, float[4] v) => (float[1,4,6,6] y)"
IMAGE = "(float[1,4,6,6] x) => (float[n,c,h,w] y)"
REGIONS = {"x": X, "r": np.array([[0, 0, 0, 4, 4], [0, 1, 1, 5, 3]], np.float32)}
CELL = {"x": numbers(3, 2, 4), "w": numbers(1, 5, 4), "r": numbers(1, 5, 5), "b": numbers(1, 10)}
TWINS: dict[str, tuple[int, str, int, str, dict[str, np.ndarray]]] = {
    "BatchNormalization-1": (
        1, NORM + "{ y = BatchNormalization <consumed_inputs = [0, 0, 0, 1, 1], is_test = 1> (x, s, b, m, v) }",
        15, NORM + "{ y = BatchNormalization (x, s, b, m, v) }", {"x": X, **S},
    ),
    "BatchNormalization-6": (
        6, NORM + "{ y = BatchNormalization <is_test = 1> (x, s, b, m, v) }", 15, NORM + "{ y = BatchNormalization (x, s, b, m, v) }",
        {"x": X, **S},
    ),
    "Cast-1": (
        1, '(float[3] x) => (int32[3] y) { y = Cast <to = "INT32"> (x) }', 13, "(float[3] x) => (int32[3] y) { y = Cast <to = 6> (x) }",
        {"x": np.array([-1.5, 0, 7.9], np.float32)},
    ),
    "Clip-1": (
        1, f"{IMAGE} {{ y = Clip <min = -0.5, max = 0.25, consumed_inputs = [0]> (x) }}",
        13, f"{IMAGE} <float a = {{-0.5}}, float b = {{0.25}}> {{ y = Clip (x, a, b) }}", {"x": X},
    ),
    "DepthToSpace-1": (
        1, f"{IMAGE} {{ y = DepthToSpace <blocksize = 2> (x) }}", 13, f'{IMAGE} {{ y = DepthToSpace <blocksize = 2, mode = "DCR"> (x) }}',
        {"x": X},
    ),
    "Dropout-1": (1, f"{IMAGE} {{ y = Dropout <is_test = 1, ratio = 0.3> (x) }}", 13, f"{IMAGE} {{ y = Identity (x) }}", {"x": X}),
    "Dropout-6": (6, f"{IMAGE} {{ y = Dropout <is_test = 1> (x) }}", 13, f"{IMAGE} {{ y = Identity (x) }}", {"x": X}),
    "Gemm-1": (
        1, "(float[3,4] a, float[4,5] b, float[5] c) => (float[3,5] y) { y = Gemm <broadcast = 1, alpha = 0.5, beta = 2.0> (a, b, c) }",
        13, "(float[3,4] a, float[4,5] b, float[5] c) => (float[3,5] y) { y = Gemm <alpha = 0.5, beta = 2.0> (a, b, c) }",
        {"a": numbers(3, 4), "b": numbers(4, 5), "c": numbers(5)},
    ),
    "GlobalLpPool-1": (1, f"{IMAGE} {{ y = GlobalLpPool <p = 3.0> (x) }}", 13, f"{IMAGE} {{ y = GlobalLpPool <p = 3> (x) }}", {"x": X}),
    "GlobalLpPool-2": (2, f"{IMAGE} {{ y = GlobalLpPool (x) }}", 13, f"{IMAGE} {{ y = GlobalLpPool <p = 2> (x) }}", {"x": X}),
    "Loop-1": tuple(  # type: ignore[dict-item]
        part
        for opset in (1, 13)
        for part in (
            opset,
            """(int64 n, bool c, float[2] x) => (float[2] y, float[k,2] rows) { y, rows = Loop (n, c, x) <
            body = b (int64 i, bool go, float[2] s) => (bool d, float[2] t, float[2] r) {
            d = Identity (go) t = Add (s, s) r = Neg (s) }> }""",
        )
    ) + ({"n": np.array(3), "c": np.array(True), "x": numbers(2)},),
    "LpPool-1": (
        1, f"{IMAGE} {{ y = LpPool <kernel_shape = [2, 3], p = 3.0, pads = [0, 1, 0, 1]> (x) }}",
        11, f"{IMAGE} {{ y = LpPool <kernel_shape = [2, 3], p = 3, pads = [0, 1, 0, 1]> (x) }}", {"x": X},
    ),
    "MaxRoiPool-1": tuple(  # type: ignore[dict-item]
        part
        for opset in (1, 13)
        for part in (opset, "(float[1,4,6,6] x, float[2,5] r) => (float[n,c,h,w] y) { y = MaxRoiPool <pooled_shape = [2, 2]> (x, r) }")
    ) + (REGIONS,),
    "PRelu-1": (
        1, "(float[1,4,6,6] x, float[4] s) => (float[1,4,6,6] y) { y = PRelu (x, s) }",
        16, "(float[1,4,6,6] x, float[4] s) => (float[1,4,6,6] y) <int64[2] a = {1, 2}> { t = Unsqueeze (s, a) y = PRelu (x, t) }",
        {"x": X, "s": S["s"]},
    ),
    "Pad-1": (
        1, f'{IMAGE} {{ y = Pad <paddings = [0, 0, 1, 0, 0, 0, 2, 1], mode = "reflect"> (x) }}',
        13, f'{IMAGE} <int64[8] p = {{0, 0, 1, 0, 0, 0, 2, 1}}> {{ y = Pad <mode = "reflect"> (x, p) }}', {"x": X},
    ),
    "RNN-1": tuple(  # type: ignore[dict-item]
        part
        for opset in (1, 14)
        for part in (
            opset,
            "(float[3,2,4] x, float[1,5,4] w, float[1,5,5] r, float[1,10] b) => (float[3,1,2,5] y, float[1,2,5] h)"
            "{ y, h = RNN <hidden_size = 5> (x, w, r, b) }",
        )
    ) + (CELL,),
    "Resize-10": tuple(  # type: ignore[dict-item]
        part
        for opset in (10, 10)
        for part in (opset, f'{IMAGE} <float[4] s = {{1, 1, 2.5, 0.5}}> {{ y = Resize <mode = "linear"> (x, s) }}')
    ) + ({"x": X},),
    "Resize-11": tuple(  # type: ignore[dict-item]
        part
        for opset in (11, 11)
        for part in (
            opset,
            f'{IMAGE} <float[8] r = {{0, 0, 0.1, 0.2, 1, 1, 0.8, 0.7}}, float[4] s = {{1, 1, 2, 1.5}}> {{ y = Resize <mode = "linear",'
            ' coordinate_transformation_mode = "tf_crop_and_resize"> (x, r, s) }',
        )
    ) + ({"x": X},),
    "RoiAlign-10": tuple(  # type: ignore[dict-item]
        part
        for opset in (10, 10)
        for part in (
            opset,
            "(float[1,4,6,6] x, float[2,4] r, int64[2] i) => (float[n,c,h,w] y)"
            "{ y = RoiAlign <output_height = 2, output_width = 3, sampling_ratio = 2, spatial_scale = 0.5> (x, r, i) }",
        )
    ) + ({"x": X, "r": 2 * REGIONS["r"][:, 1:].copy(), "i": np.zeros(2, np.int64)},),
    "Split-1": (
        1, "(float[5,2] x) => (float[n,2] y, float[m,2] z) <float[2] s = {2, 3}> { y, z = Split <axis = 0> (x, s) }",
        13, "(float[5,2] x) => (float[n,2] y, float[m,2] z) <int64[2] s = {2, 3}> { y, z = Split <axis = 0> (x, s) }", {"x": numbers(5, 2)},
    ),
    "Tile-1": (
        1, f"{IMAGE} <float[1] t = {{3}}, float[1] a = {{2}}> {{ y = Tile (x, t, a) }}",
        13, f"{IMAGE} <int64[4] t = {{1, 1, 3, 1}}> {{ y = Tile (x, t) }}", {"x": X},
    ),
    "Upsample-1": (
        1, f"{IMAGE} {{ y = Upsample <height_scale = 2.0, width_scale = 1.5, mode = \"bilinear\"> (x) }}",
        9, f'{IMAGE} <float[4] s = {{1, 1, 2, 1.5}}> {{ y = Upsample <mode = "linear"> (x, s) }}', {"x": X},
    ),
    "Scan-8": tuple(  # type: ignore[dict-item]
        part
        for opset in (8, 8)
        for part in (
            opset,
            """(int64[2] n, float[2,3] s, float[2,4,3] x) => (float[2,3] last, float[2,4,3] rows) { last, rows = Scan <num_scan_inputs = 1,
            body = b (float[3] a, float[3] r) => (float[3] t, float[3] o) { t = Add (a, r) o = Neg (t) }> (n, s, x) }""",
        )
    ) + ({"n": np.array([2, 4]), "s": numbers(2, 3), "x": numbers(2, 4, 3)},),
}  # fmt: skip
"""A model of an old opset, and one that says the same in words that ONNX Runtime has kernels for."""


@pytest.mark.parametrize("name", TWINS)
def test_twins(name: str) -> None:
    opset, text, later, same, feeds = TWINS[name]
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model(later, same).SerializeToString(), options, providers=["CPUExecutionProvider"])
    for got, want in zip(Program(model(opset, text))(feeds), session.run(None, feeds), strict=True):
        assert alike(got, want)


def test_defaults_of_five_digits() -> None:
    x = numbers(100)
    for opset, alpha, gamma in ((1, 1.6732, 1.0507), (6, 1.67326319217681884765625, 1.05070102214813232421875)):
        got = Program(model(opset, "(float[100] x) => (float[100] y) { y = Selu (x) }"))([x])[0]
        np.testing.assert_allclose(got, gamma * np.where(x > 0, x, alpha * np.expm1(x)), rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("op, low, high", [("RandomUniform", 0, 1), ("RandomNormal", -9, 9)])
def test_random_numbers(op: str, low: float, high: float) -> None:
    got = Program(
        model(1, f"(float[5] x) => (double[50] y, float[5] z) {{ y = {op} <shape = [50], dtype = 11> () z = Neg (x) }}")
    )([numbers(5)])
    assert got[0].dtype == np.float64 and got[0].shape == (50,) and low <= got[0].min() < got[0].max() <= high
    got = Program(model(1, f"(float[5,10] x) => (float[5,10] y) {{ y = {op}Like (x) }}"))([numbers(5, 10)])
    assert got[0].dtype == np.float32 and got[0].shape == (5, 10) and low <= got[0].min() < got[0].max() <= high
    got = Program(model(7, "(float[2,3] x) => (int32[2,20] y) { y = Multinomial <sample_size = 20> (x) }"))(
        [numbers(2, 3)]
    )
    assert got[0].dtype == np.int32 and set(got[0].reshape(-1)) <= {0, 1, 2}


def test_an_optional() -> None:
    text = "(float[3] x) => (float[3] y) { o = Optional (x) y = OptionalGetElement (o) }"
    np.testing.assert_array_equal(Program(model(15, text))([numbers(3)])[0], numbers(3))


EARLY = {
    "Affine": "Affine <alpha = 1.5, beta = -0.5> (x)",
    "Scale": "Scale <scale = 0.3> (x)",
    "ImageScaler": "ImageScaler <scale = 0.3, bias = [1.0, 2.0, 3.0, 4.0]> (x)",
    "ScaledTanh": "ScaledTanh <alpha = 1.7, beta = 0.6> (x)",
    "ParametricSoftplus": "ParametricSoftplus <alpha = 1.7, beta = 0.6> (x)",
    "Crop": "Crop <border = [1, 2, 0, 1]> (x)",
    "Crop to a size": "Crop <border = [1, 2, 0, 1], scale = [3, 2]> (x)",
    "MeanVarianceNormalization": "MeanVarianceNormalization (x)",
    "MeanVarianceNormalization across": "MeanVarianceNormalization <across_channels = 1> (x)",
    "MeanVarianceNormalization of means": "MeanVarianceNormalization <normalize_variance = 0> (x)",
    "ThresholdedRelu": "ThresholdedRelu <alpha = 0.4> (x)",
}


@pytest.mark.parametrize("name", EARLY)
def test_experiments_of_the_first_opsets(name: str) -> None:
    check_beside_onnx_runtime(model(7, f"{IMAGE} {{ y = {EARLY[name]} }}"), {"x": X})


def test_slices_of_the_first_opsets() -> None:
    text = "int64[2] a = {1, 0}, int64[2] b = {4, -1}, int64[2] c = {2, 3}"
    check_beside_onnx_runtime(model(7, f"{IMAGE} <{text}> {{ y = DynamicSlice (x, a, b, c) }}"), {"x": X})


def test_layer_normalization_before_its_time() -> None:
    # ONNX Runtime's optimizer puts it into models of any opset.
    text = "(float[2,5] x, float[5] s, float[5] b) => (float[2,5] y) { y = LayerNormalization <axis = -1> (x, s, b) }"
    check_beside_onnx_runtime(model(12, text), {"x": numbers(2, 5), "s": numbers(5), "b": numbers(5)})


def check_beside_onnx_runtime(made: Any, inputs: dict[str, np.ndarray]) -> None:
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(Program(made)(inputs)[0], session.run(None, inputs)[0], rtol=1e-4, atol=1e-5)
