"""The Pareto front as a page with a drawing, and as a picture."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from tilewright.vta.explore.sweep import Point, front

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 960, 480, 70, 20, 20, 50
COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7")
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em}table{border-collapse:collapse}"
    "td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}svg text{font:12px system-ui,sans-serif;fill:#444}"
    "svg .axis{stroke:#999}svg .front{fill:none;stroke-width:2}"
)


def _scaled(value: float, low: float, high: float, begin: float, end: float) -> float:
    return begin + (value - low) / (high - low or 1.0) * (end - begin)


def drawing(points: Sequence[Point]) -> str:
    """Area across, time up; a colour for each bandwidth, whose Pareto front is a line."""
    areas, times = [p.area / 1e3 for p in points], [p.milliseconds for p in points]
    low, high, top = 0.0, max(areas) * 1.05, max(times) * 1.05

    def place(p: Point) -> tuple[float, float]:
        x = _scaled(p.area / 1e3, low, high, LEFT, WIDTH - RIGHT)
        return x, _scaled(p.milliseconds, 0.0, top, HEIGHT - BOTTOM, TOP)

    parts = [
        f'<line class="axis" x1="{LEFT}" y1="{HEIGHT - BOTTOM}" x2="{WIDTH - RIGHT}" y2="{HEIGHT - BOTTOM}"/>',
        f'<line class="axis" x1="{LEFT}" y1="{TOP}" x2="{LEFT}" y2="{HEIGHT - BOTTOM}"/>',
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end">area, kGE</text><text x="4" y="14">ms</text>',
    ]
    for n in range(5):
        x, y = LEFT + n * (WIDTH - LEFT - RIGHT) / 4, HEIGHT - BOTTOM - n * (HEIGHT - TOP - BOTTOM) / 4
        parts.append(f'<text x="{x:.0f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{high * n / 4:.0f}</text>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{top * n / 4:.3g}</text>')
    for n, bandwidth in enumerate(sorted({p.bandwidth for p in points})):
        colour = COLOURS[n % len(COLOURS)]
        same = [p for p in points if p.bandwidth == bandwidth]
        best = front(same)
        path = " ".join([f"{x:.1f},{y:.1f}" for x, y in map(place, best)])
        parts.append(f'<polyline class="front" stroke="{colour}" points="{path}"/>')
        for p in same:
            x, y = place(p)
            about = html.escape(", ".join([f"{k} {v}" for k, v in p.row().items()]))
            opacity = 1.0 if p in best else 0.35
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}" opacity="{opacity}"><title>{about}</title></circle>'
            )
        parts.append(
            f'<text x="{WIDTH - RIGHT}" y="{TOP + 16 * n + 12}" text-anchor="end" style="fill:{colour}">{bandwidth} bytes in a cycle</text>'
        )
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><title>Time over area</title>{"".join(parts)}</svg>'


def page(points: Sequence[Point], network: str, note: str = "") -> str:
    """A page of its own: the drawing, and the table of the Pareto front."""
    rows = [p.row() for p in front(points)]
    head = "".join([f"<th>{html.escape(c.replace('_', ' '))}</th>" for c in rows[0]])
    body = "".join(["<tr>" + "".join([f"<td>{html.escape(str(v))}</td>" for v in r.values()]) + "</tr>" for r in rows])
    title = f"Accelerators for {html.escape(network)}"
    return (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>'
        f"<p>{len(points)} configurations; those of the Pareto front are not beaten in area, bandwidth and time at once."
        f" {html.escape(note)}</p>"
        f"{drawing(points)}<table><tr>{head}</tr>{body}</table></html>\n"
    )


def picture(points: Sequence[Point], network: str, path: Path) -> None:
    """The same drawing as a PNG. ModuleNotFoundError without matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    for n, bandwidth in enumerate(sorted({p.bandwidth for p in points})):
        same, colour = [p for p in points if p.bandwidth == bandwidth], COLOURS[n % len(COLOURS)]
        best = front(same)
        axes.scatter([p.area / 1e3 for p in same], [p.milliseconds for p in same], s=14, color=colour, alpha=0.35)
        axes.plot(
            [p.area / 1e3 for p in best],
            [p.milliseconds for p in best],
            "o-",
            color=colour,
            label=f"{bandwidth} bytes in a cycle",
        )
    axes.set_xlabel("area, kGE")
    axes.set_ylabel("ms")
    axes.set_ylim(bottom=0)
    axes.set_title(network)
    axes.legend()
    figure.savefig(path, dpi=120, format="png")


__all__ = ["drawing", "page", "picture"]
