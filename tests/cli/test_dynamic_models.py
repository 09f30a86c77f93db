"""Models with dynamic dimensions and control flow on the command line: the virtual machine by itself, pins, random inputs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.cli.command import command, relu_model, write_model


def open_dense(path: Path) -> Path:
    """y = relu(x w0) w1 on a dynamic number of rows."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="bend"),
        helper.make_node("MatMul", ["b", "w1"], ["y"], name="second"),
    ]
    weights = {"w0": rng.standard_normal((32, 64)), "w1": rng.standard_normal((64, 8))}
    return write_model(path, nodes, {"x": ["rows", 32]}, ["y"], weights)


def pieces_model(path: Path) -> Path:
    """Largest values of pieces of a picture whose width must be a multiple of 16."""
    nodes = [
        helper.make_node("Reshape", ["x", "parts"], ["a"], name="parts"),
        helper.make_node("ReduceMax", ["a"], ["y"], axes=[3, 5], keepdims=0, name="largest"),
    ]
    info = helper.make_tensor_value_info
    shape = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 24, "w"])
    parts = onnx.numpy_helper.from_array(np.array([0, 1, 3, 8, -1, 16], "int64"), "parts")
    graph = helper.make_graph(nodes, "g", [shape], [info("y", TensorProto.FLOAT, None)], [parts])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9), path)
    return path


def loop_model(path: Path) -> Path:
    """y = x doubled as many times as `count` says."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "v"], ["twice"]), helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [info("i", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("v", TensorProto.FLOAT, [3])],
        [info("on", TensorProto.BOOL, []), info("twice", TensorProto.FLOAT, [3])],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["count", "", "x"], ["y"], body=body, name="loop")],
        "g",
        [info("count", TensorProto.INT64, []), info("x", TensorProto.FLOAT, [3])],
        [info("y", TensorProto.FLOAT, [3])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=9), path)
    return path


def test_dynamic_dimensions_run_in_the_virtual_machine(tmp_path: Path) -> None:
    model = open_dense(tmp_path / "m.onnx")
    done = command("compile", model, "-o", tmp_path / "m.so", "--json")
    assert done.code == 0 and json.loads(done.out)["executor"] == "vm", done.err
    assert done.err.startswith(
        "note: the model has dynamic dimensions: x (rows, 32), so it runs in the virtual machine; pinned dimensions (--shape) run faster\n"
    )
    session = onnxruntime.InferenceSession(str(model))
    for rows in (1, 7):
        x = np.random.default_rng(rows).standard_normal((rows, 32)).astype("float32")
        np.savez(tmp_path / "in.npz", x=x)
        done = command("run", tmp_path / "m.so", "-i", tmp_path / "in.npz", "-o", tmp_path / "out.npz")
        assert done.code == 0 and not done.err, done.err
        np.testing.assert_allclose(
            np.load(tmp_path / "out.npz")["y"], session.run(None, {"x": x})[0], rtol=1e-4, atol=1e-4
        )


def test_every_command_takes_dynamic_dimensions(tmp_path: Path) -> None:
    model = open_dense(tmp_path / "m.onnx")
    bench = json.loads(command("bench", model, "--run-shape", "x=5,32", "--iterations", "12", "--json").out)
    assert bench["inputs"] == {"x": {"shape": [5, 32], "dtype": "float32"}}
    assert [r["runs"] for r in bench["milliseconds"]] == [12, 12]
    profile = json.loads(command("profile", model, "--run-shape", "x=5,32", "--duration", "0.1", "--json").out)
    assert sum([k["calls"] for k in profile["kernels"]]) >= 2 and profile["us"] > 0
    memory = json.loads(command("memory", model, "--run-shape", "x=5,32", "--json").out)
    assert memory["inputs"] == 5 * 32 * 4 and memory["outputs"] == 5 * 8 * 4
    # The values between both products, and the result.
    assert 5 * 64 * 4 + 5 * 8 * 4 <= memory["peak_of_tensors"] < 5 * 64 * 4 * 4
    done = command("compare", model, "--run-shape", "x=5,32")
    assert done.code == 0 and "no layer differs" in done.out, done.err


def test_pins_are_tried_before_they_are_proposed(tmp_path: Path) -> None:
    """A size of one would not do: the width must be a multiple of sixteen."""
    model = pieces_model(tmp_path / "m.onnx")
    done = command("compile", model, "--executor", "aot", "-o", tmp_path / "m.so")
    assert done.code == 1
    assert done.err == (
        f"error: {model}: --executor aot needs static dimensions and a fixed order of kernels, but the model has dynamic dimensions:"
        " x (n, 1, 24, w); use --executor vm, or pin them, such as --shape x=1,1,24,224\n"
    )
    pinned = command("compile", model, "--executor", "aot", "--shape", "x=1,1,24,224", "-o", tmp_path / "m.so")
    assert pinned.code == 0, pinned.err


def test_random_inputs_of_dynamic_dimensions_are_some_that_run(tmp_path: Path) -> None:
    done = command("bench", pieces_model(tmp_path / "m.onnx"), "--iterations", "5", "--no-peer", "--json")
    assert done.code == 0, done.err
    assert "random inputs, --seed 0: x float32 1x1x24x" in done.err and "--run-shape sets it" in done.err


def test_control_flow(tmp_path: Path) -> None:
    model = loop_model(tmp_path / "m.onnx")
    done = command("compile", model, "-o", tmp_path / "m.so")
    assert done.code == 0 and "the model has control flow, or results whose size" in done.err, done.err
    np.savez(tmp_path / "in.npz", x=np.array([1, 2, 3], "float32"), count=np.array(4, "int64"))
    assert command("run", tmp_path / "m.so", "-i", tmp_path / "in.npz", "-o", tmp_path / "out.npz").code == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["y"], [16, 32, 48])
    for verb in ("bench", "profile"):
        done = command(verb, model, "-i", tmp_path / "in.npz", "--duration", "0.1", "--json")
        assert done.code == 0, done.err
    assert 4 in [k["calls"] for k in json.loads(done.out)["kernels"] if "add" in k["kernel"]]
    assert command("compare", model, "-i", tmp_path / "in.npz").code == 0
    assert command("memory", model, "-i", tmp_path / "in.npz").code == 0
    done = command("compile", model, "--executor", "graph", "-o", tmp_path / "m.so")
    assert done.code == 1 and done.err == (
        f"error: {model}: --executor graph needs static dimensions and a fixed order of kernels, but the model has control flow, or"
        " results whose size depends on the data; use --executor vm\n"
    )


def test_the_machine_runs_static_models_when_asked(tmp_path: Path) -> None:
    model = relu_model(tmp_path / "m.onnx", [2, 3])
    done = command("compile", model, "--executor", "vm", "-o", tmp_path / "m.so", "--json")
    assert done.code == 0 and "note" not in done.err and json.loads(done.out)["executor"] == "vm"
    assert "2x3" in command("run", tmp_path / "m.so").out


@pytest.mark.parametrize(
    "options, message",
    [
        (["--run-shape", "x=5,31"], "--run-shape x=5,31 does not fit the model, which takes x float32 rowsx32"),
        (["--run-shape", "z=5,32"], "--run-shape: the model has no input 'z'; its inputs are: x float32 rowsx32"),
    ],
)
def test_wrong_shapes_of_a_run(tmp_path: Path, options: list[str], message: str) -> None:
    done = command("bench", open_dense(tmp_path / "m.onnx"), "-q", *options)
    assert done.code == 1 and done.err == f"error: {message}\n"


def test_what_is_made_up_is_said(tmp_path: Path) -> None:
    assert command("compile", relu_model(tmp_path / "m.onnx", [2, 3]), "-o", tmp_path / "m.so").code == 0
    done = command("run", tmp_path / "m.so", "--seed", "7")
    assert done.err == "random inputs, --seed 7: x float32 2x3; --input sets them\n"
    assert command("run", tmp_path / "m.so", "--quiet").err == ""
    done = command("run", tmp_path / "m.so", "--strict")
    assert done.code == 1 and not done.out
    assert done.err == "error: --strict: missing inputs: x float32 2x3; give them by --input\n"
    np.save(tmp_path / "x.npy", np.ones((2, 3), "float32"))
    done = command("run", tmp_path / "m.so", "--strict", "-i", tmp_path / "x.npy")
    assert done.code == 0 and not done.err


def test_element_types_are_converted_on_request(tmp_path: Path) -> None:
    assert command("compile", relu_model(tmp_path / "m.onnx", [2, 3]), "-o", tmp_path / "m.so").code == 0
    np.save(tmp_path / "x.npy", np.full((2, 3), 3, "int64"))
    done = command("run", tmp_path / "m.so", "-i", tmp_path / "x.npy")
    assert done.code == 1 and done.err == (
        "error: input x int64 2x3 does not fit the model, which takes x float32 2x3; --cast converts the type\n"
    )
    done = command("run", tmp_path / "m.so", "-i", tmp_path / "x.npy", "--cast", "-o", tmp_path / "out.npz")
    assert done.code == 0, done.err
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["y"], np.full((2, 3), 3, "float32"))
    np.save(tmp_path / "x.npy", np.zeros((2, 4), "int64"))
    done = command("run", tmp_path / "m.so", "-i", tmp_path / "x.npy", "--cast")
    assert done.err == "error: input x int64 2x4 does not fit the model, which takes x float32 2x3\n"


def test_an_input_given_twice(tmp_path: Path) -> None:
    assert command("compile", relu_model(tmp_path / "m.onnx", [2, 3]), "-o", tmp_path / "m.so").code == 0
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", x=np.zeros((2, 3), "float32"))
    done = command("run", tmp_path / "m.so", "-i", tmp_path / "a.npz", "-i", tmp_path / "b.npz")
    assert done.code == 1 and done.err == (
        "error: the input 'x' is given twice, by two files of --input; only compare takes several sets\n"
    )


def test_more_elements_than_an_axis_has(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("TopK", ["x", "k"], ["values", "places"])],
        "g",
        [info("x", TensorProto.FLOAT, [4, 3]), info("k", TensorProto.INT64, [1])],
        [info("values", TensorProto.FLOAT, None), info("places", TensorProto.INT64, None)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "m.onnx")
    np.save(tmp_path / "k.npy", np.array([9]))
    done = command("run", tmp_path / "m.onnx", "-q", "-i", tmp_path / "k.npy")
    assert done.code == 1 and done.err == (
        "error: the model does not run on these inputs: main: k must not exceed the axis (topk), but they are 9 and 3\n"
    )
