"""Inputs fixed to values, parts cut out, int8 by samples; compare over several inputs and of compiled libraries."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.cli.command import command, dense_model, write_model
from tests.cli.test_dynamic_models import loop_model


def outputs(library: Path, **inputs: object) -> dict[str, np.ndarray]:
    """What a library answers for these inputs."""
    np.savez(library.with_suffix(".in.npz"), **{n: np.asarray(v) for n, v in inputs.items()})
    out = library.with_suffix(".out.npz")
    done = command("run", library, "-i", library.with_suffix(".in.npz"), "-o", out, "--strict")
    assert done.code == 0, done.err
    with np.load(out) as found:
        return dict(found)


X = np.random.default_rng(1).standard_normal((4, 32)).astype("float32")


# --- values


def test_a_fixed_count_unrolls_a_loop(tmp_path: Path) -> None:
    model = loop_model(tmp_path / "m.onnx")
    done = command("compile", model, "--value", "count=3", "-o", tmp_path / "m.so", "--json")
    assert done.code == 0 and "note" not in done.err and json.loads(done.out)["executor"] == "aot", done.err
    np.testing.assert_array_equal(outputs(tmp_path / "m.so", x=np.ones(3, "float32"))["y"], [8, 8, 8])
    done = command("compare", model, "--value", "count=3")
    assert done.code == 0 and "0.0e+00" in done.out, done.err


def test_values_of_arrays_and_files(tmp_path: Path) -> None:
    nodes = [helper.make_node("Mul", ["x", "k"], ["y"])]
    model = write_model(tmp_path / "m.onnx", nodes, {"x": [3], "k": [3]}, ["y"])
    np.save(tmp_path / "k.npy", np.array([1, 2, 3], "float32"))
    for value in ("k=1,2,3", f"k={tmp_path / 'k.npy'}"):
        library = tmp_path / f"{value.endswith('npy')}.so"
        assert command("compile", model, "--value", value, "-o", library).code == 0
        np.testing.assert_array_equal(outputs(library, x=np.ones(3, "float32"))["y"], [1, 2, 3])
    done = command("bench", model, "--value", "k=1,2,3", "--iterations", "6", "--json")
    assert done.code == 0 and len(json.loads(done.out)["milliseconds"]) == 1
    assert "note: ONNX Runtime is not measured, because it would run the whole model, with all its inputs" in done.err


def test_values_of_other_formats(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Scaled(torch.nn.Module):
        def forward(self, x, k):  # type: ignore[no-untyped-def]
            return torch.relu(x) * k

    program = torch.export.export(Scaled(), (torch.ones(3), torch.ones(3)))
    torch.export.save(program, tmp_path / "m.pt2")
    done = command("compile", tmp_path / "m.pt2", "--value", "k=1,2,3", "-o", tmp_path / "m.so")
    assert done.code == 0, done.err
    assert [*outputs(tmp_path / "m.so", x=np.ones(3, "float32")).values()][0].tolist() == [1, 2, 3]
    done = command("compile", tmp_path / "m.pt2", "--value", "z=1", "-o", tmp_path / "m.so")
    assert done.err == "error: the model has no input 'z' to fix; its inputs are: x, k\n"


VALUES = [
    ("count=x", 1, "error: --value count=x: a value is a number, numbers separated by commas, true, false, or a file NAME.npy\n"),
    ("count=1.5", 1, "error: the value for the input 'count', float64 scalar, does not fit: it takes int64 scalar\n"),
    ("count=1,2", 1, "error: the value for the input 'count', int64 2, does not fit: it takes int64 scalar\n"),
    ("count=99999999999999999999", 1, "error: --value count=99999999999999999999: a number in it is too large for 64 bits\n"),
    ("count=no.npy", 1, "error: --value count=no.npy: this .npy file cannot be read: no.npy: No such file or directory\n"),
    ("n=3", 1, "the model has no input 'n' to fix; its inputs are: count, x\n"),
    ("count", 2, "'count' is not of the form NAME=VALUE, such as sr=16000, axes=0,1 or mask=mask.npy"),
]  # fmt: skip


@pytest.mark.parametrize("value, code, message", VALUES)
def test_wrong_values(tmp_path: Path, value: str, code: int, message: str) -> None:
    done = command("compile", loop_model(tmp_path / "m.onnx"), "--value", value, "-o", tmp_path / "m.so")
    assert done.code == code and message in done.err, done.err


# --- parts


@pytest.mark.parametrize("name", ["b", "second"])
def test_an_inner_tensor_as_output_and_as_input(tmp_path: Path, name: str) -> None:
    model = dense_model(tmp_path / "m.onnx")
    whole = onnxruntime.InferenceSession(str(model)).run(None, {"x": X})[0]
    front, back = tmp_path / "front.so", tmp_path / "back.so"
    done = command("compile", model, "--outputs", "middle=b", "-o", front)
    assert done.code == 0, done.err
    middle = outputs(front, x=X)
    assert list(middle) == ["middle"] and middle["middle"].shape == (4, 64)
    done = command("compile", model, "--inputs-at", "b", "-o", back)
    assert done.code == 0, done.err
    np.testing.assert_allclose(outputs(back, b=middle["middle"])["y"], whole, rtol=1e-4, atol=1e-4)
    both = tmp_path / "both.so"
    done = command("compile", model, "--outputs", f"y,{name}", "-o", both)
    assert done.code == 0 and list(outputs(both, x=X)) == ["y", name], done.err


def test_inputs_that_nothing_needs_are_gone(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["a"], ["p"], name="bend"),
        helper.make_node("Add", ["p", "b"], ["y"], name="sum"),
    ]
    model = write_model(tmp_path / "m.onnx", nodes, {"a": [3], "b": [3]}, ["y"])
    assert command("compile", model, "--outputs", "p", "-o", tmp_path / "m.so").code == 0
    assert outputs(tmp_path / "m.so", a=np.array([-1, 0, 1], "float32"))["p"].tolist() == [0, 0, 1]
    done = command("memory", model, "--outputs", "p", "--json")
    assert json.loads(done.out)["inputs"] == 12


PARTS = [
    (["--outputs", "secnd"], "error: --outputs secnd: the imported program has no value of that name; there are second"),
    (["--outputs", "b,b"], "'b' is given twice\n"),
    (["--outputs", "new=b,new=y"], "'new' is given twice\n"),
    (["--outputs", "new="], "'new=' is not a list of names such as layer3,layer4\n"),
    (["--inputs-at", "b,b"], "'b' is given twice\n"),
    (["--shape", "x=1,2", "--shape", "x=1,3"], "'x' is given twice\n"),
    (["--value", "x=1", "--value", "x=2"], "'x' is given twice\n"),
    (["--inputs-at", "y", "--outputs", "b"], "error: --inputs-at y: no output needs it; leave it out, or give other --outputs\n"),
]  # fmt: skip


@pytest.mark.parametrize("options, message", PARTS)
def test_wrong_parts(tmp_path: Path, options: list[str], message: str) -> None:
    done = command("compile", dense_model(tmp_path / "m.onnx"), *options, "-o", tmp_path / "m.so")
    assert done.code == (1 if message.startswith("error") else 2) and message in done.err, done.err


def test_parts_and_another_runtime(tmp_path: Path) -> None:
    model = dense_model(tmp_path / "m.onnx")
    done = command("compare", model, "--outputs", "b")
    assert done.code == 1 and done.err == (
        "error: --outputs and --inputs-at cut the model, but onnxruntime runs it whole; leave them out, or use --reference float32\n"
    )
    assert command("compare", model, "--outputs", "b", "--precision", "bf16").code == 0


# --- int8


def picture_model(path: Path) -> Path:
    """A convolution and a product."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], name="bend"),
        helper.make_node("Conv", ["b", "v"], ["c"], name="next", pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c"], ["y"], name="mean"),
    ]
    weights = {"w": rng.standard_normal((16, 3, 3, 3)) / 5, "v": rng.standard_normal((16, 16, 3, 3)) / 12}
    return write_model(path, nodes, {"x": [1, 3, 8, 8]}, ["y"], weights)


@pytest.mark.parametrize("shape", [(6, 3, 8, 8), (6, 1, 3, 8, 8)])
def test_int8(tmp_path: Path, shape: tuple[int, ...]) -> None:
    model = picture_model(tmp_path / "m.onnx")
    np.savez(tmp_path / "s.npz", x=np.random.default_rng(3).standard_normal(shape).astype("float32"))
    words = (model, "--precision", "int8", "--calibrate", tmp_path / "s.npz")
    done = command("compile", *words, "-o", tmp_path / "m.so")
    assert done.code == 0, done.err
    x = np.random.default_rng(4).standard_normal((1, 3, 8, 8)).astype("float32")
    want = onnxruntime.InferenceSession(str(model)).run(None, {"x": x})[0]
    apart = np.abs(outputs(tmp_path / "m.so", x=x)["y"] - want).max() / np.abs(want).max()
    assert 0 < apart < 0.1
    kernels = command("profile", tmp_path / "m.so", "--duration", "0.1", "--csv").out
    assert "cast" in kernels
    done = command("compare", *words, "--reference", "onnxruntime", "--tolerance", "0.1")
    assert done.code == 0 and "outputs of int8 against ONNX Runtime" in done.out, done.err
    done = command("bench", *words, "--iterations", "6")
    assert "(not the same arithmetic: int8 here, fp32 there)" in done.out


def test_wrong_samples(tmp_path: Path) -> None:
    model, words = picture_model(tmp_path / "m.onnx"), ("--precision", "int8", "-o", tmp_path / "m.so")
    done = command("compile", model, *words)
    assert done.code == 1 and done.err == (
        "error: --precision int8 needs samples of the inputs to find the ranges of activations: give --calibrate samples.npz\n"
    )
    samples = tmp_path / "s.npz"
    np.savez(samples, x=np.zeros((2, 3, 8, 9), "float32"))
    done = command("compile", model, *words, "--calibrate", samples)
    assert done.code == 1 and done.err == (
        f"error: --calibrate {samples}: x float32 2x3x8x9 holds no samples of the input x float32 1x3x8x8: arrays have its shape, or one"
        " more axis in front\n"
    )
    np.savez(samples, z=np.zeros((2, 3, 8, 8), "float32"))
    done = command("compile", model, *words, "--calibrate", samples)
    assert done.code == 1 and done.err == (f"error: --calibrate {samples}: missing inputs: x float32 1x3x8x8\n")
    done = command("compile", model, "-o", tmp_path / "m.so", "--calibrate", samples)
    assert done.code == 1 and done.err == "error: --calibrate goes with --precision int8, not with fp32\n"


# --- comparing


def test_compare_over_several_inputs(tmp_path: Path) -> None:
    model = dense_model(tmp_path / "m.onnx")
    for k, scale in enumerate((1, 100)):
        np.savez(tmp_path / f"{k}.npz", x=X * scale)
    files = ("-i", tmp_path / "0.npz", "-i", tmp_path / "1.npz")
    found = json.loads(command("compare", model, *files, "--json").out)
    assert found["sets_of_inputs"] == 2 and len(found["outputs"]) == 1
    single = [json.loads(command("compare", model, *files[k : k + 2], "--json").out) for k in (0, 2)]
    for part in ("layers", "outputs"):
        for d, *others in zip(found[part], *[s[part] for s in single], strict=True):
            assert d["error"] == max([o["error"] for o in others])
    done = command("compare", model, "--samples", "3", "--precision", "bf16")
    assert done.code == 0 and "largest over 3 sets of inputs" in " ".join(done.out.split())
    assert [f"--seed {k}:" in done.err for k in range(4)] == [True, True, True, False]
    done = command("compare", model, *files, "--samples", "3")
    assert done.err == "error: --samples 3: the files of --input hold 2 sets already; give one or the other\n"


def test_compare_a_compiled_library(tmp_path: Path) -> None:
    model = dense_model(tmp_path / "m.onnx")
    for precision in ("fp32", "bf16"):
        assert command("compile", model, "--precision", precision, "-o", tmp_path / f"{precision}.so").code == 0
    found = {}
    for precision in ("fp32", "bf16"):
        done = command("compare", model, "--library", tmp_path / f"{precision}.so", "--tolerance", "0.1", "--json")
        assert done.code == 0, done.err
        found[precision] = json.loads(done.out)
        assert found[precision]["layers"] == []
    assert found["fp32"]["outputs"][0]["error"] < 1e-5 < 1e-4 < found["bf16"]["outputs"][0]["error"]
    assert command("compile", model, "--inputs-at", "b", "-o", tmp_path / "third.so").code == 0
    for reference in ("onnxruntime", "float32"):
        done = command("compare", model, "--library", tmp_path / "third.so", "--reference", reference)
        assert done.code == 1 and done.err == (
            f"error: {tmp_path / 'third.so'} takes the input b float32 4x64, which {model} does not have: it was compiled from another"
            " model\n"
        )
    done = command("compare", model, "--library", tmp_path / "bf16.so")
    assert done.code == 1 and "more than --tolerance 0.001" in done.err
    done = command("compare", model, "--library", tmp_path / "bf16.so", "--reference", "float32")
    assert done.code == 0 and "against float32" in done.out


# --- bench


def test_streams_count_together(tmp_path: Path) -> None:
    assert command("compile", dense_model(tmp_path / "m.onnx"), "-o", tmp_path / "m.so").code == 0
    words = ("--streams", "2", "--iterations", "50", "--warmup", "0", "--threads", "1", "--json")
    found = json.loads(command("bench", tmp_path / "m.so", *words).out)
    (row,) = found["milliseconds"]
    assert (found["streams"], row["runs"], row["precision"]) == (2, 50, "as compiled")
    assert (
        row["min"] <= row["p5"] <= row["median"] <= row["p95"] <= row["p99"] <= row["max"]
        and row["runs_per_second"] > 0
    )
    found = json.loads(command("bench", tmp_path / "m.onnx", *words).out)
    assert [r["runs"] for r in found["milliseconds"]] == [50, 50] and found["ratio_to_peer"] > 0


def test_bench_says_that_precisions_differ(tmp_path: Path) -> None:
    done = command("bench", dense_model(tmp_path / "m.onnx"), "--precision", "bf16", "--iterations", "6")
    assert done.code == 0 and "(not the same arithmetic: bf16 here, fp32 there)" in done.out
    done = command("bench", tmp_path / "m.onnx", "--iterations", "6")
    assert "not the same arithmetic" not in done.out


def test_bench_takes_inputs(tmp_path: Path) -> None:
    """As many turns of a loop as the input says."""
    model = loop_model(tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", count=np.array(7), x=np.ones(3, "float32"))
    done = command("profile", model, "-i", tmp_path / "in.npz", "--duration", "0.1", "-q", "--json")
    assert 7 in [k["calls"] for k in json.loads(done.out)["kernels"]]
    done = command("bench", model, "-i", tmp_path / "in.npz", "--iterations", "6", "-q", "--json")
    assert (
        done.code == 0 and not done.err and json.loads(done.out)["inputs"]["count"] == {"shape": [], "dtype": "int64"}
    )


def test_the_value_of_bool_inputs(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    branches = [
        helper.make_graph([helper.make_node(op, ["x"], [f"{op}_y"])], op, [], [info(f"{op}_y", TensorProto.FLOAT, [2])])
        for op in ("Neg", "Abs")
    ]
    node = helper.make_node("If", ["flag"], ["y"], then_branch=branches[0], else_branch=branches[1], name="if")
    inputs = [info("flag", TensorProto.BOOL, []), info("x", TensorProto.FLOAT, [2])]
    graph = helper.make_graph([node], "g", inputs, [info("y", TensorProto.FLOAT, [2])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=9), tmp_path / "m.onnx")
    for flag, want in (("true", [1, -2]), ("false", [1, 2])):
        library = tmp_path / f"{flag}.so"
        done = command("compile", tmp_path / "m.onnx", "--value", f"flag={flag}", "-o", library)
        assert done.code == 0 and "note" not in done.err, done.err
        assert outputs(library, x=np.array([-1, 2], "float32"))["y"].tolist() == want
