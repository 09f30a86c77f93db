"""What PyTorch quantised itself (eager and FX modes), as TorchScript: traced and scripted, as numbers and in integer arithmetic."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.quantization as quantization
from torch import Tensor, nn
from torch.ao.nn.quantized import FloatFunctional

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.evaluation.interpreter import run_function
from tilewright.support.errors import OpNotImplemented

pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    """Layers with and without ReLU, a residual, a concatenation, pooling, activations."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = quantization.QuantStub(), quantization.DeQuantStub()
        self.first, self.norm, self.relu = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True)
        self.second = nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.pool, self.swish, self.mean, self.head = (
            nn.MaxPool2d(2),
            nn.Hardswish(),
            nn.AdaptiveAvgPool2d(1),
            nn.Linear(16, 5),
        )
        self.sum, self.join, self.halve = FloatFunctional(), FloatFunctional(), FloatFunctional()

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.relu(self.norm(self.first(self.enter(x)))))
        y = self.swish(self.second(x))
        z = self.join.cat([self.sum.add_relu(x, y), self.halve.mul_scalar(y, -0.5)], 1)
        return self.leave(torch.sigmoid(self.head(torch.flatten(self.mean(z), 1))))


def converted(module: nn.Module, x: Tensor, fused: Any = ()) -> nn.Module:
    """The module as PyTorch's eager mode quantises it."""
    torch.manual_seed(0)
    module = module.eval()
    module.qconfig = quantization.get_default_qconfig("fbgemm")
    if fused:
        module = quantization.fuse_modules(module, [list(fused)])
    quantization.prepare(module, inplace=True)
    module(x)
    quantization.convert(module, inplace=True)
    return module


def imported(module: Any, *inputs: Tensor, **options: Any) -> tuple[Any, Any]:
    infos = [(f"x{k}", tuple(x.shape)) for k, x in enumerate(inputs)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return relay.frontend.from_pytorch(module, infos, **options)


def agree(module: Any, *inputs: Tensor, atol: float = 1e-5, **options: Any) -> Any:
    """Imports a traced module and compares; the relay module."""
    with torch.no_grad():
        traced = module if isinstance(module, torch.jit.ScriptModule) else torch.jit.trace(module, inputs)
        wanted = module(*inputs)
    mod, params = imported(traced, *inputs, **options)
    found = run_function(mod["main"], [*[x.numpy() for x in inputs], *params.values()], mod)
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-5, atol=atol)
    return mod


@pytest.fixture(scope="module")
def net() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 8, 8)
    return converted(Net(), x, ("first", "norm", "relu")), x


@pytest.mark.parametrize("keep", [False, True])
def test_static(net: Any, keep: bool) -> None:
    # A level of the sigmoid's result is 1/256.
    module, x = net
    mod = agree(module, x, atol=1.01 / 256, keep_quantized_weight=keep)
    names = [p.name_hint for p in mod["main"].params]
    assert ("first.weight" in names) == keep


def test_static_in_integers(net: Any) -> None:
    module, x = net
    mod, params = imported(torch.jit.trace(module, x), x)
    mod = relay.transform.FakeQuantizationToInteger()(mod)
    assert "qnn.conv2d" in mod.astext()
    runner = graph_executor.GraphModule(relay.build(mod, "llvm", params=params)["default"](tvm.cpu()))
    runner.run(x0=x.numpy())
    np.testing.assert_allclose(runner.get_output(0).numpy(), module(x).numpy(), atol=2.01 / 256)


def test_fx_mode() -> None:
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    torch.manual_seed(0)
    x = torch.randn(2, 3, 8, 8)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)).eval()
    ready = prepare_fx(module, quantization.get_default_qconfig_mapping("fbgemm"), (x,))
    ready(x)
    module = convert_fx(ready)
    agree(module, x, atol=float(module(x).abs().max()) / 100)


@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16], ids=str)
def test_dynamic(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    module = quantization.quantize_dynamic(module, {nn.Linear}, dtype=dtype)
    agree(module, torch.randn(5, 6), atol=1e-3)


class Steady(nn.Module):
    """A recurrent layer, and what it ends with."""

    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        self.layer = kind(6, 8, **options)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        rows, last = self.layer(x)
        return (rows, *last) if isinstance(last, tuple) else (rows, last)


def same_recurrent(module: nn.Module, *inputs: Tensor) -> None:
    """Imports a traced module of several results and compares."""
    with torch.no_grad():
        traced, wanted = torch.jit.trace(module, inputs), module(*inputs)
    mod, params = imported(traced, *inputs)
    found = run_function(mod["main"], [*[x.numpy() for x in inputs], *params.values()], mod)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for a, b in zip(found if isinstance(found, (tuple, list)) else [found], wanted, strict=True):
        np.testing.assert_allclose(a, b.numpy(), atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16], ids=str)
@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_dynamic_recurrent(kind: Any, dtype: torch.dtype) -> None:
    for options in ({}, {"num_layers": 2, "bidirectional": True, "batch_first": True}):
        torch.manual_seed(0)
        module = quantization.quantize_dynamic(Steady(kind, **options).eval(), {kind}, dtype=dtype)
        same_recurrent(module, torch.randn(5, 3, 6))


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell])
def test_dynamic_cells(kind: Any) -> None:
    torch.manual_seed(0)
    module = quantization.quantize_dynamic(nn.ModuleDict({"cell": kind(6, 8)}).eval(), {kind}, dtype=torch.qint8)[
        "cell"
    ]
    if kind is nn.LSTMCell:
        same_recurrent(Pairs(module), torch.randn(3, 6), torch.randn(3, 8), torch.randn(3, 8))
    else:
        same_recurrent(module, torch.randn(3, 6), torch.randn(3, 8))


class Pairs(nn.Module):
    """An LSTM's cell whose states are inputs of their own."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        return self.cell(x, (hidden, memory))


def test_scripted() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 8, 8)
    layers = nn.Sequential(
        quantization.QuantStub(), nn.Conv2d(3, 4, 3), nn.ConvTranspose2d(4, 4, 3, stride=2), quantization.DeQuantStub()
    )
    layers[2].qconfig = quantization.QConfig(quantization.default_observer, quantization.default_weight_observer)
    module = converted(layers, x)
    agree(torch.jit.script(module), x, atol=float(module(x).abs().max()) / 100)


class Steps(nn.Module):
    """A function between quantize and dequantize."""

    def __init__(self, f: Any, dtype: torch.dtype = torch.quint8) -> None:
        super().__init__()
        self.f, self.dtype = f, dtype

    def forward(self, x: Tensor) -> Any:
        zero = 100 if self.dtype is torch.quint8 else -10
        return self.f(torch.quantize_per_tensor(x, 0.05, zero, self.dtype)).dequantize()


Q = torch.ops.quantized
FUNCTIONS = {
    "add": lambda q: Q.add(q, q, 0.1, 50),
    "mul_relu": lambda q: Q.mul_relu(q, q, 0.1, 50),
    "matmul": lambda q: Q.matmul(q, q.transpose(0, 1), 0.2, 90),
    "times": lambda q: Q.mul_scalar(q, 1.5),
    "times_nothing": lambda q: Q.mul_scalar(q, 0),
    "times_less": lambda q: Q.mul_scalar_relu(q, -2.0),
    "plus": lambda q: Q.add_scalar(q, 0.5),
    "plus_much": lambda q: Q.add_scalar(q, 30.0),
    "minus_much": lambda q: Q.add_scalar_relu(q, -30.0),
    "leaky_relu": lambda q: Q.leaky_relu(q, 0.1, False, 0.04, 60),
    "hardswish": lambda q: Q.hardswish(q, 0.04, 60),
    "elu": lambda q: Q.elu(q, 0.04, 60, 1.0),
    "softmax": lambda q: Q.softmax(q, 1, 1 / 256, 0),
    "sigmoid": lambda q: Q.sigmoid(q, 1 / 256, 0),
    "relu6": lambda q: Q.relu6(q),
    "tanh": torch.tanh,
    "relu": torch.relu_,
    "clamp": lambda q: torch.clamp(q, -0.5, 1.0),
    "mean": lambda q: q.mean(1),
    "layer_norm": lambda q: Q.layer_norm(q, [6], torch.ones(6) * 2, torch.zeros(6), 1e-5, 0.05, 100),
    "moves": lambda q: torch.flip(q.t().reshape(3, 8)[1:], [0]).contiguous(),
    "levels": lambda q: q.int_repr().float().mul(q.q_scale()),
}


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_functions(name: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 6) * 2
    f = FUNCTIONS[name]
    if name == "levels":
        with torch.no_grad():
            traced = torch.jit.trace(lambda v: f(torch.quantize_per_tensor(v, 0.05, 100, torch.quint8)), x)
    else:
        traced = torch.jit.trace(Steps(f), x)
    wanted = traced(x)
    mod, params = imported(traced, x)
    found = run_function(mod["main"], [x.numpy(), *params.values()], mod)
    # One level apart where the two round different ways.
    np.testing.assert_allclose(found, wanted.numpy(), atol=0.201 if name in ("matmul",) else 0.101)
    assert np.mean(found != wanted.numpy()) < 0.2


def test_signed_bytes() -> None:
    agree(Steps(torch.sigmoid, torch.qint8), torch.randn(4, 6), atol=1e-6)


def test_channels() -> None:
    scales, zeros = torch.tensor([0.1, 0.2]), torch.tensor([0, 3])

    def f(x: Tensor) -> Tensor:
        return torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8).dequantize()

    x = torch.randn(2, 5)
    agree(torch.jit.trace(f, x), x)


def test_quantised_outputs_are_refused() -> None:
    x = torch.randn(2, 3)
    traced = torch.jit.trace(lambda v: torch.quantize_per_tensor(v, 0.1, 0, torch.quint8), x)
    with pytest.raises(
        OpNotImplemented, match=r"an output is quantised: dequantize it \(torch.ao.quantization.DeQuantStub\)"
    ):
        imported(traced, x)
