"""The request for tile registers in libraries for AMX. Linux gives them only to processes that ask for them."""

from __future__ import annotations

from functools import lru_cache

from tilewright.codegen.llvm.native.start import at_start
from tilewright.codegen.llvm.native.target_machine import compile_object
from tilewright.target import Target

ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18
"""The number of the system call arch_prctl on x86-64, and its arguments ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA."""

_ASK = f"""
define internal void @enable_tiles() nounwind {{
  %refused = call i64 asm sideeffect "syscall", "={{rax}},{{rax}},{{rdi}},{{rsi}},~{{rcx}},~{{r11}},~{{memory}}"(
    i64 {ARCH_PRCTL}, i64 {REQUEST_PERMISSION}, i64 {TILE_DATA})
  ret void
}}
"""


def has_tiles(target: Target) -> bool:
    """Whether code for the target may use tile registers."""
    return "amx-tile" in target.features


def uses_tiles(text: str) -> bool:
    """Whether LLVM IR gives tile registers their shapes, as all code that uses them does."""
    return "@llvm.x86.ldtilecfg" in text


def permission(target: Target) -> list[bytes]:
    """Objects that a library for the target holds in addition to its kernels. With AMX on Linux: one that requests tile registers when any
    process loads the library. A refusal is no error there, since the code may never use them. In this process the runtime makes the
    request, and reports a refusal."""
    wanted = has_tiles(target) and target.triple.startswith("x86_64") and "linux" in target.triple
    return [_asking(target.triple)] if wanted else []


@lru_cache(maxsize=4)
def _asking(triple: str) -> bytes:
    return compile_object(_ASK + at_start("enable_tiles", triple, 8), Target(f"llvm -mtriple={triple}"), 1)


__all__ = ["has_tiles", "permission", "uses_tiles"]
