"""Models that torchao quantised, beside PyTorch: PT2E with each of its quantizers, and `quantize_`. `make test-torchao` runs them."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torchao.quantization as ao
from torch import Tensor, nn
from torchao.quantization.granularity import PerGroup
from torchao.quantization.pt2e import move_exported_model_to_eval
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e
from torchao.quantization.pt2e.quantizer import arm_inductor_quantizer as arm
from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


class Net(nn.Module):
    """Convolutions with and without groups, a residual, a concatenation, pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.pool = nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.MaxPool2d(2)
        self.mean, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(torch.relu(self.norm(self.first(x))))
        y = nn.functional.hardswish(self.second(x))
        z = torch.cat([torch.relu(x + y), y * -0.5], 1)
        return torch.sigmoid(self.head(torch.flatten(self.mean(z), 1)))


class Layers(nn.Module):
    """Two linear layers and what is around them in a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(64, 128), nn.Linear(128, 64), nn.LayerNorm(64)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + self.down(nn.functional.gelu(self.up(x))))


class Attention(nn.Module):
    """A language model of one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(20, 16), nn.Linear(16, 20)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.layer(self.table(ids)))


MODELS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "net": lambda: (Net(), torch.randn(2, 3, 16, 16)),
    "layers": lambda: (Layers(), torch.randn(4, 64)),
    "attention": lambda: (Attention(), torch.randint(0, 20, (2, 7))),
}
QUANTIZERS: dict[str, Callable[[], Any]] = {
    "x86": lambda: x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config()),
    "x86-dynamic": lambda: x86.X86InductorQuantizer().set_global(
        x86.get_default_x86_inductor_quantization_config(is_dynamic=True)
    ),
    "arm": lambda: arm.ArmInductorQuantizer().set_global(arm.get_default_arm_inductor_quantization_config()),
}


def answer(mod: Any, params: Any, x: Tensor) -> np.ndarray:
    runner = graph_executor.GraphModule(relay.build(mod, "llvm", params=params)["default"](tvm.cpu()))
    runner.set_input(0, x.numpy())
    runner.run()
    return runner.get_output(0).numpy()


def same(program: Any, x: Tensor, wanted: Tensor, products: str = "") -> None:
    """As numbers, and on integers where there are such products."""
    mod, params = relay.frontend.from_pytorch(program)
    integers = relay.transform.FakeQuantizationToInteger(use_qat=True)(mod)
    assert products in integers.astext()
    want = wanted.detach().numpy()
    for each in (mod, integers):
        np.testing.assert_allclose(answer(each, params, x), want, rtol=1e-5, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize("quantizer", QUANTIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_pt2e(name: str, quantizer: str) -> None:
    torch.manual_seed(0)
    module, x = MODELS[name]()
    prepared = prepare_pt2e(torch.export.export(module.eval(), (x,)).module(), QUANTIZERS[quantizer]())
    prepared(x)
    quantised = convert_pt2e(prepared)
    products = "" if "dynamic" in quantizer else "qnn.conv2d" if name == "net" else "qnn.dense"
    same(torch.export.export(quantised, (x,)), x, quantised(x), products)


def test_pt2e_trained() -> None:
    torch.manual_seed(0)
    module, x = Net().train(), torch.randn(2, 3, 16, 16)
    config = x86.get_default_x86_inductor_quantization_config(is_qat=True)
    prepared = prepare_qat_pt2e(
        torch.export.export(module, (x,)).module(), x86.X86InductorQuantizer().set_global(config)
    )
    for _ in range(2):
        prepared(x).sum().backward()
    quantised = convert_pt2e(prepared)
    move_exported_model_to_eval(quantised)
    same(torch.export.export(quantised, (x,)), x, quantised(x), "qnn.conv2d")


def test_pt2e_dynamic_batch() -> None:
    torch.manual_seed(0)
    module, x = Layers().eval(), torch.randn(4, 64)
    shapes = ({0: torch.export.Dim("batch")},)
    exported = torch.export.export(module, (x,), dynamic_shapes=shapes)
    prepared = prepare_pt2e(exported.module(), QUANTIZERS["x86"]())
    prepared(x)
    quantised = convert_pt2e(prepared)
    mod, params = relay.frontend.from_pytorch(torch.export.export(quantised, (x,), dynamic_shapes=shapes))
    mod = relay.transform.FakeQuantizationToInteger(use_qat=True)(mod)
    run = relay.create_executor("vm", mod, tvm.cpu(), "llvm").evaluate()
    for count in (1, 5):
        given = torch.randn(count, 64)
        found = run(given.numpy(), **params).numpy()
        np.testing.assert_allclose(found, quantised(given).detach().numpy(), rtol=1e-5, atol=1e-5)


CONFIGS: dict[str, Callable[[], Any]] = {
    "bytes": lambda: ao.Int8WeightOnlyConfig(),
    "bytes-dynamic": lambda: ao.Int8DynamicActivationInt8WeightConfig(),
    "four-bits": lambda: ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)),
    "four-bits-dynamic": lambda: ao.Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=PerGroup(32)
    ),
    "float8": lambda: ao.Float8WeightOnlyConfig(),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_quantize(name: str) -> None:
    torch.manual_seed(0)
    module, x = MODELS["layers"]()
    module = module.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ao.quantize_(module, CONFIGS[name]())
    same(torch.export.export(module, (x,)), x, module(x), "qnn.dense" if name == "bytes-dynamic" else "")
