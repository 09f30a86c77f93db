"""`tilewright compare --reference`: errors of every node beside another runtime, and the first that departs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import helper

from tests.cli.command import command, dense_model, write_model
from tests.cli.test_precision import large_model
from tests.frontend.keras.models import keras
from tilewright.cli import comparing
from tilewright.cli.comparing import bisected
from tilewright.relay.frontend.onnx.files.model_file import OnnxFormat
from tilewright.relay.frontend.pytorch.model_file import ExportedFormat


def branching_model(path: Path) -> Path:
    """Two branches, a split, a concatenation; five products, of which `third` is the one that tests break."""
    rng = np.random.default_rng(0)
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "w0"], ["a"], name="first"),
        node("Relu", ["a"], ["b"], name="bends"),
        node("MatMul", ["b", "w1"], ["c"], name="second"),
        node("MatMul", ["b", "w2"], ["d"], name="third"),
        node("Add", ["d", "w3"], ["e"], name="shifted"),
        node("Concat", ["c", "e"], ["f"], name="joined", axis=1),
        node("Split", ["f"], ["g", "h"], name="halves", axis=1, num_outputs=2),
        node("Mul", ["g", "h"], ["y"], name="product"),
    ]
    weights = {
        "w0": rng.standard_normal((16, 16)), "w1": rng.standard_normal((16, 8)), "w2": rng.standard_normal((16, 8)),
        "w3": rng.standard_normal(8),
    }  # fmt: skip
    return write_model(path, nodes, {"x": [4, 16]}, ["y"], weights)


def compared(path: Path, *options: str, code: int = 0) -> dict[str, Any]:
    done = command("compare", path, "--json", "--threads", "1", *options)
    assert done.code == code, (done.out, done.err)
    return json.loads(done.out)  # type: ignore[no-any-return]


def test_all_nodes_of_an_onnx_model(tmp_path: Path) -> None:
    found = compared(branching_model(tmp_path / "m.onnx"), "--reference", "onnxruntime")
    assert found["reference"] == "ONNX Runtime" and found["first_differing"] is None and found["tolerance"] == 1e-3
    names = [d["name"] for d in found["layers"]]
    assert sorted(names) == sorted(
        ["first", "bends", "second", "third", "shifted", "joined", "halves[0]", "halves[1]", "product"]
    )
    assert all(names.index("first") < names.index(n) for n in names if n != "first")
    assert {d["computed_by"] for d in found["layers"]} == {"MatMul", "Relu", "Add", "Concat", "Split", "Mul"}
    assert all(d["error"] < 1e-6 for d in found["layers"] + found["outputs"])
    assert found["nodes_without_counterpart"] == 0


def test_the_interpreter_is_a_reference(tmp_path: Path) -> None:
    model = branching_model(tmp_path / "m.onnx")
    found = compared(model, "--reference", "interp")
    assert found["reference"] == "the interpreter" and found["first_differing"] is None and found["tolerance"] == 1e-3
    assert {"first", "bends", "second", "third", "shifted", "joined", "product"} <= {d["name"] for d in found["layers"]}
    assert all(d["error"] < 1e-5 for d in found["layers"] + found["outputs"])
    found = compared(model, "--precision", "bf16", "--reference", "interp")
    assert 1e-5 < max(d["error"] for d in found["layers"]) < 5e-2 and found["first_differing"] is None


def test_a_library_beside_the_interpreter(tmp_path: Path) -> None:
    model = branching_model(tmp_path / "m.onnx")
    assert command("compile", model, "-o", tmp_path / "m.so").code == 0
    found = compared(model, "--reference", "interp", "--library", str(tmp_path / "m.so"))
    assert found["reference"] == "the interpreter" and found["outputs"][0]["error"] < 1e-5


def test_the_interpreter_is_a_target(tmp_path: Path) -> None:
    model = branching_model(tmp_path / "m.onnx")
    found = compared(model, "--target", "interp", "--reference", "onnxruntime")
    assert len(found["layers"]) == 9 and all(d["error"] < 1e-6 for d in found["layers"] + found["outputs"])
    results = []
    for target in ("llvm", "interp"):
        done = command("run", model, "--target", target, "--seed", "3", "--output", tmp_path / f"{target}.npz")
        assert done.code == 0, done.err
        results.append(np.load(tmp_path / f"{target}.npz")["y"])
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-4)
    done = command("compile", model, "--target", "interp", "-o", tmp_path / "m.so")
    assert done.code == 0, done.err
    done = command("run", tmp_path / "m.so", "--seed", "3", "--output", tmp_path / "library.npz")
    np.testing.assert_array_equal(np.load(tmp_path / "library.npz")["y"], results[1])


class Spoiled(OnnxFormat):
    """ONNX's importer, which gets one constant wrong."""

    def load(self, path: Path, shapes: Any) -> Any:
        import onnx

        model = onnx.load(path)
        for t in model.graph.initializer:
            if t.name == "w2":
                t.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(t) * np.float32(1.5), "w2"))
        broken = path.with_name("broken.onnx")
        onnx.save(model, broken)
        return super().load(broken, shapes)


@pytest.fixture
def spoiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "format_of", lambda path: Spoiled())
    monkeypatch.setattr("tilewright.cli.models.format_of", lambda path: Spoiled())


@pytest.mark.usefixtures("spoiled")
def test_a_wrong_weight_is_named(tmp_path: Path) -> None:
    model = branching_model(tmp_path / "m.onnx")
    first = compared(model, code=1)["first_differing"]
    assert first["name"] == "third" and first["computed_by"] == "MatMul" and first["error"] > 0.1
    assert list(first["reads"]) == ["bends"] and first["reads"]["bends"] < 1e-6
    done = command("compare", model)
    assert done.code == 1 and "third (MatMul) is the first layer that differs: by " in done.out
    assert (
        "error: output y differs from ONNX Runtime" in done.err
        and "more than --tolerance 0.001. third (MatMul) is the first" in done.err
    )


@pytest.mark.parametrize("reference", ["onnxruntime", "interp"])
def test_a_wrong_kernel_that_only_fusion_makes(reference: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds that keep every result are right; those that fuse `shifted` or more into one kernel are wrong."""
    real = comparing.build_module

    def build(mod: Any, *args: Any, **options: Any) -> Any:
        from tilewright import relay
        from tilewright.relay.expr import Tuple
        from tilewright.relay.texts import span_text

        main = mod["main"]
        whole = not isinstance(main.body, Tuple) or len(main.body.fields) <= 2
        if whole and "shifted" in {span_text(getattr(e, "span", None)) for e in relay.functor.post_order(main.body)}:
            wrong = relay.Function(main.params, scaled(main.body), attrs=dict(main.attrs or {}))
            mod = relay.transform.InferType()(mod.with_functions({mod.get_global_var("main"): wrong}))
        return real(mod, *args, **options)

    def scaled(body: Any) -> Any:
        from tilewright import relay

        if isinstance(body, relay.Tuple):
            return relay.Tuple([scaled(f) for f in body.fields])
        return relay.multiply(body, relay.const(np.float32(1.01)))

    monkeypatch.setattr(comparing, "build_module", build)
    first = compared(branching_model(tmp_path / "m.onnx"), "--reference", reference, code=1)["first_differing"]
    assert first["name"] == "shifted"
    assert first["found_by"].startswith("only when fused with what comes before it: bisection, ")


def test_bisection() -> None:
    for count in range(6):
        for first in range(count):
            asked: list[int] = []
            assert bisected(count, lambda k, a=asked, f=first: (a.append(k), k >= f)[1]) == first
            assert len(asked) <= 4
        assert bisected(count, lambda k: False) is None


def test_parts_of_models_whose_results_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = branching_model(tmp_path / "m.onnx")
    whole = compared(model)
    monkeypatch.setattr(comparing, "KEPT_BYTES", 300)
    assert [d["name"] for d in compared(model)["layers"]] == [d["name"] for d in whole["layers"]]


def test_overflow_beside_another_runtime(tmp_path: Path) -> None:
    model = large_model(tmp_path / "large.onnx")
    done = command("compare", model, "--precision", "fp16", "--reference", "onnxruntime", "--threads", "1")
    assert done.code == 1 and " overflows: " in done.err and "at fp16, but finite in ONNX Runtime" in done.err, done.err
    lost = [line for line in done.out.splitlines() if re.search(r" (\d+) of \1 ", line)]
    assert lost and not any([re.search(r"\de[+-]\d", line) for line in lost]), done.out
    found = compared(model, "--precision", "fp16", "--reference", "onnxruntime", code=1)
    assert found["first_lost"]["name"] in ("grows", "bends")
    found = compared(model, "--precision", "bf16", "--reference", "onnxruntime")
    assert found["first_lost"] is None and 0 < found["outputs"][0]["error"] < 5e-2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ["--reference", "torch"],
            "is a model of ONNX, which has no reference torch; its references: --reference onnxruntime, --reference interp",
        ),
        (["--reference", "float32"], "--precision fp32 is the reference itself"),
    ],
)
def test_references_that_do_not_fit(tmp_path: Path, options: Sequence[str], text: str) -> None:
    done = command("compare", dense_model(tmp_path / "dense.onnx"), *options)
    assert done.code == 1 and text in done.err


class Net(torch.nn.Module):  # type: ignore[name-defined,misc]
    """A convolution, a recurrent layer's worth of shapes, a split, a write in place."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.out = torch.nn.Linear(8, 6)

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.norm(self.conv(x)))
        y = y.mean((2, 3))
        y += 1
        a, b = self.out(y).chunk(2, dim=1)
        return a * b


@pytest.fixture(scope="module")
def net() -> Any:
    torch.manual_seed(0)
    return Net().eval()


def test_exported_programs(tmp_path: Path, net: Any) -> None:
    torch.export.save(torch.export.export(net, (torch.randn(2, 3, 8, 8),)), tmp_path / "net.pt2")
    found = compared(tmp_path / "net.pt2", "--reference", "torch")
    names = {d["computed_by"] for d in found["layers"]}
    assert {"aten::conv2d", "aten::relu", "aten::linear"} <= names and found["reference"] == "PyTorch"
    assert all(d["error"] < 1e-5 for d in found["layers"] + found["outputs"]) and found["first_differing"] is None


def test_a_keras_model(tmp_path: Path) -> None:
    """Nothing is said of what Keras's own code does."""
    image = keras.Input((4, 4, 2), name="image")
    keras.Model(image, keras.layers.Dense(3)(keras.layers.Flatten()(image))).save(tmp_path / "net.keras")
    done = command("compare", tmp_path / "net.keras", "--shape", "image=2,4,4,2", "--reference", "keras")
    assert done.code == 0 and "no layer differs" in done.out and "warning" not in done.err


def test_torchscript(tmp_path: Path, net: Any) -> None:
    torch.jit.save(torch.jit.trace(net, torch.randn(2, 3, 8, 8)), tmp_path / "net.pt")
    found = compared(tmp_path / "net.pt", "--shape", "x=2,3,8,8")
    names = {d["computed_by"] for d in found["layers"]}
    assert {"aten::relu", "aten::linear", "aten::mean"} <= names
    assert all(d["error"] < 1e-5 for d in found["layers"] + found["outputs"]) and found["first_differing"] is None
    done = command("compare", tmp_path / "net.pt")
    assert done.code == 1 and "TorchScript does not say the shapes of its inputs, and none is given for x" in done.err


class Grows(torch.nn.Module):  # type: ignore[name-defined,misc]
    """A list that grows as the data say."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[name-defined]
        parts = [x]
        while bool(x.sum() < 100):
            x = x * 2
            parts.append(x)
        return torch.stack(parts)


def test_a_script_where_a_traced_model_was_needed(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(Grows()), tmp_path / "s.pt")
    done = command("import", tmp_path / "s.pt", "--check", "--json", "--shape", "x=3,4")
    found = json.loads(done.out)
    assert done.code == 1 and found["problems"][0]["operator"] == "aten::append"
    assert found["advice"].startswith(
        "this is a scripted model where a traced one was needed: trace it with example inputs"
    )
    assert found["advice"] in " ".join(command("import", tmp_path / "s.pt", "--check", "--shape", "x=3,4").out.split())
    torch.save(torch.nn.Linear(2, 3).state_dict(), tmp_path / "w.pt")
    done = command("import", tmp_path / "w.pt", "--check")
    assert done.code == 1 and "this file holds weights (or a pickled module), not a program" in done.err


class Choosing(torch.nn.Module):
    """A choice by data between two layers, and a loop as long as the data say."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.left, self.right, self.after = (torch.nn.Linear(4, 4) for _ in range(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.before(x))
        z = torch.cond(y.sum() > 1.0, lambda t: self.left(t) * 2, lambda t: self.right(t) - 1, (y,))

        def goes_on(i: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            return (i < 5) & (t.sum() < 50.0)

        def step(i: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return i + 1, torch.tanh(t) + t

        rounds, w = torch._higher_order_ops.while_loop(goes_on, step, (torch.tensor(0), z))
        return self.after(w), rounds


def test_a_program_that_decides(tmp_path: Path) -> None:
    """It runs in the virtual machine; what stands outside of branches and loops is compared, the condition too."""
    torch.manual_seed(0)
    path = tmp_path / "chooses.pt2"
    torch.export.save(torch.export.export(Choosing().eval(), (torch.randn(2, 4),)), path)
    found = compared(path, "--reference", "torch")
    assert {d["computed_by"] for d in found["layers"]} == {"aten::linear", "aten::relu", "aten::sum", "aten::gt.Scalar"}
    assert len(found["outputs"]) == 2 and all(d["error"] < 1e-6 for d in found["layers"] + found["outputs"])


class Rounds(torch.nn.Module):
    """As many rounds as a number without axes says, or until the data do."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:  # type: ignore[name-defined]
        for i in range(int(n)):
            x = x * 1.5 + i
        while bool(x.abs().sum() > 1.0):
            x = torch.tanh(x) * 0.5
        return x


def test_a_script_that_goes_on_as_its_data_say(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.script(Rounds()), tmp_path / "s.pt")
    found = compared(tmp_path / "s.pt", "--shape", "x=2,4", "--shape", "n=:int64")
    assert len(found["outputs"]) == 1 and found["outputs"][0]["error"] < 1e-6


def test_a_layer_that_departs_before_a_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    path = tmp_path / "chooses.pt2"
    torch.export.save(torch.export.export(Choosing().eval(), (torch.randn(2, 4),)), path)
    load = ExportedFormat.load

    def wrong(self: ExportedFormat, *args: Any) -> Any:
        mod, params = load(self, *args)
        return mod, {**params, "before.bias": params["before.bias"] + 1}

    monkeypatch.setattr(ExportedFormat, "load", wrong)
    found = compared(path, "--reference", "torch", code=1)
    assert found["first_differing"]["name"] == "linear" and found["first_differing"]["reads"] == {}


class Named(torch.nn.Module):
    """A script that answers a dictionary."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"sum": a + b, "product": a * b}


def test_a_script_that_answers_a_dictionary(tmp_path: Path) -> None:
    path = tmp_path / "named.pt"
    torch.jit.script(Named()).save(path)
    found = compared(path, "--reference", "torch", "--shape", "a=2,3", "--shape", "b=2,3")
    assert [d["error"] for d in found["outputs"]] == [0, 0] and len(found["layers"]) == 2
