"""A schedule of matrix products for tensor cores, whose tile sizes and instructions tests choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

from tilewright.ir import DataType
from tilewright.tir.function import PrimFunc
from tilewright.tir.schedule import BlockRV, LoopRV, Schedule
from tilewright.tir.tensor_intrin.mma_layouts import M_DIM, N_DIM, WARP_SIZE, Layout

VECTOR_BYTES = 16
"""What one thread copies to shared memory at once, and what a row there is padded by, so that rows begin in different banks."""


def mma_schedule(
    workload: PrimFunc,
    k_inner: int,
    in_dtype: str,
    b_transposed: bool,
    i_factors: Sequence[int],
    j_factors: Sequence[int],
    k_factors: Sequence[int],
    index_map_A: Layout,
    index_map_B: Layout,
    index_map_C: Layout,
    ldmatrix_a_intrin: str,
    ldmatrix_b_intrin: str,
    mma_intrin: str,
    mma_fill_intrin: str,
    mma_store_intrin: str,
    shared_scope: str = "shared",
) -> Schedule:
    """A schedule of C[i, j] += A[i, k] * B[k, j] (block "C") in which warps multiply tiles of 16 x 16 x k_inner by tensor cores.

    Rows are split by i_factors and columns by j_factors, in tiles: two loops over blocks of threads (blockIdx.x, blockIdx.y), the warps
    of a block (threadIdx.y), and two loops inside of a warp. Tiles along k are split by k_factors: two loops around copies to shared
    memory, and one around loads to registers.

    index_map_*: (row, column) in a tile -> (lane, element of that lane). b_transposed: B is (j, k). in_dtype: of A and B, by which copies
    to shared memory are vectorised. The other parameters name tensor intrinsics and the scope of shared memory.
    """
    s = Schedule(workload)
    block = s.get_block("C")
    sums = s.cache_write(block, 0, "warp")
    tiles = _Tiles(s, block, sums, k_inner, i_factors, j_factors, k_factors)
    for operand, (shape, place, intrinsic) in enumerate(
        (
            ((M_DIM, k_inner), index_map_A, ldmatrix_a_intrin),
            ((N_DIM, k_inner) if b_transposed else (k_inner, N_DIM), index_map_B, ldmatrix_b_intrin),
        )
    ):
        shared, fragment = s.cache_read(block, operand, shared_scope), s.cache_read(block, operand, "warp")
        s.compute_at(fragment, tiles.loaded)
        s.compute_at(shared, tiles.staged)
        _fetch_together(s, shared, tiles.warps, DataType(in_dtype))
        s.transform_layout(fragment, ("write", 0), _of_tiles(shape, place))
        s.tensorize(_each_tile(s, fragment, shape), intrinsic)
    s.transform_layout(sums, ("read", 0), _of_tiles((M_DIM, N_DIM), index_map_C))
    s.tensorize(_each_tile(s, sums, (M_DIM, N_DIM)), mma_store_intrin)
    start = s.decompose_reduction(block, tiles.first_k)
    s.tensorize(s.get_loops(start)[-2], mma_fill_intrin)
    s.tensorize(tiles.product, mma_intrin)
    return s


@dataclass(init=False)
class _Tiles:
    """The loops of a product after it is tiled, where parts of it are placed. The copy of its sums to memory is in those of a warp."""

    first_k: LoopRV
    staged: LoopRV
    loaded: LoopRV
    product: LoopRV
    warps: int

    def __init__(
        self, s: Schedule, block: BlockRV, sums: BlockRV, k_inner: int, i_factors: Any, j_factors: Any, k_factors: Any
    ) -> None:
        (i, i_in), (j, j_in), (k, k_in) = [
            s.split(loop, [None, size]) for loop, size in zip(s.get_loops(block), (M_DIM, N_DIM, k_inner), strict=True)
        ]
        (i0, i1, i2, i3, i4), (j0, j1, j2, j3, j4) = s.split(i, list(i_factors)), s.split(j, list(j_factors))
        k0, k1, k2 = s.split(k, list(k_factors))
        s.reorder(i0, j0, i1, j1, i2, j2, k0, k1, i3, j3, k2, i4, j4, i_in, j_in, k_in)
        s.reverse_compute_at(sums, j2)
        axes = ("blockIdx.x", "blockIdx.y", "threadIdx.y")
        for axis, pair in zip(axes, ((i0, j0), (i1, j1), (i2, j2)), strict=True):
            s.bind(s.fuse(*pair), axis)
        self.first_k, self.staged, self.loaded, self.product = k0, k1, k2, i_in
        self.warps = i_factors[2] * j_factors[2]


def _of_tiles(shape: tuple[int, int], place: Layout) -> Callable[[Any, Any], list[Any]]:
    """The index map of a matrix kept as fragments of tiles of a shape."""
    rows, columns = shape
    return lambda i, j: [i // rows, j // columns, *place(i % rows, j % columns)]


def _each_tile(s: Schedule, copy: BlockRV, shape: tuple[int, int]) -> LoopRV:
    """The loop over the rows of a tile, of a copy that goes tile by tile."""
    (rows, row), (columns, column) = [
        s.split(loop, [None, size]) for loop, size in zip(s.get_loops(copy)[-2:], shape, strict=True)
    ]
    s.reorder(rows, columns, row, column)
    return row


def _fetch_together(s: Schedule, copy: BlockRV, warps: int, dtype: DataType) -> None:
    """All threads of a block copy a tile to shared memory, each whole vectors next to its neighbours'."""
    whole = VECTOR_BYTES // dtype.bytes
    loops = s.get_loops(copy)[-2:]
    elements = prod([int(s.get(loop).extent) for loop in loops])
    lanes = gcd(max(elements // (warps * WARP_SIZE), 1), whole)
    fused = s.fuse(*loops)
    _, warp, thread, vector = s.split(fused, [None, warps, WARP_SIZE, lanes])
    s.bind(warp, "threadIdx.y")
    s.bind(thread, "threadIdx.x")
    s.vectorize(vector)
    s.storage_align(copy, 0, -2, 4 * whole, whole)


__all__ = ["mma_schedule"]
