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
    "Loop transformations": "split loop_partition merge fuse reorder rasterize unsafe_shorten add_unit_loop reorder_block_iter_var",
    "Kinds of loops": "parallel vectorize bind unroll",
    "Moving and inlining blocks": "compute_at reverse_compute_at compute_inline reverse_compute_inline",
    "Staging": "cache_read cache_write reindex_cache_read reindex_cache_write read_at write_at cache_inplace cache_index reindex replicate",
    "Reductions": "decompose_reduction rfactor online",
    "Blocks and instructions": "blockize tensorize add_version",
    "Buffers and layouts": "set_scope storage_align unsafe_set_dtype transform_layout transform_block_layout merge_axes set_axis_separator",
    "Padding and ring buffers": "decompose_padding decompose_halo elide_copy pad_einsum rolling_buffer",
    "Annotations": "annotate unannotate annotate_buffer_access unsafe_hide_buffer_access enter_postproc",
}
HEAD = """# The primitives of `tir.Schedule`

Reference of all schedule primitives: what each does, and what it refuses. [TensorIR in an hour](tensorir_in_an_hour.md) introduces
schedules. This page is generated from docstrings and tests (`pytest tests/tir_schedule/test_page.py --update`).

## Entries

A line with `-->` shows a program before and after the primitive. S and T stand for statements, f and g for expressions. The
messages under "Refused, for example" come from small programs that each break one rule. Where a primitive takes a block, give a
handle or the name of the block.

## Guarantees

A primitive keeps the results of the program, or raises `ScheduleError` and leaves the schedule as it was. The error shows the
program with the loop or block underlined. After a primitive, every element that the program wrote before gets the same value (sums
can differ in rounding), and no other element is written. Three things are assumed without a check:

- The updates over a `T.axis.reduce` can be done in any order.
- A reduction with an initialisation and a symbolic number of steps has at least one step. Its result without steps is undefined.
- The regions that an `unsafe_` primitive or `annotate_buffer_access` declares are correct.

`Schedule(mod, debug_mask="all")` checks the internal state after every primitive. `enable_check=False` omits the checks of
dependences.

## Traces

`sch.trace` records the primitives that were applied.

| call | what it does |
|---|---|
| `str(trace)` | print the trace as a Python function of a schedule |
| `trace.as_json()` | convert it to lists, numbers and strings; `Trace.apply_json_to_schedule(json, sch)` replays them |
| `trace.apply_to_schedule(sch, remove_postproc)` | replay it. A `decision_provider` can change the decisions of sampling primitives |
| `trace.with_decision(inst, decision)` | the trace with another decision for one sampling primitive |
| `trace.simplified()` | the trace without instructions that have no effect |
| `trace.append(inst)`, `trace.pop()` | add an instruction, remove the last one |

## All primitives
"""


SHOWN = 3
"""The most refusals of a primitive on the page; the goldens have all."""


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
    lines = [f"### `{signature(name)}`"]
    if picture:
        lines += [*[f"    {line}" for line in picture.split("\n")], ""]
    if text:
        lines += [text, ""]
    found = rules(name)
    if len(found) == 1:
        lines += [f"Refused, for example: {found[0]}", ""]
    elif found:
        lines += ["Refused, for example:", *[f"- {r}" for r in found[:SHOWN]], ""]
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
