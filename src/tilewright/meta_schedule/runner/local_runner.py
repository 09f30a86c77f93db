"""Measurements in a process of this machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tilewright.meta_schedule.runner.config import EvaluatorConfig
from tilewright.meta_schedule.runner.engine import device_of, run_of, told, told_by_worker
from tilewright.meta_schedule.runner.runner import BatchFuture, Runner, RunnerFuture, RunnerInput, RunnerResult, Told
from tilewright.meta_schedule.runner.utils import (
    T_ARG_INFO_JSON_OBJ_LIST,
    T_ARGUMENT_LIST,
    alloc_argument_common,
    random_fill,
    run_evaluator_common,
)
from tilewright.meta_schedule.utils import get_global_func_with_default_on_worker
from tilewright.runtime import Device, Module, load_module
from tilewright.runtime import device as device_named
from tilewright.support.workers import Job, Options, Worker
from tilewright.tuning.running import local

T_ALLOC_ARGUMENT = Callable[[Device, T_ARG_INFO_JSON_OBJ_LIST, int], list[T_ARGUMENT_LIST]]
T_RUN_EVALUATOR = Callable[[Module, Device, EvaluatorConfig, list[T_ARGUMENT_LIST]], list[float]]
T_CLEANUP = Callable[[], None]


class LocalRunner(Runner, kind="local"):
    """Measures in a process of this machine.

    timeout_sec: of a library. evaluator_config: how often it is run; None: as often as the engine needs to tell it from the fastest one so
    far, whose runs alternate with its own. cooldown_sec: waited after each. alloc_repeat: lists of arguments with
    which it is run. f_alloc_argument, f_run_evaluator, f_cleanup: functions that can be imported, or names of registered ones, in the
    place of default_alloc_argument, default_run_evaluator, default_cleanup. initializer: what the process does first.

    Without alloc_repeat, functions and initializer the engine measures, whose calls are not disturbed by other load.
    """

    measures_here = True

    def __init__(
        self,
        timeout_sec: float = 30.0,
        evaluator_config: EvaluatorConfig | None = None,
        cooldown_sec: float = 0.0,
        alloc_repeat: int = 1,
        f_alloc_argument: T_ALLOC_ARGUMENT | str | None = None,
        f_run_evaluator: T_RUN_EVALUATOR | str | None = None,
        f_cleanup: T_CLEANUP | str | None = None,
        initializer: Callable[[], None] | None = None,
    ) -> None:
        self.timeout_sec, self.cooldown_sec, self.alloc_repeat = timeout_sec, cooldown_sec, alloc_repeat
        self.evaluator_config = EvaluatorConfig._normalized(evaluator_config)
        self._plan = self.evaluator_config.plan(timeout_sec) if evaluator_config is not None else None
        self.functions = (f_alloc_argument, f_run_evaluator, f_cleanup)
        self._engines: dict[str, local.LocalRunner] = {}
        self._worker: Worker | None = None
        self._thread = ThreadPoolExecutor(1)
        self._ended = False
        self.compares = True
        if alloc_repeat != 1 or initializer is not None or any(self.functions):
            self.compares = False
            self._worker = Worker(Options(initializer=Job(initializer) if initializer is not None else None))

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        if not runner_inputs:
            return []
        self._ended = False
        batch = self._thread.submit(self._batch, list(runner_inputs))
        return [BatchFuture(batch, place) for place in range(len(runner_inputs))]

    def _batch(self, runner_inputs: Sequence[RunnerInput]) -> list[Told]:
        """One after the other: what is the fastest so far, the next are compared with."""
        found: list[Told] = []
        fastest: dict[str, tuple[str, float]] = {}
        for given in runner_inputs:
            if self._ended:
                found.append((None, "the runner was closed before"))
                continue
            rivals = given.rivals
            if rivals is not None and rivals.reference in fastest:
                rivals = rivals._replace(fastest=fastest[rivals.reference])
                given = RunnerInput(given.artifact_path, given.device_type, given.args_info, rivals)
            seconds, message = (self._by_functions if self._worker is not None else self._by_engine)(given)
            time.sleep(self.cooldown_sec)
            found.append((seconds, message))
            if seconds and rivals is not None:
                best = rivals.fastest[1] if rivals.fastest is not None else float("inf")
                median = statistics.median(seconds)
                if median < best:
                    fastest[rivals.reference] = given.artifact_path, median
        return found

    def _by_engine(self, given: RunnerInput) -> Told:
        device = device_of(given)
        if device not in self._engines:
            self._engines[device] = local.LocalRunner(self.timeout_sec, self._plan, device=device)
        (measured,) = self._engines[device].run([run_of(given)])
        return told(measured, given.rivals)

    def _by_functions(self, given: RunnerInput) -> Told:
        assert self._worker is not None
        infos = [info.as_json() for info in given.args_info]
        args = (given.artifact_path, device_of(given), infos, self.alloc_repeat, self.evaluator_config, *self.functions)
        return told_by_worker(self._worker.run(Job(_measure, args, timeout=self.timeout_sec)))

    def close(self) -> None:
        """Ends the process, and what is being measured; the rest of a batch is not measured."""
        self._ended = True
        for engine in self._engines.values():
            engine.close()
        if self._worker is not None:
            self._worker.kill()


class LocalRunnerFuture(RunnerFuture):
    """A measurement that is done."""

    def __init__(self, res: list[float] | None = None, error_message: str | None = None) -> None:
        if (res is None) == (error_message is None):
            raise ValueError("a measurement has either seconds or an error message")
        super().__init__(lambda: True, lambda: RunnerResult(res, error_message))


def _measure(
    path: str,
    device_name: str,
    infos: T_ARG_INFO_JSON_OBJ_LIST,
    alloc_repeat: int,
    config: EvaluatorConfig,
    f_alloc_argument: T_ALLOC_ARGUMENT | str | None,
    f_run_evaluator: T_RUN_EVALUATOR | str | None,
    f_cleanup: T_CLEANUP | str | None,
) -> list[float]:
    """In the process: seconds of a library."""
    alloc = get_global_func_with_default_on_worker(f_alloc_argument, default_alloc_argument)
    evaluate = get_global_func_with_default_on_worker(f_run_evaluator, default_run_evaluator)
    cleanup = get_global_func_with_default_on_worker(f_cleanup, default_cleanup)
    try:
        module, place = load_module(path), device_named(device_name, 0)
        return [float(s) for s in evaluate(module, place, config, alloc(place, infos, alloc_repeat))]
    finally:
        cleanup()


def default_alloc_argument(
    device: Device, args_info: T_ARG_INFO_JSON_OBJ_LIST, alloc_repeat: int
) -> list[T_ARGUMENT_LIST]:
    """Random arguments on a device."""
    return alloc_argument_common(random_fill, device, args_info, alloc_repeat)


def default_run_evaluator(
    rt_mod: Module, device: Device, evaluator_config: EvaluatorConfig, repeated_args: list[T_ARGUMENT_LIST]
) -> list[float]:
    """Seconds of a call."""
    return run_evaluator_common(rt_mod, device, evaluator_config, repeated_args)


def default_cleanup() -> None:
    """Nothing is left to be done."""
