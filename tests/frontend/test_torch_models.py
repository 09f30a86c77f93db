"""Whole architectures through the PyTorch importer, compiled, beside PyTorch; `make test-torch` runs all of them."""

from __future__ import annotations

import pytest

from tests.frontend.torch_models import FAST, MODELS, run

SLOW = sorted(set(MODELS) - FAST)
OPEN = [name for name, build in MODELS.items() if getattr(build, "open_axes", False)]


@pytest.mark.parametrize("name", sorted(FAST))
def test_architecture(name: str) -> None:
    run.static(name)


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_open_axes(name: str) -> None:
    run.dynamic(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_every_architecture(name: str) -> None:
    run.static(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_architecture_with_open_axes(name: str) -> None:
    if MODELS[name]()[2] is not None:
        run.dynamic(name)
