"""Who evaluates frames: taken from an extension, and given back to it."""

from __future__ import annotations

import pytest

from tilewright.support import frames

CPYTHON, EXTENSION, LATER = 1, 2, 3


@pytest.fixture
def evaluator(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The evaluator of an interpreter that is none."""
    now = [EXTENSION]
    monkeypatch.setattr(frames, "_found", (lambda: now[0], lambda value: now.__setitem__(0, value), CPYTHON))
    return now


def test_an_extension_gets_its_place_back(evaluator: list[int]) -> None:
    before = frames.evaluate_frames()
    assert (before, evaluator) == (EXTENSION, [CPYTHON])
    frames.give_back(before)
    assert evaluator == [EXTENSION]


def test_nothing_is_taken_where_cpython_evaluates(evaluator: list[int]) -> None:
    evaluator[0] = CPYTHON
    before = frames.evaluate_frames()
    assert before is None
    evaluator[0] = LATER
    frames.give_back(before)
    assert evaluator == [LATER]


def test_what_another_thread_put_there_meanwhile_stays(evaluator: list[int]) -> None:
    before = frames.evaluate_frames()
    evaluator[0] = LATER
    frames.give_back(before)
    assert evaluator == [LATER]
