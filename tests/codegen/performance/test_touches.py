"""Accesses of small programs, thread by thread."""

from __future__ import annotations

import pytest

import tilewright as tvm
from tilewright.codegen.performance.index_values import Unknown
from tilewright.codegen.performance.touches import touches
from tilewright.script import tir as T


@T.prim_func
def picked(a: T.Buffer((16,), "float32"), i: T.Buffer((4,), "int32"), b: T.Buffer((16,), "float32")) -> None:
    """Threads take what the indices say, where these are inside; the others copy vectors."""
    for x in T.thread_binding(2, thread="blockIdx.x"):
        for t in T.thread_binding(2, thread="threadIdx.x"):
            for v in T.vectorized(2):
                b[x * 8 + t * 2 + v] = a[x * 8 + t * 2 + v]
            if i[x * 2 + t] < 16:
                b[4 + x * 8 + t] = a[i[x * 2 + t]]


def test_touches() -> None:
    func, data = tvm.lower(tvm.IRModule.from_expr(picked))["picked"], {"i": [[5, 16], [0, 9]]}

    def elements(buffer: str, writes: bool, **threads: int) -> list[int]:
        return [t.element for t in touches(func, data, **threads) if t.buffer == buffer and t.writes == writes]

    assert elements("b", True, blockIdx_x=0, threadIdx_x=0) == [0, 1, 4]
    assert elements("b", True, blockIdx_x=0, threadIdx_x=1) == [2, 3]
    assert elements("a", False, blockIdx_x=1) == [8, 9, 0, 10, 11, 9]
    assert elements("i", False, threadIdx_x=1) == [1, 3, 3]
    (last,) = {(t.threads["blockIdx.x"], t.threads["threadIdx.x"]) for t in touches(func, data)[-1:]}
    assert last == (1, 1)
    with pytest.raises(Unknown):
        touches(func)
