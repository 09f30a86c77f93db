"""The HTML page of `tilewright tune`: one file that needs nothing but a browser."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.cli.tuner.beside import Ratio
from tilewright.cli.tuner.drawing import boxes, candidates_chart, steps_chart
from tilewright.cli.tuner.history import History, duration_text
from tilewright.cli.tuner.kernels import Row
from tilewright.support.files import write_whole
from tilewright.tuning.allocation import model_seconds

PAGE = Path(__file__).with_name("page.html")
REFRESH_SECONDS = 10


@dataclass
class TuningPage:
    """What the page shows. title: the model; summary: facts about the session; use: the commands that use the records; latencies: rows of
    the models that were measured beside each other, with their ratio."""

    title: str
    summary: Sequence[str]
    use: Sequence[str]
    latencies: Sequence[Mapping[str, Any]] = field(default_factory=list)
    ratio: Ratio | None = None
    remarks: Sequence[str] = ()

    def write(self, path: Path, history: History, rows: Sequence[Row], running: bool) -> None:
        """Writes the page. running: whether the session goes on; the page loads itself again then."""
        write_whole(path, self.render(history, rows, running).encode(errors="backslashreplace"))

    def render(self, history: History, rows: Sequence[Row], running: bool) -> str:
        """The page as text."""
        points = history.points
        untuned, now = [seconds * 1e3 for seconds in model_seconds(history.tasks)]
        over_time = [(p.elapsed, p.model_seconds * 1e3) for p in points]
        over_trials = [(float(p.trials), p.model_seconds * 1e3) for p in points]
        values = {
            "refresh": f'<meta http-equiv="refresh" content="{REFRESH_SECONDS}">\n' if running else "",
            "title": html.escape(self.title),
            "summary": html.escape("; ".join([*self.summary, *(["still running"] if running else [])])),
            "tiles": self.tiles(history, untuned, now),
            "by_time": steps_chart(over_time, untuned, duration_text),
            "by_trials": steps_chart(over_trials, untuned, lambda n: f"{n:.0f}"),
            "beside": self.beside(),
            "kernels": "\n".join([self.kernel(row, rows, history) for row in rows]),
            "use": html.escape("\n".join(self.use)),
        }
        return re.sub(r"\{\{(\w+)\}\}", lambda m: values[m.group(1)], PAGE.read_text(encoding="utf-8"))

    def tiles(self, history: History, untuned: float, now: float) -> str:
        """The numbers that are looked for first."""
        failed = len([c for c in history.candidates if c.seconds is None])
        elapsed = history.points[-1].elapsed if history.points else 0.0
        shown = [
            (f"{untuned:.3f} ms", "kernels, untuned"),
            (f"{now:.3f} ms", "kernels, tuned"),
            (f"{now / untuned if untuned else 1.0:.3f}", "tuned / untuned, kernels"),
            *([(f"{self.ratio.median:.3f}", "tuned / untuned, whole model")] if self.ratio is not None else []),
            (f"{len(history.candidates)}", f"candidates, {failed} failed"),
            (duration_text(elapsed), "of measuring"),
        ]
        return "".join([f"<div><b>{html.escape(b)}</b><span>{html.escape(s)}</span></div>" for b, s in shown])

    def beside(self) -> str:
        """The models that were measured beside each other."""
        remarks = "".join([f"<p>{html.escape(text)}</p>" for text in self.remarks])
        if not self.latencies:
            return remarks
        words = f"<p>{html.escape(self.ratio.text)}</p>" if self.ratio is not None else ""
        note = '<p class="soft">Milliseconds of a run: from p5 to p95, the quartiles and the median.</p>'
        return f"<h2>The whole model, before and after</h2>\n{boxes(self.latencies)}{words}{remarks}{note}"

    def kernel(self, row: Row, rows: Sequence[Row], history: History) -> str:
        """A row of the table."""
        longest = max([r.us for r in rows], default=1.0) or 1.0
        tuned = row.best_us is not None
        bars = f'<i style="width:{100 * row.us / longest:.1f}%"></i>'
        if tuned:
            bars += f'<i class="tuned" style="width:{100 * row.now_us / longest:.1f}%"></i>'
        numbers = [
            f"{row.us:.1f}",
            f"{row.now_us:.1f}" if tuned else "",
            f"{row.now_us / row.us:.2f}" if tuned else "",
            f"{row.share:.1%}",
            "" if row.percent_of_roofline is None else f"{row.percent_of_roofline:.0f}",
            "" if row.may_save is None else f"{row.may_save:.1%}",
            (f"{row.tried}" + (f" ({row.failed} failed)" if row.failed else "")) if row.tried else "",
        ]
        cells = "".join([f'<td class="num">{n}</td>' for n in numbers])
        name = f'{html.escape(row.kernel)}<span class="shapes">{html.escape(row.shapes)}</span>'
        numbered = {progress.task.name: i for i, progress in enumerate(history.tasks)}
        number = numbered.get(row.kernel, -1)
        untuned = history.tasks[number].untuned if number >= 0 else None
        chart = candidates_chart([c for c in history.candidates if c.task == number], untuned)
        return f'<tr><td class="name">{name}</td><td class="num">{row.calls}</td><td class="bars">{bars}</td>{cells}<td>{chart}</td></tr>'
