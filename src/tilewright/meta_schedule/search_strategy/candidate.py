"""A schedule to be measured."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.meta_schedule.arg_info import ArgInfo
from tilewright.tir.schedule import Schedule


class MeasureCandidate:
    """A schedule to be measured, and the parameters of its kernel."""

    def __init__(self, sch: Schedule, args_info: Sequence[ArgInfo]) -> None:
        self.sch, self.args_info = sch, list(args_info)
