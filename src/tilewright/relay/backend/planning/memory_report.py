"""Report of a memory plan: the peak of the activations and the tensors in it, as a table and as a part of an HTML page."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from tilewright.relay.backend.kernels.tensor_graph import static_bytes
from tilewright.relay.backend.planning.memory_plan import Storage
from tilewright.relay.backend.planning.plan import Plan
from tilewright.relay.texts import type_text


class Activation:
    """A part of the arena: its bytes, the calls from the one that writes it to the last that reads it, and the tensors in it. Tensors
    follow each other in time if kernels overwrite their inputs, and are side by side if they are parts of the last one."""

    __slots__ = ("begin", "bytes", "end", "kernel", "offset", "source", "storage", "tensors")

    def __init__(self, storage: Storage, kernel: str, source: str) -> None:
        self.bytes, self.offset, self.begin, self.end = storage.size, storage.offset, storage.begin, storage.end
        self.kernel, self.source, self.storage = kernel, source, storage
        self.tensors: list[str] = []

    def __repr__(self) -> str:
        return f"{' -> '.join(self.tensors)}: {self.bytes} bytes, calls {self.begin}..{self.end}, by {self.kernel}"


class MemoryReport:
    """Bytes of a compiled model's memory.

    arena_bytes: the size of the arena for all activations; peak_bytes: the most bytes that are live at once (the rest of the arena
    is gaps); peak_call, peak_kernel: the call of the peak, and its kernel; unshared_bytes: the size of the arena if activations shared
    no memory; live: live bytes by call; at_peak: the activations of the peak, largest first; input_bytes, output_bytes,
    constant_bytes: memory outside of the arena.
    """

    def __init__(self, plan: Plan) -> None:
        self.arena_bytes, self.constant_bytes = plan.workspace_bytes, plan.constants.bytes
        self.input_bytes = sum([static_bytes(t) for _, t in plan.inputs])
        self.output_bytes = sum([static_bytes(t) for t in plan.outputs])
        self.kernels = [c.kernel.name for c in plan.calls]
        found: dict[int, Activation] = {}
        for call in plan.calls:
            for place in call.args:
                if place.storage is None:
                    continue
                item = found.setdefault(id(place.storage), Activation(place.storage, call.kernel.name, call.source))
                text = type_text(place.type)
                if not item.tensors or item.tensors[-1] != text:
                    item.tensors.append(text)
        self.activations = list(found.values())
        self.live = live_bytes(self.activations, len(plan.calls))
        self.peak_bytes = max(self.live, default=0)
        self.peak_call = self.live.index(self.peak_bytes) if self.live else -1
        self.peak_kernel = self.kernels[self.peak_call] if self.live else ""
        at_peak = [a for a in self.activations if a.begin <= self.peak_call <= a.end]
        self.at_peak = sorted(at_peak, key=lambda a: (-a.bytes, a.begin))
        self.unshared_bytes = sum([a.bytes for a in self.activations])

    def __str__(self) -> str:
        lines = [f"{name:<22}{size:>14,} bytes" for name, size in self.totals()]
        if self.at_peak:
            lines.append(f"\nthe peak is at call {self.peak_call} of {len(self.kernels)}, {self.peak_kernel}:")
        for a in self.at_peak:
            share = a.bytes / self.peak_bytes
            lines.append(
                f"{a.bytes:>14,} {share:>6.1%}  calls {a.begin}..{a.end}  {' -> '.join(a.tensors)}  {a.kernel}"
            )
        return "\n".join(lines)

    def totals(self) -> list[tuple[str, int]]:
        """(purpose, bytes) of all memory."""
        return [
            ("activations (arena)", self.arena_bytes),
            ("peak of activations", self.peak_bytes),
            ("without sharing", self.unshared_bytes),
            ("inputs", self.input_bytes),
            ("outputs", self.output_bytes),
            ("constants", self.constant_bytes),
        ]

    def to_dict(self) -> dict[str, object]:
        """The report as a dictionary of plain values."""
        return {
            **{name.split(" (")[0].replace(" ", "_"): size for name, size in self.totals()},
            "peak_call": self.peak_call,
            "peak_kernel": self.peak_kernel,
            "at_peak": [
                {"bytes": a.bytes, "begin": a.begin, "end": a.end, "tensors": a.tensors, "kernel": a.kernel}
                for a in self.at_peak
            ],
        }

    def to_html(self) -> str:
        """The report as a part of an HTML page: totals, live bytes by call, and the activations of the peak."""
        totals = "".join([f'<tr><td>{name}</td><td class="num">{size:,}</td></tr>' for name, size in self.totals()])
        rows = "".join(
            [
                f'<tr><td class="num">{a.bytes:,}</td><td class="num">{a.bytes / self.peak_bytes:.1%}</td>'
                f"<td>{a.begin} to {a.end}</td><td>{html.escape(' → '.join(a.tensors))}</td>"
                f'<td><a href="#f-{html.escape(a.kernel)}">{html.escape(a.kernel)}</a></td><td>{html.escape(a.source)}</td></tr>'
                for a in self.at_peak
            ]
        )
        peak = (
            f"<p>The peak is at call {self.peak_call} of {len(self.kernels)}, {html.escape(self.peak_kernel)}; these tensors fill it:</p>"
            '<table><thead><tr><th class="num">bytes</th><th class="num">share</th><th>lives during calls</th><th>tensor</th>'
            f"<th>made by</th><th>from</th></tr></thead><tbody>{rows}</tbody></table>"
        )
        return (
            f'<table><thead><tr><th></th><th class="num">bytes</th></tr></thead><tbody>{totals}</tbody></table>'
            f"{self._chart()}{peak if self.at_peak else ''}"
        )

    def _chart(self) -> str:
        """A drawing (SVG) of the live bytes by call."""
        if not self.peak_bytes:
            return ""
        width, height = 900.0, 120.0
        step = width / len(self.live)
        tops = [(i * step, height * (1 - size / self.peak_bytes)) for i, size in enumerate(self.live)]
        outline = " ".join([f"{x:.1f},{y:.1f} {x + step:.1f},{y:.1f}" for x, y in tops])
        bars = "".join(
            [
                f'<rect x="{x:.1f}" y="0" width="{step:.2f}" height="{height}" fill="transparent">'
                f"<title>call {i}, {html.escape(self.kernels[i])}: {self.live[i]:,} bytes</title></rect>"
                for i, (x, _) in enumerate(tops)
            ]
        )
        x = (self.peak_call + 0.5) * step
        return (
            f'<svg viewBox="0 -14 {width:.0f} {height + 32:.0f}" width="100%" role="img" aria-label="bytes of activations by call">'
            f'<polygon class="area" points="0,{height} {outline} {width},{height}"/>'
            f'<line class="peak" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>'
            f'<text x="0" y="-3">{self.peak_bytes:,} bytes live at once</text>'
            f'<text x="0" y="{height + 14}">call 0</text><text x="{width}" y="{height + 14}" text-anchor="end">'
            f"call {len(self.live) - 1}</text>{bars}</svg>"
        )


def live_bytes(activations: Sequence[Activation], calls: int) -> list[int]:
    """The bytes that are live during each call. What lies over another tensor counts once."""
    change = [0] * (calls + 1)
    for a in activations:
        change[a.begin] += a.bytes
        change[min(a.end, calls - 1) + 1] -= a.bytes
    live, now = [], 0
    for delta in change[:calls]:
        now += delta
        live.append(now)
    for over, under, call in overlaps(activations):
        live[call] -= max(0, min(over.offset + over.bytes, under.offset + under.bytes) - max(over.offset, under.offset))
    return live


def overlaps(activations: Sequence[Activation]) -> Iterator[tuple[Activation, Activation, int]]:
    """(output, input, call) of the calls whose output is written over an input that is read line by line."""
    found = {id(a.storage): a for a in activations}
    for a in activations:
        for under in a.storage.over:
            if id(under) in found:
                yield a, found[id(under)], a.begin


def memory_report(plan: Plan) -> MemoryReport:
    """The report of a memory plan (`relay.build(...).plan`)."""
    return MemoryReport(plan)
