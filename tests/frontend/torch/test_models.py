"""Whole architectures through the PyTorch importer, compiled, beside PyTorch; `make test-torch` runs all of them."""

from __future__ import annotations

import pytest

from tests.frontend.torch.models import FAST, MODELS, run
from tests.frontend.torch.models.refusals import REFUSED

SLOW = sorted(set(MODELS) - FAST)


@pytest.mark.parametrize("name", sorted(FAST))
def test_architecture(name: str) -> None:
    run.static(name)


def test_dynamic_axes() -> None:
    run.dynamic("bert")


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_every_architecture(name: str) -> None:
    run.static(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(MODELS) - {"bert"}))
def test_every_architecture_with_dynamic_axes(name: str) -> None:
    """Axes that torch.export leaves dynamic stay so: one build is right at three sizes."""
    run.dynamic(name)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "role"), [(name, role) for name in sorted(REFUSED) for role in REFUSED[name]])
def test_axes_that_pytorch_specialises(name: str, role: str) -> None:
    assert REFUSED[name][role] in run.refused(name, role)
