"""Linking with the system's C compiler, under the classic names; without one, the package's own way to link.

The functions are made for `export_library(path, fcompile=...)`. Their attributes say what it gives them: `output_format`, the suffix of
what they write; `get_target_triple`, a function that tells the machine of their code.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tilewright.contrib import tar as _tar
from tilewright.contrib import utils as _utils
from tilewright.runtime.linking.archive_file import archive
from tilewright.runtime.linking.c_source import compiler_command
from tilewright.support.errors import TVMError
from tilewright.support.files import write_whole
from tilewright.support.linker import link_shared

Options = Sequence[str] | None
Triple = Callable[[], str | None]


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
    _run([*_words(compiler), *shared, "-fPIC", "-o", os.fspath(output), *files, *(options or ())], cwd, ccache_env)


def create_staticlib(output: str | os.PathLike[str], inputs: str | Sequence[str], ar: str | None = None) -> None:
    """Makes a static library of objects; those in a .tar among the inputs come along. ar: a program that writes it instead of us. Raises
    TVMError with its words."""
    files = [inputs] if isinstance(inputs, str) else list(inputs)
    temp = _utils.tempdir()
    files = _tar.normalize_file_list_by_unpacking_tars(temp, files)
    if ar is not None:
        _run([ar, "qcs", os.fspath(output), *files], None, None)
        return
    write_whole(output, archive({Path(f).name: Path(f).read_bytes() for f in files}))


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
    command = _words(compiler) if compiler is not None else compiler_command("c++")
    _run([*command, "-o", os.fspath(output), *files, *(options or ())], cwd, ccache_env)


def get_target_by_dump_machine(compiler: str | None) -> Triple:
    """A function that returns the triple that a compiler tells of its code (-dumpmachine); None where it tells none."""

    def get_target_triple() -> str | None:
        if not compiler:
            return None
        try:
            done = subprocess.run([*_words(compiler), "-dumpmachine"], capture_output=True, text=True, check=False)
        except OSError:
            return None
        return done.stdout.strip() or None if done.returncode == 0 else None

    return get_target_triple


def cross_compiler(
    compile_func: str | Callable[..., Any],
    options: Options = None,
    output_format: str | None = None,
    get_target_triple: Triple | None = None,
    add_files: Sequence[str] | None = None,
) -> Callable[..., None]:
    """A function for `export_library(path, fcompile=...)` that compiles for another machine.

    compile_func: a compiler's command, or a function like `create_shared`. options: flags for it. output_format: the suffix of what it
    writes, "so" by default. get_target_triple: tells the machine of its code; the compiler itself is asked by default. add_files: objects
    or sources that are compiled in.

        lib.export_library("net.so", fcompile=cc.cross_compiler("aarch64-linux-gnu-g++"))
    """
    base, kept, added = list(options or ()), {}, list(add_files or ())
    command = compile_func if isinstance(compile_func, str) else None
    if isinstance(compile_func, str):
        kept["cc"] = compile_func
        get_target_triple = get_target_triple or get_target_by_dump_machine(compile_func)
        call: Callable[..., Any] = create_shared
    else:
        call = compile_func
        get_target_triple = get_target_triple or getattr(compile_func, "get_target_triple", None)
    form = output_format or getattr(call, "output_format", "so")

    def fcompile(outputs: str, objects: str | Sequence[str], options: Options = None, **kwargs: Any) -> None:
        files = [objects] if isinstance(objects, str) else list(objects)
        given = [*base, *([options] if isinstance(options, str) else options or ())]
        call(outputs, [*files, *added], **({"options": given} if given else {}), **{**kept, **kwargs})

    fcompile.output_format = form  # type: ignore[attr-defined]
    fcompile.get_target_triple = get_target_triple  # type: ignore[attr-defined]
    if command is not None:
        fcompile.cc = command  # type: ignore[attr-defined]
    for name in ("object_format", "need_system_lib"):
        if hasattr(call, name):
            setattr(fcompile, name, getattr(call, name))
    return fcompile


def get_global_symbol_section_map(path: str | os.PathLike[str], *, nm: str | None = None) -> dict[str, str]:
    """The global symbols of an object or a library, and the sections that they are in as `nm` shows them: T code, D data, R read only,
    ... Raises TVMError with the words of `nm`."""
    command = nm or shutil.which("nm") or shutil.which("llvm-nm")
    if command is None:
        raise TVMError(
            f"the symbols of {path} are listed by nm, and this machine has none: install binutils, or give nm="
        )
    found: dict[str, str] = {}
    for line in _run([command, "-g", "--defined-only", os.fspath(path)], None, None).splitlines():
        words = line.split()
        if len(words) == 3:
            found[words[2]] = words[1]
    return found


def _words(command: str) -> list[str]:
    return [command] if os.path.exists(command) else shlex.split(command)


def _run(command: list[str], cwd: str | None, extra: dict[str, str] | None) -> str:
    env = {**os.environ, **extra} if extra else None
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, cwd=cwd, env=env)
    except OSError as error:
        raise TVMError(f"{command[0]} cannot be run: {error.strerror}") from error
    if done.returncode:
        raise TVMError(f"{' '.join(command)} failed:\n{done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


create_shared.output_format = "dylib" if sys.platform == "darwin" else "so"  # type: ignore[attr-defined]
create_shared.get_target_triple = get_target_by_dump_machine(os.environ.get("CXX", get_cc()))  # type: ignore[attr-defined]
create_staticlib.output_format = "a"  # type: ignore[attr-defined]

__all__ = [
    "create_executable", "create_shared", "create_staticlib", "cross_compiler", "get_cc", "get_global_symbol_section_map",
    "get_target_by_dump_machine",
]  # fmt: skip
