"""The pages of the architecture name the folders and modules that are there, and every package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_layers import ROOT

TOP = Path(__file__).resolve().parents[2]
PAGES = [TOP / "docs" / "architecture.md", *sorted((TOP / "docs" / "rooms").glob("*.md"))]
FOLDERS = {path.name for path in [*TOP.iterdir(), *ROOT.iterdir()] if path.is_dir()}


def is_there(path: str) -> bool:
    return any((top / path).exists() or (top / f"{path}.py").exists() for top in (TOP, ROOT))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_paths_that_a_page_names_are_there(page: Path) -> None:
    named = set(re.findall(r"`(\w+/[\w./]*)`", page.read_text()))
    assert [path for path in sorted(named) if path.split("/")[0] in FOLDERS and not is_there(path)] == []


def test_every_package_is_on_a_page() -> None:
    text = "\n".join([page.read_text() for page in PAGES])
    packages = [path.parent.relative_to(ROOT).as_posix() for path in ROOT.rglob("*/__init__.py")]
    assert [p for p in sorted(packages) if not re.search(rf"(?<![\w/]){re.escape(p)}(?!\w)", text)] == []
