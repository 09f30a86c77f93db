"""One architecture: exported, imported, built, and run beside PyTorch; with dynamic axes, at three sizes."""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any

import numpy as np
import torch

import tilewright as tvm
from tests.frontend.torch.models import MODELS, tensors
from tests.frontend.torch.models.refusals import REFUSED
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.runtime.vm import VirtualMachine

TOLERANCE = 1e-4
GROWTH = (0, 1, 3)
"""By how much axes are longer than those of the example in the runs of a program with dynamic axes."""
Axes = dict[str, dict[int, str]]


class ByPlace(torch.nn.Module):
    """A model that takes its named inputs by their place: torch.export wants it so where the model's signature names none."""

    def __init__(self, inner: torch.nn.Module, names: list[str]) -> None:
        super().__init__()
        self.inner, self.names = inner, names

    def forward(self, *args: torch.Tensor) -> Any:
        return self.inner(**dict(zip(self.names, args, strict=True)))


def exported(module: Any, inputs: dict[str, Any], axes: Axes) -> Any:
    """The program that torch.export makes, these axes dynamic."""
    shapes = None
    if any(axes.values()):
        shapes = {"args": tuple([dict.fromkeys(axes.get(k, ()), torch.export.Dim.DYNAMIC) or None for k in inputs])}
    with torch.no_grad(), warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        by_place = ByPlace(module, list(inputs))
        return torch.export.export(by_place, tuple(inputs.values()), dynamic_shapes=shapes, strict=False)


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
    """The program of fixed sizes."""
    module, inputs, _ = MODELS[name]()
    program = exported(module, inputs, {})
    with torch.no_grad():
        wanted = tensors(module(**inputs))
    mod, params = relay.frontend.from_pytorch(program)
    lib = relay.build(mod, "llvm", params=params)
    runner = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    for given, value in zip(mod["main"].params, inputs.values(), strict=False):
        runner.set_input(given.name_hint, value.numpy())
    runner.run()
    return compare([runner.get_output(k).numpy() for k in range(runner.get_num_outputs())], wanted)


def of_roles(axes: Axes, roles: set[str]) -> Axes:
    """Those of the axes that are called so."""
    return {k: {a: role for a, role in named.items() if role in roles} for k, named in axes.items()}


def open_roles(name: str, axes: Axes) -> set[str]:
    """The names of the axes that torch.export leaves dynamic."""
    return {role for named in axes.values() for role in named.values()} - set(REFUSED.get(name, {}))


def dynamic(name: str) -> float:
    """The program with all axes dynamic that torch.export leaves so, imported and compiled once, at three sizes."""
    module, inputs, axes = MODELS[name]()
    axes = of_roles(axes, open_roles(name, axes))
    program = exported(module, inputs, axes)
    mod, params = relay.frontend.from_pytorch(program)
    machine = VirtualMachine(relay.vm.compile(mod, "llvm", params=params), tvm.cpu())
    worst = 0.0
    for growth in GROWTH:
        given = {k: grown(v, axes.get(k, {}), growth) for k, v in inputs.items()}
        with torch.no_grad():
            wanted = tensors(module(**given))
        result = machine.run(*[v.numpy() for v in given.values()])
        found = [result] if hasattr(result, "numpy") else list(result)
        worst = max(worst, compare([r.numpy() for r in found], wanted))
    return worst


def grown(x: torch.Tensor, axes: dict[int, str], growth: int) -> torch.Tensor:
    """The tensor with its first elements along some axes repeated at their ends."""
    for axis in axes:
        x = x.index_select(axis, torch.arange(x.shape[axis] + growth) % x.shape[axis])
    return x.contiguous()


def refused(name: str, role: str) -> str:
    """What torch.export says where this axis is dynamic."""
    module, inputs, axes = MODELS[name]()
    try:
        exported(module, inputs, of_roles(axes, {role}))
    except Exception as error:
        return str(error)
    return ""
