"""`tilewright import`: the report on a model, as tables or JSON, and the imported program, as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from tilewright.cli.models import checked_target, format_of
from tilewright.cli.options import Shapes, check_writable
from tilewright.cli.screen import Form, in_bytes, shown_warnings
from tilewright.support.errors import TVMError
from tilewright.support.files import write_whole

PLACES = 4
"""Number of places of a compatibility note, or of nodes of an operator, that a table names."""


def check_model(model: Path, shapes: Shapes, target: str, form: Form) -> int:
    """Prints the report; returns 0 if the model can be imported, else 1."""
    chosen = checked_target(target)
    format_of(model)
    from tilewright.relay.frontend.common.preflight import preflight, unread

    try:
        with shown_warnings():
            found = preflight(model, dict(shapes), chosen)
    except TVMError as error:
        if not form.as_json:
            raise
        click.echo(json.dumps(unread(model, str(error)), indent=1))
        return 1
    facts = found.to_dict()
    form.show(facts, facts["operators"], lambda: rendered(found))
    return 0 if found.ok else 1


def rendered(found: Any) -> list[Any]:
    """The report as tables and lines."""
    s = found.survey
    parts: list[Any] = [f"{found.path}: {s.framework}{', ' + s.version if s.version else ''}"]
    parts.append(tensor_table(found))
    parts += operator_table(found)
    parts.append(f"weights: {weights_text(found)}")
    if found.module is not None:
        rest = f", not counted: {found.uncounted_calls} calls with dynamic dimensions" if found.uncounted_calls else ""
        parts.append(f"operations of a run: {big(found.flops)}FLOP{rest}")
        parts.append(f"memory: {memory_text(found)}")
    if found.notes:
        parts.append(note_table(found))
    if found.ok:
        parts.append("can be imported: everything is supported")
        return parts
    if found.problems:
        count = len(found.problems)
        parts.append(f"cannot be imported: {count} {'thing is' if count == 1 else 'things are'} not supported")
        parts += [f"  {p}" for p in found.problems]
        parts += [found.advice] if found.advice else []
    else:
        parts.append(f"cannot be imported: {found.fault}")
    return parts


def tensor_table(found: Any) -> Table:
    """Inputs and outputs; dynamic extents by name."""
    table = Table("", "name", "type", "shape", "dynamic", title="inputs and outputs", title_justify="left")
    for kind, infos in (("input", found.survey.inputs), ("output", found.survey.outputs)):
        for i in infos:
            shape = "unknown" if i.shape is None else " x ".join(map(str, i.shape)) or "scalar"
            where = ", ".join([f"axis {k}" for k in i.dynamic_axes])
            table.add_row(kind, i.name, i.dtype or "unknown", shape, where)
    return table


def operator_table(found: Any) -> list[Any]:
    """A line of totals, and a table of operators with counts, work and support."""
    rows = found.rows()
    refused = len([r for r in rows if not r.supported])
    nodes = sum([len(n) for n in found.survey.operators.values()])
    kinds = len(found.survey.operators)
    title = (
        f"{nodes} {'node' if nodes == 1 else 'nodes'} of {kinds} {'operator' if kinds == 1 else 'operators'}"
        f"{f', {refused} not supported' if refused else ''}"
    )
    table = Table()
    table.add_column("operator", overflow="fold")
    for column in ("nodes", "FLOP", "share"):
        table.add_column(column, justify="right")
    table.add_column("", overflow="fold")
    total = found.flops
    for r in rows:
        work = big(r.flops) if r.flops else "" if r.uncounted else "0"
        work += (" + " if r.flops else "") + "unknown" if r.uncounted else ""
        known = found.module is not None
        note = "" if r.supported else "not supported: " + named(found.survey.operators.get(r.name, ()))
        share = f"{r.flops / total:.1%}" if total and r.flops else ""
        table.add_row(r.name, str(r.count or ""), work if known else "", share, note)
    return [title, table]


def note_table(found: Any) -> Table:
    """A table of the compatibility notes and their places."""
    table = Table(title="compatibility notes", title_justify="left")
    table.add_column("", no_wrap=True)
    table.add_column("what", overflow="fold")
    table.add_column("times", justify="right")
    table.add_column("where", overflow="fold")
    for q, places in found.notes.items():
        table.add_row(q.key, q.text, str(len(places)), named(list(places)))
    return table


def named(places: Sequence[str]) -> str:
    """The first names, and the number of the others."""
    rest = len(places) - PLACES
    return ", ".join(places[:PLACES]) + (f" and {rest} more" if rest > 0 else "")


def weights_text(found: Any) -> str:
    """The weights in words: `161 tensors, 102.5 MB (float32 159, 102.5 MB; int64 2, 16 B)`."""
    types = [f"{t or 'unknown'} {count}, {in_bytes(size)}" for t, (count, size) in found.parameter_types.items()]
    return f"{len(found.survey.parameters)} tensors, {in_bytes(found.parameter_bytes)}" + (
        f" ({'; '.join(types)})" if types else ""
    )


def memory_text(found: Any) -> str:
    """The memory of a run, in words."""
    m = found.memory
    if not m:
        return f"weights {in_bytes(found.parameter_bytes)}; activations unknown: {found.why_no_memory}"
    total = m["constants"] + m["activations"] + m["inputs"] + m["outputs"]
    return (
        f"{in_bytes(total)}: constants {in_bytes(m['constants'])}, activations {in_bytes(m['activations'])}"
        f" (planned; {in_bytes(m['without_sharing'])} without sharing), inputs and outputs {in_bytes(m['inputs'] + m['outputs'])}"
    )


def big(n: float) -> str:
    """A count with a prefix: `3.86 G`."""
    for unit in ("", "k", "M", "G", "T"):
        if n < 1000:
            return f"{n:.3g} {unit}" if unit else f"{n:.0f} "
        n /= 1000
    return f"{n:.3g} P"


def import_model(model: Path, shapes: Shapes, output: Path | None, params: Path | None) -> None:
    """Writes the imported program."""
    from tilewright.node import save_json
    from tilewright.runtime import save_param_dict

    for path, option in ((output, "--output"), (params, "--params")):
        if path is not None:
            check_writable(path, option)
    with shown_warnings():
        mod, weights = format_of(model).load(model, dict(shapes))
    if output is None:
        click.echo(mod.astext(show_meta_data=False))
    elif output.suffix == ".json":
        write_whole(output, save_json(mod).encode())
    else:
        write_whole(output, (mod.astext() + "\n").encode())
    if params is not None:
        write_whole(params, save_param_dict(weights))
    if output is not None:
        click.echo(f"{output}: {len(mod.functions)} functions, {len(weights)} weights as parameters")
