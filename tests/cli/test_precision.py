"""compile --precision, and compare: errors against float32 layer by layer, and the first layer that overflows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.cli.command import command, dense_model, write_model


def large_model(path: Path) -> Path:
    """Two layers; the result of the first is near 1e5, which float16 does not hold, and that of the second near 1."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], name="grows"),
        helper.make_node("Relu", ["a"], ["b"], name="bends"),
        helper.make_node("MatMul", ["b", "w1"], ["y"], name="shrinks"),
    ]
    weights = {"w0": 2e4 * rng.standard_normal((32, 64)), "w1": 1e-6 * rng.standard_normal((64, 8))}
    return write_model(path, nodes, {"x": [4, 32]}, ["y"], weights)


@pytest.mark.parametrize("precision, error", [("bf16", 2e-2), ("fp16", 3e-3)])
def test_compare_shows_errors_by_layer(tmp_path: Path, precision: str, error: float) -> None:
    model = dense_model(tmp_path / "dense.onnx")
    done = command("compare", model, "--precision", precision, "--threads", "1")
    assert done.code == 0, done.err
    rows = dict(re.findall(r"│ (\w+)\s+│ [\w]+\s+│\s+(\S+) │", done.out))
    assert {*rows} == {"b", "second", "y"}, done.out
    assert all(0 < float(v) < error for v in rows.values()), done.out
    assert re.search(rf"{precision} \S+ ms, fp32 \S+ ms: \S+ times as fast", done.out)


def test_compare_names_the_first_layer_that_overflows(tmp_path: Path) -> None:
    model = large_model(tmp_path / "large.onnx")
    done = command("compare", model, "--precision", "fp16", "--threads", "1")
    assert done.code == 1
    assert re.search(
        r"error: bends \(fused_nn_\w+\) overflows: \d+ of 256 values are infinite or NaN at fp16, but finite in float32; it is the first"
        r" layer that does\. float16 holds values up to 65504\. --precision bf16 has the range of float32; else keep the"
        r" operator in float32 with relay\.op\.register_mixed_precision_conversion",
        done.err,
    ), done.err
    assert command("compare", model, "--precision", "bf16", "--threads", "1").code == 0


def test_compare_with_another_runtime(tmp_path: Path) -> None:
    model = dense_model(tmp_path / "dense.onnx")
    done = command("compare", model, "--tolerance", "1e-5")
    assert done.code == 0 and "outputs of fp32 against ONNX Runtime" in done.out, done.err


def test_compare_holds_a_tolerance(tmp_path: Path) -> None:
    model = dense_model(tmp_path / "dense.onnx")
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((4, 32)).astype("float32"))
    done = command("compare", model, "--precision", "bf16", "--tolerance", "1e-6", "-i", tmp_path / "x.npy")
    assert done.code == 1
    assert re.search(
        r"error: output y differs from float32 by \S+ of its largest value, more than --tolerance 1e-06", done.err
    )


def test_masks_stay_finite(tmp_path: Path) -> None:
    """The lowest float32, which exporters add where attention must not look, becomes the lowest of the narrow type."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
        helper.make_node("Add", ["a", "mask"], ["b"], name="masked"),
        helper.make_node("Softmax", ["b"], ["y"], name="probabilities"),
    ]
    mask = np.where(np.arange(8) < 5, 0, np.finfo("float32").min)
    model = write_model(tmp_path / "mask.onnx", nodes, {"x": [4, 8]}, ["y"], {"w": np.eye(8), "mask": mask})
    for precision in ("bf16", "fp16"):
        done = command("compare", model, "--precision", precision, "--tolerance", "1e-2")
        assert done.code == 0, done.err


def test_sums_beyond_the_narrow_type_are_compared_as_they_are(tmp_path: Path) -> None:
    """Scores near 2e5 stay in float32 up to the softmax: they are no further off than others."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="scores"),
        helper.make_node("Softmax", ["a"], ["y"], name="probabilities"),
    ]
    model = write_model(
        tmp_path / "scores.onnx", nodes, {"x": [4, 64]}, ["y"], {"w": 1e4 * rng.standard_normal((64, 16))}
    )
    done = command("compare", model, "--precision", "fp16", "--json")
    assert done.code == 0, done.err
    errors = {layer["name"]: layer["error"] for layer in json.loads(done.out)["layers"]}
    assert 0 < errors["scores"] < 3e-3


def test_libraries_keep_inputs_and_outputs_in_float32(tmp_path: Path) -> None:
    model = dense_model(tmp_path / "dense.onnx")
    x = np.random.default_rng(1).standard_normal((4, 32)).astype("float32")
    np.savez(tmp_path / "in.npz", x=x)
    for precision in ("fp32", "bf16"):
        library = tmp_path / f"{precision}.so"
        assert command("compile", model, "--precision", precision, "-o", library).code == 0
        assert command("run", library, "-i", tmp_path / "in.npz", "-o", tmp_path / f"{precision}.npz").code == 0
    wide, narrow = (np.load(tmp_path / f"{p}.npz")["y"] for p in ("fp32", "bf16"))
    assert narrow.dtype == np.float32
    assert 0 < np.abs(wide - narrow).max() < 2e-2 * np.abs(wide).max()


def test_wrong_precisions(tmp_path: Path) -> None:
    model = dense_model(tmp_path / "dense.onnx")
    done = command("compile", model, "--precision", "int4", "-o", tmp_path / "a.so")
    assert done.code == 2 and "'int4' is not one of 'fp32', 'bf16', 'fp16', 'int8'" in done.err
    assert command("compile", model, "-o", tmp_path / "a.so").code == 0
    done = command("bench", tmp_path / "a.so", "--precision", "bf16")
    assert done.code == 1 and "is a compiled library, so its precision is fixed" in done.err
