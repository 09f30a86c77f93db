"""Tiles of products: how blocks and warps divide them, and which division is fast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tilewright.scheduling.gpu.tiled_copies import VECTOR_BYTES
from tilewright.target.gpu import GpuFacts


class ProductTile(NamedTuple):
    """The part of a product that a block computes in a step, m x n x k, that of a warp, and how many steps are in shared memory."""

    m: int
    n: int
    k: int
    warp_m: int
    warp_n: int
    stages: int

    @property
    def threads(self) -> int:
        return self.m // self.warp_m * (self.n // self.warp_n) * 32

    def shared_bytes(self, element: int) -> int:
        """Bytes of shared memory with operands of so many bytes an element."""
        return (self.m + self.n) * self.k * element * self.stages


WARPS = ((64, 64), (64, 32), (32, 64), (32, 32), (32, 16), (16, 32), (16, 16))
"""Tiles of warps, m x n: 64 x 64 needs 128 registers for its sums."""
BLOCKS = ((2, 4), (4, 2), (2, 2), (4, 1), (1, 4), (2, 1), (1, 2), (1, 1))
"""Warps of a block along m and n."""
STEP_BYTES = (64, 128)
"""Bytes of a row of k in shared memory: a half or a whole pass over its banks."""
MOST_REGISTERS = 255
COPY_REGISTERS, OTHER_REGISTERS = 2, 32
"""Registers of a thread for the address and the condition of each vector that it copies in a step, and for what all tiles have."""
MOST_GATHERED = 32 * 32
"""Elements of the tile of a warp, at most, where its operands are put together byte by byte."""
SHARED_BYTES, L2_BYTES = 128, 64
"""What a multiprocessor moves in a cycle: of shared memory (32 banks of 4 bytes), and of the second cache."""
STEP_LATENCY, INSTRUCTION_LATENCY = 60, 70
"""Cycles that a warp waits in a step for the barrier, and for each instruction's loads and the sums of the one before."""
BLOCK_CYCLES = 1500
"""Cycles of a block outside of its steps: the first copies from memory, the store of the sums."""
MMA_SHARE = 2 / 3
"""Of the rate of matrix units, what mma reaches where there is wgmma."""
LAUNCH_CYCLES = 5000
"""Cycles of a kernel more: the one that adds the parts of sums."""


def tiles_of(element: int, k_dim: int, gpu: GpuFacts, gathered: bool = False) -> Iterator[ProductTile]:
    """The tiles that a GPU has registers and shared memory for. element: bytes of an element. k_dim: of an instruction. gathered: whether
    operands are put together byte by byte, for which sums must leave registers."""
    most = gpu.shared_memory_per_block_optin or gpu.shared_memory_per_block
    for warp_m, warp_n in WARPS:
        if gathered and warp_m * warp_n > MOST_GATHERED:
            continue
        for along_m, along_n in BLOCKS:
            for row in STEP_BYTES:
                for stages in (4, 3, 2) if gpu.has_cp_async else (1,):
                    tile = ProductTile(warp_m * along_m, warp_n * along_n, row // element, warp_m, warp_n, stages)
                    if tile.shared_bytes(element) <= most and tile.k >= k_dim and _copies_whole(tile, element):
                        yield tile


def _copies_whole(tile: ProductTile, element: int) -> bool:
    """Whether each thread has a whole vector of both operands to copy."""
    vectors = [side * tile.k * element // VECTOR_BYTES for side in (tile.m, tile.n)]
    return all([n % tile.threads == 0 for n in vectors])


def cost_of(
    tile: ProductTile, sides: tuple[int, int, int, int], parts: int, element: int, k_dim: int, gpu: GpuFacts
) -> float:
    """About how many cycles a product takes. sides: of the batch, m, n and k. parts: in which k is divided.

    Blocks run in waves. The blocks that a multiprocessor has at once share its matrix units, of which each scheduler has a quarter, its
    shared memory and its way to the second cache; a step of all of them takes as long as the slowest of these, and at least as one warp
    waits for its own instructions.
    """
    batch, m, n, k = sides
    blocks, steps = batch * parts * -(-m // tile.m) * -(-n // tile.n), -(-k // (tile.k * parts))
    most = resident_blocks(tile, element, gpu)
    together = max(min(most, -(-blocks // max(gpu.multiprocessors, 1))), 1)
    units = gpu.matrix_units({1: "int8", 2: "float16", 4: "tf32"}[element])
    rate = (units[0].multiply_adds if units else 512) * (MMA_SHARE if gpu.has_wgmma else 1)
    warps = tile.threads // 32
    multiply = tile.m * tile.n * tile.k / rate
    loaded = (warps * (tile.warp_m + tile.warp_n) + tile.m + tile.n) * tile.k * element
    fetched = (tile.m + tile.n) * tile.k * element
    latency = STEP_LATENCY + tile.k // k_dim * INSTRUCTION_LATENCY
    if gpu.has_cp_async:
        latency += max(3 - tile.stages, 0) * STEP_LATENCY * 4
    step = max(
        together * multiply,
        multiply * 4 / min(warps, 4),
        together * loaded / SHARED_BYTES,
        together * fetched / L2_BYTES,
        latency,
    )
    waves = -(-blocks // (max(gpu.multiprocessors, 1) * together))
    added = LAUNCH_CYCLES + batch * m * n * parts * 8 / (L2_BYTES * max(gpu.multiprocessors, 1)) if parts > 1 else 0
    return waves * (steps * step + BLOCK_CYCLES) + added


def registers_of(tile: ProductTile, element: int) -> int:
    """About how many registers a thread needs: for its sums, its parts of the operands of two instructions, its copies, and all else.
    element: bytes of an element of the operands."""
    sums = tile.warp_m * tile.warp_n // 32
    copies = (tile.m + tile.n) * tile.k * element // (VECTOR_BYTES * tile.threads)
    return min(sums + (tile.warp_m + tile.warp_n) // 2 + COPY_REGISTERS * copies + OTHER_REGISTERS, MOST_REGISTERS)


def resident_blocks(tile: ProductTile, element: int, gpu: GpuFacts) -> int:
    """How many blocks a multiprocessor has registers and shared memory for at once; 0 where not even for one."""
    return gpu.occupancy(tile.threads, registers_of(tile, element), tile.shared_bytes(element)).blocks


def parts_of(length: int, tile: ProductTile) -> list[int]:
    """Into how many parts an axis of the sum of this length can be divided, for whole steps of a tile."""
    return [1, *[parts for parts in (2, 4, 8, 16) if length % (parts * tile.k) == 0 and length // parts >= 4 * tile.k]]


def best_tile(
    sides: tuple[int, int, int, int], length: int, element: int, k_dim: int, gpu: GpuFacts, gathered: bool = False
) -> tuple[ProductTile, int]:
    """The tile of the lowest cost, and the parts in which it is best to compute the sum. length: of the longest axis of the sum. gathered:
    as of `tiles_of`."""
    choices = [(tile, parts) for tile in tiles_of(element, k_dim, gpu, gathered) for parts in parts_of(length, tile)]
    return min(choices, key=lambda c: cost_of(c[0], sides, c[1], element, k_dim, gpu))


__all__ = ["ProductTile", "best_tile", "cost_of", "parts_of", "registers_of", "resident_blocks", "tiles_of"]
