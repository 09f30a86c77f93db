"""Libraries for Windows (DLLs), linked by zig without Microsoft's or MinGW's runtime library."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tilewright.support.errors import TVMError

SUPPORT = """
    .intel_syntax noprefix
    .globl ___chkstk_ms
    .globl __chkstk
    .globl _fltused
___chkstk_ms:
__chkstk:
    push rcx
    push rax
    cmp rax, 4096
    lea rcx, [rsp + 24]
    jb 2f
1:  sub rcx, 4096
    test [rcx], rcx
    sub rax, 4096
    cmp rax, 4096
    ja 1b
2:  sub rcx, rax
    test [rcx], rcx
    pop rax
    pop rcx
    ret
    .set _fltused, 1
"""
"""Touches each page of a large stack frame in turn (x86-64): rax is the size of the frame, and no register is changed."""

_MEMORY = [
    "memchr", "memcmp", "memcpy", "memmove", "memset", "calloc", "free", "malloc", "realloc", "_aligned_free", "_aligned_malloc",
    "abort",
]  # fmt: skip
_MATHEMATICS = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh", "erf", "erfc", "exp",
    "exp2", "expm1", "fdim", "floor", "fma", "fmax", "fmin", "fmod", "hypot", "ilogb", "ldexp", "lgamma", "log", "log10", "log1p",
    "log2", "logb", "lrint", "lround", "modf", "nearbyint", "nextafter", "pow", "remainder", "rint", "round", "scalbn", "sin",
    "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc", "llrint", "llround",
]  # fmt: skip
FUNCTIONS = [*_MEMORY, *_MATHEMATICS, *[name + "f" for name in _MATHEMATICS]]
"""Functions of the system's C library (ucrtbase.dll) that compiled code may call."""
_WEAK = ("__tilewright_context", "__tvm_ffi__library_ctx")
"""Data that several objects of a library define, which the linker does not export by itself."""


def support_files(zig: Sequence[str], folder: Path) -> list[str]:
    """Files that every library for x86-64 is linked with, written into a folder. Raises TVMError with zig's words."""
    source, names = folder / "support.S", folder / "ucrtbase.def"
    source.write_text(SUPPORT)
    names.write_text("\n".join(["LIBRARY ucrtbase.dll", "EXPORTS", *FUNCTIONS, ""]))
    files = [str(folder / "support.obj"), str(folder / "ucrtbase.lib")]
    _run([*zig, "cc", "-target", "x86_64-windows-gnu", "-c", str(source), "-o", files[0]])
    _run([*zig, "dlltool", "-m", "i386:x86-64", "-d", str(names), "-l", files[1]])
    return files


def options(objects: Sequence[Path]) -> list[str]:
    """Options of lld-link for a library of these objects that exports all that they define."""
    data = [path.read_bytes() for path in objects]
    shared = [f"-export:{name},DATA" for name in _WEAK if any(name.encode() + b"\0" in d for d in data)]
    return ["-dll", "-noentry", "-lldmingw", "-export-all-symbols", *shared]


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise TVMError(f"a library for Windows cannot be linked: {' '.join(command)} says\n{done.stderr.strip()}")
