"""Programs as readers of the classic documentation write them: each runs under `import tvm`, and checks its own results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
SLOW = (
    "auto_scheduler_conv",
    "auto_scheduler_network",
    "matmul_without_template",
    "meta_schedule_tensor_program",
    "tune_network_x86",
)
"""Programs that tune for seconds; others of the same interfaces stay."""


@pytest.mark.parametrize(
    "path", [pytest.param(p, marks=pytest.mark.slow) if p.stem in SLOW else p for p in PROGRAMS], ids=lambda p: p.stem
)
def test_program(path: Path, tmp_path: Path) -> None:
    text = path.read_text()
    assert "import tvm\n" in text and "tilewright" not in text
    command = [sys.executable, "-m", "tilewright.as_tvm", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "ok"
