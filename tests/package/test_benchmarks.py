"""Every benchmark can be started as `python -m benchmarks NAME [ARGS...]`."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
NAMES = sorted(p.stem for p in FOLDER.glob("*.py") if p.stem != "__main__" and "\ndef main(" in p.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_main_takes_the_arguments(name: str) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    inspect.signature(module.main).bind([])
