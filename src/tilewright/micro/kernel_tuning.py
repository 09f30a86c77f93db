"""The kernels of a model, tuned on boards: a builder of objects and a runner by the boards' own clocks for the engine of tuning."""

from __future__ import annotations

import os
import queue
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from tilewright.driver.build_module import build
from tilewright.ir import IRModule
from tilewright.micro.code_budget import Choice, code_bytes, fastest_within, kernel_object
from tilewright.micro.debug_session import DebugSession
from tilewright.micro.device import configuration
from tilewright.micro.device_runtime import objects_for
from tilewright.micro.errors import ConnectionLost, DeviceTimeout, MicroError
from tilewright.micro.module import MicroModule, module_of
from tilewright.micro.tuning import measuring_configuration
from tilewright.relay.backend.tuning_tasks import KernelTask, tuning_tasks
from tilewright.runtime import NDArray, ndarray
from tilewright.runtime.linking.export import library_objects
from tilewright.scheduling.database import append_plan
from tilewright.tir.function import IN_PLACE
from tilewright.tuning.allocation import Progress
from tilewright.tuning.building import LocalBuilder
from tilewright.tuning.cost_model import default_model
from tilewright.tuning.inputs import Values, difference, kernel_of, random_inputs
from tilewright.tuning.measure import ENTRY, Failure, Measured, Run, Runner, Signature, Source
from tilewright.tuning.packing import Packing, packed
from tilewright.tuning.record import load, of_task
from tilewright.tuning.session import Event, Limits, Session
from tilewright.tuning.weight_layouts import layout_function, measured_module


def compile_for_board(source: Source, path: Path) -> Path:
    """The objects of a scheduled program as an archive, whose path it returns. It runs in a worker process. Raises TVMError where the
    program cannot be compiled."""
    # It is measured with arrays that are apart.
    made = build(measured_module(kernel_of(source.program).without_attr(IN_PLACE)), target=source.target)
    archive = path.with_suffix(".tar")
    with tarfile.open(archive, "w") as tar:
        for name, data in library_objects([made.source], prefix="").items():
            file = path.with_name(f"{path.name}-{name.rpartition('/')[2]}")
            file.write_bytes(data)
            tar.add(file, name)
            file.unlink()
    return archive


class BoardRunner(Runner):
    """Measures on boards over debug connections, several at once.

    device_config: as `micro.Session` takes it. Under QEMU it needs instruction_shift, without which its clock is that of this machine; with
    it a measurement is the same every time but for a tick, so each is made once. n_parallel: boards. Results are compared with those of
    the untuned kernel.
    """

    apart = True

    def __init__(self, device_config: Any, n_parallel: int = 1) -> None:
        """Raises MicroError as `MicroRunner` does."""
        self.config = measuring_configuration(device_config, n_parallel)
        self._boards: queue.SimpleQueue[_Bench] = queue.SimpleQueue()
        self._benches = [_Bench(self.config) for _ in range(n_parallel)]
        for bench in self._benches:
            self._boards.put(bench)
        self._pool = ThreadPoolExecutor(n_parallel)

    def submit(self, run: Run) -> Future[Measured]:
        return self._pool.submit(self._one, run)

    def run(self, runs: Sequence[Run]) -> list[Measured]:
        return [future.result() for future in [self.submit(run) for run in runs]]

    def close(self) -> None:
        """Ends the sessions, after what is measured now."""
        self._pool.shutdown(cancel_futures=True)
        for bench in self._benches:
            bench.close()
        self._pool = ThreadPoolExecutor(len(self._benches))

    def _one(self, run: Run) -> Measured:
        bench, begun = self._boards.get(), time.perf_counter()
        try:
            found = bench.measure(run)
        except DeviceTimeout as error:
            found = Measured((), failure=Failure.RUN_TIMEOUT, message=str(error))
        except (ConnectionLost, OSError) as error:
            bench.close()
            found = Measured((), failure=Failure.LOST, message=str(error))
        except (MicroError, MemoryError, TypeError, ValueError) as error:
            found = Measured((), failure=Failure.RUN, message=f"{type(error).__name__}: {error}")
        finally:
            self._boards.put(bench)
        return found._replace(elapsed=time.perf_counter() - begun)


class _Bench:
    """A board with what is measured on it: inputs of a kernel, its outputs, and times of libraries that were measured."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        self.session: DebugSession | None = None
        self._forget()

    def _forget(self) -> None:
        self.signature: Signature | None = None
        self.inputs: list[Values] = []
        self.arrays: list[NDArray] = []
        self.expected: dict[Path, list[Values]] = {}
        self.times: dict[Path, float] = {}

    def close(self) -> None:
        """Ends the session; it is opened again when it is needed."""
        session, self.session = self.session, None
        self._forget()
        if session is not None:
            with suppress(MicroError, OSError):
                session.close()

    def measure(self, run: Run) -> Measured:
        """The time of a library, and of those beside it. Raises MicroError and its kinds, MemoryError."""
        if self.session is None:
            self.session = DebugSession(self.config)
            self.session.__enter__()
        if run.signature != self.signature:
            self._forget()
            self.inputs = random_inputs(run.signature)
            self.arrays = [ndarray.array(values, self.session.device) for values in self.inputs]
            self.signature = run.signature
        if run.reference is not None and run.reference not in self.expected:
            self.expected[run.reference], self.times[run.reference] = self._ran(run.reference, ())
        found, seconds = self._ran(run.library, run.packings)
        self.times[run.library] = seconds
        if run.reference is not None:
            wrong = difference(run.signature, found, self.expected[run.reference])
            if wrong:
                return Measured((), failure=Failure.WRONG, message=wrong)
        if run.beside is not None and run.beside not in self.times:
            # Another board has measured it.
            self.times[run.beside] = self._ran(run.beside, run.beside_packings)[1]
        beside, reference = (() if path is None else (self.times[path],) for path in (run.beside, run.reference))
        return Measured((seconds,), beside, reference=reference)

    def _ran(self, library: Path, packings: Sequence[Packing]) -> tuple[list[Values], float]:
        """(outputs, seconds) of a library. Its code does not stay on the board."""
        session, signature = self.session, self.signature
        assert session is not None and signature is not None
        with tarfile.open(library) as tar:
            objects = {m.name: data.read() for m in tar if (data := tar.extractfile(m)) is not None}
        module = module_of(session, objects_for(session.board, objects))
        try:
            arrays = self._arguments(module, packings, session)
            for place in signature.outputs:
                arrays[place].copyfrom(self.inputs[place])
            module[ENTRY](*arrays)
            outputs = [arrays[place].numpy() for place in signature.outputs]
            evaluate: Callable[..., Any] = module.time_evaluator(ENTRY, session.device, 1, 1)
            return outputs, float(evaluate(*arrays).results[0])
        finally:
            with suppress(MicroError):
                module.unload()

    def _arguments(self, module: MicroModule, packings: Sequence[Packing], session: DebugSession) -> list[NDArray]:
        """The arrays as a library takes them: some in other layouts, which are given, or which it has functions for."""
        arrays = list(self.arrays)
        for place, old, new in packings:
            arrays[place] = ndarray.array(packed(self.inputs[place], old, new), session.device)
        for place, array in enumerate(arrays):
            if module.implements_function(layout_function(place)):
                arrays[place] = ndarray.empty(array.shape, array.dtype, session.device)
                module[layout_function(place)](array, arrays[place])
        return arrays


def tune_kernels(
    mod: IRModule,
    params: Mapping[str, Any] | None,
    device_config: Any,
    path: str | os.PathLike[str],
    trials: int = 64,
    n_parallel: int = 1,
    kind: str = "llvm",
    processes: int | None = None,
    report: Callable[[Event], None] | None = None,
    code_growth: int | None = None,
) -> list[Progress]:
    """Tunes the kernels of a model by measurements on boards, and appends what was measured to a log. Builds whose option `relay.plans`
    names the log take the fastest plans.

    device_config: as `BoardRunner` takes it. trials: measurements in all. n_parallel: boards at once. kind: of `Board.target`. processes:
    that compile at once. report: is called after each round. code_growth: by how many bytes the code of all kernels may become larger than
    untuned; the plans that are the fastest within that are appended, and builds take them; None: the fastest, whatever they take. Returns
    what each kernel reached: `untuned` seconds, and the `fastest`.
    """
    target = configuration(device_config)["board"].target(kind)
    tasks: list[KernelTask] = tuning_tasks(mod, target, params)
    builder, runner = LocalBuilder(processes, compile=compile_for_board), BoardRunner(device_config, n_parallel)
    try:
        session = Session(tasks, builder, runner, default_model(), path)
        session.run(Limits(trials=trials), report)
    finally:
        runner.close()
        builder.close()
    if code_growth is not None:
        _decide_within(tasks, session.progress, path, code_growth)
    return session.progress


def _decide_within(
    tasks: Sequence[KernelTask], progress: Sequence[Progress], path: str | os.PathLike[str], growth: int
) -> None:
    """Appends the plans that are the fastest in code that is so many bytes larger than untuned."""
    records, _ = load(path)
    choices = []
    for task, reached in zip(tasks, progress, strict=True):
        cost = float("inf") if reached.untuned is None else reached.untuned * task.weight
        untuned = code_bytes(kernel_object(task.space.untuned(), task.name, task.target))
        found = [Choice({}, cost, untuned)]
        measured = {task.space.key(r.candidate): r for r in of_task(records, task) if r.failure is None}
        for record in measured.values():
            made = kernel_object(task.space.program(record.candidate), task.name, task.target)
            found.append(Choice(record.candidate, record.median * task.weight, code_bytes(made)))
        choices.append(found)
    for task, choice in zip(tasks, fastest_within(choices, growth + sum([c[0].bytes for c in choices])), strict=True):
        append_plan(path, task.key, task.name, task.target.text_for_all, choice.plan)


__all__ = ["BoardRunner", "compile_for_board", "tune_kernels"]
