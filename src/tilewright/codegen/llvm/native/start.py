"""Functions that run when a program starts, or a library is loaded."""

from __future__ import annotations

import re


def at_start(function: str, triple: str, pointer_bytes: int) -> str:
    """LLVM IR that has a function called at the start. For ELF the section is named: LLVM would take .ctors, which only the linkers of GNU
    know, and no system runs."""
    if re.search(r"darwin|macos|ios|windows|wasm|emscripten", triple):
        entry = "{ i32, ptr, ptr }"
        return f"@llvm.global_ctors = appending global [1 x {entry}] [{entry} {{ i32 65535, ptr @{function}, ptr null }}]\n"
    return (
        f'@start_of_{function} = internal global ptr @{function}, section ".init_array", align {pointer_bytes}\n'
        f'@llvm.used = appending global [1 x ptr] [ptr @start_of_{function}], section "llvm.metadata"\n'
    )


__all__ = ["at_start"]
