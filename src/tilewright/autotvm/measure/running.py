"""Runners under their classic names, on those of the engine."""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.autotvm.measure.building import ERRORS, BuildResult, failed
from tilewright.autotvm.measure.measure import MeasureErrorNo, MeasureInput, MeasureResult, Runner
from tilewright.autotvm.measure.remote import (
    FLUSHED,
    DefaultModuleLoader,
    ModuleLoader,
    device_of,
    run_through_rpc,
    signature_of,
)
from tilewright.rpc.server import Server
from tilewright.rpc.tracker import Tracker
from tilewright.support.errors import TVMError
from tilewright.tuning.measure import Measured, Run
from tilewright.tuning.measure import Runner as EngineRunner
from tilewright.tuning.running import local, rpc
from tilewright.tuning.running.measuring import Plan


class _Runner(Runner, ABC):
    """Measures by a runner of the engine, which a subclass makes; with a loader that does more than upload libraries, by sessions in which
    each library is loaded by it."""

    def __init__(
        self,
        timeout: float,
        n_parallel: int,
        number: int,
        repeat: int,
        min_repeat_ms: float,
        cooldown_interval: float,
        enable_cpu_cache_flush: bool,
        module_loader: ModuleLoader | None,
    ) -> None:
        super().__init__(timeout, n_parallel)
        self.module_loader = module_loader
        self.number, self.repeat, self.min_repeat_ms = number, repeat, min_repeat_ms
        self.cooldown_interval, self.enable_cpu_cache_flush = cooldown_interval, enable_cpu_cache_flush
        self._engine: EngineRunner | None = None
        self._ref_input: list[np.ndarray[Any, Any]] | None = None

    @property
    def ref_input(self) -> list[np.ndarray[Any, Any]] | None:
        """What programs are measured on: an array for each parameter, results included. None: random numbers. Where the time depends on the
        values, such as with indices, they should be typical ones."""
        return self._ref_input

    @ref_input.setter
    def ref_input(self, val: Sequence[Any] | None) -> None:
        self._ref_input = None if val is None else [np.ascontiguousarray(a) for a in val]

    def _plan(self) -> Plan:
        flushed = FLUSHED if self.enable_cpu_cache_flush else 0
        most, seconds = 4 * self.repeat, 0.8 * self.timeout
        return Plan(
            self.repeat, self.min_repeat_ms, most=most, seconds=seconds, cache_flush_bytes=flushed, number=self.number
        )

    @abstractmethod
    def _make(self, device: str) -> EngineRunner:
        """The runner of the engine."""

    @abstractmethod
    def _remote(self) -> dict[str, Any]:
        """The parameters of `request_remote` for a session with a board."""

    @property
    def _loads(self) -> bool:
        """Whether a loader of the user brings libraries to boards."""
        loader = self.module_loader
        return loader is not None and not (type(loader) is DefaultModuleLoader and loader.pre_load_function is None)

    def set_task(self, task: Any) -> None:
        """Prepares for a task: its target says on which device programs run."""
        super().set_task(task)
        self.close()
        if not self._loads:
            self._engine = self._make(device_of(task.target))

    def close(self) -> None:
        """Ends the processes and sessions."""
        close = getattr(self._engine, "close", None)
        self._engine = None
        if close is not None:
            close()

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        if self.task is not None and self._loads:
            return self._run_loaded(measure_inputs, build_results)
        if self._engine is None:
            raise TVMError("a runner works for a task: call set_task first, or create_measure_batch")
        results = []
        groups = [build_results] if self._engine.apart else [[built] for built in build_results]
        for group in groups:
            results += self._run(self._engine, group)
            if self.cooldown_interval and isinstance(group[0], BuildResult):
                time.sleep(self.cooldown_interval)
        return results

    def _run(self, engine: EngineRunner, build_results: Sequence[Any]) -> list[MeasureResult]:
        built = [b for b in build_results if isinstance(b, BuildResult)]
        begun = time.perf_counter()
        measured = iter(
            engine.run([Run(Path(b.filename), signature_of(b, self._ref_input)) for b in built]) if built else []
        )
        seconds = (time.perf_counter() - begun) / max(len(built), 1)
        return [self._result(next(measured), b, seconds) if isinstance(b, BuildResult) else b for b in build_results]

    def _run_loaded(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        """The results of libraries that a loader brings to boards, so many at once."""
        remote, results = self._remote(), []
        for first in range(0, len(build_results), self.n_parallel):
            pairs = zip(measure_inputs[first:], build_results[first : first + self.n_parallel], strict=False)
            running = [(built, _started(partial(self._loaded, given, built, remote))) for given, built in pairs]
            results += [self._in_time(built, found) for built, found in running]
        return results

    def _loaded(self, given: MeasureInput, built: Any, remote: dict[str, Any]) -> MeasureResult:
        return run_through_rpc(
            given,
            built,
            self.number,
            self.repeat,
            self.min_repeat_ms,
            self.cooldown_interval,
            remote,
            self._ref_input,
            self.enable_cpu_cache_flush,
            self.module_loader,
        )

    def _in_time(self, built: Any, found: Future[MeasureResult]) -> MeasureResult:
        # A session is waited for as long as others measure.
        limit = self.timeout * (self.n_parallel + 1)
        try:
            return found.result(limit)
        except TimeoutError:
            return failed(MeasureErrorNo.RUN_TIMEOUT, f"the measurement took more than {limit:g} s", limit)

    def _result(self, measured: Measured, built: BuildResult, seconds: float) -> MeasureResult:
        spent = built.time_cost + seconds
        if measured.failure is not None:
            return failed(ERRORS[measured.failure], measured.message, spent)
        return MeasureResult(tuple(measured.seconds[: self.repeat]), MeasureErrorNo.NO_ERROR, spent, time.time())


def _started(call: Callable[[], MeasureResult]) -> Future[MeasureResult]:
    """A call in a thread of its own, which ends with the process if it never returns."""
    found: Future[MeasureResult] = Future()

    def run() -> None:
        try:
            found.set_result(call())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=run, name="tilewright-loaded", daemon=True).start()
    return found


class LocalRunner(_Runner):
    """Measures in a process of this machine.

    timeout: seconds of a configuration. repeat: how many times are taken, each of which is the mean of `number` calls, or of as many as
    take min_repeat_ms milliseconds. cooldown_interval: seconds between configurations. enable_cpu_cache_flush: whether caches are emptied
    before each repeat. module_loader: brings libraries to a server of this machine, which is started for it (see `ModuleLoader`).
    """

    def __init__(
        self,
        timeout: float = 10,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: float = 0,
        cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False,
        module_loader: ModuleLoader | None = None,
    ) -> None:
        super().__init__(
            timeout, 1, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush, module_loader
        )
        self._served: tuple[Tracker, Server] | None = None

    def _remote(self) -> dict[str, Any]:
        if self._served is None:
            tracker = Tracker(silent=True)
            self._served = tracker, Server(key="local", tracker_addr=("127.0.0.1", tracker.port), silent=True)
        port, seconds = self._served[0].port, _session_seconds(self.timeout)
        return {"device_key": "local", "host": "127.0.0.1", "port": port, "timeout": seconds}

    def close(self) -> None:
        """Ends the processes and sessions."""
        super().close()
        served, self._served = self._served, None
        if served is not None:
            served[1].terminate()
            served[0].terminate()

    def _make(self, device: str) -> EngineRunner:
        return local.LocalRunner(self.timeout, self._plan(), device=device)


class RPCRunner(_Runner):
    """Measures on boards that a tracker hands out, several at once.

    key, host, port: of the boards, and of the tracker. priority: higher ones get boards first. n_parallel: boards at once. module_loader:
    brings libraries to boards, such as `default_module_loader(reset)`, or one for boards that are programmed instead (see
    `ModuleLoader`); libraries are then loaded one by one, each in a session of its own. The others are those of LocalRunner.
    """

    def __init__(
        self,
        key: str,
        host: str,
        port: int,
        priority: int = 1,
        timeout: float = 10,
        n_parallel: int = 1,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: float = 0,
        cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False,
        module_loader: ModuleLoader | None = None,
    ) -> None:
        super().__init__(
            timeout, n_parallel, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush, module_loader
        )
        self.key, self.host, self.port, self.priority = key, host, port, priority

    def _remote(self) -> dict[str, Any]:
        seconds = _session_seconds(self.timeout)
        return {
            "device_key": self.key, "host": self.host, "port": self.port, "priority": self.priority, "timeout": seconds
        }  # fmt: skip

    def _make(self, device: str) -> EngineRunner:
        return rpc.RPCRunner(
            self.key,
            (self.host, self.port),
            boards=self.n_parallel,
            timeout=self.timeout,
            priority=self.priority,
            plan=self._plan(),
            device=device,
        )


def _session_seconds(timeout: float) -> int:
    """Seconds after which a server ends the session of a measurement, which hangs."""
    return max(math.ceil(timeout), 1)
