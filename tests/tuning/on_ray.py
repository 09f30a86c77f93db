"""Measurements in a Ray cluster of this machine (`make test-farm`: ray is large)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tuning import kernels
from tilewright.tuning.building import LocalBuilder
from tilewright.tuning.measure import Failure, Run
from tilewright.tuning.running.ray import RayRunner

NAMES = ("right", "wrong", "crash", "endless")


@pytest.fixture
def runner() -> Iterator[RayRunner]:
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield RayRunner(timeout=3)
    ray.shutdown()


def test_tasks(runner: RayRunner, tmp_path: Path) -> None:
    builder = LocalBuilder(2)
    built = [b.path for b in builder.build([kernels.source(getattr(kernels, n)) for n in NAMES], tmp_path)]
    builder.close()
    runs = [Run(path, kernels.SIGNATURE, built[0], built[0]) for path in built if path is not None]
    found = runner.run([*runs, runs[0]])
    assert [m.failure for m in found] == [None, Failure.WRONG, Failure.RUN, Failure.RUN_TIMEOUT, None]
    assert len(found[0].seconds) >= 6 and len(found[4].beside) >= 6
    assert "SIGSEGV" in found[2].message
