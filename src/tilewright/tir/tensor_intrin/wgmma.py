"""The PTX instruction wgmma as tensor intrinsics: the part of one warp, 16 rows of the 64 of its warpgroup.

A warp with the number w = threadIdx.y of its warpgroup computes the rows 16 * w .. of a product m64nNkK. Its sums are a buffer (32, N /
2) of scope "warp"; both operands are in shared memory, in the order of a swizzle of s bytes, R = s / (bytes of an element) elements: (k /
R, rows, R) where rows run along k, (rows / R, k, R) where they run along m or n. Without a swizzle R is 16 bytes of elements.

The first operand may be in registers, too: a buffer (32, K / 2) of scope "warp", as mma has it.

The instruction begins a product. What is around it (InjectWarpSpecialization) has the fences, and waits.

Names: wgmma_f16f16f32_n128_k128_k128; of each operand: along what its rows run, k or m, and its swizzle; r: in registers.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from tilewright.ir import DataType
from tilewright.tir import Buffer, BufferLoad, BufferStore, Evaluate, For, ForKind, IterVar, Stmt, Var, decl_buffer
from tilewright.tir.arithmetic import cast_to, floordiv, floormod
from tilewright.tir.schedule import TensorIntrin
from tilewright.tir.tensor_intrin.mma import KINDS, SUMS
from tilewright.tir.tensor_intrin.mma_layouts import WARP_SIZE, operand_layout, shared_16x16_to_ldmatrix_32x8_layout
from tilewright.tir.tensor_intrin.tile_programs import Pair, function, nest
from tilewright.tir.warpgroups import PRODUCTS, SWIZZLES, ptx_wgmma, ptx_wgmma_rs

ROWS = 16
"""Rows of a warp."""
CHUNK = 16
"""Bytes of a row without a swizzle."""


class Operand(NamedTuple):
    """How an operand is in shared memory. across: whether its rows run along m or n, not along k; swizzle: in bytes."""

    across: bool
    swizzle: int

    def row(self, dtype: str) -> int:
        """Elements of a row."""
        return (self.swizzle or CHUNK) // DataType(dtype).bytes

    @property
    def name(self) -> str:
        return f"{'m' if self.across else 'k'}{self.swizzle}"


def _tile(name: str, operand: Operand, rows: int, k: int, dtype: str, strides: bool) -> Buffer:
    row = operand.row(dtype)
    along, other = (rows, k) if operand.across else (k, rows)
    inner = min(along, row)
    steps = tuple([Var(f"{name}_s{d}", "int32") for d in (2, 1)]) + (1,) if strides else None
    return decl_buffer(
        (along // inner, other, inner), dtype, name, scope="shared.dyn", data_alignment=64, offset_factor=CHUNK // DataType(dtype).bytes,
        strides=steps,
    )  # fmt: skip


def _held(k_dim: int, dtype: str) -> Buffer:
    """A first operand in registers."""
    n = k_dim // 2
    return decl_buffer((WARP_SIZE, n), dtype, "A", scope="warp", data_alignment=64, offset_factor=n)


def _place(operand: Operand, dtype: str, tile: Buffer, i: Any, k: Any) -> BufferLoad:
    inner = int(tile.shape[2])  # type: ignore[call-overload]
    return BufferLoad(tile, (i // inner, k, i % inner) if operand.across else (k // inner, i, k % inner))


def get_wgmma_intrin(dtype: str, sums: str, n: int, a_operand: Operand | None, b_operand: Operand) -> Pair:
    """Description and implementation of C[16, n] += A * B on the registers of a warp and shared memory. a_operand: None if it is in
    registers."""
    product = PRODUCTS[dtype]
    if sums not in product.sums or n % 8 or not 8 <= n <= 256:
        raise ValueError(f"wgmma has no product of {dtype} with sums of {sums} and n = {n}")
    if not product.transposes and (b_operand.across or (a_operand is not None and a_operand.across)):
        raise ValueError(f"wgmma takes operands of {dtype} whose rows run along k only")
    k_dim, count = product.k, n // 2
    made = []
    for implemented in (False, True):
        a = _held(k_dim, dtype) if a_operand is None else _tile("A", a_operand, ROWS, k_dim, dtype, implemented)
        b = _tile("B", b_operand, n, k_dim, dtype, implemented)
        c = decl_buffer((WARP_SIZE, count), sums, "C", scope="warp", data_alignment=64, offset_factor=count)

        def describe(i: Any, j: Any, k: Any, a: Buffer = a, b: Buffer = b, c: Buffer = c) -> Any:
            total = BufferLoad(c, shared_16x16_to_ldmatrix_32x8_layout(i, j))
            if a_operand is None:
                left = BufferLoad(a, operand_layout(k_dim, "A", False)(i, k))
            else:
                left = _place(a_operand, dtype, a, i, k)
            right = _place(b_operand, dtype, b, j, k)
            value = total + cast_to(left, sums) * cast_to(right, sums)
            return BufferStore(c, value, total.indices), (total, left, right)

        if implemented:
            body = _implemented(dtype, sums, n, (a_operand, b_operand), (a, b, c))
        else:
            body = nest((ROWS, n, k_dim), "SSR", "update", describe)
        made.append(function((a, b, c), [c, a, b], c, body))
    return made[0], made[1]


def _implemented(
    dtype: str, sums: str, n: int, operands: tuple[Operand | None, Operand], buffers: tuple[Buffer, Buffer, Buffer]
) -> Stmt:
    a, b, c = buffers
    product, count = PRODUCTS[dtype], n // 2
    kind, total = KINDS[dtype][1], SUMS[sums][1]
    lane = Var("tx", "int32")
    axis = IterVar(None, Var("threadIdx.x", "int32"), IterVar.ThreadIndex, "threadIdx.x")
    first, second = operands
    types = f"m64n{n}k{product.k}", kind, kind, total
    right = b.access_ptr("r", extent=n * product.k), _layout(second, b, dtype), c.data, c.elem_offset + lane * count
    if first is None:
        call = ptx_wgmma_rs(*types, a.data, a.elem_offset + lane * (product.k // 2), *right)
    else:
        before = _before(first, a, first.row(dtype))
        left = a.access_ptr("r", offset=-before, extent=4 * ROWS * product.k)
        call = ptx_wgmma(*types, left, _layout(first, a, dtype), *right)
    return For(lane, 0, WARP_SIZE, ForKind.THREAD_BINDING, Evaluate(call), axis)


def _layout(operand: Operand, tile: Buffer, dtype: str) -> tuple[Any, Any, int, bool]:
    """The layout of an operand in shared memory, as of ptx_wgmma."""
    size = DataType(dtype).bytes
    # Between two blocks of rows (along the swizzle), and between eight rows.
    block, eight = tile.strides[0] * size, 8 * (operand.swizzle or CHUNK)
    single = int(tile.shape[0]) == 1  # type: ignore[call-overload]
    lead = CHUNK if single and not operand.across else block
    # Without a swizzle, rows across have their two offsets the other way round.
    swapped = operand.across and not operand.swizzle
    return (*((eight, lead) if swapped else (lead, eight)), operand.swizzle, operand.across)


def _before(operand: Operand, a: Buffer, row: int) -> Any:
    """The elements between the begin of a warpgroup's rows and that of those of this warp. row: elements of a row of the tile."""
    at = a.elem_offset
    if not operand.across:
        return floormod(floordiv(at, ROWS * a.strides[1]), 4) * (ROWS * a.strides[1])
    inside = floormod(floordiv(at, ROWS), row // ROWS) * ROWS if row > ROWS else 0
    if row >= 4 * ROWS:
        return inside
    return floormod(floordiv(at, a.strides[0]), 4 * ROWS // row) * a.strides[0] + inside


def wgmma_intrin_name(dtype: str, sums: str, n: int, a: Operand | None, b: Operand) -> str:
    """The name of an intrinsic. a: None if it is in registers."""
    return f"wgmma_{KINDS[dtype][0]}{KINDS[dtype][0]}{SUMS[sums][0]}_n{n}_{'r' if a is None else a.name}_{b.name}"


_TYPES = {short: dtype for dtype, (short, _) in KINDS.items()}
_TOTALS = {short: dtype for dtype, (short, _) in SUMS.items()}
_NAME = re.compile(r"wgmma_([a-z]+\d+(?:m\d)?)\1([a-z]\d+)_n(\d+)_(?:r|([km])(\d+))_([km])(\d+)")


def _named(name: str) -> TensorIntrin | None:
    found = _NAME.fullmatch(name)
    if found is None or found[1] not in _TYPES or found[2] not in _TOTALS:
        return None
    a = Operand(found[4] == "m", int(found[5])) if found[4] else None
    b = Operand(found[6] == "m", int(found[7]))
    if (a is not None and a.swizzle not in SWIZZLES) or b.swizzle not in SWIZZLES:
        return None
    return TensorIntrin(*get_wgmma_intrin(_TYPES[found[1]], _TOTALS[found[2]], int(found[3]), a, b))


TensorIntrin.register_family("wgmma_", _named)

__all__ = ["Operand", "get_wgmma_intrin", "wgmma_intrin_name"]
