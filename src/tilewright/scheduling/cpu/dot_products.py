"""Contractions of narrow numbers, computed by instructions that multiply a few pairs and add them up at once.

A product whose operands are narrower than its sums is written in groups: its last reduction axis has the length of the
instruction's group, and runs over adjacent elements in both operands. In the constant operand, packed at compile time,
the axis before it is the axis of the sums:

    C[.., n] += cast(A[.., k * group + g]) * cast(B[.., k, n, g])

    B of dense: [n // nr][k][n % nr][g]          of conv2d: [n // block][..][kh][kw][k][n % block][g]

`INSTRUCTIONS` is the table of instructions: the types of A, B and C, the number of pairs that an instruction adds up
(`group`), the number of sums (`lanes`), the tensor intrinsic (tilewright.tir.tensor_intrin describes its computation in
loops, and its implementation), and the processors that have it. It is used twice:

- where weights are packed (relay/transform/layout/alter_layout.py, the layout rules of relay/op/convolution/conv.py),
  `dot_product(target, A, B, C)` decides whether to write a product in groups, and for how many lanes;
- the schedule (`schedule_contraction`) uses `dot_product_of(block, target)`. Register tile, order of loops and epilogue are
  those of every contraction; only the innermost lanes x group loops, elsewhere one vector, are tensorized.

A new type or instruction needs one line in the table, and its intrinsic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewright.ir import IntImm
from tilewright.scheduling.cpu.kernel import BlockView, uses
from tilewright.target import Target
from tilewright.target.cpu import CpuFacts
from tilewright.tir import FloorMod, PrimExpr
from tilewright.tir.tensor_intrin import arm, x86
from tilewright.tir.tensor_intrin.dot_product import LOCAL


@dataclass(frozen=True)
class DotProduct:
    """C[lane] += sum over group of A[group] * B[lane, group], by the tensor intrinsic `intrin` (of sums in scope "global")."""

    data: str
    weight: str
    out: str
    group: int
    lanes: int
    intrin: str
    available: Callable[[CpuFacts], bool]

    @property
    def local(self) -> str:
        """The intrinsic for sums in scope "local", where schedules keep accumulators."""
        return self.intrin + LOCAL


def _wide_vnni(cpu: CpuFacts) -> bool:
    return cpu.avx512 and "avx512vnni" in cpu.features


def _vnni(cpu: CpuFacts) -> bool:
    return cpu.arch == "x86" and cpu.vnni


def _wide_words(cpu: CpuFacts) -> bool:
    return cpu.avx512


def _words(cpu: CpuFacts) -> bool:
    return cpu.arch == "x86" and cpu.avx2


def _fast_bfloats(cpu: CpuFacts) -> bool:
    # Where there is AMX, this instruction has half the rate of float32's multiply-adds; elsewhere twice.
    return cpu.avx512 and cpu.avx512_bf16 and not cpu.amx_bf16


def _arm(feature: str) -> Callable[[CpuFacts], bool]:
    return lambda cpu: cpu.arch == "aarch64" and feature in cpu.features


BYTES, BFLOATS = x86.BYTES, x86.BFLOATS
INSTRUCTIONS = (
    DotProduct(*BYTES, 4, 16, x86.VNNI_DOT_16x4_INTRIN, _wide_vnni),
    DotProduct(*BYTES, 4, 8, x86.VNNI_DOT_8x4_INTRIN, _vnni),
    DotProduct(*BYTES, 4, 4, x86.VNNI_DOT_4x4_INTRIN, _vnni),
    DotProduct(*BYTES, 4, 16, x86.AVX512_DOT_16x4_INTRIN, _wide_words),
    DotProduct(*BYTES, 4, 8, x86.AVX2_DOT_8x4_INTRIN, _words),
    DotProduct(*BYTES, 4, 4, x86.SSE2_DOT_4x4_INTRIN, _words),
    DotProduct(*BFLOATS, 2, 16, x86.AVX512_DOT_16x2_BF16_INTRIN, _fast_bfloats),
    DotProduct(*BFLOATS, 2, 8, x86.AVX512_DOT_8x2_BF16_INTRIN, _fast_bfloats),
    DotProduct(*BFLOATS, 2, 4, x86.AVX512_DOT_4x2_BF16_INTRIN, _fast_bfloats),
    DotProduct(*arm.SIGNED, 4, 4, arm.SDOT_4x4_INTRIN, _arm("dotprod")),
    DotProduct(*arm.MIXED, 4, 4, arm.USDOT_4x4_INTRIN, _arm("i8mm")),
    DotProduct(*arm.BFLOATS, 2, 4, arm.BFDOT_4x2_INTRIN, _arm("bf16")),
)
"""Among instructions with the same types, better ones come before worse ones, and wider ones before narrower ones."""


def dot_products(target: Target | None, data: str, weight: str, out: str) -> list[DotProduct]:
    """The instructions of a target for operands and sums of these types, the best first; none without a target."""
    if target is None or not target.cpu.intrinsics:
        return []
    wanted = (str(data), str(weight), str(out))
    return [d for d in INSTRUCTIONS if (d.data, d.weight, d.out) == wanted and d.available(target.cpu)]


def dot_product(target: Target | None, data: str, weight: str, out: str, columns: int = 0) -> DotProduct | None:
    """The best instruction whose lanes divide `columns`, or None."""
    return next((d for d in dot_products(target, data, weight, out) if columns % d.lanes == 0), None)


def dot_product_of(block: BlockView, target: Target) -> DotProduct | None:
    """The instruction for a block's innermost lanes x group products; None if it is not written in groups."""
    if not block.reduction or not block.spatial or block.block.init is None or len(block.block.reads) != 2:
        return None
    if len(block.block.writes) != 1:
        return None
    group, vector = block.reduction[-1], block.spatial[-1]
    data, weight = block.block.reads
    # One number for all sums, which has no axis, is no row of groups.
    if len(weight.region) < 2 or not data.region or weight.region[-1].min is not group.var:
        return None
    if vector.var in uses(data.region[-1].min).vars:
        return None
    along = weight.region[-2].min
    write = block.block.writes[0]
    if lane_of(along) is not vector.var or write.region[-1].min is not vector.var:
        return None
    extent = panel_of(along) or block.extents[block.block.iter_vars.index(vector)]
    pairs = block.extents[block.block.iter_vars.index(group)]
    found = dot_product(target, str(data.buffer.dtype), str(weight.buffer.dtype), str(write.buffer.dtype), extent)
    return found if found is not None and found.group == pairs else None


def lane_of(index: PrimExpr) -> PrimExpr:
    """The variable v of an index v, or v % panel."""
    return index.a if isinstance(index, FloorMod) else index


def panel_of(index: PrimExpr) -> int | None:
    """The width of a panel, from an index v % width."""
    return index.b.value if isinstance(index, FloorMod) and isinstance(index.b, IntImm) else None
