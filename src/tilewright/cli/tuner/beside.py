"""The tuned model measured beside the untuned one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any, NamedTuple

from rich.table import Table

from tilewright.cli.measuring import Contestant
from tilewright.cli.screen import Report

SECONDS = 10.0
SLICE_SECONDS = 0.02
"""Of a contestant's turn: long beside reading the clock, and short beside the time that a system gives other processes."""
LEAST_TURNS, MOST_TURNS = 7, 400


class Ratio(NamedTuple):
    """How the tuned model's time is to the untuned one's. median: of the ratios of turns that followed each other; low, high: the quartiles
    of these; sure_low, sure_high: between them is the median of infinitely many turns with a probability of 95 %, from the order of those
    that were made; turns: their number."""

    median: float
    low: float
    high: float
    sure_low: float
    sure_high: float
    turns: int

    @property
    def verdict(self) -> str:
        """What was gained, in words."""
        if self.sure_high < 1.0:
            return f"the tuned model is {1 / self.median:.2f} times as fast"
        if self.sure_low > 1.0:
            return "the tuned model is slower: nothing was gained"
        return "nothing was gained that could be told from noise"

    @property
    def text(self) -> str:
        return f"tuned / untuned: {self.median:.3f} (half of {self.turns} turns from {self.low:.3f} to {self.high:.3f}): {self.verdict}"


def measure_beside(
    untuned: Contestant, tuned: Contestant, seconds: float = SECONDS, report: Report | None = None
) -> Ratio:
    """Measures two models in turns of about SLICE_SECONDS for `seconds`; which begins alternates, so what changes slowly counts
    for both."""
    begun = time.perf_counter()
    ratios: list[float] = []
    while len(ratios) < LEAST_TURNS or (time.perf_counter() - begun < seconds and len(ratios) < MOST_TURNS):
        if report is not None:
            report(min(int(100 * (time.perf_counter() - begun) / seconds), 100), 100, "measuring both")
        order = (untuned, tuned) if len(ratios) % 2 == 0 else (tuned, untuned)
        medians = {c.name: _turn(c) for c in order}
        ratios.append(medians[tuned.name] / medians[untuned.name])
    return ratio_of(ratios)


def _turn(contestant: Contestant) -> float:
    """The lower quartile of the milliseconds of a turn, since what disturbs a run makes it slower. One run before is not counted: the
    other's turn left its own data in the caches."""
    before = len(contestant.milliseconds)
    count = int(SLICE_SECONDS * 1e3 / statistics.median(contestant.milliseconds)) if before else 1
    contestant.measure(0.0, max(count, 1), 1)
    times = contestant.milliseconds[before:]
    return statistics.quantiles(times, n=4, method="inclusive")[0] if len(times) > 1 else times[0]


def beside_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The times of both models."""
    table = Table("milliseconds")
    for name in ("median", "p5", "p95", "runs"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(row["contestant"], *[f"{row[n]:.4g}" for n in ("median", "p5", "p95")], str(row["runs"]))
    return table


def ratio_of(ratios: Sequence[float]) -> Ratio:
    """The median of ratios with its spread. The bounds of the median are order statistics, by the binomial distribution's normal
    approximation (Conover, Practical Nonparametric Statistics, 3.2)."""
    ranked, n = sorted(ratios), len(ratios)
    quarter = statistics.quantiles(ranked, n=4) if n > 1 else [ranked[0]] * 3
    reach = 1.96 * sqrt(n) / 2
    first, last = max(int(n / 2 - reach), 0), min(int(n / 2 + reach), n - 1)
    return Ratio(statistics.median(ranked), quarter[0], quarter[2], ranked[first], ranked[last], n)
