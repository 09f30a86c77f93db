"""Runners of the engine under their classic names."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from tilewright.meta_schedule.arg_info import TensorInfo
from tilewright.meta_schedule.runner.config import EvaluatorConfig, RPCConfig
from tilewright.meta_schedule.runner.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from tilewright.tuning import measure
from tilewright.tuning.measure import Argument, Measured, Run, Signature
from tilewright.tuning.running import local, rpc

ON_CPU = ("llvm", "c", "interp")
"""Kinds of targets whose device is named otherwise."""


class LocalRunner(Runner, kind="local"):
    """Measures in a process of this machine.

    timeout_sec: of a library. evaluator_config: how often it is run. cooldown_sec: waited after each.
    """

    def __init__(
        self,
        timeout_sec: float = 30.0,
        evaluator_config: EvaluatorConfig | None = None,
        cooldown_sec: float = 0.0,
    ) -> None:
        self.timeout_sec, self.cooldown_sec = timeout_sec, cooldown_sec
        self.evaluator_config = EvaluatorConfig._normalized(evaluator_config)
        self._engines: dict[str, local.LocalRunner] = {}

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        return [LocalRunnerFuture(*self._measured(given)) for given in runner_inputs]

    def _measured(self, given: RunnerInput) -> tuple[list[float] | None, str | None]:
        device = device_of(given)
        if device not in self._engines:
            plan = self.evaluator_config.plan(self.timeout_sec)
            self._engines[device] = local.LocalRunner(self.timeout_sec, plan, device=device)
        (measured,) = self._engines[device].run([run_of(given)])
        time.sleep(self.cooldown_sec)
        return told(measured)

    def close(self) -> None:
        """Ends the process."""
        for engine in self._engines.values():
            engine.close()


class LocalRunnerFuture(RunnerFuture):
    """A measurement that is done."""

    def __init__(self, res: list[float] | None = None, error_message: str | None = None) -> None:
        if (res is None) == (error_message is None):
            raise ValueError("a measurement has either seconds or an error message")
        super().__init__(lambda: True, lambda: RunnerResult(res, error_message))


class RPCRunner(Runner, kind="rpc"):
    """Measures on boards, several at once.

    rpc_config: where they are. max_workers: boards at once; None: all that the tracker has. cooldown_sec: waited after each batch. The
    others are those of LocalRunner.
    """

    def __init__(
        self,
        rpc_config: RPCConfig | None = None,
        evaluator_config: EvaluatorConfig | None = None,
        cooldown_sec: float = 0.0,
        max_workers: int | None = None,
    ) -> None:
        self.rpc_config = RPCConfig._normalized(rpc_config)
        self.evaluator_config = EvaluatorConfig._normalized(evaluator_config)
        self.cooldown_sec, self.max_workers = cooldown_sec, max_workers
        self._thread = ThreadPoolExecutor(1)

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        if not runner_inputs:
            return []
        batch = self._thread.submit(self._measured, list(runner_inputs))
        return [RPCRunnerFuture(batch, place) for place in range(len(runner_inputs))]

    def _measured(self, given: list[RunnerInput]) -> list[Measured]:
        config = self.rpc_config
        seconds = float(config.session_timeout_sec)
        engine: measure.Runner = rpc.RPCRunner(
            str(config.tracker_key),
            (str(config.tracker_host), int(config.tracker_port or 0)),
            boards=self.max_workers,
            timeout=seconds,
            priority=config.session_priority,
            plan=self.evaluator_config.plan(seconds),
            device=device_of(given[0]),
        )
        found = engine.run([run_of(one) for one in given])
        time.sleep(self.cooldown_sec)
        return found


class RPCRunnerFuture(RunnerFuture):
    """A measurement of a batch that runs on boards. place: its number in the batch."""

    def __init__(self, batch: Future[list[Measured]], place: int) -> None:
        super().__init__(batch.done, lambda: RunnerResult(*told(batch.result()[place])))


def device_of(given: RunnerInput) -> str:
    """The name of the device of a kind of targets."""
    return "cpu" if given.device_type in ON_CPU else given.device_type


def run_of(given: RunnerInput) -> Run:
    """A library as the engine's runners take it. Which parameters are outputs is not known, so none are compared."""
    infos = [info for info in given.args_info if isinstance(info, TensorInfo)]
    return Run(Path(given.artifact_path), Signature(tuple([Argument(i.shape, i.dtype) for i in infos]), ()))


def told(measured: Measured) -> tuple[list[float] | None, str | None]:
    """Seconds, or what to say of the failure."""
    if measured.failure is None:
        return list(measured.seconds), None
    return None, f"{measured.failure.value}: {measured.message}"
