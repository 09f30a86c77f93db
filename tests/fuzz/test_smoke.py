"""Twenty programs of the fuzzer, and what it says about a failure."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.fuzz import check as fuzz


@pytest.mark.parametrize("seed", range(20))
def test_program(seed: int) -> None:
    fuzz.check(seed, fuzz.steps_of(seed))


def test_failure_is_reduced_and_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that cannot take steps 3 and 7 together."""

    def check(seed: int, steps: list[int]) -> list[str]:
        if {3, 7} <= set(steps):
            raise fuzz.Mismatch("the pass Fuse", "AssertionError: parameter 1", "the program before it")
        return []

    with pytest.raises(fuzz.Mismatch) as caught:
        check(5, list(range(8)))
    steps, failure = fuzz.smallest(check, 5, list(range(8)), caught.value)
    assert steps == [3, 7]
    text = fuzz.report(5, steps, failure)
    assert text.startswith(
        "seed 5: the pass Fuse went wrong: AssertionError: parameter 1\n"
        "repeat it: python -m tests.fuzz --seed 5 --count 1 --steps 3,7\n"
    )
    assert text.endswith("--- before the pass Fuse\nthe program before it")


def test_comparison_refuses_a_wrong_element() -> None:
    import numpy as np

    left: list[Any] = [np.arange(4, dtype="int32"), 3]
    fuzz.compare(left, [np.arange(4, dtype="int32"), 3])
    with pytest.raises(AssertionError, match="parameter 0"):
        fuzz.compare(left, [np.array([0, 1, 2, 4], "int32"), 3])


def test_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--count", "2", "--seed", "3"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "2 programs from seed 3" in done.stderr
