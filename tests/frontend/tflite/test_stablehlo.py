"""StableHLO's operators in TFLite files that LiteRT has no kernels for, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.tflite.ops.samples import F, rng, values
from tests.frontend.tflite.ops.writer import TYPES, Writer, ours

X, Y = (values(rng(n), F, (3, 4), 0.2, 3.0) for n in "xy")
ONE, THREE = np.array(1, np.int32), np.array(3, np.int32)

PLAIN: dict[str, Any] = {
    "SUBTRACT": np.subtract, "DIVIDE": np.divide, "POWER": np.power, "REMAINDER": np.fmod, "ABS": np.abs, "COSINE": np.cos,
    "EXPONENTIAL": np.exp, "FLOOR": np.floor, "LOG": np.log, "NEGATE": np.negative, "RSQRT": lambda x: 1 / np.sqrt(x), "TANH": np.tanh,
    "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)), "CBRT": np.cbrt, "CLAMP": lambda a, x, b: np.clip(x, a, b), "CONVERT": np.float32,
    "RESHAPE": lambda x: x,
}  # fmt: skip
BOTH = ("SUBTRACT", "DIVIDE", "POWER", "REMAINDER")


def run(
    op: str, inputs: list[np.ndarray], wanted: np.ndarray, options: dict[str, Any] | None = None, kind: str = ""
) -> None:
    w = Writer()
    places = [w.main.input(x.dtype.name, x.shape) for x in inputs]
    assert wanted.dtype.name in TYPES
    made = w.main.op(f"STABLEHLO_{op}", places, [(wanted.dtype.name, wanted.shape)], options, kind)
    (found,) = ours(w.finish(made), inputs)
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", PLAIN)
def test_elements(op: str) -> None:
    inputs = [X, Y] if op in BOTH else [np.float32(0.5) * np.ones_like(X), X, Y] if op == "CLAMP" else [X]
    run(op, inputs, PLAIN[op](*inputs))


@pytest.mark.parametrize("direction", range(6))
def test_compare(direction: int) -> None:
    f = (np.equal, np.not_equal, np.greater_equal, np.greater, np.less_equal, np.less)[direction]
    run(
        "COMPARE",
        [X, np.roll(X, 1, 1)],
        f(X, np.roll(X, 1, 1)),
        {"comparison_direction": direction},
        "StablehloCompareOptions",
    )


def test_moving() -> None:
    run("SELECT", [X > Y, X, Y], np.where(X > Y, X, Y))
    run("AND", [X > 1, Y > 1], (X > 1) & (Y > 1))
    run("OR", [ONE, THREE], ONE | THREE)
    run("CONCATENATE", [X, Y], np.concatenate([X, Y], 0), {"dimension": 0}, "StablehloConcatenateOptions")
    run("TRANSPOSE", [X], X.T, {"permutation": [1, 0]}, "StablehloTransposeOptions")
    cut = {"start_indices": [0, 1], "limit_indices": [3, 4], "strides": [2, 2]}
    run("SLICE", [X], X[0:3:2, 1:4:2], cut, "StablehloSliceOptions")
    run(
        "IOTA", [], np.broadcast_to(np.arange(4, dtype=np.int32), (3, 4)), {"iota_dimension": 1}, "StablehloIotaOptions"
    )
    wide = np.broadcast_to(X[:, None], (3, 2, 4))
    run("BROADCAST_IN_DIM", [X], wide, {"broadcast_dimensions": [0, 2]}, "StablehloBroadcastInDimOptions")
    run("DYNAMIC_SLICE", [X, ONE, THREE], X[1:3, 2:4], {"slice_sizes": [2, 2]}, "StablehloDynamicSliceOptions")
    wanted = X.copy()
    wanted[1:3, 2:4] = Y[:2, :2]
    run("DYNAMIC_UPDATE_SLICE", [X, Y[:2, :2].copy(), ONE, THREE], wanted)


def test_products() -> None:
    a, b = values(rng("a"), F, (2, 3, 4)), values(rng("b"), F, (2, 4, 5))
    dot = {
        "lhs_batching_dimensions": [0],
        "rhs_batching_dimensions": [0],
        "lhs_contracting_dimensions": [2],
        "rhs_contracting_dimensions": [1],
    }
    run("DOT_GENERAL", [a, b], a @ b, dot, "StablehloDotGeneralOptions")
    import torch

    x, w = values(rng("c"), F, (1, 6, 5, 3)), values(rng("d"), F, (3, 2, 3, 4))
    conv = {
        "window_strides": [2, 1], "padding": [1, 0, 1, 1], "lhs_dilation": [1, 1], "rhs_dilation": [1, 2], "input_batch_dimension": 0,
        "input_feature_dimension": 3, "input_spatial_dimensions": [1, 2], "kernel_input_feature_dimension": 2,
        "kernel_output_feature_dimension": 3, "kernel_spatial_dimensions": [0, 1], "output_batch_dimension": 0,
        "output_feature_dimension": 3, "output_spatial_dimensions": [1, 2], "feature_group_count": 1, "batch_group_count": 1,
    }  # fmt: skip
    data = torch.nn.functional.pad(torch.from_numpy(x.transpose(0, 3, 1, 2).copy()), (1, 1, 1, 0))
    wanted = torch.conv2d(
        data, torch.from_numpy(w.transpose(3, 2, 0, 1).copy()), stride=(2, 1), dilation=(1, 2)
    ).numpy()
    run("CONVOLUTION", [x, w], wanted.transpose(0, 2, 3, 1), conv, "StablehloConvolutionOptions")


def test_bodies() -> None:
    """Reductions and sorting name a subgraph."""
    for op, f in (("ADD", np.sum), ("MAXIMUM", np.max)):
        w = Writer()
        g = w.graph("body")
        a, b = g.input(F, ()), g.input(F, ())
        g.table.outputs = g.op(f"STABLEHLO_{op}", [a, b], [(F, ())])
        x, start = w.main.input(F, (3, 4)), w.main.constant(np.array(0, F))
        options = {"dimensions": [1], "body_subgraph_index": 1}
        made = w.main.op("STABLEHLO_REDUCE", [x, start], [(F, (3,))], options, "StablehloReduceOptions")
        np.testing.assert_allclose(ours(w.finish(made), [X])[0], f(X, axis=1), rtol=1e-6)
    w = Writer()
    g = w.graph("order")
    a, b = g.input(F, ()), g.input(F, ())
    g.table.outputs = g.op(
        "STABLEHLO_COMPARE", [a, b], [("bool", ())], {"comparison_direction": 3}, "StablehloCompareOptions"
    )
    x = w.main.input(F, (3, 4))
    made = w.main.op(
        "STABLEHLO_SORT", [x], [(F, (3, 4))], {"dimension": 1, "comparator_subgraph_index": 1}, "StablehloSortOptions"
    )
    np.testing.assert_array_equal(ours(w.finish(made), [X])[0], -np.sort(-X, 1))
