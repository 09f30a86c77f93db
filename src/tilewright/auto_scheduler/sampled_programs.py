"""Programs of workloads without records: a search without measurements, or with few, when a build asks."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.auto_scheduler.compute_dag import ComputeDAG, LayoutRewriteOption
from tilewright.auto_scheduler.dispatcher import ApplyHistoryBest
from tilewright.auto_scheduler.loop_state import State
from tilewright.auto_scheduler.measure import MeasureInput
from tilewright.auto_scheduler.measure_places import LocalBuilder, LocalRunner
from tilewright.auto_scheduler.measure_record import RecordToFile
from tilewright.auto_scheduler.measurer import ProgramMeasurer
from tilewright.auto_scheduler.search_policy import SketchPolicy
from tilewright.auto_scheduler.search_task import SearchTask, default_model
from tilewright.support.errors import TVMError
from tilewright.target import Target

EFFORT = {"sample_init_min_population": 24, "evolutionary_search_population": 32, "evolutionary_search_num_iters": 2}
"""Of a search: seconds of a build for each workload."""


class ApplyHistoryBestOrSample(ApplyHistoryBest):
    """The fastest records of logs; for workloads without any, what a cost model takes for the fastest.

    records: as in ApplyHistoryBest, or None. sample_simple_workloads: also for workloads without reductions. cost_model_file: what a model
    learned earlier (`XGBModel.save`). num_measure: so many programs that the model takes for the fastest are measured on this machine, and
    the fastest is used; below 2: none is measured.
    """

    def __init__(
        self,
        records: Any,
        sample_simple_workloads: bool = False,
        cost_model_file: str | os.PathLike[str] | None = None,
        num_measure: int = -1,
    ) -> None:
        super().__init__([] if records is None else records, include_compatible=True)
        self.sample_simple_workloads, self.cost_model_file, self.num_measure = (
            sample_simple_workloads,
            cost_model_file,
            num_measure,
        )
        self._folder = tempfile.TemporaryDirectory(prefix="tilewright-sampled-")
        self.log_file = Path(self._folder.name) / "records.json"
        """The records of what was measured here."""

    def query(
        self, target: Target, workload_key: str, has_complex_op: bool, dag: ComputeDAG, func_name: str
    ) -> State | None:
        found = super().query(target, workload_key, has_complex_op, dag, func_name)
        if found is not None or not (has_complex_op or self.sample_simple_workloads):
            return found
        option = LayoutRewriteOption.get_target_default(target, True)
        task = SearchTask(
            compute_dag=dag, workload_key=workload_key, target=target, layout_rewrite_option=option, desc=func_name
        )
        try:
            chosen = self._sampled(task)
        except TVMError:
            # Nothing that was drawn is a program: the rules of the target schedule the kernel.
            return None
        self.update(target, workload_key, chosen)
        return chosen

    def _sampled(self, task: SearchTask) -> State:
        model = default_model()
        load = getattr(model, "load", None)
        if self.cost_model_file is not None and load is not None:
            load(self.cost_model_file)
        policy = SketchPolicy(task, model, EFFORT, verbose=0)
        found = policy.evolutionary_search(policy.sample_initial_population(), max(self.num_measure, 1))
        if not found:
            raise TVMError(f"no program of {task.workload_key} could be drawn")
        return found[0] if self.num_measure < 2 else self._fastest(task, policy, found)

    def _fastest(self, task: SearchTask, policy: SketchPolicy, states: Sequence[State]) -> State:
        measurer = ProgramMeasurer(LocalBuilder(), LocalRunner(), [RecordToFile(self.log_file)], verbose=0)
        try:
            measurer.measure(task, policy, [MeasureInput(task, state) for state in states])
        finally:
            measurer.builder.close()
            measurer.runner.close()
        best = measurer.best_states.get(task.workload_key)
        return states[0] if best is None else State(best, task.compute_dag)
