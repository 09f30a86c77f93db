"""Networks of int8 on processors other than Cortex-M7, and as C (make test-micro): LiteRT's bits, and instructions that do not become more.

Unicorn runs Cortex-M0+, M4, M7 and M33, an emulated board Cortex-M55.
"""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.micro.micro_processors import measured, run
from tests.frontend.tflite.ops.writer import litert
from tests.micro.boards import use_qemu
from tests.micro.kernels_in_unicorn import random_network
from tilewright.micro.board import board

CODE = [
    ("raspberry_pi_pico", "llvm"), ("raspberry_pi_pico", "c"), ("mps2_an386", "c"), ("mps2_an500", "c"), ("mps2_an505", "llvm"),
    ("mps2_an505", "c"), ("mps3_an547", "llvm"), ("mps3_an547", "c"),
]  # fmt: skip
MOST = {
    ("keywords", "mps3_an547", "llvm"): 1.42e6,
    ("wake_words", "mps3_an547", "llvm"): 4.1e6,
    ("keywords", "mps2_an500", "c"): 5.3e6,
    ("keywords", "mps2_an505", "c"): 5.3e6,
    ("keywords", "raspberry_pi_pico", "llvm"): 24e6,
}
"""Instructions of a run: what `python -m benchmarks micro_processors` shows, and two parts in a hundred."""


@pytest.fixture(scope="module", autouse=True)
def _qemu() -> None:
    use_qemu()


@pytest.mark.parametrize("name, kind", CODE)
def test_random_layers(name: str, kind: str) -> None:
    net = random_network(0)
    model, sample = net.model(), net.sample()
    _, found = run(model, sample, board(name), kind, False)
    np.testing.assert_array_equal(found, litert(model, [sample])[0].reshape(-1))


@pytest.mark.parametrize("network, name, kind", list(MOST))
def test_networks(network: str, name: str, kind: str) -> None:
    row = measured(network, board(name), kind, False)
    assert row["equal"] and row["instructions"] <= MOST[network, name, kind]
