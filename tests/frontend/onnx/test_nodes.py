"""One in twenty-four of ONNX's own backend tests, compiled and run through its runner (`make conformance` runs them all)."""

from __future__ import annotations

import unittest

import pytest

from tests.frontend.onnx.conformance import explanation, load, run_all, run_one

SHARE = 24
_tests: dict[tuple[str, str], unittest.TestCase] = {}


def backend_tests() -> dict[tuple[str, str], unittest.TestCase]:
    """All tests, loaded once."""
    if not _tests:
        _tests.update(load())
    return _tests


@pytest.mark.slow  # onnx makes the data of all its tests before the first: 15 seconds
@pytest.mark.parametrize("part", range(4))
def test_backend_tests_of_onnx(part: int) -> None:
    chosen = sorted(k for k in backend_tests() if k[0] != "light")[part * 3 :: SHARE * 4]
    failed = {name: reason for (group, name) in chosen if (reason := run_one(backend_tests()[group, name]))}
    assert {name: reason for name, reason in failed.items() if not explanation(name)} == {}


def test_what_computes_for_too_long_is_told_and_the_rest_goes_on() -> None:
    class Busy(unittest.TestCase):
        def computes(self) -> None:
            while True:
                pass

        def passes(self) -> None:
            self.assertTrue(True)

    tests = {("node", name): Busy(name) for name in ("computes", "passes")}
    found = {o.name: o.reason for o in run_all(tests, jobs=1, seconds=0.2, show=False)}
    assert found == {"computes": "it took longer than 0.2 s of the processor's time", "passes": ""}
