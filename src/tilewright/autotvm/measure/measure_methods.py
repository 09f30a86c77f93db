"""Builders and runners under their classic names, on those of `tilewright.tuning`."""

from __future__ import annotations

import functools
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tilewright.autotvm.measure.measure import Builder, MeasureErrorNo, MeasureInput, MeasureResult, Runner
from tilewright.ir import IRModule
from tilewright.rpc import RPCSession, connect_tracker
from tilewright.support import lazy
from tilewright.support.errors import TVMError
from tilewright.support.files import kept_folder
from tilewright.support.processors import usable_processors
from tilewright.target import Target
from tilewright.te.schedule_apply import apply_schedule
from tilewright.tuning import building
from tilewright.tuning.inputs import signature_of
from tilewright.tuning.measure import ENTRY, Argument, Built, Failure, Measured, Run, Signature, Source
from tilewright.tuning.measure import Runner as EngineRunner
from tilewright.tuning.running import local, rpc
from tilewright.tuning.running.measuring import Plan

# It is of the classic interfaces, a layer above this.
lazy.declare(__name__, {"ndk_shared": "tilewright.contrib.ndk:create_shared"})
__getattr__, __dir__ = lazy.late(__name__)

FLUSHED = 1 << 26
"""Bytes that are written to empty the caches."""

ERRORS = {
    Failure.REFUSED: MeasureErrorNo.INSTANTIATION_ERROR,
    Failure.BUILD: MeasureErrorNo.COMPILE_HOST,
    Failure.BUILD_TIMEOUT: MeasureErrorNo.BUILD_TIMEOUT,
    Failure.RUN: MeasureErrorNo.RUNTIME_DEVICE,
    Failure.RUN_TIMEOUT: MeasureErrorNo.RUN_TIMEOUT,
    Failure.WRONG: MeasureErrorNo.WRONG_ANSWER,
    Failure.LOST: MeasureErrorNo.UNKNOWN_ERROR,
}


class BuildResult(NamedTuple):
    """A library that was built. filename: its path. arg_info: shape and dtype of each parameter. error: None. time_cost: seconds."""

    filename: str
    arg_info: tuple[tuple[tuple[int, ...], str], ...]
    error: Exception | None
    time_cost: float


def failed(error: MeasureErrorNo, message: str, seconds: float) -> MeasureResult:
    """The result of a measurement that ended with an error."""
    return MeasureResult((message,), error, seconds, time.time())


def program_of(given: MeasureInput) -> IRModule:
    """The scheduled program of a configuration. Raises what its template raises, and TVMError for a configuration that it refuses."""
    with given.target:
        schedule, arguments = given.task.instantiate(given.config)
    if not given.config.valid():
        raise TVMError(f"the template refuses the configuration: {'; '.join(given.config.errors)}")
    return IRModule.from_expr(apply_schedule(schedule, list(arguments)))


def compile_with(
    source: Source, path: Path, fcompile: Callable[..., Any] | None, runtime: Any, options: dict[str, Any]
) -> Path:
    """The library of a program, linked by a function such as `contrib.ndk.create_shared`; in a worker process."""
    from tilewright.driver.build_module import build
    from tilewright.ir.transform import PassContext
    from tilewright.tuning.inputs import kernel_of

    library = path.with_suffix(f".{getattr(fcompile, 'output_format', 'so')}")
    with PassContext(opt_level=3, config=options):
        made = build(kernel_of(source.program), target=source.target, runtime=runtime, name=ENTRY)
        made.export_library(library, fcompile=fcompile)
    return library


class LocalBuilder(Builder):
    """Compiles in processes of this machine.

    timeout: seconds of a configuration. n_parallel: at once; None: as many as there are processors. build_func: "default"; "ndk", for
    Android; or a function that can be imported, as `Module.export_library` takes it. build_kwargs: {"build_option": options of the
    PassContext}. runtime: as `build` takes it. do_fork: makes no difference: processes are started once and not forked.
    """

    def __init__(
        self,
        timeout: float = 10,
        n_parallel: int | None = None,
        build_kwargs: dict[str, Any] | None = None,
        build_func: str | Callable[..., Any] = "default",
        do_fork: bool = False,
        runtime: Any = None,
    ) -> None:
        super().__init__(timeout, n_parallel or usable_processors(), build_kwargs)
        if isinstance(build_func, str) and build_func not in ("default", "ndk"):
            raise ValueError(f"build_func is 'default', 'ndk' or a function, but was given {build_func!r}")
        self.build_func, self.runtime, self.do_fork = build_func, runtime, do_fork
        self._engine: building.LocalBuilder | None = None

    def set_task(self, task: Any, build_kwargs: dict[str, Any] | None = None) -> None:
        super().set_task(task, build_kwargs)
        self.close()
        self._folder = kept_folder("tilewright-autotvm-")
        self._batch = 0
        self._engine = building.LocalBuilder(self.n_parallel, self.timeout, compile=self._compile())

    def close(self) -> None:
        """Ends the processes."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def _compile(self) -> building.Compile:
        options = self.build_kwargs.get("build_option", {})
        if self.build_func == "default" and self.runtime is None and not options:
            return building.compile_kernel
        function: Any = None if self.build_func == "default" else self.build_func
        if function == "ndk":
            function = sys.modules[__name__].ndk_shared
        return functools.partial(compile_with, fcompile=function, runtime=self.runtime, options=options)

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[Any]:
        if self._engine is None:
            raise TVMError("a builder works for a task: call set_task first, or create_measure_batch")
        programs = [self._program(given) for given in measure_inputs]
        folder = Path(self._folder.name) / str(self._batch)
        folder.mkdir()
        self._batch += 1
        sources = [
            Source(program, given.target)
            for program, given in zip(programs, measure_inputs, strict=True)
            if isinstance(program, IRModule)
        ]
        built = iter(self._engine.build(sources, folder) if sources else [])
        return [_built(p, next(built)) if isinstance(p, IRModule) else p for p in programs]

    @staticmethod
    def _program(given: MeasureInput) -> IRModule | MeasureResult:
        begun = time.perf_counter()
        try:
            program = program_of(given)
            signature_of(program)
        except Exception as error:
            # A template is a program of the user: whatever it raises is what is wrong with this configuration.
            message = f"{type(error).__name__}: {error}"
            return failed(MeasureErrorNo.INSTANTIATION_ERROR, message, time.perf_counter() - begun)
        return program


def _built(program: IRModule, made: Built) -> BuildResult | MeasureResult:
    if made.path is None or made.failure is not None:
        return failed(ERRORS[made.failure or Failure.BUILD], made.message, made.seconds)
    arguments = tuple([(a.shape, a.dtype) for a in signature_of(program).arguments])
    return BuildResult(str(made.path), arguments, None, made.seconds)


class _Runner(Runner, ABC):
    """Measures by a runner of the engine, which a subclass makes."""

    def __init__(
        self,
        timeout: float,
        n_parallel: int,
        number: int,
        repeat: int,
        min_repeat_ms: float,
        cooldown_interval: float,
        enable_cpu_cache_flush: bool,
    ) -> None:
        super().__init__(timeout, n_parallel)
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

    def set_task(self, task: Any) -> None:
        """Prepares for a task: its target says on which device programs run."""
        super().set_task(task)
        self.close()
        self._engine = self._make(_device(task.target))

    def close(self) -> None:
        """Ends the processes and sessions."""
        close = getattr(self._engine, "close", None)
        self._engine = None
        if close is not None:
            close()

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
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
            engine.run([Run(Path(b.filename), _signature(b, self._ref_input)) for b in built]) if built else []
        )
        seconds = (time.perf_counter() - begun) / max(len(built), 1)
        return [self._result(next(measured), b, seconds) if isinstance(b, BuildResult) else b for b in build_results]

    def _result(self, measured: Measured, built: BuildResult, seconds: float) -> MeasureResult:
        spent = built.time_cost + seconds
        if measured.failure is not None:
            return failed(ERRORS[measured.failure], measured.message, spent)
        return MeasureResult(tuple(measured.seconds[: self.repeat]), MeasureErrorNo.NO_ERROR, spent, time.time())


def _signature(built: BuildResult, given: Sequence[np.ndarray[Any, Any]] | None) -> Signature:
    """The parameters of a program. Raises TVMError if values were given that are not of them."""
    arguments = tuple([Argument(tuple(shape), dtype) for shape, dtype in built.arg_info])
    if given is None:
        return Signature(arguments, ())
    have = tuple([Argument(a.shape, a.dtype.name) for a in given])
    if have != arguments:
        raise TVMError(
            f"ref_input has an array for each parameter of a program, which are {_listed(arguments)}, but {_listed(have)} were given"
        )
    return Signature(arguments, (), tuple([a.tobytes() for a in given]))


def _listed(arguments: Sequence[Argument]) -> str:
    return ", ".join([f"{a.dtype}{list(a.shape)}" for a in arguments]) or "none"


class LocalRunner(_Runner):
    """Measures in a process of this machine.

    timeout: seconds of a configuration. repeat: how many times are taken, each of which is the mean of `number` calls, or of as many as
    take min_repeat_ms milliseconds. cooldown_interval: seconds between configurations. enable_cpu_cache_flush: whether caches are emptied
    before each repeat.
    """

    def __init__(
        self,
        timeout: float = 10,
        number: int = 4,
        repeat: int = 3,
        min_repeat_ms: float = 0,
        cooldown_interval: float = 0.1,
        enable_cpu_cache_flush: bool = False,
    ) -> None:
        super().__init__(timeout, 1, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush)

    def _make(self, device: str) -> EngineRunner:
        return local.LocalRunner(self.timeout, self._plan(), device=device)


class RPCRunner(_Runner):
    """Measures on boards that a tracker hands out, several at once.

    key, host, port: of the boards, and of the tracker. priority: higher ones get boards first. n_parallel: boards at once. The others are
    those of LocalRunner.
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
    ) -> None:
        super().__init__(timeout, n_parallel, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush)
        self.key, self.host, self.port, self.priority = key, host, port, priority

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


def measure_option(builder: Builder | str, runner: Runner | str) -> dict[str, Any]:
    """How configurations are measured. builder, runner: objects, or "local".

    Raises ValueError for others.
    """
    chosen = LocalBuilder() if builder == "local" else builder
    running = LocalRunner() if runner == "local" else runner
    if not isinstance(chosen, Builder) or not isinstance(running, Runner):
        raise ValueError(
            f"a builder and a runner are needed, or 'local' for either, but were given {builder!r} and {runner!r}"
        )
    return {"builder": chosen, "runner": running}


def request_remote(
    device_key: str, host: str | None = None, port: int | None = None, priority: int = 1, timeout: int = 60
) -> RPCSession:
    """A session with a board of a tracker; by default of that which TVM_TRACKER_HOST and TVM_TRACKER_PORT name."""
    address = host or os.environ["TVM_TRACKER_HOST"], port or int(os.environ["TVM_TRACKER_PORT"])
    return connect_tracker(*address).request(device_key, priority=priority, session_timeout=timeout)


def check_remote(
    target: Any,
    device_key: str,
    host: str | None = None,
    port: int | None = None,
    priority: int = 100,
    timeout: int = 10,
) -> bool:
    """Whether a tracker hands out a board that has the device of a target."""
    try:
        session = request_remote(device_key, host, port, priority, timeout)
    except TVMError:
        return False
    return bool(session.device(_device(Target(target)), 0).exist)


def _device(target: Target) -> str:
    """The kind of the device that runs programs of a target."""
    kind = str(target.kind)
    return "cpu" if kind in ("llvm", "c") else kind
