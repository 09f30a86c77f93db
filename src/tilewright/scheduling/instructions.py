"""Instructions that compute products of narrow numbers: tables by types and processors.

A product whose operands are narrower than its sums is written in groups: its last reduction axis has the length of the
instruction's group, and runs over adjacent elements in both operands. In the constant operand, packed at compile time,
the axis before it is the axis of the sums:

    C[.., n] += cast(A[.., k * group + g]) * cast(B[.., k, n, g])

    B of dense: [n // nr][k][n % nr][g]          of conv2d: [n // block][..][kh][kw][k][n % block][g]

`INSTRUCTIONS` lists dot products: the types of A, B and C, the number of pairs that an instruction adds up (`group`), the
number of sums (`lanes`), the tensor intrinsic (tilewright.tir.tensor_intrin describes its computation in loops, and its
implementation), and the processors that have it. `TILES` lists registers of whole tiles (AMX): for these the rows of A must
be stored as they are multiplied, the elements of each group adjacent, rows at a constant distance; so rows that no tile
divides are filled up by a copy of A.

Where weights are packed (relay/transform/alter_layout.py, the layout rules of convolutions), and where a plan decides forms
of products, the tables say whether a product is written in groups; schedules find the instruction for a block's loops
(scheduling/cpu/dot_products.py, tile_products.py). A new type or instruction needs one line here, and its intrinsic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.scheduling.cost import divisors
from tilewright.target import Target
from tilewright.target.core import Core
from tilewright.target.cpu import CpuFacts
from tilewright.tir.tensor_intrin import arm_cpu, wasm, x86
from tilewright.tir.tensor_intrin.amx import KINDS, SIDE
from tilewright.tir.tensor_intrin.dot_product import BYTES, LOCAL


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
    cost: float = 0.4
    """Time, in that of a multiplication and an addition of vectors of int32, with bytes widened for it."""

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


def _simd128(cpu: CpuFacts) -> bool:
    return cpu.simd128


def _fast_bfloats(cpu: CpuFacts) -> bool:
    # Where there is AMX, this instruction has half the rate of float32's multiply-adds; elsewhere twice.
    return cpu.avx512 and cpu.avx512_bf16 and not cpu.amx_bf16


def _arm(feature: str) -> Callable[[CpuFacts], bool]:
    return lambda cpu: cpu.arch == "aarch64" and feature in cpu.features


BFLOATS = x86.BFLOATS
INSTRUCTIONS = (
    DotProduct(*BYTES, 4, 16, x86.VNNI_DOT_16x4_INTRIN, _wide_vnni),
    DotProduct(*BYTES, 4, 8, x86.VNNI_DOT_8x4_INTRIN, _vnni),
    DotProduct(*BYTES, 4, 4, x86.VNNI_DOT_4x4_INTRIN, _vnni),
    DotProduct(*BYTES, 4, 16, x86.AVX512_DOT_16x4_INTRIN, _wide_words, 1),
    DotProduct(*BYTES, 4, 8, x86.AVX2_DOT_8x4_INTRIN, _words, 1),
    DotProduct(*BYTES, 4, 4, x86.SSE2_DOT_4x4_INTRIN, _words, 1),
    DotProduct(*BYTES, 4, 4, wasm.DOT_4x4_INTRIN, _simd128, 1),
    DotProduct(*BFLOATS, 2, 16, x86.AVX512_DOT_16x2_BF16_INTRIN, _fast_bfloats),
    DotProduct(*BFLOATS, 2, 8, x86.AVX512_DOT_8x2_BF16_INTRIN, _fast_bfloats),
    DotProduct(*BFLOATS, 2, 4, x86.AVX512_DOT_4x2_BF16_INTRIN, _fast_bfloats),
    DotProduct(*arm_cpu.SIGNED, 4, 4, arm_cpu.ARM_DOT_4x4_i8_SDOT_INTRIN, _arm("dotprod")),
    DotProduct(*arm_cpu.MIXED, 4, 4, arm_cpu.USDOT_4x4_INTRIN, _arm("i8mm")),
    DotProduct(*arm_cpu.BFLOATS, 2, 4, arm_cpu.BFDOT_4x2_INTRIN, _arm("bf16")),
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


MOST_ROWS = MOST_COLUMNS = 2 * SIDE


@dataclass(frozen=True)
class TileProduct:
    """Tiles for operands of some types: the kind of intrinsic, the number of pairs that a sum takes at once, and the
    processors that have them.
    """

    kind: str
    available: Callable[[CpuFacts], bool]

    @property
    def group(self) -> int:
        return KINDS[self.kind].group


def _bfloats(cpu: CpuFacts) -> bool:
    return cpu.amx_bf16 and "amx-tile" in cpu.features


def _bytes(cpu: CpuFacts) -> bool:
    return cpu.amx_int8 and "amx-tile" in cpu.features


TILES = (TileProduct("bf16", _bfloats), TileProduct("u8s8", _bytes), TileProduct("s8s8", _bytes))


def tile_product(target: Target | None, data: str, weight: str, out: str) -> TileProduct | None:
    """The tiles of a target for operands and sums of these types; None without a target."""
    wanted = (str(data), str(weight), str(out))
    if target is None or target.cpu.pointer_bits != 64:
        return None
    return next((t for t in TILES if KINDS[t.kind].dtypes == wanted and t.available(target.cpu)), None)


def takes_tiles(target: Target | None, types: tuple[str, str, str], groups: Any) -> bool:
    """Whether tiles compute a product of these types with so many groups in the innermost reduction axis."""
    if target is None or not isinstance(groups, int) or step_groups(groups) < target.cpu.core.tile_groups:
        return False
    return tile_product(target, *types) is not None


def row_tiles(rows: int, core: Core) -> tuple[int, int]:
    """(rows of a tile, rows to compute): a divisor if one fills registers well, otherwise the choice with the least
    padded work.
    """
    best = max(divisors(rows, MOST_ROWS))
    if best > core.tile_filled * min(rows, SIDE):
        return best, rows
    tiles = -(-rows // MOST_ROWS)
    height = -(-rows // tiles)
    return height, tiles * height


def whole_row_tiles(rows: int, core: Core) -> list[int]:
    """The numbers of rows to compute, at least `rows`, that tiles of one height fill well."""
    totals = {-(-rows // height) * height for height in range(1, MOST_ROWS + 1)}
    return sorted([n for n in totals if row_tiles(n, core)[1] == n])


def step_groups(groups: int) -> int:
    """The number of groups of a reduction's innermost axis that a register takes at once: a divisor."""
    return max(divisors(groups, SIDE))


def whole_steps(groups: int, core: Core) -> int:
    """The number of groups to which a reduction is filled up, so that registers are filled well."""
    if step_groups(groups) >= core.tile_filled * min(groups, SIDE):
        return groups
    return -(-groups // SIDE) * SIDE


def padded_steps(groups: int, core: Core) -> list[int]:
    """The numbers of groups to which a reduction can be filled up for tiles: whole registers, and `groups` where a step is long enough."""
    whole = -(-groups // SIDE) * SIDE
    return sorted({n for n in (groups, whole) if step_groups(n) >= core.tile_groups})
