"""`tilewright import`: the report before compiling, its exit codes and JSON, and the program as text."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.command import command, dense_model, relu_model, write_model
from tilewright.relay.frontend.common import formats
from tilewright.relay.frontend.common.compatibility import known_notes


def report(path: Path, *options: str, code: int = 0) -> dict[str, Any]:
    """`import --check --json`."""
    done = command("import", path, "--check", "--json", *options)
    assert done.code == code, (done.out, done.err)
    return json.loads(done.out)  # type: ignore[no-any-return]


def conv_model(path: Path, opset: int = 11, **attributes: Any) -> Path:
    """A convolution, its norm and a softmax over the channels and pixels of a picture of a dynamic batch; a weight listed as an input."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv", **attributes),
        helper.make_node("BatchNormalization", ["a", "s", "s", "s", "s"], ["b"], name="norm"),
        helper.make_node("Softmax", ["b"], ["y"], name="soft", axis=1),
    ]
    info = helper.make_tensor_value_info
    inputs = [info("x", TensorProto.FLOAT, ["n", 3, 8, 8]), info("s", TensorProto.FLOAT, [4])]
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((4, 3, 3, 3)).astype("float32"), "s": np.ones(4, "float32")}
    tensors = [onnx.numpy_helper.from_array(v, k) for k, v in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, [info("y", TensorProto.FLOAT, None)], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=7), path)
    return path


def test_report_in_json(tmp_path: Path) -> None:
    found = report(conv_model(tmp_path / "m.onnx", auto_pad="SAME_UPPER"), "--shape", "x=2,3,8,8")
    assert found["supported"] and found["framework"] == "ONNX" and found["version"] == "opset 11, IR version 7"
    assert found["inputs"] == [{"name": "x", "dtype": "float32", "shape": ["n", 3, 8, 8]}]
    assert found["dynamic_inputs"] == {"x": ["n"]}
    rows = {r["operator"]: r for r in found["operators"]}
    assert {n: r["count"] for n, r in rows.items()} == {"Conv": 1, "BatchNormalization": 1, "Softmax": 1}
    # Twice the multiply-accumulates: 2 pictures of 4 channels and 64 pixels, each from 27 numbers.
    assert rows["Conv"]["flops"] == 2 * (2 * 4 * 64 * 27)
    assert found["flops"] == sum(r["flops"] for r in rows.values()) and found["calls_of_unknown_flops"] == 0
    assert found["parameters"] == {"count": 2, "bytes": 448, "types": {"float32": {"count": 2, "bytes": 448}}}
    assert found["memory"]["inputs"] == 2 * 3 * 64 * 4 and found["memory"]["outputs"] == 2 * 4 * 64 * 4
    notes = {q["key"]: q["places"] for q in found["notes"]}
    assert notes["auto_pad"] == ["conv (SAME_UPPER)"]
    assert (
        notes["flat softmax"] == ["soft"]
        and notes["weights as inputs"] == ["s"]
        and notes["old batch norm"] == ["norm"]
    )
    assert "Softmax-11 (today 13)" in notes["versions"]


def test_notes_are_those_of_the_model(tmp_path: Path) -> None:
    """Nothing is told that was not met."""
    found = report(conv_model(tmp_path / "m.onnx", opset=21, pads=[1, 1, 1, 1]), "--shape", "x=1,3,8,8")
    assert {q["key"] for q in found["notes"]} <= {"versions", "weights as inputs"}


def test_dynamic_dimensions(tmp_path: Path) -> None:
    found = report(conv_model(tmp_path / "m.onnx", opset=13))
    assert found["supported"] and found["flops"] == 0 and found["calls_of_unknown_flops"] == 3
    assert found["memory"] is None and "dimension that is not known" in found["why_no_memory"]
    text = command("import", tmp_path / "m.onnx", "--check").out
    assert "n x 3 x 8 x 8" in text and "axis 0" in text and "not counted: 3 calls with dynamic dimensions" in text


def unsupported_model(path: Path) -> Path:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("Frobnicate", ["a"], ["b"], name="frob1", domain="com.acme"),
        helper.make_node("Frobnicate", ["b"], ["c"], name="frob2", domain="com.acme"),
        helper.make_node("Dett", ["c"], ["y"], name="det"),
    ]
    return write_model(path, nodes, {"x": [2, 3]}, ["y"])


def test_what_is_unsupported(tmp_path: Path) -> None:
    found = report(unsupported_model(tmp_path / "m.onnx"), code=1)
    assert not found["supported"] and found["memory"] is None
    assert [(p["operator"], p["nodes"], p["nearest"]) for p in found["problems"]] == [
        ("Dett", ["det"], ["Det"]),
        ("com.acme::Frobnicate", ["frob1", "frob2"], []),
    ]
    rows = {r["operator"]: r["supported"] for r in found["operators"]}
    assert rows == {"Relu": True, "com.acme::Frobnicate": False, "Dett": False}
    done = command("import", tmp_path / "m.onnx", "--check")
    assert done.code == 1
    assert "cannot be imported: 2 things are not supported" in done.out and "not supported: frob1, frob2" in done.out


def test_what_is_wrong(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")]
    path = write_model(tmp_path / "m.onnx", nodes, {"x": [2, 3]}, ["y"], {"w": np.ones((4, 2))})
    assert (
        "MatMul 'mm': nn.matmul, argument 1 (tensor_b): the inner dimensions must be equal, but they are 3 and 4"
        in report(path, code=1)["fault"]
    )
    (tmp_path / "bad.onnx").write_bytes(b"\xff" * 40)
    assert report(tmp_path / "bad.onnx", code=1)["fault"].startswith(f"{tmp_path / 'bad.onnx'}: this is no ONNX model")
    done = command("import", tmp_path / "bad.onnx", "--check")
    assert done.code == 1 and not done.out and "this is no ONNX model" in done.err


def test_files_of_no_format(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    done = command("import", tmp_path / "notes.txt", "--check")
    assert (
        done.code == 1
        and "notes.txt: no importer takes this file; there are importers for Keras (.keras, .h5" in done.err
        and "; ONNX (.onnx); PyTorch (torch.export) (.pt2); " in done.err
    )
    done = command("import", tmp_path, "--check")
    assert (
        done.code == 1
        and "no importer takes this folder; there are importers for folders of TensorFlow's with a saved_model.pb"
        in done.err
    )
    done = command("import", tmp_path / "notes.txt", "--check", "-o", tmp_path / "x.relay")
    assert done.code == 2 and "--check writes no files; leave out -o and --params, or --check" in done.err


def test_help_names_every_format() -> None:
    text = " ".join(command("import", "--help").out.split())
    for f in formats.known_formats():
        for word in ("PyTorch" if f.runtimes == ("torch",) else f.title, *f.suffixes):
            assert word in text


def test_onnx_by_its_content(tmp_path: Path) -> None:
    assert report(relu_model(tmp_path / "model.bin", [2, 3]))["format"] == "onnx"


def test_program_as_text_and_json(tmp_path: Path) -> None:
    from tilewright import relay
    from tilewright.node import load_json, structural_equal

    model = dense_model(tmp_path / "dense.onnx")
    shown = command("import", model)
    assert shown.code == 0 and "nn.matmul" in shown.out
    for name in ("dense.relay", "dense.json"):
        assert command("import", model, "-o", tmp_path / name, "--params", tmp_path / "p.bin").code == 0
    mod, _ = relay.frontend.from_onnx(model)
    assert structural_equal(load_json((tmp_path / "dense.json").read_text()), mod)
    assert structural_equal(relay.parse((tmp_path / "dense.relay").read_text()), mod)
    assert relay.load_param_dict((tmp_path / "p.bin").read_bytes()) == {}


class Plain(formats.ModelFormat):
    """A front end that only loads."""

    name, title, suffixes = "plain", "Plain", (".plain",)

    def load(self, path: Path, shapes: formats.Shapes) -> Any:
        from tilewright import IRModule, relay

        x = relay.var("x", shape=(2, 8))
        body = relay.nn.relu(relay.nn.dense(x, relay.const(np.ones((4, 8), "float32"))))
        return relay.transform.InferType()(IRModule.from_expr(body)), {}


def test_a_format_of_another_front_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_formats", list(formats.known_formats()))
    formats.register_format(Plain())
    (tmp_path / "m.plain").write_text("")
    found = report(tmp_path / "m.plain")
    assert {r["operator"]: r["count"] for r in found["operators"]} == {"nn.dense": 1, "nn.relu": 1}
    assert found["flops"] == 2 * 2 * 8 * 4 + 8
    assert found["parameters"]["bytes"] == 128 and found["inputs"][0]["shape"] == [2, 8]
    assert command("compile", tmp_path / "m.plain", "-o", tmp_path / "m.so").code == 0
    done = command("compare", tmp_path / "m.plain")
    assert done.code == 1 and "there is no runtime to compare" in done.err


def test_notes_have_texts() -> None:
    assert all(
        [
            q.text and q.key and q.framework in ("ONNX", "PyTorch", "TFLite", "TensorFlow", "Keras")
            for q in known_notes()
        ]
    )


@pytest.mark.parametrize("suffix", ["onnx", "tflite", "pt2", "pt", "pb", "keras", "json"])
def test_what_is_no_file(tmp_path: Path, suffix: str) -> None:
    """A device has no end, and a pipe is waited for; a folder may be named as anything."""
    folder, device, pipe = [tmp_path / f"{name}.{suffix}" for name in ("folder", "device", "pipe")]
    folder.mkdir()
    device.symlink_to("/dev/zero")
    os.mkfifo(pipe)
    for words in (["import", "--check"], ["run"]):
        done = command(words[0], folder, *words[1:])
        assert done.code == 1 and done.err.startswith(f"error: {folder}: no importer takes this folder; "), done.err
        for place in (device, pipe):
            done = command(words[0], place, *words[1:])
            assert (done.code, done.err) == (1, f"error: {place} is a device or a pipe; give the path of a file\n")
