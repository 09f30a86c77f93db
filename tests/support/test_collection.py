"""The pause of the garbage collector."""

from __future__ import annotations

import gc

import pytest

from tilewright.support.collection import paused_collection


def test_pauses_nest_and_end_with_errors() -> None:
    assert gc.isenabled()
    with pytest.raises(ValueError), paused_collection():
        with paused_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with paused_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
