"""The programs in README.md run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.cli.command import write_model

README = (Path(__file__).parents[2] / "README.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.S)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_program(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    weight = np.random.default_rng(0).standard_normal((4, 3, 16, 16))
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[16, 16])
    write_model(tmp_path / "model.onnx", [node], {"x": ["n", 3, "h", "w"]}, ["y"], {"w": weight})
    exec(compile(PROGRAMS[number], f"README.md, program {number + 1}", "exec"), {})


def test_links_and_targets_exist() -> None:
    root = Path(__file__).parents[2]
    for link in re.findall(r"\[[^\]\"]*\]\(([^)#:]+)\)", README):
        assert (root / link).exists(), link
    makefile = (root / "Makefile").read_text()
    for target in re.findall(r"^    make ([a-z-]+)", README, re.M):
        assert f"\n{target}: " in makefile, target
