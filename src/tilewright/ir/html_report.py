"""HtmlReport: a whole compilation as one HTML file, every pass in order with its time and what it changed."""

from __future__ import annotations

import base64
import html
import json
import re
import time
import zlib
from collections.abc import Mapping
from pathlib import Path

from tilewright.ir.expr import BaseFunc
from tilewright.ir.inspection import size_of
from tilewright.ir.module import IRModule
from tilewright.ir.text_diff import diff
from tilewright.ir.transform import PassInfo
from tilewright.support.files import write_whole

PAGE = Path(__file__).with_suffix(".html")
"""The page with its style and script; `{{name}}` stands for what is filled in."""

TOP = 20
"""Passes in the table of the costliest."""


class Event:
    """One run of a pass: its module before and after (None: it failed), seconds, and the passes that ran inside of it."""

    __slots__ = ("after", "before", "children", "name", "seconds")

    def __init__(self, name: str, before: Mapping[str, BaseFunc]) -> None:
        self.name, self.before = name, before
        self.after: Mapping[str, BaseFunc] | None = None
        self.seconds = 0.0
        self.children: list[Event] = []

    def changed(self) -> list[str]:
        """Names of the functions that the pass made, changed or removed."""
        after = self.after if self.after is not None else self.before
        names = dict.fromkeys([*after, *self.before])
        return [n for n in names if self.before.get(n) is not after.get(n)]

    @property
    def self_seconds(self) -> float:
        """Without the passes that ran inside."""
        return self.seconds - sum([c.seconds for c in self.children])


class Step:
    """A part of the compilation that goes on: when it began, and the seconds of passes and parts inside of it."""

    __slots__ = ("inside", "name", "start")

    def __init__(self, name: str, start: float) -> None:
        self.name, self.start, self.inside = name, start, 0.0


class HtmlReport:
    """An instrument that writes `path` when the context is left: every pass of every dialect in order, nested as they ran,
    with times, sizes of the functions before and after, and differences that open at a click; the times of what is not a pass (code
    generation, LLVM, the memory plan, ...); every function with the passes
    that changed it and its final text; the parts of the compilation that others add (`add_section`), such as the graph and the memory plan.
    With `held` it is written by `write`, not when the context is left.

        with tvm.transform.PassContext(opt_level=3, instruments=[HtmlReport("report.html")]):
            relay.build(mod, target="llvm", params=params)

    What a pass did is worked out after all have run, so that times are those of the passes alone. The file needs nothing
    but a browser. While it is in use kernels are lowered even where the cache holds their code.
    """

    def __init__(self, path: str | Path, title: str = "", held: bool = False) -> None:
        self.path, self.title, self.held = Path(path), title or Path(path).stem, held
        self._begin()

    def _begin(self) -> None:
        self.events: list[Event] = []
        self.sections: list[tuple[str, str]] = []
        self.steps: dict[str, float] = {}
        self._open: list[tuple[Event, float]] = []
        self._begun: list[Step] = []
        self._started, self._seconds = time.perf_counter(), 0.0
        self._sizes: dict[int, int] = {}
        self._printed: dict[int, str] = {}

    def enter_pass_ctx(self) -> None:
        # Said before the compilation, not after.
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"HtmlReport writes {self.path}, but there is no folder {self.path.parent}")
        self._begin()

    def exit_pass_ctx(self) -> None:
        self._seconds = time.perf_counter() - self._started
        if not self.held:
            self.write()

    def write(self, around: Mapping[str, float] | None = None) -> None:
        """Writes the page. `around`: seconds of what was done before the context was entered and after it was left, by name."""
        for name, seconds in (around or {}).items():
            self.steps[name] = self.steps.get(name, 0.0) + seconds
            self._seconds += seconds
        write_whole(self.path, self.render().encode(errors="backslashreplace"))

    def begin_step(self, name: str) -> None:
        """Records the begin of a part of the compilation that is not a pass (`ir.steps.step`)."""
        self._begin_working()
        self._begun.append(Step(name, time.perf_counter()))

    def _begin_working(self) -> None:
        """The time before the first pass and part: rooms of the compiler are loaded at first use."""
        self.steps.setdefault("loading the compiler", time.perf_counter() - self._started)

    def end_step(self) -> None:
        """It ends; the passes and parts inside of it are not counted as its time, nor is its time where it is a part of a pass."""
        ended = self._begun.pop()
        seconds = time.perf_counter() - ended.start
        if self._open:
            return
        self.steps[ended.name] = self.steps.get(ended.name, 0.0) + seconds - ended.inside
        if self._begun:
            self._begun[-1].inside += seconds

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._begin_working()
        event = Event(info.name, _functions(mod))
        (self._open[-1][0].children if self._open else self.events).append(event)
        self._open.append((event, time.perf_counter()))

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._ended().after = _functions(mod)

    def pass_failed(self, mod: IRModule, info: PassInfo) -> None:
        self._ended()

    def _ended(self) -> Event:
        event, start = self._open.pop()
        event.seconds = time.perf_counter() - start
        if self._begun and not self._open:
            self._begun[-1].inside += event.seconds
        return event

    def add_section(self, title: str, content: str) -> None:
        """A part of the page with a heading; `content` is HTML."""
        self.sections.append((title, content))

    def render(self) -> str:
        """The page as text."""
        seconds = self._seconds or time.perf_counter() - self._started
        rows = _Rows(self, seconds)
        timeline = "\n".join([rows.event(e) for e in self.events])
        functions = rows.functions()
        data = json.dumps({"diffs": rows.diffs, "texts": rows.texts}, separators=(",", ":"))
        packed = base64.b64encode(zlib.compress(data.encode(), 9)).decode()
        sections = [
            f'<section id="{_anchor(title)}"><h2>{html.escape(title)}</h2>\n{content}</section>'
            for title, content in self.sections
        ]
        links = "".join([f'<a href="#{_anchor(title)}">{html.escape(title)}</a>' for title, _ in self.sections])
        values = {
            "title": html.escape(self.title),
            "summary": rows.summary(),
            "links": links,
            "costs": rows.costs(),
            "timeline": timeline,
            "functions": functions,
            "sections": "\n".join(sections),
            "data": packed,
        }
        return re.sub(r"\{\{(\w+)\}\}", lambda m: values[m.group(1)], PAGE.read_text(encoding="utf-8"))

    def size(self, func: BaseFunc) -> int:
        """The number of nodes of a function (counted once)."""
        if id(func) not in self._sizes:
            self._sizes[id(func)] = size_of(func)
        return self._sizes[id(func)]

    def text(self, func: BaseFunc) -> str:
        """A function as text (printed once)."""
        if id(func) not in self._printed:
            self._printed[id(func)] = str(func)
        return self._printed[id(func)]


def _functions(mod: IRModule) -> Mapping[str, BaseFunc]:
    return {g.name_hint: f for g, f in mod.functions.items()}


def _anchor(name: str) -> str:
    return "".join([c if c.isalnum() else "-" for c in name]).lower()


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f}" if seconds < 0.1 else f"{seconds * 1e3:,.0f}"


class _Rows:
    """The rows of the page, and the texts that they refer to by number."""

    def __init__(self, report: HtmlReport, seconds: float) -> None:
        self.report, self.seconds = report, seconds or 1e-12
        self.diffs: list[str] = []
        self.texts: list[str] = []
        self.count = 0
        self.kept: dict[tuple[int, int], int | None] = {}
        self.history: dict[str, list[tuple[int, str, BaseFunc | None]]] = {}
        self.totals: dict[str, list[float]] = {}

    def event(self, event: Event) -> str:
        """One pass and those inside of it, as nested details."""
        number = self.count = self.count + 1
        record = self.totals.setdefault(event.name, [0, 0.0, 0])
        inner = "".join([self.event(c) for c in event.children])
        changes = [] if event.children else self.changes(event, number)
        record[0] += 1
        record[1] += event.self_seconds
        record[2] += bool(changes)
        kinds = [
            "pass",
            *(["group"] if event.children else []),
            *(["failed"] if event.after is None else []),
            *(["same"] if not event.children and not changes and event.after is not None else []),
        ]
        opened = " open" if event.children and (number == 1 or event.after is None) else ""
        scope = self.scope(event)
        return (
            f'<details class="{" ".join(kinds)}" id="p{number}" data-name="{html.escape(event.name)}"{opened}><summary>'
            f'<span class="n">{number}</span><span class="name">{html.escape(event.name)}</span>'
            f'<span class="scope">{scope}</span>{self.sizes(event)}'
            f'<span class="ms">{_ms(event.seconds)}</span><span class="bar"><i style="width:{self.share(event):.1f}%"></i></span>'
            f"</summary>{''.join(changes)}{inner}</details>\n"
        )

    def share(self, event: Event) -> float:
        return 100 * event.seconds / self.seconds

    def scope(self, event: Event) -> str:
        """The functions that the pass saw, where they are few, as links."""
        names = list(event.before if event.children else event.changed() or event.before)
        if not names:
            return ""
        shown = " ".join([f'<a href="#f-{html.escape(n)}">{html.escape(n)}</a>' for n in names[:3]])
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        verb = "" if event.children else "changed " if event.changed() else "left as it is: "
        return f"{verb}{shown}{more}" if event.after is not None else f"failed on {shown}{more}"

    def sizes(self, event: Event) -> str:
        before = sum([self.report.size(f) for f in event.before.values()])
        after = before if event.after is None else sum([self.report.size(f) for f in event.after.values()])
        text = f"{before:,}" if before == after else f"{before:,} → {after:,}"
        return f'<span class="size" data-before="{before}" data-after="{after}">{text} nodes</span>'

    def changes(self, event: Event, number: int) -> list[str]:
        """The changes of a pass to each function, filled in when it is opened."""
        out = []
        after = event.after if event.after is not None else event.before
        for name in event.changed():
            old, new = event.before.get(name), after.get(name)
            kept = self.difference(old, new)
            if kept is None:
                continue
            self.history.setdefault(name, []).append((number, event.name, new))
            what = "made" if old is None else "removed" if new is None else "changed"
            out.append(
                f'<div class="diff" data-diff="{kept}"><div class="of">{what}: <a href="#f-{html.escape(name)}">'
                f"{html.escape(name)}</a></div></div>"
            )
        for name, func in after.items():
            if name not in self.history:
                self.history[name] = [(number, "", func)]
        return out

    def difference(self, old: BaseFunc | None, new: BaseFunc | None) -> int | None:
        """The number of the difference's text; None where both print the same."""
        key = (id(old), id(new))
        if key not in self.kept:
            lines = diff(
                self.report.text(old) if old is not None else "", self.report.text(new) if new is not None else ""
            )
            self.kept[key] = len(self.diffs) if lines else None
            if lines:
                self.diffs.append("\n".join(lines))
        return self.kept[key]

    def functions(self) -> str:
        """Every function with the passes that changed it."""
        out = []
        for name, steps in self.history.items():
            last = next((f for _, _, f in reversed(steps) if f is not None), None)
            links = " ".join([f'<a href="#p{n}">{html.escape(p)}</a>' for n, p, _ in steps if p])
            self.texts.append(self.report.text(last) if last is not None else "")
            size = f"{self.report.size(last):,} nodes" if last is not None else ""
            out.append(
                f'<details class="func" id="f-{html.escape(name)}" data-name="{html.escape(name)}" data-text="{len(self.texts) - 1}">'
                f'<summary><span class="name">{html.escape(name)}</span><span class="scope">{len([p for _, p, _ in steps if p])}'
                f' changes</span><span class="size">{size}</span></summary><div class="of">{links or "no pass changed it"}</div></details>'
            )
        return "\n".join(out)

    def costs(self) -> str:
        """The table of passes by the time that they took in all."""
        ranked = sorted(self.totals.items(), key=lambda item: -item[1][1])
        rows = [
            f"<tr><td>{html.escape(name)}</td><td>{runs:.0f}</td><td>{changed:.0f}</td><td>{_ms(seconds)}</td>"
            f'<td class="bar"><i style="width:{100 * seconds / self.seconds:.1f}%"></i></td></tr>'
            for name, (runs, seconds, changed) in ranked[:TOP]
        ]
        rest = sum([seconds for _, (_, seconds, _) in ranked[TOP:]])
        if rest:
            rows.append(f"<tr><td>({len(ranked) - TOP} more)</td><td></td><td></td><td>{_ms(rest)}</td><td></td></tr>")
        other = self.seconds - sum([e.seconds for e in self.report.events]) - sum(self.report.steps.values())
        steps = sorted(self.report.steps.items(), key=lambda item: -item[1])
        for name, seconds in [*steps, ("neither passes nor any of these", max(other, 0.0))]:
            rows.append(
                f'<tr class="step"><td>{html.escape(name)}</td><td></td><td></td><td>{_ms(seconds)}</td>'
                f'<td class="bar"><i style="width:{100 * seconds / self.seconds:.1f}%"></i></td></tr>'
            )
        return "\n".join(rows)

    def summary(self) -> str:
        changed = sum([n for _, _, n in self.totals.values()])
        return (
            f"{self.count} passes, {changed:.0f} changed something, {len(self.history)} functions, {self.seconds:.2f} s"
        )
