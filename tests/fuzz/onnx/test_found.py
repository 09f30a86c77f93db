"""The smallest ONNX models that the fuzzer found to go wrong; and some of its models, of every generator one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx.parser
import onnxruntime  # noqa: F401
import pytest

from tests.fuzz.onnx.case import Draw, compare, compile_and_run, reference, way_of
from tests.fuzz.onnx.graphs import attempt, draw, generators
from tilewright import backend

found: dict[str, Callable[[Draw], object]] = {}


def case(f: Callable[[Draw], object]) -> Callable[[Draw], object]:
    found[f.__name__] = f
    return f


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))


@case
def kernel_named_like_a_function_of_c(d: Draw) -> None:
    """The kernel `asinh` called the C library's asinh."""
    d.node("Asinh", [d.data([3], "float64")])


@case
def padded_input_shared_by_rows(d: Draw) -> None:
    """Stages below a row loop that compute parts more than once cannot be vectorised by the primitive."""
    x = d.data([1, 3, 14, 3])
    d.node("Conv", [x, d.weight([24, 1, 4, 1])], dilations=[1, 3], group=3, kernel_shape=[4, 1], strides=[1, 2])


@case
def padded_transposed_input_shared_by_rows(d: Draw) -> None:
    d.node("ConvTranspose", [d.data([1, 2, 4, 7]), d.weight([2, 1, 1, 4])], dilations=[1, 3], pads=[0, 1, 0, 1])


@case
def maximum_of_minus_infinities(d: Draw) -> None:
    """Was the lowest finite number."""
    x = np.full((2, 5), -np.inf, "float32")
    d.node("ReduceMax", [d.feed(x, False)], axes=[1])
    d.node("ReduceMin", [d.feed(-x, False)], axes=[1])
    d.node("ArgMax", [d.feed(x, False)], axis=1)
    d.opset = 13


@case
def scale_that_is_no_float64(d: Draw) -> None:
    """1.5 / 0.6 rounds to 2.5 in float32, but not with 0.6's nearest float32 in float64."""
    scales = d.feed(np.array([1, 1, 1, 0.6], "float32"), True)
    attrs = {"coordinate_transformation_mode": "pytorch_half_pixel", "mode": "nearest", "nearest_mode": "floor"}
    d.node("Resize", [d.data([1, 1, 1, 7]), "", scales], **attrs)


@case
def empty_products(d: Draw) -> None:
    """Schedules divided by extents of zero."""
    for a, b in (((2, 3), (3, 0)), ((2, 0), (0, 4)), ((0, 3), (3, 4))):
        d.node("MatMul", [d.data(a), d.data(b)])
    d.node("Softmax", [d.data([8, 0, 1])])


@case
def spatial_loop_inside_of_the_lanes(d: Draw) -> None:
    """The loop that was folded was taken for the reduction's."""
    d.node("ArgMax", [d.data([7, 24, 1, 9], "float64")], axis=-3, keepdims=0)


@pytest.mark.parametrize("name", sorted(found))
@pytest.mark.parametrize("seed", range(2))
def test_found(name: str, seed: int) -> None:
    d = Draw(0, 18)
    found[name](d)
    model = d.model()
    want = reference(model, d.inputs)
    assert isinstance(want, list), want
    compare(compile_and_run(model, d.inputs, way_of(seed)), want, "float32")


@pytest.mark.parametrize(("direction", "want"), [("LEFT", [2, 0, 0, 0, 8]), ("RIGHT", [0, 0, 0, 0, 2])])
def test_shifts_by_more_than_the_width(direction: str, want: list[int]) -> None:
    d = Draw(0, 18)
    x, by = np.array([1, 1, 5, 4, 4], "uint32"), np.array([1, 32, 40, 33, 1], "uint32")
    d.node("BitShift", [d.feed(x, False), d.feed(by, False)], direction=direction)
    (got,) = compile_and_run(d.model(), d.inputs, way_of(0))
    np.testing.assert_array_equal(got, want)


def test_remainder_of_floats_takes_the_divisors_sign() -> None:
    """fmod=0 on floats, which ONNX Runtime refuses."""
    d = Draw(0, 18)
    x = np.array([3.0, -3.0, 5.5, -5.5, 5.5, 4.0], "float32")
    y = np.array([np.inf, np.inf, 2.0, 2.0, -2.0, -2.0], "float32")
    d.node("Mod", [d.feed(x, False), d.feed(y, False)])
    (got,) = compile_and_run(d.model(), d.inputs, way_of(0))
    np.testing.assert_array_equal(got, np.mod(x, y))


def test_conditions_longer_than_their_axis() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[3, 2] x, bool[5] c) => (float[n, 2] y) { y = Compress <axis = 0> (x, c) }'
    x = np.arange(6, dtype="float32").reshape(3, 2)
    (got,) = backend.run_model(onnx.parser.parse_model(text), [x, np.array([False, True, True, True, True])])
    np.testing.assert_array_equal(got, x[1:])


LARGE = ("residual", "transformer", "convnet")
"""Generators of networks that are made of what the others make, and take as long as most of them together."""


@pytest.mark.parametrize("name", sorted(generators))
def test_generator(name: str) -> None:
    for seed in range(2 if name in LARGE else 4):
        outcome = attempt(draw(seed, name)[1], way_of(seed))
        assert outcome.status != "failed", f"seed {seed}: {outcome.text}"


def test_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.onnx.graphs", "--count", "2", "--seed", "1", "--only", "unary"],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "2 models from seed 1: 2 passed" in done.stderr
