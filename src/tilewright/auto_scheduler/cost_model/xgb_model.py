"""The engine's cost model of boosted trees under its classic name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tilewright.auto_scheduler import classic_log
from tilewright.auto_scheduler.compute_dag import ComputeDAG
from tilewright.auto_scheduler.cost_model.cost_model import EngineModel
from tilewright.auto_scheduler.steps import Step
from tilewright.ir import IRModule
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tuning.cost_model import TreeModel
from tilewright.tuning.features import Rows, features
from tilewright.tuning.features.columns import host_threads

if TYPE_CHECKING:
    from tilewright.auto_scheduler.measure import MeasureInput, MeasureResult
    from tilewright.auto_scheduler.search_task import SearchTask


class _Seen(NamedTuple):
    """A measurement: of which workload, the features of the program, seconds of a call, threads."""

    key: str
    rows: Rows
    seconds: float
    threads: int


class XGBModel(EngineModel):
    """Boosted trees that start from a prior, so that they rank programs before anything was measured.

    model_file: what `save` wrote, if it is there. verbose_eval, num_warmup_sample and seed change nothing: training is silent, needs no
    first measurements, and is the same each time. adaptive_training: is the engine's way anyhow. Raises TVMError without xgboost.
    """

    def __init__(
        self,
        verbose_eval: int = 25,
        num_warmup_sample: int = 100,
        seed: int | None = None,
        model_file: str | os.PathLike[str] | None = None,
        adaptive_training: bool = False,
    ) -> None:
        self.trees = TreeModel()
        super().__init__(self.trees)
        self._seen: list[_Seen] = []
        if model_file is not None and os.path.exists(model_file):
            self.load(model_file)

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results, strict=True):
            task = inp.task
            steps, option = inp.state.transform_steps, task.layout_rewrite_option
            self._learn(task.workload_key, task.compute_dag, steps, option, task.target, result.seconds)

    def predict_stages(self, task: SearchTask, states: Sequence[Any]) -> list[float]:
        """The scores of the states; then, for each state, the number of its statements that store, and what each of them adds to its score.
        A state whose steps are refused has the score -inf, and no statements."""
        threads = min(task.target.cpu.threads, host_threads())
        scores: list[float] = []
        parts: list[float] = []
        for state in states:
            try:
                schedule, args = task.compute_dag.apply_steps_from_state(state, task.layout_rewrite_option)
                rows = features(IRModule.from_expr(schedule.to_prim_func(args)), task.target, threads)
            except TVMError:
                scores.append(float("-inf"))
                parts.append(0.0)
                continue
            added = self.trees.predict_parts(rows, threads)
            scores += self.trees.predict_rows([rows], threads)
            parts += [float(len(added)), *added]
        return [*scores, *parts]

    def update_from_file(self, file_name: str | os.PathLike[str], n_lines: int | None = None) -> None:
        """Learns from the records of a log, of at most n_lines. Raises TVMError for a workload that is not registered."""
        graphs: dict[str, ComputeDAG] = {}
        for entry in classic_log.entries(file_name, n_lines):
            key = entry.workload_key
            if key not in graphs:
                graphs[key] = ComputeDAG(key)
            self._learn(key, graphs[key], entry.steps, entry.layout_option, Target(entry.target), entry.seconds)

    def save(self, file_name: str | os.PathLike[str]) -> None:
        """Writes what was learned from."""
        arrays: dict[str, Any] = {f"rows{i}": seen.rows for i, seen in enumerate(self._seen)}
        arrays["keys"] = np.array([seen.key for seen in self._seen], dtype=np.str_)
        arrays["seconds"] = np.array([seen.seconds for seen in self._seen])
        arrays["threads"] = np.array([seen.threads for seen in self._seen])
        with open(file_name, "wb") as file:
            np.savez_compressed(file, **arrays)

    def load(self, file_name: str | os.PathLike[str]) -> None:
        """Learns from what `save` wrote. Raises TVMError for another file."""
        try:
            with np.load(file_name, allow_pickle=False) as data:
                facts = zip(data["keys"], data["seconds"], data["threads"], strict=True)
                found = [_Seen(str(k), data[f"rows{i}"], float(s), int(t)) for i, (k, s, t) in enumerate(facts)]
        except (OSError, ValueError, KeyError, EOFError, TypeError, AttributeError) as error:
            raise TVMError(f"{os.fspath(file_name)} is no file of a cost model that XGBModel.save wrote") from error
        for seen in found:
            self._note(seen)

    def _learn(
        self, key: str, dag: ComputeDAG, steps: Sequence[Step], layout_option: int, target: Target, seconds: float
    ) -> None:
        try:
            schedule, args = dag.apply_steps_from_state(dag.state_of(steps), layout_option)
            program = IRModule.from_expr(schedule.to_prim_func(args))
        except TVMError:
            # There is no program of a step that is refused.
            return
        threads = min(target.cpu.threads, host_threads())
        self._note(_Seen(key, features(program, target, threads), seconds, threads))

    def _note(self, seen: _Seen) -> None:
        self._seen.append(seen)
        self.trees.update_rows(seen.key, [seen.rows], [seen.seconds], seen.threads)
