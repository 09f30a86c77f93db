"""Linking with the system's C compiler, under the classic names; without one, the package's own way to link."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tilewright.runtime.linking.c_source import compiler_command
from tilewright.support.errors import TVMError
from tilewright.support.linker import link_shared


def get_cc() -> str | None:
    """The C++ compiler of CXX or CC, or one that is found; None when there is none."""
    candidates = [os.environ.get("CXX"), os.environ.get("CC"), "g++", "gcc", "clang++", "clang", "c++", "cc"]
    return next((found for c in candidates if c and (found := shutil.which(c))), None)


def create_shared(
    output: str | os.PathLike[str],
    objects: str | Sequence[str],
    options: Sequence[str] | None = None,
    cc: str | None = None,
    cwd: str | None = None,
    ccache_env: dict[str, str] | None = None,
) -> None:
    """Links objects (or C sources, with a compiler) into a shared library. Raises TVMError with the compiler's words."""
    files = [objects] if isinstance(objects, str) else list(objects)
    compiler = cc or get_cc()
    if compiler is None:
        if options or any([not f.endswith((".o", ".obj")) for f in files]):
            raise TVMError(f"making {output} needs a C compiler, and this machine has none: set CXX, or give cc=")
        link_shared([Path(cwd or ".", f) for f in files], Path(cwd or ".", output))
        return
    shared = ["-dynamiclib", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    _run([compiler, *shared, "-fPIC", "-o", os.fspath(output), *files, *(options or ())], cwd, ccache_env)


def create_executable(
    output: str | os.PathLike[str],
    objects: str | Sequence[str],
    options: Sequence[str] | None = None,
    cc: str | None = None,
    cwd: str | None = None,
    ccache_env: dict[str, str] | None = None,
) -> None:
    """Makes a program of objects, or of C and C++ sources, by the machine's compiler, or the one in the package ziglang. Raises TVMError
    with the compiler's words, or when there is no compiler."""
    files = [objects] if isinstance(objects, str) else list(objects)
    compiler = cc or get_cc()
    command = [compiler] if compiler is not None else compiler_command("c++")
    _run([*command, "-o", os.fspath(output), *files, *(options or ())], cwd, ccache_env)


def _run(command: list[str], cwd: str | None, extra: dict[str, str] | None) -> None:
    env = {**os.environ, **extra} if extra else None
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, cwd=cwd, env=env)
    if done.returncode:
        raise TVMError(f"{' '.join(command)} failed:\n{done.stderr.strip() or done.stdout.strip()}")
