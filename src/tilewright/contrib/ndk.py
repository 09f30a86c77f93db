"""Linking for Android with its NDK, under the classic names. The environment variable TVM_NDK_CC names the compiler."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tilewright.contrib import cc
from tilewright.support.errors import TVMError


def _compiler() -> str:
    found = os.environ.get("TVM_NDK_CC")
    if not found:
        raise TVMError(
            "linking with the NDK needs its compiler: set TVM_NDK_CC, such as to"
            " $NDK/toolchains/llvm/prebuilt/linux-x86_64/bin/aarch64-linux-android24-clang++. Without an NDK,"
            ' export_library("lib.so") links a library of the target aarch64-linux-android, too (pip install tilewright[cross])'
        )
    return found


def create_shared(
    output: str | os.PathLike[str], objects: str | Sequence[str], options: Sequence[str] | None = None
) -> None:
    """Links objects into a shared library by the compiler that TVM_NDK_CC names. Raises TVMError with its words."""
    cc.create_shared(output, objects, ["-lm", *(options or ())], cc=_compiler())


def create_staticlib(output: str | os.PathLike[str], inputs: str | Sequence[str]) -> None:
    """Makes a static library of objects; the NDK is not needed for it."""
    cc.create_staticlib(output, inputs)


def get_global_symbol_section_map(path: str | os.PathLike[str], *, nm: str | None = None) -> dict[str, str]:
    """As that of contrib.cc, with the NDK's llvm-nm where TVM_NDK_CC names its compiler."""
    near = os.path.join(os.path.dirname(os.environ.get("TVM_NDK_CC", "")), "llvm-nm")
    return cc.get_global_symbol_section_map(path, nm=nm or (near if os.path.exists(near) else None))


create_shared.output_format = "so"  # type: ignore[attr-defined]
create_shared.get_target_triple = cc.get_target_by_dump_machine(os.environ.get("TVM_NDK_CC"))  # type: ignore[attr-defined]
create_staticlib.output_format = "a"  # type: ignore[attr-defined]
