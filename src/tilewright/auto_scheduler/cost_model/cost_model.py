"""What scores programs: higher is faster."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.auto_scheduler.loop_state import State
from tilewright.auto_scheduler.sketch_space import SketchSpace
from tilewright.ir import IRModule
from tilewright.target import Target
from tilewright.tuning import measure

if TYPE_CHECKING:
    from tilewright.auto_scheduler.measure import MeasureInput, MeasureResult
    from tilewright.auto_scheduler.search_task import SearchTask


class CostModel(ABC):
    """Base class of models."""

    @abstractmethod
    def predict(self, task: SearchTask, states: Sequence[State]) -> Sequence[float]:
        """The score of each state."""

    @abstractmethod
    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learns from measurements."""


class RandomModel(CostModel):
    """Knows nothing: scores are drawn at random."""

    def predict(self, search_task: SearchTask, states: Sequence[State]) -> list[float]:
        return [random.random() for _ in states]

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """There is nothing to learn."""


class PythonBasedModel(CostModel):
    """A model that a user defines: `predict(task, states)` and `update(inputs, results)`."""

    def predict_stages(self, task: SearchTask, states: Sequence[State]) -> Sequence[float]:
        """The scores of states and of their statements, as in `XGBModel.predict_stages`; a model need not have it."""
        raise NotImplementedError(f"{type(self).__name__} does not score the statements of programs")


class EngineModel(CostModel):
    """A cost model of the engine under this interface."""

    def __init__(self, engine: measure.CostModel) -> None:
        self.engine = engine

    def predict(self, task: SearchTask, states: Sequence[State]) -> list[float]:
        return self.engine.predict([_program(task, state) for state in states], task.target)

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        by_task: dict[str, list[tuple[MeasureInput, float]]] = {}
        for inp, result in zip(inputs, results, strict=True):
            by_task.setdefault(inp.task.workload_key, []).append((inp, result.seconds))
        for key, pairs in by_task.items():
            task = pairs[0][0].task
            programs = [_program(task, inp.state) for inp, _ in pairs]
            self.engine.update(key, programs, task.target, [seconds for _, seconds in pairs])


def _program(task: SearchTask, state: Any) -> IRModule:
    schedule, args = task.compute_dag.apply_steps_from_state(state, task.layout_rewrite_option)
    return IRModule.from_expr(schedule.to_prim_func(args))


class StateModel(measure.CostModel):
    """A classic model as the engine's search asks it. Learning is not the search's: `update` of the model is called with measurements."""

    def __init__(self, task: SearchTask, model: CostModel, space: SketchSpace) -> None:
        self.task, self.model, self.space = task, model, space

    def predict(self, programs: Sequence[IRModule], target: Target) -> list[float]:
        if isinstance(self.model, EngineModel):
            return self.model.engine.predict(programs, target)
        states = [State(self.space.state_of(p), self.task.compute_dag) for p in programs]
        return [float(score) for score in self.model.predict(self.task, states)]

    def update(self, key: str, programs: Sequence[IRModule], target: Target, seconds: Sequence[float]) -> None:
        pass
