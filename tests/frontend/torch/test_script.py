"""TorchScript: traced and scripted modules, writes in place, control flow that runs in the virtual machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tilewright as tvm
from tilewright import relay
from tilewright.support.errors import OpNotImplemented

x34 = torch.arange(12.0).reshape(3, 4) / 3 - 1


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu_(self.norm(self.conv(x)))
        return self.head(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))


class InPlace(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.clone()
        y[:, 0] = 5.0
        y[1, 2] += 3
        z = y.view(-1)
        z.mul_(2.0)
        y.t()[1].add_(1)
        return y, z.sum()


class Branch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            y = x * 2
        else:
            y = x - 1
        return y


class While(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        n = 0
        while bool(x.sum() < 100.0):
            x = x * 2
            n += 1
        return x, torch.tensor(n)


class For(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        out = []
        for i in range(x.size(0)):
            if i % 2 == 0:
                out.append(x[i] * i)
        return torch.stack(out)


class Steps(nn.Module):
    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        for i in range(int(n)):
            x = x + x[i % 3].sum()
        return x


class Words(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        found = {"twice": x * 2, "sum": x.sum(0)}
        found["last"] = x[-1]
        return found


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(4, 3, 2, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0]


class Composed(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.special.xlog1py(x.abs(), x.abs()), torch.heaviside(x, torch.zeros(1))


def run(module: Any, *xs: Tensor) -> list[np.ndarray]:
    """What the imported module computes, by the reference interpreter."""
    infos = [(f"x{k}", (tuple(x.shape), str(x.dtype))) for k, x in enumerate(xs)]
    mod, params = relay.frontend.from_pytorch(module, infos)
    result = relay.create_executor("debug", mod, tvm.cpu(), "llvm").evaluate()(*[x.numpy() for x in xs], **params)
    return [r.numpy() for r in ([result] if hasattr(result, "numpy") else result)]


def check(module: nn.Module, *xs: Tensor, script: bool) -> None:
    torch.manual_seed(0)
    made = torch.jit.script(module) if script else torch.jit.trace(module, xs, check_trace=False)
    wanted = module(*xs)
    wanted = (
        list(wanted.values()) if isinstance(wanted, dict) else list(wanted) if isinstance(wanted, tuple) else [wanted]
    )
    for mine, theirs in zip(run(made, *xs), wanted, strict=True):
        assert (mine.shape, mine.dtype) == (tuple(theirs.shape), theirs.detach().numpy().dtype)
        np.testing.assert_allclose(mine, theirs.detach().numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("script", [False, True], ids=("traced", "scripted"))
@pytest.mark.parametrize(
    ("module", "x"),
    [(Net(), torch.randn(2, 3, 8, 8)), (InPlace(), x34), (Recurrent(), torch.randn(2, 5, 4)), (Composed(), x34)],
    ids=lambda v: type(v).__name__ if isinstance(v, nn.Module) else "",
)
def test_module(module: nn.Module, x: Tensor, script: bool) -> None:
    check(module.eval(), x, script=script)


@pytest.mark.parametrize("module", [Branch(), While(), For(), Words()], ids=lambda v: type(v).__name__)
def test_script_decides(module: nn.Module) -> None:
    check(module, x34 + 2, script=True)


def test_other_way_of_a_branch() -> None:
    check(Branch(), -torch.ones(3), script=True)


@pytest.mark.parametrize("n", [0, 4])
def test_rounds_that_are_data(n: int) -> None:
    check(Steps(), x34, torch.tensor(n), script=True)


def test_control_flow_runs_in_the_machine() -> None:
    mod, _ = relay.frontend.from_pytorch(torch.jit.script(While()), [("x", (3, 4))])
    x, n = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()(x34.numpy() + 2)
    wanted, rounds = While()(x34 + 2)
    np.testing.assert_allclose(x.numpy(), wanted.numpy())
    assert int(n.numpy()) == int(rounds)


def test_dynamic_dimensions() -> None:
    traced = torch.jit.script(nn.Sequential(nn.Linear(4, 3), nn.ReLU()).eval())
    mod, params = relay.frontend.from_pytorch(traced, [("x", ("rows", 4))])
    assert str(mod["main"].params[0].checked_type.shape[0]) == "rows"
    function = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()
    for rows in (2, 5):
        x = torch.randn(rows, 4)
        np.testing.assert_allclose(
            function(x.numpy(), **params).numpy(), traced(x).detach().numpy(), rtol=1e-5, atol=1e-6
        )


def test_names_of_parameters() -> None:
    traced = torch.jit.trace(Net().eval(), torch.randn(1, 3, 8, 8))
    mod, params = relay.frontend.from_pytorch(traced, [("data", (1, 3, 8, 8))])
    assert mod["main"].params[0].name_hint == "data" and "conv.weight" in params
    assert set(params) == {p.name_hint for p in mod["main"].params[1:]}
    mod, params = relay.frontend.from_pytorch(traced, [("data", (1, 3, 8, 8))], use_parser_friendly_name=True)
    assert "conv_weight" in params
    assert relay.parse(mod.astext())


def test_custom_converter() -> None:
    traced = torch.jit.trace(nn.ReLU6(), x34)
    mod, _ = relay.frontend.from_pytorch(
        traced, [("x", (3, 4))], {"aten::hardtanh": lambda inputs, types: relay.clip(inputs[0], 0.0, 4.0)}
    )
    assert "clip(%x, a_min=0f, a_max=4f)" in mod.astext()


def test_graph_is_written(tmp_path: Any) -> None:
    path = tmp_path / "graph.txt"
    traced = torch.jit.trace(nn.ReLU(), x34)
    relay.frontend.from_pytorch(traced, [("x", (3, 4))], export_renamed_c_graph_path=str(path))
    assert "aten::relu" in path.read_text()


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.step = 3

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        self.step += 2
        y = x * self.count
        self.count.add_(self.step)
        return y + self.count


@pytest.mark.parametrize(
    "make",
    [torch.jit.script, lambda m: torch.jit.trace(m, torch.ones(3, 4), check_trace=False)],
    ids=["script", "trace"],
)
def test_attributes_that_are_written(make: Any) -> None:
    """Later readers see what was written; what was written in buffers follows the outputs."""
    scripted = make(Counting())
    mod, params = relay.frontend.from_pytorch(scripted, [("x", (3, 4))])
    count = params["count"].copy()
    assert mod["main"].attrs["output_tensor_names"] == ("output0", "count")
    x = torch.randn(3, 4)
    run = relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()
    found, after = run(x.numpy(), count=count)
    np.testing.assert_allclose(found.numpy(), scripted(x).numpy(), rtol=1e-6)
    assert int(after.numpy()) == int(scripted.count)


class Rated(nn.Module):
    """What voice detectors do: a number chooses between parts, and the last samples are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.slow, self.fast = nn.Linear(6, 2), nn.Linear(8, 2)
        self.kept = torch.empty(0)
        self.last = 0

    @torch.jit.export
    def forget(self) -> None:
        self.kept = torch.empty(0)

    def forward(self, x: Tensor, rate: int) -> Tensor:
        width = 4 if rate // 8000 == 2 else 2
        if self.last and self.last != rate:
            self.forget()
        if not len(self.kept):
            self.kept = torch.zeros([x.size(0), width])
        x = torch.cat([self.kept, x], 1)
        if rate == 16000:
            y = self.fast(x)
        elif rate == 8000:
            y = self.slow(x)
        else:
            raise ValueError("16000 or 8000")
        self.kept = x[:, -width:]
        self.last = rate
        return y


@pytest.mark.parametrize("rate", [8000, 16000])
def test_values_of_numbers(rate: int) -> None:
    """A number whose value is given decides at import, and is no input."""
    scripted = torch.jit.script(Rated())
    mod, params = relay.frontend.from_pytorch(scripted, [("x", (3, 4)), ("rate", rate)])
    assert [p.name_hint for p in mod["main"].params if p.name_hint not in params] == ["x"]
    assert mod["main"].attrs["output_tensor_names"] == ("output0", "kept")
    x = torch.randn(3, 4)
    found, kept = relay.create_executor("graph", mod, tvm.cpu(), "llvm", params).evaluate()(x.numpy())
    np.testing.assert_allclose(found.numpy(), scripted(x, rate).detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(kept.numpy(), scripted.kept.numpy())


def test_length_of_a_dynamic_tensor() -> None:
    class Length(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.reshape(len(x) * 2, 2)

    mod, params = relay.frontend.from_pytorch(torch.jit.script(Length()), [("x", ("n", 4))])
    run = relay.create_executor("vm", mod, tvm.cpu(), "llvm", params).evaluate()
    np.testing.assert_array_equal(run(x34.numpy()).numpy(), x34.numpy().reshape(6, 2))


class Numbers(nn.Module):
    def forward(self, x: Tensor, n: int, scale: float, twice: bool) -> Tensor:
        for _ in range(n // 2 + n % 2):
            x = x * scale
        if twice and n > 2:
            x = x + x
        return x - n


@pytest.mark.parametrize(("n", "scale", "twice"), [(3, 0.5, True), (2, -1.5, True), (-3, 2.0, False)])
def test_numbers_that_a_run_gives(n: int, scale: float, twice: bool) -> None:
    scripted = torch.jit.script(Numbers())
    mod, params = relay.frontend.from_pytorch(scripted, [("x", (3, 4)), ("n", ()), ("scale", ()), ("twice", ())])
    assert [str(t.dtype) for t in mod["main"].checked_type.arg_types] == ["float32", "int64", "float32", "bool"]
    run = relay.create_executor("vm", mod, tvm.cpu(), "llvm", params).evaluate()
    found = run(x34.numpy(), np.int64(n), np.float32(scale), np.bool_(twice))
    np.testing.assert_allclose(found.numpy(), scripted(x34, n, scale, twice).numpy(), rtol=1e-6)


def test_number_of_a_file(tmp_path: Any) -> None:
    """A fixed number, and the state that the script writes, beside PyTorch, which begins anew in each run."""
    from tilewright.relay.frontend.common.formats import format_of

    path = tmp_path / "rated.pt"
    torch.jit.save(torch.jit.script(Rated()), path)
    form = format_of(path)
    mod, params = form.load_fixed(path, {"x": [3, 4]}, {"rate": np.array(8000)})
    x = torch.randn(3, 4)
    run = relay.create_executor("graph", mod, tvm.cpu(), "llvm", params).evaluate()
    reference = form.reference(path, "torch", {"x": [3, 4]})
    for _ in range(2):
        wanted, _ = reference.run({"rate": np.array(8000), "x": x.numpy()})
        for mine, theirs in zip(run(x.numpy()), wanted, strict=True):
            np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-5, atol=1e-6)
    assert [(i.name, i.dtype, i.shape) for i in form.survey(path, {}).inputs] == [
        ("x", "float32", None),
        ("rate", "int64", []),
    ]


class NumbersBesideTensors(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return x.sum() * 0.5, x.half().sum() * 0.5, x.argmax() / 2.0, x.int().sum(dtype=torch.int32) * 2, x.long() * 0.5


def test_numbers_beside_tensors_have_their_types() -> None:
    traced = torch.jit.trace(NumbersBesideTensors(), x34)
    mod, params = relay.frontend.from_pytorch(traced, [("x", (3, 4))])
    found = relay.create_executor("vm", mod, tvm.cpu(), "llvm", params).evaluate()(x34.numpy())
    for got, want in zip(found, traced(x34), strict=True):
        assert got.numpy().dtype == want.numpy().dtype
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-3)


def test_a_loop_that_changes_the_type_of_what_it_carries() -> None:
    @torch.jit.script
    def grown(x: Tensor, n: int) -> Tensor:
        for _ in range(n):
            x = x * 1.5
        return x

    with pytest.raises(OpNotImplemented, match="changes the type of a tensor that it carries from int32 to float32"):
        relay.frontend.from_pytorch(grown, [("x", ((1, 3), "int32")), ("n", ((), "int64"))])


class Growing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = x[0]
        for k in range(int(x.sum())):
            total = total + x[k:].sum()
        return total


def test_slices_that_begin_where_the_data_say() -> None:
    script = torch.jit.script(Growing())
    mod, params = relay.frontend.from_pytorch(script, [("x", (4,))])
    for x in (torch.tensor([1.0, 2.0, 0.5, 4.0]), torch.zeros(4)):
        found = relay.create_executor("vm", mod=mod).evaluate()(x.numpy(), **params)
        np.testing.assert_allclose(found.numpy(), script(x).numpy(), rtol=1e-6)
