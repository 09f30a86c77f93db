"""Which schedules of a design space are measured."""

from __future__ import annotations

from tilewright.meta_schedule.search_strategy.candidate import MeasureCandidate
from tilewright.meta_schedule.search_strategy.evolutionary_search import EvolutionarySearch
from tilewright.meta_schedule.search_strategy.replay import ReplayFunc, ReplayTrace
from tilewright.meta_schedule.search_strategy.search_strategy import PySearchStrategy, SearchStrategy, create
from tilewright.support import lazy

__all__ = [
    "EvolutionarySearch",
    "MeasureCandidate",
    "PySearchStrategy",
    "ReplayFunc",
    "ReplayTrace",
    "SearchStrategy",
    "create",
]

# Classic modules of single classes.
lazy.faces(
    __name__,
    {
        "replay_func": ("tilewright.meta_schedule.search_strategy.replay:ReplayFunc",),
        "replay_trace": ("tilewright.meta_schedule.search_strategy.replay:ReplayTrace",),
    },
)
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
