"""The wheel builds where there is no C or C++ compiler, no cmake and no ninja; ziglang stands in."""

from __future__ import annotations

import os
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("cc", "gcc", "clang", "c++", "g++", "clang++", "cmake", "ninja", "make", "ld", "as")

SCRIPT = """
import numpy as np
from tilewright import runtime
import tilewright.runtime._ffi as f
assert "site-packages" in f.__file__, f.__file__
add = runtime.convert(lambda x: x.numpy().sum())
assert add(runtime.array(np.ones(3))) == 3
assert runtime.num_threads() >= 1
print("fine")
"""


@pytest.mark.slow
def test_wheel_without_a_compiler(tmp_path: Path) -> None:
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=True)
    path = tmp_path / "bin"  # the usual commands without anything that compiles or links
    path.mkdir()
    for name in (
        "sh",
        "env",
        "uname",
        "rm",
        "mkdir",
        "cp",
        "mv",
        "cat",
        "ln",
        "ls",
        "touch",
        "chmod",
        "dirname",
        "basename",
        "git",
    ):
        found = shutil.which(name)
        if found:
            (path / name).symlink_to(found)
    env = {
        k: v for k, v in os.environ.items() if k not in ("CC", "CXX", "PYTHONPATH", "VIRTUAL_ENV", "CMAKE_GENERATOR")
    }
    env["PATH"] = f"{folder / 'bin'}:{path}"
    assert all(shutil.which(tool, path=env["PATH"]) is None for tool in TOOLS)
    python = str(folder / "bin" / "python")
    source = tmp_path / "source"
    shutil.copytree(
        ROOT, source, ignore=shutil.ignore_patterns(".venv", "build", ".git", "*.so", ".*_cache", "__pycache__")
    )
    subprocess.run([python, "-m", "pip", "install", "--quiet", "numpy", "ml_dtypes"], env=env, check=True)
    subprocess.run(
        [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), str(source)], env=env, check=True
    )
    (wheel,) = tmp_path.glob("tilewright-*.whl")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", str(wheel)], env=env, check=True)
    done = subprocess.run([python, "-c", SCRIPT], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "fine\n", done.stderr
