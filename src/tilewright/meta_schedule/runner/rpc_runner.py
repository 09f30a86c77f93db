"""Measurements on boards."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tilewright.meta_schedule.runner.config import EvaluatorConfig, RPCConfig
from tilewright.meta_schedule.runner.engine import device_of, run_of, told, told_by_worker
from tilewright.meta_schedule.runner.runner import BatchFuture, Runner, RunnerFuture, RunnerInput, Told
from tilewright.meta_schedule.runner.utils import (
    T_ARG_INFO_JSON_OBJ_LIST,
    T_ARGUMENT_LIST,
    alloc_argument_common,
    random_fill,
    run_evaluator_common,
)
from tilewright.meta_schedule.utils import get_global_func_with_default_on_worker
from tilewright.rpc import RPCSession
from tilewright.runtime import Device, Module
from tilewright.support.workers import Job, Options, Pool
from tilewright.tuning.running import rpc

T_CREATE_SESSION = Callable[[RPCConfig], RPCSession]
T_UPLOAD_MODULE = Callable[[RPCSession, str, str], Module]
T_ALLOC_ARGUMENT = Callable[[RPCSession, Device, T_ARG_INFO_JSON_OBJ_LIST, int], list[T_ARGUMENT_LIST]]
T_RUN_EVALUATOR = Callable[[RPCSession, Module, Device, EvaluatorConfig, list[T_ARGUMENT_LIST]], list[float]]
T_CLEANUP = Callable[[RPCSession, str], None]


class RPCRunner(Runner, kind="rpc"):
    """Measures on boards, several at once.

    rpc_config: where they are. max_workers: boards at once; None: all that the tracker has. cooldown_sec: waited after each batch.
    alloc_repeat: lists of arguments with which a library is run. f_create_session, f_upload_module, f_alloc_argument, f_run_evaluator,
    f_cleanup: functions that can be imported, or names of registered ones, in the place of the defaults of this module. initializer: what
    each process that speaks to a board does first.

    Without alloc_repeat, functions and initializer the engine measures, whose calls are not disturbed by other load.
    """

    def __init__(
        self,
        rpc_config: RPCConfig | None = None,
        evaluator_config: EvaluatorConfig | None = None,
        cooldown_sec: float = 0.0,
        alloc_repeat: int = 1,
        f_create_session: T_CREATE_SESSION | str | None = None,
        f_upload_module: T_UPLOAD_MODULE | str | None = None,
        f_alloc_argument: T_ALLOC_ARGUMENT | str | None = None,
        f_run_evaluator: T_RUN_EVALUATOR | str | None = None,
        f_cleanup: T_CLEANUP | str | None = None,
        max_workers: int | None = None,
        initializer: Callable[[], None] | None = None,
    ) -> None:
        self.rpc_config = RPCConfig._normalized(rpc_config)
        self.evaluator_config = EvaluatorConfig._normalized(evaluator_config)
        self.cooldown_sec, self.alloc_repeat, self.max_workers = cooldown_sec, alloc_repeat, max_workers
        self.functions = (f_create_session, f_upload_module, f_alloc_argument, f_run_evaluator, f_cleanup)
        self._thread = ThreadPoolExecutor(1)
        self._pool: Pool | None = None
        self._engines: dict[str, rpc.RPCRunner] = {}
        self.compares = True
        if alloc_repeat != 1 or initializer is not None or any(self.functions):
            self.compares = False
            options = Options(initializer=Job(initializer) if initializer is not None else None)
            self._pool = Pool(max_workers or max(self.rpc_config.count_num_servers(), 1), options)

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        if not runner_inputs:
            return []
        measure = self._by_functions if self._pool is not None else self._by_engine
        batch = self._thread.submit(measure, list(runner_inputs))
        return [BatchFuture(batch, place) for place in range(len(runner_inputs))]

    def _engine(self, device: str) -> rpc.RPCRunner:
        """What measures on a kind of device. It stays, and so it knows which boards there were."""
        if device not in self._engines:
            config, seconds = self.rpc_config, float(self.rpc_config.session_timeout_sec)
            self._engines[device] = rpc.RPCRunner(
                str(config.tracker_key),
                (str(config.tracker_host), int(config.tracker_port or 0)),
                boards=self.max_workers,
                timeout=seconds,
                priority=config.session_priority,
                plan=self.evaluator_config.plan(seconds),
                device=device,
            )
        return self._engines[device]

    def _by_engine(self, given: list[RunnerInput]) -> list[Told]:
        found = self._engine(device_of(given[0])).run([run_of(one) for one in given])
        time.sleep(self.cooldown_sec)
        return [told(measured, one.rivals) for measured, one in zip(found, given, strict=True)]

    def _by_functions(self, given: list[RunnerInput]) -> list[Told]:
        assert self._pool is not None
        jobs = []
        for one in given:
            infos = [info.as_json() for info in one.args_info]
            args = (one.artifact_path, device_of(one), infos, self.alloc_repeat, self.rpc_config, self.evaluator_config)
            jobs.append(Job(_measure, (*args, *self.functions), timeout=float(self.rpc_config.session_timeout_sec)))
        found = [told_by_worker(outcome) for outcome in self._pool.run(jobs)]
        time.sleep(self.cooldown_sec)
        return found

    def close(self) -> None:
        """Ends the processes."""
        for engine in self._engines.values():
            engine.close()
        if self._pool is not None:
            self._pool.close()


RPCRunnerFuture = BatchFuture


def _measure(
    path: str,
    device_name: str,
    infos: T_ARG_INFO_JSON_OBJ_LIST,
    alloc_repeat: int,
    rpc_config: RPCConfig,
    config: EvaluatorConfig,
    f_create_session: T_CREATE_SESSION | str | None,
    f_upload_module: T_UPLOAD_MODULE | str | None,
    f_alloc_argument: T_ALLOC_ARGUMENT | str | None,
    f_run_evaluator: T_RUN_EVALUATOR | str | None,
    f_cleanup: T_CLEANUP | str | None,
) -> list[float]:
    """In a process that speaks to a board: seconds of a library."""
    create = get_global_func_with_default_on_worker(f_create_session, default_create_session)
    upload = get_global_func_with_default_on_worker(f_upload_module, default_upload_module)
    alloc = get_global_func_with_default_on_worker(f_alloc_argument, default_alloc_argument)
    evaluate = get_global_func_with_default_on_worker(f_run_evaluator, default_run_evaluator)
    cleanup = get_global_func_with_default_on_worker(f_cleanup, default_cleanup)
    session, remote = create(rpc_config), Path(path).name
    try:
        module, place = upload(session, path, remote), session.device(device_name, 0)
        return [float(s) for s in evaluate(session, module, place, config, alloc(session, place, infos, alloc_repeat))]
    finally:
        cleanup(session, remote)


def default_create_session(rpc_config: RPCConfig) -> RPCSession:
    """A session with a free board."""
    return rpc_config.connect_server()


def default_upload_module(session: RPCSession, local_path: str, remote_path: str) -> Module:
    """The runtime module of a library that is sent to a board."""
    session.upload(local_path, remote_path)
    return session.load_module(remote_path)


def default_alloc_argument(
    session: RPCSession, device: Device, args_info: T_ARG_INFO_JSON_OBJ_LIST, alloc_repeat: int
) -> list[T_ARGUMENT_LIST]:
    """Random arguments on a device of a board."""
    return alloc_argument_common(random_fill, device, args_info, alloc_repeat)


def default_run_evaluator(
    session: RPCSession,
    rt_mod: Module,
    device: Device,
    evaluator_config: EvaluatorConfig,
    repeated_args: list[T_ARGUMENT_LIST],
) -> list[float]:
    """Seconds of a call."""
    return run_evaluator_common(rt_mod, device, evaluator_config, repeated_args)


def default_cleanup(session: RPCSession, remote_path: str) -> None:
    """Removes the library from the board."""
    session.remove(remote_path)
