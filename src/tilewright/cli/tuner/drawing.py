"""The drawings of the page of `tilewright tune`, as SVG."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from math import floor, log10
from typing import Any

from tilewright.cli.tuner.history import Candidate

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 1000, 300, 70, 30, 12, 16
SMALL_WIDTH, SMALL_HEIGHT = 180, 44
MOST_DOTS = 300


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers from `low` to `high`, about as many as asked for."""
    step = (high - low) / count
    size = 10 ** floor(log10(step)) if step > 0 else 1.0
    step = next(s for s in (size, 2 * size, 5 * size, 10 * size) if s >= step * 0.999)
    first = -floor(-low / step)
    return [n * step for n in range(first, floor(high / step + 1e-9) + 1)]


def steps_chart(points: Sequence[tuple[float, float]], untuned: float, label: Callable[[float], str]) -> str:
    """Milliseconds that only fall, as steps, with a line of the untuned ones. label: of a place on the horizontal axis."""
    if not points:
        return "<p>Nothing was measured yet.</p>"
    end = points[-1][0] or 1.0
    values = [untuned, *[value for _, value in points]]
    low, high = min(values), max(values)
    room = (high - low) * 0.1 or high * 0.05 or 1.0
    low, high = max(low - room, 0.0), high + room

    def across(x: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * x / end

    def down(y: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - y) / (high - low)

    path = f"M{across(points[0][0]):.1f} {down(points[0][1]):.1f}"
    for x, y in points[1:]:
        path += f"H{across(x):.1f}V{down(y):.1f}"
    parts = []
    marks = ticks(low, high)
    digits = max(0, -floor(log10(marks[1] - marks[0]))) if len(marks) > 1 else 3
    for y in marks:
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down(y):.1f}" y2="{down(y):.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{down(y) + 4:.1f}" text-anchor="end">{y:.{digits}f} ms</text>')
    for x in ticks(0.0, end, 6):
        parts.append(f'<text x="{across(x):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{html.escape(label(x))}</text>')
    line = f'x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down(untuned):.1f}" y2="{down(untuned):.1f}"'
    parts += [f'<line class="untuned" {line}/>', f'<path class="best" d="{path}"/>']
    for x, y in points:
        parts.append(
            f'<circle class="dot" cx="{across(x):.1f}" cy="{down(y):.1f}" r="4"><title>{html.escape(label(x))}: {y:.4g} ms</title></circle>'
        )
    return _drawing(WIDTH, HEIGHT, parts, "the model's time")


def candidates_chart(candidates: Sequence[Candidate], untuned: float | None) -> str:
    """The candidates of a kernel in order: dots whose height is their speed, the best so far as steps, failures as red marks."""
    if not candidates or not untuned:
        return ""
    best = max([untuned / c.seconds for c in candidates if c.seconds is not None], default=1.0)
    top, count = max(best, 1.0), max(len(candidates) - 1, 1)

    def place(i: int, speed: float) -> tuple[float, float]:
        return 4 + (SMALL_WIDTH - 8) * i / count, SMALL_HEIGHT - 4 - (SMALL_HEIGHT - 8) * speed / top

    parts, path, fastest = [], "", 1.0
    every = -(-len(candidates) // MOST_DOTS)
    for i, candidate in enumerate(candidates):
        speed = 0.0 if candidate.seconds is None else untuned / candidate.seconds
        x, y = place(i, speed)
        if candidate.seconds is None:
            parts.append(
                f'<line class="failed" x1="{x:.1f}" x2="{x:.1f}" y1="{SMALL_HEIGHT - 5}" y2="{SMALL_HEIGHT}"/>'
            )
        elif i % every == 0 or speed > fastest:
            parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="1.6"/>')
        fastest = max(fastest, speed)
        x, y = place(i, fastest)
        path += f"{'H' if path else 'M'}{x:.1f}{'V' if path else ' '}{y:.1f}"
    at = place(0, 1.0)[1]
    parts.append(f'<line class="untuned" x1="4" x2="{SMALL_WIDTH - 4}" y1="{at:.1f}" y2="{at:.1f}"/>')
    parts.append(f'<path class="best" d="{path}"/>')
    return _drawing(
        SMALL_WIDTH,
        SMALL_HEIGHT,
        parts,
        f"{len(candidates)} candidates, the fastest {fastest:.2f} times as fast as untuned",
    )


def boxes(rows: Sequence[Mapping[str, Any]]) -> str:
    """Times of contestants: a line from p5 to p95, a box between the quartiles, the median."""
    low = float(min([r["p5"] for r in rows]))
    # What disturbs a run makes it slower: a long tail is cut, so that the boxes can be seen.
    high = float(min(max([r["p95"] for r in rows]), 3 * max([r["p75"] for r in rows])))
    low, high = low - 0.05 * (high - low or high), high + 0.05 * (high - low or high)

    def across(value: float) -> float:
        return 160.0 + (WIDTH - 180) * (min(value, high) - low) / (high - low)

    parts = []
    for i, r in enumerate(rows):
        y = 22 + 36 * i
        x5, x25, x50, x75, x95 = [across(r[p]) for p in ("p5", "p25", "median", "p75", "p95")]
        parts.append(
            f'<g class="{"tuned" if i else ""}"><text x="0" y="{y + 4}">{html.escape(r["contestant"])}: {r["median"]:.4g} ms</text>'
            f'<line class="spread" x1="{x5:.1f}" x2="{x95:.1f}" y1="{y}" y2="{y}"/>'
            f'<rect class="box" x="{x25:.1f}" y="{y - 10}" width="{max(x75 - x25, 2):.1f}" height="20"/>'
            f'<line class="median" x1="{x50:.1f}" x2="{x50:.1f}" y1="{y - 10}" y2="{y + 10}"/></g>'
        )
    base = 36 * len(rows) + 18
    for value in ticks(low, high, 6):
        parts.append(f'<text x="{across(value):.1f}" y="{base}" text-anchor="middle">{value:.4g} ms</text>')
    return _drawing(WIDTH, base + 8, parts, "times of runs")


def _drawing(width: int, height: int, parts: Sequence[str], title: str) -> str:
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg {size} role="img"><title>{html.escape(title)}</title>{"".join(parts)}</svg>'
