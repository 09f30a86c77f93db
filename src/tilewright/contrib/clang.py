"""C and C++ to LLVM IR, for tensor intrinsics written in C: by clang, or by the one in the package ziglang."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tilewright.contrib.utils import is_source_path, tempdir
from tilewright.support.errors import TVMError


def find_clang(required: bool = True) -> list[str]:
    """Commands of C compilers that give LLVM IR, the best first. Raises RuntimeError when there is none and it is required."""
    names = [os.environ.get("CLANG") or "clang", *[f"clang-{v}" for v in range(22, 13, -1)]]
    found = [path for n in names if (path := shutil.which(n))]
    if importlib.util.find_spec("ziglang") is not None:
        found.append(f"{sys.executable} -m ziglang clang")
    if required and not found:
        raise RuntimeError(
            "no C compiler that gives LLVM IR: install clang, or run pip install ziglang; CLANG may name one"
        )
    return found


def create_llvm(
    inputs: str | Sequence[str],
    output: str | os.PathLike[str] | None = None,
    options: Sequence[str] | None = None,
    cc: str | None = None,
) -> str:
    """LLVM IR of C or C++ code, as text; `sch[C].pragma(axis, "import_llvm", text)` makes its functions known.

    inputs: paths of sources, or one text of code. output: where to write it as well. Raises TVMError with the
    compiler's words.
    """
    compiler = cc.split() if cc else _command(find_clang()[0])
    temp = tempdir()
    files = []
    for number, given in enumerate([inputs] if isinstance(inputs, str) else inputs):
        if not is_source_path(given):
            path = temp.relpath(f"input{number}.cc")
            Path(path).write_text(given)
            given = path
        files.append(given)
    target = temp.relpath("output.ll")
    command = [*compiler, "-O3", "-S", "-emit-llvm", *(options or ()), "-o", target, *files]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise TVMError(f"compiling to LLVM IR failed:\n{done.stderr.strip()}")
    text = Path(target).read_text()
    if output is not None:
        Path(output).write_text(text)
    return text


def _command(text: str) -> list[str]:
    return [sys.executable, *text.split()[-3:]] if text.endswith("-m ziglang clang") else [text]
