"""What is compiled for RISC-V (scalars, and vectors of RVV 1.0 on registers of 256 bits) and 32-bit ARM (NEON, floats passed in
registers), run under QEMU. `make test-machines`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.emulated import machines
from tests.emulated.checks import check_model, check_random_model, check_vector_math
from tests.fuzz.onnx.ops import generators

MODELS = ("resnet_small", "mobilenet_small", "bert_small", "resnet_small_int8", "light_squeezenet_random")

on_each = pytest.mark.parametrize("machine", machines.OTHERS)


@on_each
@pytest.mark.parametrize("name", sorted(generators))
def test_random_models(name: str, machine: str) -> None:
    check_random_model(name, 2000, machines.OTHERS[machine])


@on_each
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, machine: str, tmp_path: Path) -> None:
    check_model(name, machines.OTHERS[machine], tmp_path)


@pytest.mark.parametrize("machine", machines.THROUGH_C)
@pytest.mark.parametrize("name", ("resnet_small", "bert_small"))
def test_models_through_c(name: str, machine: str, tmp_path: Path) -> None:
    check_model(name, machines.THROUGH_C[machine], tmp_path)


@on_each
@pytest.mark.parametrize("name", ["exp", "tanh", "erf"])
def test_vector_math(name: str, machine: str, tmp_path: Path) -> None:
    """Normal numbers and infinities: 32-bit ARM's vectors take denormals for zeros."""
    rng = np.random.default_rng(7)
    x = np.concatenate([np.array([0, np.inf, -np.inf, np.nan], "float32"), rng.normal(0, 4, 5001).astype("float32")])
    check_vector_math(name, x, machines.OTHERS[machine], tmp_path)
