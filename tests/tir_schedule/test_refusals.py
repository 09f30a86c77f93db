"""Messages of every primitive: the rule, what was found, and the program with the culprit underlined; all text is golden."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.tir_schedule.refusals import REFUSALS
from tilewright.support.errors import ScheduleError
from tilewright.tir.schedule import InstructionKind, Schedule

NAMES = sorted({name for name, _, _ in REFUSALS})


def messages(primitive: str) -> list[str]:
    """The text of each error of a primitive; the program is as it was."""
    out = []
    for name, program, call in REFUSALS:
        if name != primitive:
            continue
        s = Schedule(program(), debug_mask="all")
        with pytest.raises(ScheduleError) as caught:
            call(s)
        text = str(caught.value)
        assert text.startswith(f"{primitive}: "), text
        out.append(text.split("\n --> ")[0])
    return out


@pytest.mark.parametrize("name", NAMES)
def test_messages(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"refused_{name}", "\n\n".join(messages(name)))


ALWAYS = set(
    "get_child_blocks get_producers get_consumers get_output_blocks sample_compute_location cache_index unroll "
    "enter_postproc merge_axes".split()
)


def test_every_primitive_with_rules_has_a_refusal() -> None:
    assert {k.method for k in InstructionKind.registry.values()} - set(NAMES) == ALWAYS
