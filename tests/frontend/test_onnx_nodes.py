"""Every twelfth of ONNX's own backend tests, compiled and run through its runner (`make conformance` runs them all)."""

from __future__ import annotations

import unittest

import pytest

from tests.frontend.conformance import explanation, load, run_one

SHARE = 12
_tests: dict[tuple[str, str], unittest.TestCase] = {}


def tests() -> dict[tuple[str, str], unittest.TestCase]:
    """All tests, loaded once."""
    if not _tests:
        _tests.update(load())
    return _tests


@pytest.mark.parametrize("part", range(4))
def test_backend_tests_of_onnx(part: int) -> None:
    chosen = sorted(k for k in tests() if k[0] != "light")[part * 3 :: SHARE * 4]
    failed = {name: reason for (group, name) in chosen if (reason := run_one(tests()[group, name]))}
    assert {name: reason for name, reason in failed.items() if not explanation(name)} == {}
