"""The programs of examples/: each explains itself, runs at a small size, checks its result and prints its table."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

SMALL = {
    "gemm_te.py": (
        ["64", "--seconds", "0.01"],
        ["naive", "blocking", "array packing", "write cache", "parallel", "peak"],
    ),
    "gemm_tensorir.py": (["64", "--seconds", "0.01"], ["naive", "tiles", "vectors", "registers", "packing", "peak"]),
    "tensorize_dot.py": (["64", "--seconds", "0.01"], ["vectors", "dot products"]),
    "train_digits.py": (["12"], ["epoch  12", "accuracy on 450 pictures"]),
    "byoc_c.py": (["--seconds", "0"], ["byoc_c_main_0: nn.conv2d, nn.bias_add, nn.relu, nn.max_pool2d", "same"]),
    "byoc_numpy.py": (["--seconds", "0"], ["tvmgen_default_byoc_numpy_main_1", "the same probabilities"]),
    "custom_pass.py": (["1000", "--show"], ["2 powers became products", "before", "after", "T.Let"]),
}


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("TVM_")}
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=300, check=False)


@pytest.mark.parametrize("name", SMALL)
def test_small(name: str) -> None:
    arguments, words = SMALL[name]
    done = run(name, *arguments)
    assert done.returncode == 0, done.stderr
    assert not [w for w in words if w not in done.stdout], done.stdout


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.name)
def test_help(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    monkeypatch.syspath_prepend(str(EXAMPLES))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    told = capsys.readouterr().out
    assert ended.value.code == 0
    assert told.startswith("usage: ") and "default" in told
    assert path.name in (ROOT / "docs" / "index.md").read_text()


def test_the_dot_product_without_its_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import tensorize_dot

    monkeypatch.setattr(tensorize_dot, "has_vnni", lambda: False)
    rates = tensorize_dot.compare(32, 64, 32, 0.0)
    assert list(rates) == ["vectors", "dot products"] and min(rates.values()) > 0


def test_gemm_above_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last steps are far above the first, and the page's table has the form that the program prints."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import gemm_tensorir

    rates = gemm_tensorir.climb(126, 128, 128, 0.05)
    assert rates["unrolling"] > 5 * rates["naive"] and np.isfinite(rates["peak"])
    page = (ROOT / "docs" / "gemm.md").read_text()
    assert [n for n, _ in gemm_tensorir.LADDER] == re.findall(r"^(\w+) +[\d.]+ GFLOP/s +[\d.]+ % of peak$", page, re.M)[
        1:-1
    ]
