"""A short form of `make soak-rpc`."""

from __future__ import annotations

from tests.rpc import soak


def test_many_clients_and_few_boards() -> None:
    assert soak.run(24, 3, 3.0, hold=0.02) == []
