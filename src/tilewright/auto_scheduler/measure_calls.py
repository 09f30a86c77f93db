"""Builds and measurements as single calls, under their classic names. A call starts the processes that it needs, and ends them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tilewright.auto_scheduler.measure import BuildResult, MeasureInput, MeasureResult
from tilewright.auto_scheduler.measure_places import LocalBuilder, LocalRunner, RPCRunner
from tilewright.auto_scheduler.measure_programs import ProgramRunner

# Libraries lie in a folder of their builder, so it lives as long as the process.
_builder = lru_cache(maxsize=None)(LocalBuilder)


def local_builder_build(
    inputs: Sequence[MeasureInput], timeout: float, n_parallel: int, build_func: str = "default", verbose: int = 1
) -> list[BuildResult]:
    """The library of each program: see `LocalBuilder`."""
    builder = _builder(timeout, n_parallel, build_func)
    try:
        return builder.build(inputs, verbose)
    finally:
        builder.close()


def local_run(
    inputs: Sequence[MeasureInput],
    build_results: Sequence[BuildResult],
    timeout: float = 10,
    number: int = 3,
    repeat: int = 1,
    min_repeat_ms: float = 0,
    cooldown_interval: float = 0,
    enable_cpu_cache_flush: bool = False,
    verbose: int = 1,
    device: int = 0,
) -> list[MeasureResult]:
    """The times of each library on this machine: see `LocalRunner`."""
    runner = LocalRunner(timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush, device)
    return _run(runner, inputs, build_results, verbose)


def rpc_runner_run(
    inputs: Sequence[MeasureInput],
    build_results: Sequence[BuildResult],
    key: str,
    host: str,
    port: int,
    priority: int = 1,
    n_parallel: int = 1,
    timeout: float = 10,
    number: int = 3,
    repeat: int = 1,
    min_repeat_ms: float = 0,
    cooldown_interval: float = 0.0,
    enable_cpu_cache_flush: bool = False,
    verbose: int = 1,
    device: int = 0,
) -> list[MeasureResult]:
    """The times of each library on boards: see `RPCRunner`."""
    runner = RPCRunner(
        key, host, port, priority, n_parallel, timeout, number, repeat, min_repeat_ms, cooldown_interval,
        enable_cpu_cache_flush, device,
    )  # fmt: skip
    return _run(runner, inputs, build_results, verbose)


def _run(
    runner: ProgramRunner, inputs: Sequence[MeasureInput], build_results: Sequence[BuildResult], verbose: int
) -> list[MeasureResult]:
    try:
        return runner.run(inputs, build_results, verbose)
    finally:
        runner.close()
