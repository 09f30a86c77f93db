"""Programs run under `import tvm`: the quick ones in this process, and with `make test-slow` each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilewright import as_tvm

HERE = Path(__file__).parent
PROGRAMS = sorted(p for p in HERE.glob("*/*.py"))
LONG = """auto_scheduler/convolution auto_scheduler/matmul_without_template auto_scheduler/network auto_scheduler/own_sketch
auto_scheduler/product_and_log autotvm/network_for_arm autotvm/network_for_x86 autotvm/simple_template byoc/own_code_generator
driver/tvmc_driver meta_schedule/tensor_program rpc/board_by_rpc runtime/executors schedule/course_notebook te/own_intrinsics
te/stage_primitives te/tensorize_in_c testing/parameters_in_classes contrib/programs_in_pytorch""".split()
"""Programs that tune, run pytest or other compilers, or wait for servers: they take seconds."""

NEEDS = {"contrib/programs_in_pytorch": "torch", "frontend/from_pytorch": "torch"}
"""Programs that need an optional package."""


def named(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def needed(path: Path) -> None:
    if named(path) in NEEDS:
        pytest.importorskip(NEEDS[named(path)])


@pytest.fixture
def tvm_means_this_package() -> Iterator[None]:
    main = sys.modules["__main__"]
    as_tvm.install()
    yield
    as_tvm.uninstall()
    sys.modules["__main__"] = main


@pytest.mark.parametrize("path", [p for p in PROGRAMS if named(p) not in LONG], ids=named)
def test_program(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tvm_means_this_package: None) -> None:
    needed(path)
    monkeypatch.chdir(tmp_path)
    as_tvm.run_script(str(path))


@pytest.mark.slow
@pytest.mark.parametrize("path", PROGRAMS, ids=named)
def test_program_by_itself(path: Path, tmp_path: Path) -> None:
    needed(path)
    assert "tilewright" not in path.read_text()
    command = [sys.executable, "-m", "tilewright.as_tvm", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
