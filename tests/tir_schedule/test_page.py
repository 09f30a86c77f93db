"""docs/schedule.md: every primitive with its picture and rules, made from the docstrings and the goldens of the messages."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from tilewright.tir.schedule import InstructionKind, Schedule

PAGE = Path(__file__).parents[2] / "docs" / "schedule.md"
GOLDENS = Path(__file__).parent / "goldens"

GROUPS = {
    "Finding blocks and loops": "get_block get_loops get_child_blocks get_producers get_consumers get_output_blocks",
    "Sampling": "sample_categorical sample_perfect_tile sample_partitioned_tile sample_compute_location",
    "Loops": "split loop_partition merge fuse reorder add_unit_loop reorder_block_iter_var",
    "How loops run": "parallel vectorize bind unroll",
    "Where blocks are computed": "compute_at reverse_compute_at compute_inline reverse_compute_inline",
    "Staging": "cache_read cache_write reindex_cache_read reindex_cache_write read_at write_at cache_inplace cache_index reindex",
    "Reductions": "decompose_reduction rfactor",
    "Blocks and instructions": "blockize tensorize",
    "Buffers and layouts": "set_scope storage_align unsafe_set_dtype transform_layout transform_block_layout set_axis_separator",
    "Padding and rings": "decompose_padding pad_einsum rolling_buffer",
    "Notes": "annotate unannotate annotate_buffer_access unsafe_hide_buffer_access enter_postproc",
}
HEAD = """# The primitives of `tir.Schedule`

Each primitive with what it does (`before --> after`; S and T stand for statements, f for an expression) and what it refuses,
in the words of its errors: the rule, and what was found in a small program that breaks it. A refusal is a `ScheduleError`
that shows the program with the loop or block underlined, and leaves the schedule as it was. What is accepted computes what
the program computed before: elements of a buffer that are written get the same values (sums up to the order of rounding),
and no other element is written. Three things are taken on trust: that an update over `T.axis.reduce` may be done in any order,
that a reduction with a start and a symbolic number of steps has at least one step (what is reduced over nothing is undefined),
and the regions that an `unsafe_` primitive or `annotate_buffer_access` declares.

Blocks are given as handles or by name. `sch.trace` holds what was done: `str(sch.trace)` is a Python function of a schedule,
`as_json()` plain data for `Trace.apply_json_to_schedule`, `apply_to_schedule(sch, remove_postproc)` replays it, with other
decisions of the sampling primitives if a `decision_provider` gives them; `with_decision`, `simplified`, `append`, `pop` edit it.
`Schedule(mod, debug_mask="all")` checks the state after every primitive; `enable_check=False` leaves the questions about
dependences out. This page is made by `pytest tests/tir_schedule/test_page.py --update`.
"""


def signature(name: str) -> str:
    function = inspect.unwrap(getattr(Schedule, name))
    params = list(inspect.signature(function).parameters.values())[1:]
    shown = []
    starred = False
    for p in params:
        if p.kind is p.KEYWORD_ONLY and not starred and all(q.kind is not q.VAR_POSITIONAL for q in params):
            shown.append("*")
            starred = True
        text = f"*{p.name}" if p.kind is p.VAR_POSITIONAL else p.name
        shown.append(text if p.default is p.empty else f"{text}={p.default!r}")
    return f"{name}({', '.join(shown)})"


def picture_and_text(name: str) -> tuple[str, str]:
    """The part of a docstring that shows programs, and the prose."""
    doc = inspect.getdoc(inspect.unwrap(getattr(Schedule, name))) or ""
    pictures, prose = [], []
    for paragraph in doc.split("\n\n"):
        (pictures if "-->" in paragraph or (not pictures and paragraph.startswith("for ")) else prose).append(paragraph)
    return "\n".join(pictures), "\n".join(prose)


def rules(name: str) -> list[str]:
    path = GOLDENS / f"refused_{name}.txt"
    if not path.exists():
        return []
    return [m[1] for m in re.finditer(rf"^{name}: (.*)$", path.read_text(), re.MULTILINE)]


def entry(name: str) -> str:
    picture, text = picture_and_text(name)
    lines = [f"### `{signature(name)}`", ""]
    if picture:
        lines += [*[f"    {line}" for line in picture.split("\n")], ""]
    if text:
        lines += [text, ""]
    found = rules(name)
    if found:
        lines += ["Refused, for example:", "", *[f"- {r}" for r in found], ""]
    return "\n".join(lines)


def page() -> str:
    table = ["| | |", "|---|---|"]
    for title, names in GROUPS.items():
        table.append(f"| {title} | {' '.join(f'`{n}`' for n in names.split())} |")
    parts = [HEAD, "\n".join(table), ""]
    for title, names in GROUPS.items():
        parts += [f"## {title}", "", *[entry(n) for n in names.split()]]
    return "\n".join(parts).rstrip() + "\n"


def test_the_page_is_up_to_date(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update", default=False):
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), "docs/schedule.md is old: pytest tests/tir_schedule/test_page.py --update"


def test_every_primitive_is_on_the_page() -> None:
    listed: list[Any] = [n for names in GROUPS.values() for n in names.split()]
    assert sorted(listed) == sorted(k.method for k in InstructionKind.registry.values())
    for name in listed:
        doc = inspect.getdoc(inspect.unwrap(getattr(Schedule, name))) or ""
        assert doc, f"{name} has no docstring"
