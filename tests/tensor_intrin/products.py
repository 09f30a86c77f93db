"""Products by mma: tiles go from shared memory to registers by ldmatrix, and sums from registers to memory."""

from __future__ import annotations

from typing import Any

from tilewright import te, tir
from tilewright.ir import DataType
from tilewright.tir.schedule import Schedule
from tilewright.tir.tensor_intrin import mma, mma_layouts

TYPES = [
    ("float16", "float32"), ("float16", "float16"), ("bfloat16", "float32"), ("float32", "float32"), ("int8", "int32"),
    ("uint8", "int32"), ("float8_e4m3fn", "float32"), ("float8_e5m2", "float32"),
]  # fmt: skip
"""Types of operands and of sums."""


def plain(dtype: str, sums: str, trans_a: bool, trans_b: bool, m: int = 32, n: int = 16) -> tir.PrimFunc:
    k = 2 * mma_layouts.K_DIMS[DataType(dtype).bits]
    a = te.placeholder((k, m) if trans_a else (m, k), dtype, name="A")
    b = te.placeholder((n, k) if trans_b else (k, n), dtype, name="B")
    r = te.reduce_axis((0, k), "k")

    def term(i: Any, j: Any) -> Any:
        left, right = a[r, i] if trans_a else a[i, r], b[j, r] if trans_b else b[r, j]
        return te.sum(left.astype(sums) * right.astype(sums), axis=r)

    return te.create_prim_func([a, b, te.compute((m, n), term, name="C")])


def scheduled(
    func: tir.PrimFunc, dtype: str, sums: str, trans_a: bool, trans_b: bool, scope: str = "shared", simple: bool = True
) -> Schedule:
    """One warp computes each tile of 16 x 16."""
    names = mma.get_mma_intrin_group(scope, "global", dtype, sums, trans_a, trans_b, simple)
    k_dim = mma_layouts.K_DIMS[DataType(dtype).bits]
    s = Schedule(func, debug_mask="all")
    block = s.get_block("C")
    sizes = zip(s.get_loops(block), (16, 16, k_dim), strict=True)
    (i0, i), (j0, j), (k0, k) = [s.split(loop, [None, size]) for loop, size in sizes]
    s.reorder(i0, j0, k0, i, j, k)
    s.bind(i0, "blockIdx.y")
    s.bind(j0, "blockIdx.x")
    out = s.cache_write(block, 0, "warp")
    s.reverse_compute_at(out, j0)
    for operand, (name, trans) in enumerate((("A", trans_a), ("B", trans_b))):
        shared, registers = s.cache_read(block, operand, scope), s.cache_read(block, operand, "warp")
        s.compute_at(registers, k0)
        s.compute_at(shared, k0)
        fused = s.fuse(*s.get_loops(shared)[-2:])
        _, thread, vector = s.split(fused, [None, 32, 16 // DataType(dtype).bytes])
        s.bind(thread, "threadIdx.x")
        s.vectorize(vector)
        rows, columns = mma_layouts.operand_shape(k_dim, name, trans)
        place = mma_layouts.operand_layout(k_dim, name, trans)
        s.transform_layout(
            registers,
            ("write", 0),
            lambda x, y: [x // rows, y // columns, *place(x % rows, y % columns)],
        )
        s.tensorize(s.get_loops(registers)[-2], names[f"load_{name.lower()}"])
    sums_at = mma_layouts.shared_16x16_to_ldmatrix_32x8_layout
    s.transform_layout(out, ("read", 0), lambda x, y: [x // 16, y // 16, *sums_at(x % 16, y % 16)])
    start = s.decompose_reduction(block, k0)
    s.tensorize(s.get_loops(start)[-2], names["init"])
    s.tensorize(i, names["compute"])
    s.tensorize(s.get_loops(out)[-2], names["store"])
    return s


__all__ = ["TYPES", "plain", "scheduled"]
