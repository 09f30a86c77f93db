"""Kernels of a model that are tuned."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.ir import IRModule
from tilewright.target import Target


class ExtractedTask:
    """A kernel of a model. mod: as the model has it. dispatched: the TensorIR modules that compute it. weight: how often it is called."""

    def __init__(
        self, task_name: str, mod: IRModule, target: Target | str, dispatched: Sequence[IRModule], weight: int
    ) -> None:
        self.task_name, self.mod, self.target = task_name, mod, Target(target)
        self.dispatched, self.weight = list(dispatched), weight
