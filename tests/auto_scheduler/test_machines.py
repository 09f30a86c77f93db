"""Programs that are built and run: on this machine, and by a server of remote calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.auto_scheduler.test_tasks import MACHINE
from tilewright import TVMError, auto_scheduler
from tilewright.auto_scheduler.measure import MeasureErrorNo, MeasureInput, ProgramMeasurer


@pytest.fixture(scope="module")
def builder() -> Iterator[auto_scheduler.LocalBuilder]:
    made = auto_scheduler.LocalBuilder(timeout=60, n_parallel=1)
    yield made
    made.close()


def inputs() -> list[MeasureInput]:
    """A program, and one whose steps are refused."""
    task = auto_scheduler.SearchTask("tests.matmul", (16, 16, 16), target="llvm", hardware_params=MACHINE)
    good, refused = task.compute_dag.get_init_state(), task.compute_dag.get_init_state()
    good.parallel(2, good[2].iters[0])
    refused.vectorize(2, refused[2].iters[2])
    return [MeasureInput(task, good), MeasureInput(task, refused)]


def test_on_this_machine(builder: auto_scheduler.LocalBuilder) -> None:
    runner = auto_scheduler.LocalRunner(
        timeout=20, min_repeat_ms=1, repeat=2, cooldown_interval=0.01, enable_cpu_cache_flush=True
    )
    many = inputs()
    try:
        results = ProgramMeasurer(builder, runner, verbose=0).measure(many[0].task, None, many)
    finally:
        runner.close()
    assert [r.error_no for r in results] == [0, MeasureErrorNo.INSTANTIATION_ERROR]
    assert 0 < results[0].seconds < 1 and "reduction axis" in str(results[1].error_msg)


def test_by_remote_calls(builder: auto_scheduler.LocalBuilder) -> None:
    many = inputs()
    with auto_scheduler.LocalRPCMeasureContext(timeout=60, min_repeat_ms=1) as context:
        builds = builder.build(many, verbose=0)
        results = context.runner.run(many, builds, verbose=0)
    assert [r.error_no for r in results] == [0, MeasureErrorNo.INSTANTIATION_ERROR]
    assert 0 < results[0].seconds < 1
    assert Path(str(builds[0].filename)).exists()


def test_what_is_refused() -> None:
    with pytest.raises(TVMError, match="build_func is 'ndk'"):
        auto_scheduler.LocalBuilder(build_func="ndk")
    with pytest.raises(TVMError, match="device 3"):
        auto_scheduler.LocalRunner(device=3)
