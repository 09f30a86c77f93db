"""Exported programs, modules and FX graphs: names, weights, dynamic dimensions, state, control flow."""

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


def evaluate(mod: Any, params: Any, *xs: Tensor, kind: str = "debug") -> list[np.ndarray]:
    result = relay.create_executor(kind, mod, tvm.cpu(), "llvm").evaluate()(*[x.numpy() for x in xs], **params)
    return [r.numpy() for r in ([result] if hasattr(result, "numpy") else result)]


def close(found: list[np.ndarray], wanted: Any) -> None:
    wanted = list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.shape == tuple(theirs.shape)
        np.testing.assert_allclose(mine, theirs.detach().numpy(), rtol=1e-5, atol=1e-6)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)).eval()


def test_exported_program() -> None:
    module = net()
    mod, params = relay.frontend.from_pytorch(torch.export.export(module, (x34,)))
    assert [p.name_hint for p in mod["main"].params] == [
        "input",
        "0.weight",
        "0.bias",
        "2.weight",
        "2.bias",
        "3.weight",
        "3.bias",
    ]
    close(evaluate(mod, params, x34), module(x34))


def test_weights_are_not_copied() -> None:
    module = net()
    _, params = relay.frontend.from_pytorch(torch.export.export(module, (x34,)))
    assert params["0.weight"].ctypes.data == module[0].weight.data_ptr()


@pytest.mark.parametrize(
    "infos", [(x34,), x34, {"input": x34}, [("data", (3, 4))], [("data", ((3, 4), "float32"))]], ids=str
)
def test_module_is_exported_here(infos: Any) -> None:
    module = net().train()
    mod, params = relay.frontend.from_pytorch(module, infos)
    assert module.training
    assert mod["main"].params[0].name_hint == ("data" if isinstance(infos, list) else "input")
    close(evaluate(mod, params, x34), module(x34))


def test_graph_module() -> None:
    graph = torch.fx.symbolic_trace(net())
    mod, params = relay.frontend.from_pytorch(graph, (x34,))
    close(evaluate(mod, params, x34), graph(x34))


def test_friendly_names() -> None:
    mod, params = relay.frontend.from_pytorch(torch.export.export(net(), (x34,)), use_parser_friendly_name=True)
    assert "0_weight" in params and all("." not in p.name_hint for p in mod["main"].params)


class Shapes(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        n, s = x.shape
        positions = torch.arange(s) * 2
        return (x + positions).reshape(s * n // 2, 2)[1:], x.new_ones(n, 1) * (s / 2) + x[:, : s // 2].sum()


def test_sizes_stay_symbols() -> None:
    s = torch.export.Dim("s", max=64)
    program = torch.export.export(Shapes(), (x34,), dynamic_shapes=({1: 2 * s},))
    mod, params = relay.frontend.from_pytorch(program)
    for columns in (4, 10):
        x = torch.randn(3, columns)
        close(evaluate(mod, params, x, kind="vm"), Shapes()(x))


def test_dynamic_axes_of_a_module() -> None:
    module = net()
    mod, params = relay.frontend.from_pytorch(module, [("x", (relay.Any(), "length", 4))])
    assert mod["main"].params[0].checked_type.shape[2] == 4
    for shape in ((2, 3, 4), (1, 5, 4)):
        x = torch.randn(shape)
        close(evaluate(mod, params, x, kind="vm"), module(x))


def test_dynamic_axis_is_pinned() -> None:
    program = torch.export.export(net(), (x34,), dynamic_shapes=({0: torch.export.Dim("rows")},))
    mod, _ = relay.frontend.from_pytorch(program, [("data", (7, 4))])
    assert mod["main"].ret_type == relay.TensorType((7, 2), "float32")


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x.sum(0))
        return x - self.total


def test_what_is_written_in_buffers_follows_the_outputs() -> None:
    module = Counter()
    program = torch.export.export(module, (x34,))
    mod, params = relay.frontend.from_pytorch(program)
    assert mod["main"].attrs["output_tensor_names"][1] == "total"
    found = evaluate(mod, params, x34)
    close(found, [x34 - x34.sum(0), x34.sum(0)])


class Decoder(nn.Module):
    """Writes its keys at the place that it counts itself, as transformers' static cache does."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("keys", torch.zeros(6, 4))
        self.register_buffer("length", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        self.keys.index_copy_(0, self.length.reshape(1), self.layer(x))
        self.length.add_(1)
        seen = torch.arange(6) < self.length
        return (x @ self.keys.mT).masked_fill(~seen, -torch.inf).softmax(-1) @ self.keys


def test_state_goes_in_and_out() -> None:
    torch.manual_seed(0)
    module = Decoder().eval()
    with torch.no_grad():
        program = torch.export.export(module, (x34[:1],))
    mod, params = relay.frontend.from_pytorch(program)
    params = {k: v.copy() for k, v in params.items()}
    written = mod["main"].attrs["output_tensor_names"][1:]
    assert set(written) == {"keys", "length"}
    run = relay.create_executor("graph", mod, tvm.cpu(), "llvm").evaluate()
    for row in x34:
        result, *state = run(row[None].numpy(), **params)
        with torch.no_grad():
            close([result.numpy()], module(row[None]))
        params.update({k: v.numpy() for k, v in zip(written, state, strict=True)})


class Literal(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.tensor([1.0, 2.0, 3.0, 4.0])


def test_literals_are_not_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a tensor that the model's code makes PyTorch writes `detach_`, and cannot always take such a program apart."""
    program = torch.export.export(Literal(), (x34,), strict=False)
    monkeypatch.setattr(type(program), "run_decompositions", None)
    mod, params = relay.frontend.from_pytorch(program)
    close(evaluate(mod, params, x34), Literal()(x34))


class InPlace(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.zeros(3, 4)
        y[1:, ::2] = x[1:, ::2]
        y[0].add_(1)
        return y


class Cond(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))


class WhileLoop(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        from torch._higher_order_ops.while_loop import while_loop

        return while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x * 2), (torch.zeros((), dtype=torch.int64), x))


@pytest.mark.parametrize("module", [InPlace(), Cond(), WhileLoop()], ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("sign", [1, -1])
def test_control_flow_and_writes(module: nn.Module, sign: int) -> None:
    x = sign * (x34 + 3)
    mod, params = relay.frontend.from_pytorch(torch.export.export(module, (x,)))
    close(evaluate(mod, params, x, kind="vm"), module(x))


class Mixed(nn.Module):
    def forward(self, x: Tensor, ids: Tensor, flag: bool = True) -> dict[str, Any]:
        half = x.to(torch.bfloat16) * 2
        return {"half": half.float(), "ids": ids // 2 + ids.bool().sum(), "none": None, "twice": x.double() * 2}


def test_types_and_results_in_a_dictionary() -> None:
    ids = torch.tensor([3, -5, 0])
    mod, params = relay.frontend.from_pytorch(torch.export.export(Mixed(), (x34, ids)))
    wanted = Mixed()(x34, ids)
    close(evaluate(mod, params, x34, ids), [wanted[k] for k in ("half", "ids", "twice")])


class Quantised(nn.Module):
    """As PT2E writes a convolution: levels around plain operators."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-100, 100, (4, 3, 3, 3), dtype=torch.int8))
        self.register_buffer("scales", torch.tensor([0.01, 0.02, 0.015, 0.005]))
        self.register_buffer("zeros", torch.zeros(4, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        ops = torch.ops.quantized_decomposed
        x = ops.quantize_per_tensor(x, 0.05, 3, -128, 127, torch.int8)
        x = ops.dequantize_per_tensor(x, 0.05, 3, -128, 127, torch.int8)
        weight = ops.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
        y = ops.quantize_per_tensor(torch.relu(nn.functional.conv2d(x, weight)), 0.1, -128, -128, 127, torch.int8)
        return ops.dequantize_per_tensor(y, 0.1, -128, -128, 127, torch.int8)


@pytest.mark.parametrize("keep", [False, True])
def test_quantised_program(keep: bool) -> None:
    import torch.ao.quantization.fx._decomposed

    torch.manual_seed(0)
    module, x = Quantised(), torch.randn(1, 3, 6, 6)
    mod, params = relay.frontend.from_pytorch(torch.export.export(module, (x,)), keep_quantized_weight=keep)
    assert ("weight" in params) == keep
    integers = relay.transform.FakeQuantizationToInteger()(mod)
    assert "qnn.conv2d" in integers.astext()
    # One level apart where a sum lies between two.
    for program in (mod, integers):
        (found,) = evaluate(program, params, x)
        away = np.abs(found - module(x).numpy())
        assert away.max() < 0.11 and (away > 1e-3).mean() < 0.1


class Rotary(nn.Module):
    """Turns by a table of complex numbers, as the first Llama did."""

    def __init__(self) -> None:
        super().__init__()
        angle = torch.outer(torch.arange(32).float(), 1 / (10000 ** (torch.arange(0, 8, 2) / 8)))
        self.register_buffer("turns", torch.polar(torch.ones_like(angle), angle), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * self.turns[: x.shape[1]].unsqueeze(1)).flatten(-2)  # type: ignore[index]


class Spectral(nn.Module):
    """A layer of a Fourier neural operator."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(3, 5, 4, 4, dtype=torch.complex64))

    def forward(self, x: Tensor) -> Tensor:
        waves = torch.fft.rfft2(x)[..., :4, :4]
        mixed = torch.einsum("bixy,ioxy->boxy", waves, self.weight)
        scaled = torch.einsum("boxy,o->bxy", mixed, torch.arange(5.0).to(torch.complex64))
        return torch.cat([torch.view_as_real(mixed).flatten(1), torch.view_as_real(scaled).flatten(1)], 1)


def test_complex_weights() -> None:
    time = torch.export.Dim("time", max=32)
    program = torch.export.export(Rotary(), (torch.randn(2, 7, 3, 8),), dynamic_shapes=({1: time},))
    mod, params = relay.frontend.from_pytorch(program)
    assert set(params) == {"turns.real", "turns.imag"}
    for length in (7, 9):
        x = torch.randn(2, length, 3, 8)
        close(evaluate(mod, params, x, kind="vm"), Rotary()(x))
    x = torch.randn(2, 3, 16, 16)
    with torch.no_grad():
        mod, params = relay.frontend.from_pytorch(torch.export.export(Spectral(), (x,)))
        np.testing.assert_allclose(evaluate(mod, params, x)[0], Spectral()(x).numpy(), rtol=1e-3, atol=1e-3)


def test_complex_input() -> None:
    program = torch.export.export(Conjugates(), (torch.ones(3, dtype=torch.complex64),))
    with pytest.raises(
        OpNotImplemented, match="the input 'x' is complex: give its parts .torch.view_as_real., and have the model join"
    ):
        relay.frontend.from_pytorch(program)


class Conjugates(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x * x.conj()).real
