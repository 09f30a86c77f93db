"""Names of the classic API of v0.18: all are there, but for those that docs/differences.md lists with a reason."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tilewright import as_tvm

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "differences.md"
PACKAGES, INNER = 0.98, 0.85
"""Shares of names that packages, and inner modules, have."""


def inventory() -> dict[str, list[str]]:
    """Module -> its names, and the methods of its classes as `Class.method`."""
    lines = (HERE / "classic_names.txt").read_text().splitlines()
    return {module: names.split() for module, _, names in (line.partition(": ") for line in lines)}


def listed() -> list[str]:
    """The names of the first column of the page's table."""
    table = PAGE.read_text().partition("## Names that are not here")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("|")]
    return [name for row in rows for name in row.split("`")[1::2]]


def is_there(module: object, name: str) -> bool:
    outer, _, method = name.partition(".")
    value = getattr(module, outer, None)
    return value is not None and (not method or inspect.getattr_static(value, method, None) is not None)


def loaded(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def holds(entry: str, name: str) -> bool:
    return name.startswith(f"{entry}.") or fnmatchcase(name, entry)


@pytest.fixture
def tvm_means_this_package() -> Iterator[None]:
    as_tvm.install()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    as_tvm.uninstall()


def test_names_that_are_missing_are_listed(tvm_means_this_package: None) -> None:
    known = inventory()
    parents = {name[:end] for name in known for end in range(len(name)) if name[end] == "."}
    missing, counts = [], {True: [0, 0], False: [0, 0]}
    for module, names in known.items():
        found = [name for name in names if is_there(loaded(module), name)]
        counts[module in parents][0] += len(found)
        counts[module in parents][1] += len(names)
        missing += [f"{module}.{name}".removeprefix("tvm.") for name in names if name not in found]
    entries = listed()
    assert not [name for name in missing if not any([holds(e, name) for e in entries])]
    assert not [e for e in entries if not any([holds(e, name) for name in missing])], "listed, but there"
    assert counts[True][0] >= PACKAGES * counts[True][1] and counts[False][0] >= INNER * counts[False][1]
