"""Whole architectures through the PyTorch importer, compiled, beside PyTorch; `make test-torch` runs all of them."""

from __future__ import annotations

import pytest

from tests.frontend.torch_models import FAST, MODELS, run

SLOW = sorted(set(MODELS) - FAST)


@pytest.mark.parametrize("name", sorted(FAST))
def test_architecture(name: str) -> None:
    run.static(name)


def test_open_axes() -> None:
    run.dynamic("bert")


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_every_architecture(name: str) -> None:
    run.static(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_architecture_with_open_axes(name: str) -> None:
    if MODELS[name]()[2] is not None:
        run.dynamic(name)
