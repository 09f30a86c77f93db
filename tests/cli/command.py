"""Runs commands in this process, and small models to run them on."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import onnx
from onnx import TensorProto, helper

from tilewright.cli import main, screen


class Done(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str


def command(*args: str | Path) -> Done:
    """`tilewright ARGS`: its exit code and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["tilewright", *map(str, args)]),
        mock.patch.object(screen, "voice", screen.Verbosity()),
        # Progress of a busy machine.
        mock.patch.object(screen, "QUIET_SECONDS", float("inf")),
        mock.patch.object(screen, "console", screen.plain(stderr=True)),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


def write_model(
    path: Path,
    nodes: list[Any],
    shapes: dict[str, list[int | str]],
    outputs: list[str],
    weights: dict[str, Any] | None = None,
) -> Path:
    """An ONNX model of float32 tensors."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [onnx.numpy_helper.from_array(np.asarray(value, "float32"), name) for name, value in (weights or {}).items()],
    )
    domains = [helper.make_opsetid("", 18), helper.make_opsetid("com.acme", 1)]
    onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=9), path)
    return path


def relu_model(path: Path, shape: list[int | str]) -> Path:
    """y = max(x, 0)."""
    return write_model(path, [helper.make_node("Relu", ["x"], ["y"])], {"x": shape}, ["y"])


def dense_model(path: Path, rows: int | str = 4) -> Path:
    """Two layers on x of 4x32 (or so many rows, or a dynamic number of them), with a rectifier between."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w1"], ["y"], name="second"),
    ]
    weights = {"w0": rng.standard_normal((32, 64)), "w1": rng.standard_normal((64, 8))}
    return write_model(path, nodes, {"x": [rows, 32]}, ["y"], weights)
