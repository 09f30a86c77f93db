"""A chart in the terminal: the best latency of the model over the time of a session."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from tilewright.cli.tuner.history import Point, candidates_text, duration_text

HEIGHT, MOST_WIDTH, LEAST_WIDTH = 7, 72, 16
LEAST_FALL = 0.05
"""Of the vertical axis: what falls less is no cliff."""
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bits of a braille pattern, U+2800, by column and row."""


def latency_chart(points: Sequence[Point], width: int, plain: bool = False, height: int = HEIGHT) -> list[str]:
    """Lines of text, `height` and one more, that show the milliseconds of the model over time as steps. Empty where nothing became
    faster, or there is no room. plain: ASCII alone."""
    values = [p.model_seconds * 1e3 for p in points]
    low, high = min(values, default=0.0), max(values, default=0.0)
    if high - low < 1e-3 * high or not high:
        return []
    low = min(low, high * (1 - LEAST_FALL))
    labels = {0: f"{high:.3f} ms ", height - 1: f"{low:.3f} ms "}
    margin = max([len(text) for text in labels.values()])
    cells = min(width, MOST_WIDTH) - margin - 1
    if cells < LEAST_WIDTH:
        return []
    columns, rows = (1, 1) if plain else (2, 4)
    across, down = cells * columns, height * rows
    times, end = [p.elapsed for p in points], max(points[-1].elapsed, 1e-9)

    def level(column: int) -> int:
        """The row of dots of the value at a column, from the top."""
        at = bisect_right(times, end * (column + 1) / across) - 1
        return round((high - values[max(at, 0)]) / (high - low) * (down - 1))

    marks = [[0] * cells for _ in range(height)]
    before = level(0)
    for x in range(across):
        now = level(x)
        for y in range(min(before, now), max(before, now) + 1):
            marks[y // rows][x // columns] |= 1 if plain else DOTS[x % 2][y % 4]
        before = now
    shown = [
        "".join([(" *"[mark] if plain else chr(0x2800 + mark)) if mark else " " for mark in line]) for line in marks
    ]
    edge = "|" if plain else "│"
    lines = [f"{labels.get(i, ''):>{margin}}{edge}{line}".rstrip() for i, line in enumerate(shown)]
    ends = f"{duration_text(end)}, {candidates_text(points[-1].trials)}"
    return [*lines, f"{' ' * margin}0{ends:>{cells}}"]
