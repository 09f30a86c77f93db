"""`tilewright targets`: the machines that have names."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from tilewright.cli import cli
from tilewright.cli.options import shown
from tilewright.support.errors import TVMError

if TYPE_CHECKING:
    from rich.table import Table

    from tilewright.cli.screen import Form


@cli.command("targets", short_help="List machines by name.")
@click.argument("words", nargs=-1)
@click.option("--kind", help="Only targets of this kind: llvm (CPUs), cuda, ...")
@shown
def targets_command(words: tuple[str, ...], kind: str | None, form: Form) -> None:
    """List the machines that --target takes by name. WORDS select those whose name, processor or description has them all.

    \b
    tilewright targets
    tilewright targets raspberry
    tilewright targets cortex-a76 linux
    tilewright compile model.onnx --target raspberry-pi/5 -o model.so
    """
    from tilewright.target.tag import known_tags
    from tilewright.target.target import Target

    rows = [_row(name, Target(name), tag.about) for name, tag in known_tags().items()]
    chosen = [r for r in rows if all([w.lower() in " ".join(map(str, r.values())).lower() for w in words])]
    if kind is not None:
        kinds = sorted({r["kind"] for r in rows})
        if kind not in kinds:
            raise TVMError(
                f"no machine of the list is of the kind {kind}. Kinds: {', '.join(kinds)}; llvm is that of CPUs"
            )
        chosen = [r for r in chosen if r["kind"] == kind]
    if not chosen:
        asked = " ".join(words) + (f" of the kind {kind}" if kind else "")
        close = difflib.get_close_matches(" ".join(words), [r["name"] for r in rows], n=4, cutoff=0.4)
        nearest = f"; nearest: {', '.join(close)}" if close else ""
        raise TVMError(
            f"no machine of the list has {asked}{nearest}. A triple, such as aarch64-linux-gnu, is a target too"
        )
    form.show({"machines": chosen}, chosen, lambda: [_table(chosen), _ending(len(chosen))])


def _row(name: str, target: Any, about: str) -> dict[str, Any]:
    attrs: Mapping[str, Any] = target.attrs
    return {
        "name": name,
        "kind": target.kind.name,
        "processor": attrs.get("mcpu") or attrs.get("arch") or "",
        "cores": attrs.get("num-cores", ""),
        "triple": target.triple if "mtriple" in attrs else "",
        "about": about,
    }


def _table(rows: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in rows[0]:
        table.add_column(column, overflow="fold", justify="right" if column == "cores" else "left")
    for row in rows:
        table.add_row(*map(str, row.values()))
    return table


def _ending(count: int) -> str:
    return (
        f"{count} machine{'s' if count != 1 else ''}; options may follow a name: --target 'raspberry-pi/5 -num-cores=2'"
    )
