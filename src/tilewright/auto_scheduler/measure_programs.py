"""Builders and runners of programs, on those of the engine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tilewright.auto_scheduler.compute_dag import ComputeDAG, LayoutRewriteOption
from tilewright.auto_scheduler.layout import layouts
from tilewright.auto_scheduler.loops import REDUCTION, SPATIAL
from tilewright.auto_scheduler.measure import (
    ERRORS,
    MAX_FLOAT,
    BuildResult,
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
)
from tilewright.auto_scheduler.task_inputs import with_values
from tilewright.ir import IRModule
from tilewright.support.errors import TVMError
from tilewright.support.files import kept_folder
from tilewright.tuning.inputs import signature_of
from tilewright.tuning.measure import Builder, Built, Failure, Measured, Run, Runner, Signature, Source
from tilewright.tuning.packing import Packing

if TYPE_CHECKING:
    from tilewright.auto_scheduler.search_task import SearchTask


def _close(engine: Builder | Runner) -> None:
    close = getattr(engine, "close", None)
    if close is not None:
        close()


class ProgramBuilder:
    """Builds programs by a builder of the engine. Libraries are kept as long as the builder."""

    def __init__(self, engine: Builder) -> None:
        self.engine = engine
        self._folder = kept_folder("tilewright-auto-scheduler-")
        self._rounds = 0

    def close(self) -> None:
        """Ends the processes of the builder, if it has any."""
        _close(self.engine)

    def build(self, measure_inputs: Sequence[MeasureInput], verbose: int = 1) -> list[BuildResult]:
        """The library of each program."""
        sources: list[Source | str] = []
        for inp in measure_inputs:
            try:
                sources.append(Source(program_of(inp), inp.task.target))
            except TVMError as error:
                sources.append(str(error))
        built = iter(self.compile([s for s in sources if isinstance(s, Source)]))
        results = []
        for inp, source in zip(measure_inputs, sources, strict=True):
            made = next(built) if isinstance(source, Source) else Built(None, 0.0, Failure.REFUSED, source)
            number = MeasureErrorNo.NO_ERROR if made.failure is None else ERRORS[made.failure]
            path = None if made.path is None else str(made.path)
            results.append(
                BuildResult(path, inp.task.compute_dag.tensors, int(number), made.message or None, made.seconds)
            )
        return results

    def compile(self, sources: Sequence[Source]) -> list[Built]:
        """The library of each scheduled program."""
        self._rounds += 1
        folder = Path(self._folder.name) / str(self._rounds)
        folder.mkdir()
        return self.engine.build(sources, folder) if sources else []


class Fastest(NamedTuple):
    """The library of the fastest program of a workload, seconds of a call, and the parameters that it takes in layouts of its own."""

    library: Path
    seconds: float
    packings: tuple[Packing, ...] = ()


class ProgramRunner:
    """Runs libraries by a runner of the engine. cooldown_interval: seconds between them."""

    def __init__(self, engine: Runner, cooldown_interval: float = 0.0) -> None:
        self.engine, self.cooldown_interval = engine, cooldown_interval

    def close(self) -> None:
        """Ends the processes of the runner, if it has any."""
        _close(self.engine)

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[BuildResult], verbose: int = 1
    ) -> list[MeasureResult]:
        """The times of each library."""
        return self.measure(measure_inputs, build_results, {}, {})

    def measure(
        self,
        inputs: Sequence[MeasureInput],
        builds: Sequence[BuildResult],
        references: Mapping[str, Path],
        fastest: Mapping[str, Fastest],
    ) -> list[MeasureResult]:
        """The times of each library. By workload, references: libraries whose outputs are compared with those of the others; fastest: those
        whose runs alternate with theirs, so that load on the machine does not decide."""
        signatures: dict[str, Signature] = {}
        runs = []
        for inp, build in zip(inputs, builds, strict=True):
            key = inp.task.workload_key
            if key not in signatures:
                signatures[key] = with_values(signature_of(untuned_of(inp.task)), inp.task)
            if build.filename is not None:
                rival = fastest.get(key)
                beside = (None, ()) if rival is None else (rival.library, rival.packings)
                runs.append(
                    Run(
                        Path(build.filename),
                        signatures[key],
                        references.get(key),
                        beside[0],
                        packings_of(inp),
                        beside[1],
                    )
                )
        found = iter(self._run(runs))
        results = []
        for inp, build in zip(inputs, builds, strict=True):
            measured = next(found) if build.filename is not None else None
            results.append(_result(build, measured, fastest.get(inp.task.workload_key)))
        return results

    def _run(self, runs: Sequence[Run]) -> list[Measured]:
        if not self.cooldown_interval:
            return self.engine.run(runs) if runs else []
        found = []
        for run in runs:
            found += self.engine.run([run])
            time.sleep(self.cooldown_interval)
        return found


def _result(build: BuildResult, measured: Measured | None, fastest: Fastest | None) -> MeasureResult:
    if measured is None:
        return MeasureResult([MAX_FLOAT], build.error_no, build.error_msg, build.time_cost)
    if measured.failure is not None:
        return MeasureResult([MAX_FLOAT], int(ERRORS[measured.failure]), measured.message, build.time_cost)
    slower = statistics.median(measured.beside) / fastest.seconds if measured.beside and fastest is not None else 1.0
    return MeasureResult(
        [seconds / slower for seconds in measured.seconds], 0, None, build.time_cost + measured.elapsed
    )


def program_of(inp: MeasureInput) -> IRModule:
    """The scheduled program of an input. Raises TVMError where a step is refused."""
    return _scheduled(inp, inp.task.layout_rewrite_option)


def packings_of(inp: MeasureInput) -> tuple[Packing, ...]:
    """The parameters that the program of an input takes in the layouts that fit its loops."""
    if inp.task.layout_rewrite_option != LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED:
        return ()
    dag = inp.task.compute_dag
    return tuple([layout.packing(dag.tensors) for layout in layouts(dag.ops, inp.state)])


def untuned_of(task: SearchTask) -> IRModule:
    """The program to whose loops nothing is done."""
    return _scheduled(MeasureInput(task, task.compute_dag.init_state), LayoutRewriteOption.NO_REWRITE)


def reference_of(task: SearchTask) -> IRModule:
    """The program whose outputs count as right: the untuned one, but with the last axis of the results of a reduction innermost.

    Elements are summed in the same order. For large products it is many times as fast.
    """
    state = task.compute_dag.get_init_state()
    for number, stage in enumerate(state.stages):
        spatial = [it for it in stage.iters if it.iter_kind == SPATIAL]
        reduction = [it for it in stage.iters if it.iter_kind == REDUCTION]
        if spatial and reduction:
            state.reorder(number, [*spatial[:-1], *reduction, spatial[-1]])
    return _scheduled(MeasureInput(task, state), LayoutRewriteOption.NO_REWRITE)


def _scheduled(inp: MeasureInput, layout_rewrite: int) -> IRModule:
    dag: ComputeDAG = inp.task.compute_dag
    schedule, args = dag.apply_steps_from_state(inp.state, layout_rewrite)
    return IRModule.from_expr(schedule.to_prim_func(args))
