"""Which schedules of a design space are measured."""

from __future__ import annotations

from tilewright.meta_schedule.search_strategy.candidate import MeasureCandidate

__all__ = ["MeasureCandidate"]
