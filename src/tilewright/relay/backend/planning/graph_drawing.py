"""Picture of a compiled model: a row for each call, in the order of execution, and lines for the values."""

from __future__ import annotations

import html
from typing import NamedTuple

from tilewright.relay.backend.kernels.tensor_graph import static_bytes
from tilewright.relay.backend.planning.plan import Place, Plan
from tilewright.relay.texts import type_text

ROW, LANE, BEND, MARGIN = 22, 9, 7, 16
"""The distances of rows and of lanes, the radius of bends, and the margin, in pixels."""
BAR = 120
LONGEST = 90
"""The most characters of a text that are shown. The row's title has all of them."""


class Row(NamedTuple):
    """An input, a call or an output: its name, the type of its result, the nodes of the model, operations."""

    kind: str
    name: str
    type: str
    source: str
    flops: int


def rows_of(plan: Plan) -> list[Row]:
    """Inputs, calls in order, outputs."""
    rows = [Row("input", name, type_text(t), "", 0) for name, t in plan.inputs]
    for call in plan.calls:
        made = call.args[len(call.args) - call.outputs]
        rows.append(Row("call", call.kernel.name, type_text(made.type), call.source, call.kernel.flops))
    return rows + [Row("output", f"output {i}", type_text(t), "", 0) for i, t in enumerate(plan.outputs)]


def edges_of(plan: Plan) -> list[tuple[int, int]]:
    """Pairs of rows: one that computes a value, and one that reads it. A call depends on the call that last wrote the bytes that it
    reads."""
    written: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
    found: dict[tuple[int, int], None] = {}

    def span(place: Place) -> tuple[tuple[str, int], int, int]:
        inner = place.kind in ("input", "output")
        begin = place.offset if inner else plan.offset(place)
        return (place.kind, place.index if inner else 0), begin, begin + static_bytes(place.type)

    for i, (_, t) in enumerate(plan.inputs):
        written[("input", i)] = [(0, static_bytes(t), i)]
    first = len(plan.inputs)
    for number, call in enumerate(plan.calls, first):
        inputs = len(call.args) - call.outputs
        for place in call.args[:inputs]:
            memory, begin, end = span(place)
            found.update({(row, number): None for b, e, row in written.get(memory, ()) if b < end and begin < e})
        for place in call.args[inputs:]:
            memory, begin, end = span(place)
            kept = []
            for b, e, row in written.get(memory, ()):
                kept += [(b, min(e, begin), row)] * (b < begin) + [(max(b, end), e, row)] * (end < e)
            written[memory] = [*kept, (begin, end, number)]
    for i in range(len(plan.outputs)):
        found.update({(row, first + len(plan.calls) + i): None for _, _, row in written.get(("output", i), ())})
    return list(found)


def lanes_of(edges: list[tuple[int, int]]) -> dict[int, int]:
    """The lane beside the rows for each row whose result is read below the next row. Values that are live together have different lanes."""
    last: dict[int, int] = {}
    for made, read in edges:
        if read > made + 1:
            last[made] = max(last.get(made, 0), read)
    free_from: list[int] = []
    lanes: dict[int, int] = {}
    for made in sorted(last):
        lane = next((k for k, row in enumerate(free_from) if row <= made), len(free_from))
        free_from[lane:] = [last[made], *free_from[lane + 1 :]]
        lanes[made] = lane
    return lanes


def graph_svg(plan: Plan) -> str:
    """The picture as SVG for the page of HtmlReport. Names link to its functions; bars show shares of the operations."""
    rows, edges = rows_of(plan), edges_of(plan)
    lanes = lanes_of(edges)
    x = MARGIN + LANE * (max(lanes.values(), default=-1) + 1) + BEND
    most, total = max([r.flops for r in rows], default=0), sum([r.flops for r in rows])
    parts = []
    for made, read in edges:
        top, bottom = MARGIN + made * ROW, MARGIN + read * ROW
        if read == made + 1:
            parts.append(f'<path d="M{x} {top}V{bottom}"/>')
        else:
            side = x - BEND - LANE * (lanes[made] + 1)
            parts.append(
                f'<path d="M{x} {top}H{side + BEND}Q{side} {top} {side} {top + BEND}V{bottom - BEND}Q{side} {bottom}'
                f' {side + BEND} {bottom}H{x}"/>'
            )
    for number, r in enumerate(rows):
        y = MARGIN + number * ROW
        name = html.escape(r.name)
        label = f'<a href="#f-{name}">{name}</a>' if r.kind == "call" else f"{r.kind} {name}"
        share = f", {r.flops:,} operations, {r.flops / total:.1%}" if total and r.kind == "call" else ""
        bar = (
            f'<rect class="work" x="0" y="{y - 6}" width="{BAR * r.flops / most:.1f}" height="12"/>' if r.flops else ""
        )
        about = "  ".join([t for t in (r.type, r.source) if t])
        shown = about if len(about) <= LONGEST else about[: LONGEST - 3] + "..."
        parts.append(
            f'<g class="{r.kind}"><title>{html.escape(f"{r.name}: {about}{share}")}</title><circle cx="{x}" cy="{y}" r="4"/>'
            f'<g transform="translate({x + 12} 0)">{bar}<text x="{BAR + 8}" y="{y + 4}">{label}'
            f'<tspan dx="10" class="about">{html.escape(shown)}</tspan></text></g></g>'
        )
    height, width = MARGIN * 2 + ROW * max(len(rows) - 1, 0), x + BAR + 1100
    return (
        f'<div class="graph"><svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img"'
        f' aria-label="calls and the values between them">{"".join(parts)}</svg></div>'
    )
