"""What the PyTorch importer says of what it does not take: the full strings."""

from __future__ import annotations

import inspect
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.cli.command import command
from tilewright import relay
from tilewright.relay.frontend.pytorch.model_file import need_whole_storages
from tilewright.support.errors import ModelError, OpNotImplemented

x34 = torch.ones(3, 4)


def message(kind: type[Exception], *args: Any, **kwargs: Any) -> str:
    with pytest.raises(kind) as caught:
        relay.frontend.from_pytorch(*args, **kwargs)
    # Where the model's text is does not belong to the message.
    return re.sub(r" \(test_errors\.py:\d+(:\d+)?\)", "", str(caught.value))


class Unsupported(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.poisson(x) + torch.binomial(x, x / 2) + torch.poisson(2 * x)


def test_all_unsupported_operators_at_once() -> None:
    program = torch.export.export(Unsupported(), (x34,))
    assert message(OpNotImplemented, program) == (
        "the exported program: 2 things are not supported\n"
        "  aten::binomial (1 node: 'binomial'); nearest supported: aten::multinomial, aten::normal\n"
        "  aten::poisson (2 nodes: 'poisson', 'poisson_1')"
    )


@torch.library.custom_op("tilewright_tests::triple", mutates_args=())
def triple(x: Tensor) -> Tensor:
    return x * 3


@torch.library.custom_op("tilewright_tests::increase", mutates_args={"x"})
def increase(x: Tensor) -> None:
    x.add_(1)


triple.register_fake(torch.empty_like)


class OperatorsOfOthers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return triple(x.sin())


class WritingOperator(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        increase(y)
        return y


def test_operators_of_others() -> None:
    program = torch.export.export(OperatorsOfOthers(), (x34,))
    assert message(OpNotImplemented, program) == (
        "the exported program: 1 thing is not supported\n"
        "  tilewright_tests::triple (1 node: 'triple'): an operator that PyTorch does not have itself; say what it is:"
        " custom_convert_map={'tilewright_tests::triple': f}, where f(inputs, input_types) makes relay's expression of what it returns"
    )
    for name in ("tilewright_tests::triple", "tilewright_tests.triple.default"):
        mod, _ = relay.frontend.from_pytorch(
            program, custom_convert_map={name: lambda inputs, types: relay.multiply(inputs[0], relay.const(3.0))}
        )
        assert "multiply" in mod.astext()
    assert message(OpNotImplemented, torch.export.export(WritingOperator(), (x34,))) == (
        "the exported program: 1 thing is not supported\n"
        "  auto_functionalized_v2: tilewright_tests::increase writes its arguments; have the model call one that returns new tensors"
        " (mutates_args=())"
    )


@torch.jit.script
def scripted_text(x: Tensor, word: str) -> Tensor:
    return x * 2 if word == "twice" else x


class Classes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        parts: list[Tensor] = []
        while bool(x.sum() < 100):
            x = x * 2
            parts.append(x)
        return torch.stack(parts)


def test_scripted_where_traced_was_needed() -> None:
    text = message(OpNotImplemented, torch.jit.script(Classes()), [("x", (3, 4))])
    assert text == (
        "the TorchScript model: 1 thing is not supported\n"
        "  aten::append %25: it changes a list in a branch or loop that is decided at run time\n"
        "this is a scripted model where a traced one was needed: trace it with example inputs, torch.jit.trace(module, args), or export"
        " it, torch.export.export(module, args)"
    ).replace("%25", re.search(r"%\d+", text).group())  # type: ignore[union-attr]


class Chosen(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        dim = int(x[0, 0])
        return x.sum(dim)


def test_numbers_that_the_data_decide(tmp_path: Path) -> None:
    """A sum along an axis that the data say; the line is the script's own, loaded from a file too."""
    torch.jit.script(Chosen()).save(str(tmp_path / "chosen.pt"))
    for module in (torch.jit.script(Chosen()), torch.jit.load(str(tmp_path / "chosen.pt"))):
        with pytest.raises(OpNotImplemented) as caught:
            relay.frontend.from_pytorch(module, [("x", (3, 4))])
        _, line, remedy = str(caught.value).splitlines()
        name, place, why = re.fullmatch(r"  (aten::sum %\S+) \(test_errors\.py:(\d+)\): (.*)", line).groups()  # type: ignore[union-attr]
        assert why == "it needs 'dim' as numbers at import, but the data decide them"
        assert int(place) == inspect.getsourcelines(Chosen)[1] + 3
        assert remedy.startswith("this is a scripted model where a traced one was needed: trace it with example inputs")


@torch.jit.script
def placed(x: Tensor) -> Tensor:
    return x.to(torch.device("cpu" if bool(x.sum() > 0) else "meta"))


def test_operators_of_scripts_alone() -> None:
    assert "  aten::device (1 node: " in message(OpNotImplemented, placed, [("x", (3, 4))])


def test_inputs_of_scripts() -> None:
    traced = torch.jit.trace(nn.ReLU(), x34)
    assert message(ModelError, traced) == (
        "a TorchScript module needs input_infos: a list of (name, shape) or (name, (shape, dtype)), one for each input"
    )
    assert message(ModelError, traced, [("x", (3, 4)), ("y", (3, 4))]) == (
        "the TorchScript model: input_infos has 2 entries, but the model has 1 inputs: input"
    )
    assert message(ModelError, traced, ["x"]) == (
        "an entry of input_infos is 'x'; each must be (name, shape) or (name, (shape, dtype)), as in [(\"x\", (1, 3, 224, 224))]"
    )
    assert message(OpNotImplemented, scripted_text, [("x", (3, 4)), ("word", (1,))]) == (
        "the TorchScript model: 1 thing is not supported\n"
        "  the input 'word' is of type str; tensors and numbers are supported\n"
        "this is a scripted model where a traced one was needed: trace it with example inputs, torch.jit.trace(module, args), or export"
        " it, torch.export.export(module, args)"
    )


class Drawn(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.poisson(x) + torch.binomial(x, torch.full_like(x, 0.5)) + torch.poisson(x + 1)


def test_operators_that_pytorch_does_not_take_apart() -> None:
    """All of them at once, with their nodes."""
    first, *lines = message(OpNotImplemented, torch.export.export(Drawn(), (torch.ones(3),))).splitlines()
    assert first == "the exported program: 2 things are not supported"
    assert [line.split(" (")[0].strip() for line in lines] == ["aten::binomial", "aten::poisson"]
    assert "2 nodes: 'poisson" in lines[1] and "'poisson_1" in lines[1]


def test_inputs_of_exported_programs() -> None:
    program = torch.export.export(nn.ReLU(), (x34,))
    assert message(ModelError, program, [("x", (3, 4)), ("y", (3, 4))]) == (
        "the exported program: input_infos has 2 entries, but the model has 1 inputs: input"
    )
    assert message(ModelError, program, [("x", (3, 4, 5))]) == (
        "the exported program: the input 'x' has the shape (3, 4), but input_infos gives it (3, 4, 5)"
    )
    assert message(ModelError, program, [("x", (5, 4))]) == (
        "the exported program: axis 0 of the input 'x' was exported as 3, but input_infos gives it 5. Export it with dynamic_shapes"
        " there, or with an example of that size"
    )


def test_inputs_of_modules() -> None:
    assert message(ModelError, nn.ReLU()) == (
        "a module needs example inputs to be exported: a tuple of tensors, a dictionary of them by parameter name, or a list of"
        " (name, shape)"
    )
    text = message(ModelError, nn.Linear(3, 4), (x34,))
    assert text.startswith("torch.export does not take this module (RuntimeError: ")
    assert text.endswith("and give the ExportedProgram; or trace it: torch.jit.trace(module, args)")


def test_what_is_no_model() -> None:
    assert message(TypeError, {"weight": x34}) == (
        "from_pytorch takes a torch.export.ExportedProgram, a torch.nn.Module, a torch.fx.GraphModule or a TorchScript module, but was"
        " given dict"
    )


class Training(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, 0.5, True)


def test_dropout_that_drops() -> None:
    assert message(OpNotImplemented, torch.export.export(Training(), (x34,))) == (
        "the exported program: 1 thing is not supported\n"
        "  dropout: its argument train is True; supported: False: call model.eval() before exporting"
    )


def test_complex_output() -> None:
    class Wave(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.fft.rfft(x)

    assert message(OpNotImplemented, torch.export.export(Wave(), (x34,))) == (
        "the exported program: an output is complex: give torch.view_as_real of it"
    )


def test_importers_are_modules_too() -> None:
    from tilewright.support import lazy

    assert {"common", "keras", "onnx", "pytorch", "tensorflow", "tflite"} <= set(
        lazy.names("tilewright.relay.frontend")
    )
    assert "aten::add" in relay.frontend.pytorch.supported_operators()


def test_a_tensor_without_values(tmp_path: Path) -> None:
    path = tmp_path / "damaged.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data.pkl", "")

    class Lost:
        def untyped_storage(self) -> Any:
            raise RuntimeError("Attempted to access the data pointer on an invalid python storage.")

    with pytest.raises(
        ModelError, match="damaged.pt: the file is damaged: its tensor 'w' has no values .RuntimeError: Attempted"
    ):
        need_whole_storages(path, {"w": Lost()})


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_weights_of_types_that_arrays_do_not_have() -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("w", torch.zeros(3, dtype=torch.complex32))

        def forward(self, x: Tensor) -> Tensor:
            return x + self.w.shape[0]

    program = torch.export.export(Half(), (x34,))
    assert "a weight is of type complex32, which is not supported: convert it (tensor.to(dtype))" in message(
        OpNotImplemented, program
    )


def test_traces_of_damaged_files() -> None:
    """Where a node stands only messages tell."""
    program = torch.export.export(Unsupported(), (x34,))
    for node in program.graph.nodes:
        node.meta["stack_trace"] = 1e-45
    assert "aten::binomial (1 node: 'binomial')" in message(OpNotImplemented, program)


def test_files_by_what_they_hold(tmp_path: Path) -> None:
    weights = nn.Linear(3, 4).state_dict()
    for name, new in (("new.pt", True), ("old.pt", False), ("old.pt2", False), ("old.bin", False), ("new.ckpt", True)):
        torch.save(weights, tmp_path / name, _use_new_zipfile_serialization=new)
        done = command("import", tmp_path / name)
        assert done.code == 1
        assert done.err == (
            f"error: {tmp_path / name}: this file holds weights (or a pickled module), not a program that can be imported without the"
            " model's Python code. Load it there and save torch.export.export(model, args) with torch.export.save\n"
        )
    torch.jit.save(torch.jit.trace(nn.Linear(4, 2), (x34,)), tmp_path / "net.jit")
    assert command("compile", tmp_path / "net.jit", "--shape", "input=3,4", "-o", tmp_path / "net.so").code == 0
