"""One architecture: exported, imported, built, and run beside PyTorch; with open axes, at other sizes too."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any

import numpy as np
import torch

import tilewright as tvm
from tests.frontend.torch_models import MODELS, tensors
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.runtime.vm import VirtualMachine

TOLERANCE = 1e-4


def feeds(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return ((), inputs) if isinstance(inputs, dict) else (tuple(inputs), {})


class ByPlace(torch.nn.Module):
    """A model that takes its named inputs by their place: torch.export wants it so where the model's signature names none."""

    def __init__(self, inner: torch.nn.Module, names: list[str]) -> None:
        super().__init__()
        self.inner, self.names = inner, names

    def forward(self, *args: torch.Tensor) -> Any:
        return self.inner(**dict(zip(self.names, args, strict=True)))


def exported(module: Any, inputs: Any, dynamic: Any = None) -> Any:
    args, kwargs = feeds(inputs)
    shapes = None
    if dynamic is not None:
        module, args, kwargs = ByPlace(module, list(inputs)), tuple(inputs.values()), {}
        shapes = {"args": tuple([dict.fromkeys(dynamic.get(k, ()), torch.export.Dim.DYNAMIC) or None for k in inputs])}
    with torch.no_grad(), warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        return torch.export.export(module, args, kwargs, dynamic_shapes=shapes, strict=False)


def compare(found: list[np.ndarray], wanted: list[torch.Tensor]) -> float:
    """The largest difference, relative to the largest number of an output. Raises AssertionError above the tolerance."""
    assert len(found) >= len(wanted)
    worst = 0.0
    for mine, theirs in zip(found, wanted, strict=False):
        want = theirs.detach().numpy()
        assert (mine.shape, mine.dtype) == (want.shape, want.dtype)
        if not want.size:
            continue
        assert np.isfinite(want).all()
        error = float(np.abs(mine.astype("float64") - want).max() / max(float(np.abs(want).max()), 1e-30))
        assert error <= TOLERANCE, f"relative difference {error:.2e}"
        worst = max(worst, error)
    return worst


def static(name: str) -> float:
    module, inputs, _ = MODELS[name]()
    args, kwargs = feeds(inputs)
    program = exported(module, inputs)
    with torch.no_grad():
        wanted = tensors(module(*args, **kwargs))
    mod, params = relay.frontend.from_pytorch(program)
    lib = relay.build(mod, "llvm", params=params)
    runner = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    values = tensors([*args, *kwargs.values()])
    names = [p.name_hint for p in mod["main"].params][: len(values)]
    for given, value in zip(names, values, strict=True):
        runner.set_input(given, value.numpy())
    runner.run()
    return compare([runner.get_output(k).numpy() for k in range(runner.get_num_outputs())], wanted)


def dynamic(name: str) -> float:
    """The program with open axes, at the example's sizes and at others."""
    module, inputs, axes = MODELS[name]()
    mod, params = relay.frontend.from_pytorch(exported(module, inputs, axes))
    machine = VirtualMachine(relay.vm.compile(mod, "llvm", params=params), tvm.cpu())
    worst = 0.0
    for grow in (0, 1):
        given = {k: _grown(v, axes.get(k, {}), grow) for k, v in inputs.items()}
        with torch.no_grad():
            wanted = tensors(module(**given))
        result = machine.run(*[v.numpy() for v in tensors(list(given.values()))])
        found = [result] if hasattr(result, "numpy") else list(result)
        worst = max(worst, compare([r.numpy() for r in found], wanted))
    return worst


def _grown(x: torch.Tensor, axes: dict[int, str], by: int) -> torch.Tensor:
    for axis in axes:
        x = torch.cat([x, x.narrow(axis, 0, by)], axis) if by else x
    return x.contiguous()
