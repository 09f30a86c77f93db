"""Which schedules of a design space are measured."""

from __future__ import annotations

from tilewright.meta_schedule.search_strategy.candidate import MeasureCandidate
from tilewright.meta_schedule.search_strategy.evolutionary_search import EvolutionarySearch
from tilewright.meta_schedule.search_strategy.replay import ReplayFunc, ReplayTrace
from tilewright.meta_schedule.search_strategy.search_strategy import PySearchStrategy, SearchStrategy, create

__all__ = [
    "EvolutionarySearch",
    "MeasureCandidate",
    "PySearchStrategy",
    "ReplayFunc",
    "ReplayTrace",
    "SearchStrategy",
    "create",
]
