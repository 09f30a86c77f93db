"""Resize with extents, sizes and scales that only a run knows, against ONNX Runtime, or ONNX's reference where that departs from it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import ModelProto, parser
from onnx.reference import ReferenceEvaluator

import tilewright as tvm
from tilewright import relay

NUMBERS = (
    "int64 zero = {0}, int64[1] first = {0}, int64[1] second = {2}, int64[1] last = {4}, float[2] ones = {1, 1}, "
    "int64[4] twice = {1, 1, 2, 2}, float[4] doubled = {1, 1, 2, 2}, float[4] uneven = {1, 1, 1.7, 0.6}, "
    "float[8] part = {0, 0, 0.1, 0.2, 1, 1, 0.9, 0.8}"
)
HOWS = {
    "sizes of shapes": ("s = Shape (x) sizes = Mul (s, twice)", "x, roi, , sizes"),
    "sizes of another input": (
        "s = Shape (x) front = Slice (s, first, second) t = Shape (y) back = Slice (t, second, last)"
        " sizes = Concat <axis = 0> (front, back)",
        "x, roi, , sizes",
    ),
    "whole scales": ("", "x, roi, doubled"),
    "uneven scales": ("", "x, roi, uneven"),
    "scales of shapes": (
        "s = Shape (x) t = Shape (y) a = Slice (s, second, last) b = Slice (t, second, last)"
        " fa = Cast <to = 1> (a) fb = Cast <to = 1> (b) ratio = Div (fb, fa) scales = Concat <axis = 0> (ones, ratio)",
        "x, roi, scales",
    ),
    "sizes that are given": ("sizes = Identity (n)", "x, roi, , sizes"),
    "scales that are given": ("scales = Identity (f)", "x, roi, scales"),
}
COORDINATES = (
    "half_pixel",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "half_pixel_symmetric",
    "tf_crop_and_resize",
)
KINDS = [
    *[f"mode = 'nearest', nearest_mode = '{r}'" for r in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")],
    "mode = 'linear'", "mode = 'cubic'", "mode = 'cubic', cubic_coeff_a = -0.5, exclude_outside = 1",
    "mode = 'linear', antialias = 1", "mode = 'cubic', antialias = 1, exclude_outside = 1",
]  # fmt: skip


def model(body: str, inputs: str, opset: int = 19) -> ModelProto:
    """A model that gives z."""
    text = f"<ir_version: 8, opset_import: ['' : {opset}]> g ({inputs}) => (float z) <{NUMBERS}> {{ {body} }}"
    made = parser.parse_model(text.replace("'", '"'))
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


def check(made: ModelProto, values: Mapping[str, Any], tolerance: float = 1e-4, by_reference: bool = False) -> None:
    """The machine's answer is the right one."""
    feeds = {i.name: values[i.name] for i in made.graph.input}
    run = ReferenceEvaluator(made).run if by_reference else ort.InferenceSession(made.SerializeToString()).run
    (want,) = run(None, feeds)
    mod, _ = relay.frontend.from_onnx(made)
    arguments = [feeds[p.name_hint] for p in mod["main"].params]
    got = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()(*arguments).numpy()
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def values(dtype: str = "float32") -> dict[str, np.ndarray]:
    """Inputs of an odd size."""
    draw = np.random.default_rng(0)
    return {
        "x": draw.standard_normal((1, 2, 5, 7)).astype(dtype),
        "y": draw.standard_normal((1, 2, 9, 11)).astype("float32"),
        "n": np.array([1, 2, 8, 4]),
        "f": np.array([1, 1, 1.7, 0.6], np.float32),
    }


CASES = [
    (how, coordinates, kind)
    for k, (how, coordinates, kind) in enumerate(itertools.product(HOWS, COORDINATES, KINDS))
    if not ("antialias" in kind and "crop" in coordinates) and k % 11 == 0
]


@pytest.mark.parametrize("how, coordinates, kind", CASES)
def test_images_of_dynamic_size(how: str, coordinates: str, kind: str) -> None:
    body, inputs = HOWS[how]
    inputs = inputs.replace("roi", "part" if "crop" in coordinates else "")
    resize = f"z = Resize <{kind}, coordinate_transformation_mode = '{coordinates}'> ({inputs})"
    given = "float[1, 2, h, w] x, float[1, 2, p, q] y, int64[4] n, float[4] f"
    # ONNX Runtime takes the extents' ratio here for the scale that was given.
    departs = coordinates in ("align_corners", "half_pixel_symmetric") and how in (
        "uneven scales",
        "scales that are given",
    )
    check(model(f"{body} {resize}", given), values(), by_reference=departs)


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_one_scale_for_all_axes(policy: str) -> None:
    body = f"s = Shape <start = 2> (y) z = Resize <axes = [2, 3], mode = 'linear', keep_aspect_ratio_policy = '{policy}'> (x, , , s)"
    check(model(body, "float[1, 2, h, w] x, float[1, 2, p, q] y"), values())


@pytest.mark.parametrize("axes", ["[2]", "[1, 2]", "[3, 2]", "[-1]"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_some_axes(axes: str, mode: str) -> None:
    count = axes.count(",") + 1
    factors = "{" + ", ".join(["1.5"] * count) + "}"
    body = f"f = Constant <value = float[{count}] {factors}> () z = Resize <axes = {axes}, mode = '{mode}'> (x, , f)"
    check(model(body, "float[n, c, h, w] x"), values())


@pytest.mark.parametrize("rank", [3, 5])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_lines_and_volumes(rank: int, mode: str) -> None:
    shape = (1, 2, 4, 5, 3)[:rank]
    extents = ", ".join(["1", "2", "a", "b", "c"][:rank])
    factors = ", ".join(["1", "1", "2", "3", "2"][:rank])
    body = f"f = Constant <value = float[{rank}] {{{factors}}}> () z = Resize <mode = '{mode}'> (x, , f)"
    check(model(body, f"float[{extents}] x"), {"x": np.random.default_rng(0).standard_normal(shape).astype("float32")})


def test_first_operators() -> None:
    """Upsample and the first Resize: rounded down, without a middle."""
    check(model("z = Resize <mode = 'linear'> (x, doubled)", "float[1, 2, h, w] x", 10), values())
    check(model("z = Upsample <mode = 'nearest'> (x, doubled)", "float[1, 2, h, w] x", 9), values())


def test_extents_stay_known() -> None:
    """What follows knows that an axis has twice as many elements as the input's, and that channels are what they were."""
    mod, _ = relay.frontend.from_onnx(model("z = Resize <mode = 'nearest'> (x, , doubled)", "float[n, 2, h, w] x"))
    assert (
        str(mod["main"].checked_type)
        == "fn (Tensor[(n, 2, h, w), float32]) -> Tensor[(n, 2, (h * 2), (w * 2)), float32]"
    )
    body = "s = Shape (x) sizes = Mul (s, twice) z = Resize <mode = 'linear'> (x, , , sizes)"
    assert "image.resize2d" in relay.frontend.from_onnx(model(body, "float[n, 2, h, w] x"))[0].astext()


def test_half_precision() -> None:
    body = "z16 = Resize <mode = 'cubic'> (x, , uneven) z = Cast <to = 1> (z16)"
    check(model(body, "float16[1, 2, h, w] x"), values("float16"), 1e-2)
