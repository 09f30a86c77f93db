"""Blocks around the loop that a buffer moves into do not name it any more."""

from __future__ import annotations

import tilewright as tvm
from tilewright.tir import Block
from tilewright.tir.stmt_functor import post_order_visit

TEXT = """@T.prim_func
def f(A: T.Buffer((4, 8), "float32")):
    with T.block("root"):
        B = T.alloc_buffer((4, 8), "float32")
        with T.block("outer"):
            T.reads(A[0:4, 0:8], B[0:4, 0:8])
            T.writes(A[0:4, 0:8], B[0:4, 0:8])
            for i in T.parallel(4):
                for j in range(8):
                    B[i, j] = A[i, j]
                for j in range(8):
                    A[i, j] = B[i, j] * T.float32(2)
"""


def test_regions() -> None:
    mod = tvm.IRModule({"main": tvm.script.from_source(TEXT)})
    after = tvm.tir.transform.PlanAndUpdateBufferAllocationLocation()(mod)["main"]
    blocks: list[Block] = []
    post_order_visit(after.body, lambda n: blocks.append(n) if isinstance(n, Block) else None)
    outer = next(b for b in blocks if b.name_hint == "outer")
    assert [r.buffer.name for r in (*outer.reads, *outer.writes)] == ["A", "A"]
    assert [b.name for b in blocks if b.name_hint == "" for b in b.alloc_buffers] == ["B"]
    tvm.ir.assert_structural_equal(tvm.script.from_source(after.script()), after)
