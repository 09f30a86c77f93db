"""Architectures for the PyTorch importer: small, random weights; each with example inputs and, where it exports so, dynamic axes.

`transformers_*` are made from configurations of the library; the other files define models as their papers (and timm) do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

MODELS: dict[str, Callable[[], Any]] = {}
"""By name: a function to (module, example inputs by name, names of the axes that may be dynamic, by input and place)."""
FAST: set[str] = set()
"""Those that every run of the test suite tries."""


AXES = {
    "input_ids": {0: "batch", 1: "length"},
    "attention_mask": {0: "batch", 1: "length"},
    "decoder_input_ids": {0: "batch", 1: "written"},
    "source": {0: "batch", 1: "length"},
    "target": {0: "batch", 1: "written"},
    "spectrogram": {0: "batch", 1: "frames"},
}
"""Axes that may be dynamic of inputs of these names; of others it is the first, the batch."""


def model(name: str, fast: bool = False) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register an architecture: a function to (module, inputs), or (module, inputs, axes that may be dynamic of some inputs)."""

    def register(f: Callable[[], Any]) -> Callable[[], Any]:
        def build() -> Any:
            torch.manual_seed(0)
            module, inputs, *rest = f()
            own = rest[0] if rest else {}
            axes = {k: own.get(k) or AXES.get(k) or {0: "batch"} for k in inputs}
            return module.eval(), inputs, axes

        MODELS[name] = build
        if fast:
            FAST.add(name)
        return f

    return register


def lively(module: torch.nn.Module) -> torch.nn.Module:
    """The module with weights under which images come through: the libraries' own first weights let them fade to the last bias."""
    for m in module.modules():
        if isinstance(m, (torch.nn.Conv2d, torch.nn.Linear, torch.nn.ConvTranspose2d)):
            torch.nn.init.normal_(m.weight, std=float(m.weight[0].numel()) ** -0.5)
        elif isinstance(m, torch.nn.BatchNorm2d):
            torch.nn.init.normal_(m.running_mean, std=0.1)
            torch.nn.init.uniform_(m.running_var, 0.5, 1.5)
    return module


def ids(*shape: int, high: int = 90) -> torch.Tensor:
    """Token numbers."""
    return torch.randint(3, high, shape, generator=torch.Generator().manual_seed(sum(shape)))


def normal(*shape: int) -> torch.Tensor:
    """Normal numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def tensors(x: Any) -> list[torch.Tensor]:
    """The tensors of a model's result, in order."""
    return [t for t in torch.utils._pytree.tree_leaves(x) if isinstance(t, torch.Tensor)]


class Only(torch.nn.Module):
    """A model of which one output, or a few, are wanted: those of these names."""

    def __init__(self, inner: torch.nn.Module, *names: str) -> None:
        super().__init__()
        self.inner, self.names = inner, names

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        out = self.inner(*args, **kwargs)
        return tuple([getattr(out, n) for n in self.names])


from tests.frontend.torch.models import diffusion, language, layers, speech, vision  # noqa: E402 (register models)
