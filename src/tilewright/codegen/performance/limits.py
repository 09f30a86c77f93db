"""Limits of NVIDIA's architectures: kernels that exceed one are refused before their code is compiled."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.performance.accesses import Program
from tilewright.ir import IntImm, IRModule
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.target.gpu import NVIDIA
from tilewright.tir import PrimFunc

BLOCK = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
GRID = {"blockIdx.x": (1 << 31) - 1, "blockIdx.y": 65535, "blockIdx.z": 65535}
"""Extents of grids, the same for all (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability")."""
_REMEDY = {
    "threadIdx": "split the loop that is bound to it, and keep a part as a loop of each thread",
    "blockIdx": "bind the loop to blockIdx.x, or split it",
}


def shared_memory_of(storage: Sequence[tuple[str, str, int]]) -> tuple[int, int]:
    """Bytes of (static, dynamic) shared memory among allocations (name, scope, bytes)."""
    static = sum([size for _, scope, size in storage if scope == "shared"])
    return static, sum([size for _, scope, size in storage if scope == "shared.dyn"])


def check_limits(kernels: IRModule, target: Target) -> None:
    """TVMError for the first kernel that no block of the target's architecture can run; nothing for targets of which none is known."""
    if target.kind.name in NVIDIA:
        for func in kernels.functions.values():
            if isinstance(func, PrimFunc):
                _check(func, target)


def _check(func: PrimFunc, target: Target) -> None:
    name, gpu, program = str(func.attrs["global_symbol"]), target.gpu, Program(func)

    def refuse(needs: str, has: str, remedy: str) -> TVMError:
        return TVMError(f"kernel {name!r} needs {needs}, but {gpu.arch} has {has}; {remedy} (target: {target})")

    extents = {tag: e.value for tag, e in program.axes.items() if isinstance(e, IntImm)}
    along = {**dict(zip(BLOCK, gpu.max_threads_along, strict=True)), **GRID}
    for tag, extent in extents.items():
        most = along.get(tag)
        if most is not None and extent > most:
            raise refuse(f"{tag} up to {extent}", f"at most {most}", _REMEDY[tag.partition(".")[0]])
    threads = 1
    for tag in BLOCK:
        threads *= extents.get(tag, 1)
    if threads > gpu.max_threads_per_block:
        raise refuse(
            f"{threads} threads in a block",
            f"at most {gpu.max_threads_per_block}",
            "let each thread compute more elements",
        )
    static, dynamic = shared_memory_of(program.storage)
    largest = ", ".join([f"{n} {size}" for n, scope, size in _largest(program.storage) if scope.startswith("shared")])
    if static > gpu.shared_memory_per_block:
        raise refuse(
            f"{static} bytes of static shared memory ({largest})",
            f"{gpu.shared_memory_per_block}",
            f'put it into scope "shared.dyn", of which a block may have {gpu.shared_memory_per_block_optin}, or take smaller tiles',
        )
    if static + dynamic > gpu.shared_memory_per_block_optin:
        raise refuse(
            f"{static + dynamic} bytes of shared memory ({largest})",
            f"{gpu.shared_memory_per_block_optin} for a block",
            "take smaller tiles or fewer stages of the pipeline",
        )
    # Fragments of matrix units lie in registers only: a warp's are spread over its 32 threads.
    needed = -(-sum([size for _, scope, size in program.storage if scope.startswith("wmma.")]) // (4 * 32))
    if needed > gpu.max_registers_per_thread:
        raise refuse(
            f"{needed} registers of each thread for its fragments",
            f"at most {gpu.max_registers_per_thread}",
            "give a warp fewer fragments, and a block more warps",
        )
    if needed * threads > gpu.registers_per_block:
        raise refuse(
            f"{needed * threads} registers of a block for its fragments",
            f"{gpu.registers_per_block}",
            "give a warp fewer fragments, or a block fewer warps",
        )


def _largest(storage: Sequence[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    return sorted(storage, key=lambda entry: -entry[2])[:4]


__all__ = ["check_limits", "shared_memory_of"]
