"""Pools in the kernel of the convolution before them: which ones, their results, and the model of their time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.vta.networks import compared
from tests.vta.test_networks import SMALL, convolution, integers
from tilewright import relay
from tilewright.vta.environment import Environment
from tilewright.vta.search.best import choose
from tilewright.vta.testing import simulator
from tilewright.vta.top import fusion

POOLS: dict[str, tuple[int, int, dict[str, Any], int]] = {
    "apart": (1, 0, {"pool_size": (2, 2), "strides": (2, 2)}, 1),
    "with rows left over": (0, -128, {"pool_size": (2, 3), "strides": (3, 4)}, 1),
    "overlapping": (0, 0, {"pool_size": (3, 3), "strides": (2, 2)}, 1),
    "with padding": (1, 0, {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1)}, 2),
}
"""Padding of the convolution, its zero point, the pool, and how many kernels there are."""


@pytest.mark.parametrize("name", POOLS)
def test_pools(name: str) -> None:
    pad, zero, pool, kernels = POOLS[name]
    x = relay.var("x", shape=(1, 12, 13, 13), dtype="int8")
    y = convolution(x, np.random.default_rng(1), (20, 12, 3, 3), zero, padding=(pad, pad))
    found = compared(integers(relay.nn.max_pool2d(y, **pool), x), Environment(SMALL))
    assert found.equal and found.kernels == kernels and not found.refused


def test_what_is_read_twice_is_stored() -> None:
    x = relay.var("x", shape=(1, 8, 8, 8), dtype="int8")
    y = convolution(x, np.random.default_rng(1), (8, 8, 3, 3), 0, padding=(1, 1))
    both = relay.Tuple((relay.nn.max_pool2d(y, (2, 2), strides=(2, 2)), y))
    found = compared(integers(both, x), Environment(SMALL))
    assert found.equal and found.kernels == 2


def test_the_model_beside_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """One kernel takes less time than two, and as long as the model says."""
    x = relay.var("x", shape=(1, 32, 28, 28), dtype="int8")
    y = convolution(x, np.random.default_rng(1), (32, 32, 3, 3), 0, padding=(1, 1))
    mod = integers(relay.nn.max_pool2d(y, (2, 2), strides=(2, 2)), x)
    said = fusion.problem_of(mod["main"].body, Environment({}).configuration)
    assert said is not None and said.steps == 28 * 28 * 9 * 4 and (said.rows, said.columns) == (14, 14)
    times = []
    for fused in (True, False):
        monkeypatch.setattr(fusion, "is_faster", lambda *_, fused=fused: fused)
        found = compared(mod, Environment({"TARGET": "tsim"}))
        assert found.equal and found.kernels == 2 - fused
        times.append(simulator.stats()["cycle_count"])
    assert times[0] < times[1] and times[0] == pytest.approx(
        choose(said, Environment({}).configuration).cycles, rel=0.15
    )
