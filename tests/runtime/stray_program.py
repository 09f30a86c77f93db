"""A kernel that reads outside of its array, as a program in a file has it."""

from __future__ import annotations

from tilewright.script import tir as T


@T.prim_func
def stray(x: T.Buffer((100,), "float32"), y: T.Buffer((100,), "float32")) -> None:
    for b in T.thread_binding(4, thread="blockIdx.x"):
        for t in T.thread_binding(32, thread="threadIdx.x"):
            y[b * 32 + t] = x[b * 32 + t] * T.float32(2)


LINE = f"{__file__}:12:"
"""Where it reads."""
