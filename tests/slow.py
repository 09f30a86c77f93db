"""Which cases of a large family wait for `make test-slow`, so that `make test` keeps to minutes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def first_of_each(cases: Iterable[Any]) -> list[Any]:
    """The cases, ids `name-0`, `name-1`, ...; those beyond the first of a name are slow."""
    return [c if c.id.endswith("-0") else pytest.param(*c.values, id=c.id, marks=pytest.mark.slow) for c in cases]


def all_but(quick: Collection[Any], values: Iterable[Any]) -> list[Any]:
    """The values as cases; those that are not among `quick` are slow."""
    return [v if v in quick else pytest.param(v, marks=pytest.mark.slow) for v in values]


def seeds(count: int, quick: int, first: int = 0) -> list[Any]:
    """The numbers first, first + 1, ... of random programs; those beyond the first `quick` are slow."""
    return [i if i < first + quick else pytest.param(i, marks=pytest.mark.slow) for i in range(first, first + count)]
