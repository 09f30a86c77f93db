"""Helpers for tests of schedules: replay of traces, and comparison of programs without the names of their functions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tilewright.ir import IRModule
from tilewright.node import assert_structural_equal
from tilewright.tir import PrimFunc
from tilewright.tir.schedule.schedule import Schedule
from tilewright.tir.schedule.trace import Trace


def assert_structural_equal_ignore_global_symbol(
    func1: PrimFunc | IRModule, func2: PrimFunc | IRModule, *args: Any, **kwargs: Any
) -> None:
    """Raise ValueError if two functions (or the functions of two modules) differ in more than their global symbols."""
    assert_structural_equal(_anonymous(func1), _anonymous(func2), *args, **kwargs)


def _anonymous(program: Any) -> Any:
    if isinstance(program, IRModule):
        return program.with_functions({g: _anonymous(f) for g, f in program.functions_items()})
    if isinstance(program, PrimFunc):
        return program.replace(attrs={k: v for k, v in program.attrs.items() if k != "global_symbol"})
    return program


def verify_trace_roundtrip(
    sch: Schedule,
    mod: PrimFunc | IRModule,
    *,
    debug_mask: str | int = "all",
    text_format: str | Sequence[str] = ("python", "json"),
) -> Schedule:
    """Replay the trace of a schedule on `mod`, its original program, and compare the results.

    text_format: "python", "json" or both. Returns the last schedule. Raises ValueError if the programs differ, and
    AssertionError if the traces differ.
    """
    if not isinstance(text_format, str):
        made = sch
        for form in text_format:
            made = verify_trace_roundtrip(sch, mod, debug_mask=debug_mask, text_format=form)
        return made
    trace = sch.trace
    assert trace is not None, "the schedule keeps no trace"
    new = Schedule(mod, debug_mask=debug_mask)
    if text_format == "json":
        Trace.apply_json_to_schedule(json.loads(json.dumps(trace.as_json())), new)
    elif text_format == "python":
        from tilewright import tir

        names: dict[str, Any] = {"T": tir, "tir": tir}
        exec("\n".join(trace.as_python()), names, {"sch": new})
    else:
        raise ValueError(f'text_format must be "python" or "json", but is {text_format!r}')
    assert_structural_equal(new.mod, sch.mod)
    assert new.trace is not None and new.trace.as_python() == trace.as_python()
    return new
