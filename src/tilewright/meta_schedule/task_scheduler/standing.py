"""What the schedules of a task are compared with when they are measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from tilewright.meta_schedule.arg_info import ArgInfo
from tilewright.meta_schedule.builder import Builder, BuilderInput, BuilderResult
from tilewright.meta_schedule.runner import Rivals, Runner, RunnerInput, RunnerResult
from tilewright.meta_schedule.search_strategy import MeasureCandidate
from tilewright.meta_schedule.task_scheduler import guarded
from tilewright.meta_schedule.tune_context import TuneContext
from tilewright.support.errors import TVMError
from tilewright.support.files import kept_folder
from tilewright.target import Target
from tilewright.tuning.inputs import signature_of


class Standing:
    """The libraries of the untuned kernel and of the fastest schedule, in a folder that is there as long as this object.

    rivals: None where schedules are not compared: the runner does not compare, or the untuned kernel cannot be built or run, such as one
    for a GPU whose loops are not bound. refused: why it cannot; "" if it can. is_over: whether nobody waits for it any more.
    """

    def __init__(
        self,
        context: TuneContext,
        target: Target,
        builder: Builder,
        runner: Runner,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self.target = target
        self.rivals: Rivals | None = None
        self.refused = ""
        if not runner.compares or context.mod is None:
            return
        self.folder = kept_folder("tilewright-tune-")
        self._kept = 0
        try:
            outputs = signature_of(context.mod).outputs
        except TVMError as error:
            self.refused = str(error)
            return
        (built,) = guarded.build(builder, [BuilderInput(context.mod, target)])
        if built.artifact_path is None:
            self.refused = built.error_msg or "it is not built"
            return
        if is_over():
            self.refused = "tuning was interrupted"
            return
        reference = self._keep(built.artifact_path)
        (future,) = guarded.run(
            runner, [RunnerInput(reference, target.kind.name, ArgInfo.from_entry_func(context.mod))]
        )
        self.refused = future.result().error_msg or ""
        if not self.refused:
            self.rivals = Rivals(outputs, reference)

    def input(self, path: str, candidate: MeasureCandidate) -> RunnerInput:
        """A library of a schedule, with what it is compared with."""
        return RunnerInput(path, self.target.kind.name, candidate.args_info, self.rivals)

    def note(self, built: Sequence[BuilderResult], results: Sequence[RunnerResult]) -> None:
        """Keeps the library of the fastest schedule. It was measured twice, since its runs alternated with those of the one before."""
        if self.rivals is None:
            return
        seconds = [statistics.median(r.run_secs) if r.run_secs else float("inf") for r in results]
        place = min(range(len(seconds)), key=lambda i: seconds[i])
        path = built[place].artifact_path
        if path is not None and seconds[place] < (self.rivals.fastest[1] if self.rivals.fastest else float("inf")):
            self.rivals = self.rivals._replace(fastest=(self._keep(path), seconds[place]))

    def _keep(self, path: str) -> str:
        """A library in the folder. Its builder's folder is deleted by others."""
        self._kept += 1
        kept = Path(self.folder.name) / f"{self._kept}{Path(path).suffix}"
        kept.write_bytes(Path(path).read_bytes())
        return str(kept)
