"""`--dump-offloads`: which operators of a model external code generators take."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from tilewright.ir import IRModule, Op
from tilewright.relay.expr import Call, Function
from tilewright.relay.functor import post_order
from tilewright.relay.transform.annotate import CapturePostDfsIndexInSpans
from tilewright.relay.typing.infer_type import infer_module
from tilewright.support.files import write_whole

REST = "generic"
"""The name of what is compiled here."""
LENGTH = 60
_CALL = re.compile(r"\s*(%\d+ = )?[\w.]+\(")


def dump_operation_offloads(
    mod: IRModule, initial_mod: IRModule, dump_path: str, partition: Callable[[IRModule], IRModule] | None = None
) -> None:
    """Writes the operators of a model in order, and beside each the code generator that takes it, to a file, or for "-" to standard
    output. mod: the model after partitioning; initial_mod: before; partition: what made the one of the other."""
    initial = infer_module(initial_mod)
    main: Any = initial["main"]
    order = [e for e in post_order(main) if isinstance(e, Call) and isinstance(e.op, Op)]
    index = {e: i for i, e in enumerate(post_order(main))}
    lines = _lines(main, order)
    # Spans carry the numbers of the operators through the partitioning.
    numbered = CapturePostDfsIndexInSpans()(initial)
    taken = _taken(partition(numbered) if partition is not None else mod)
    rows: list[tuple[str, str, str]] = []
    for e in order:
        compiler, pattern = taken.get(index[e], (REST, ""))
        rows.append((compiler, pattern, lines[e]))
    text = "\n".join(_rendered(rows)) + "\n"
    if dump_path == "-":
        sys.stdout.write(text)
    else:
        write_whole(dump_path, text.encode())


def _taken(mod: IRModule) -> dict[int, tuple[str, str]]:
    """The code generator and the pattern of each operator that one takes, by the operator's number."""
    found: dict[int, tuple[str, str]] = {}
    for f in mod.functions.values():
        compiler = f.attrs.get("Compiler") if isinstance(f, Function) and f.attrs else None
        if compiler is None or not isinstance(f, Function):
            continue
        for inner in [e for e in post_order(f) if isinstance(e, Function)]:
            pattern = str((inner.attrs or {}).get("Composite", ""))
            for e in post_order(inner.body):
                if isinstance(e, Call) and e.span is not None and (pattern or _number(e) not in found):
                    found[_number(e)] = (str(compiler), pattern)
    return found


def _number(call: Call) -> int:
    """The number that CapturePostDfsIndexInSpans gave a call; -1 for one that a pass made."""
    span: Any = call.span
    mark = re.match(r"index:(\d+):", span.source_name.name) if span is not None else None
    return int(mark[1]) if mark else -1


def _lines(main: Function, order: list[Call]) -> dict[Call, str]:
    """The line of each operator in the text of the program."""
    text = [re.sub(r" /\* ty=.*? \*/", "", line.strip()) for line in str(main).splitlines() if _CALL.match(line)]
    if len(text) != len(order):
        text = [str(e.operator.name) for e in order]
    return dict(zip(order, [t if len(t) <= LENGTH else t[: LENGTH - 3] + "..." for t in text], strict=True))


def _rendered(rows: list[tuple[str, str, str]]) -> list[str]:
    counts = Counter([compiler for compiler, _, _ in rows])
    found = ["Total number of operators and distribution by targets", f"Total: {len(rows)}"]
    found += [f"{name}: {counts[name]}" for name in [*sorted(counts.keys() - {REST}), REST]] + [""]
    before = ""
    for compiler, pattern, line in rows:
        if pattern and pattern != before:
            found.append(f"'{compiler:<14} <-     {pattern}'")
        found.append(f"'{compiler:<14} <-     {'     ' if pattern else ''}{line}'")
        before = pattern
    return found
