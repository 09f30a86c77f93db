"""A network trained with gradients that relay took and compiled."""

from __future__ import annotations

import importlib.util
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_digits.py"


def test_digits_are_learned() -> None:
    spec = importlib.util.spec_from_file_location("train_digits", EXAMPLE)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    lines: list[str] = []
    assert example.train(12, lines.append) >= 0.95
    assert len(lines) == 13 and float(lines[11].split()[3]) < float(lines[0].split()[3]) / 4
