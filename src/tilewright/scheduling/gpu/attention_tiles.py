"""Tiles of attention on GPUs: how many queries a block and a warp take, how many keys a step, and whether matrix units multiply."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.scheduling.decisions import KernelDecisions
from tilewright.scheduling.gpu.facts import facts_of, mma_shape
from tilewright.target import Target
from tilewright.topi.planner import Blocks

GROUP_ROWS, GROUP_KEYS, ROW = 64, 128, 64
"""Of warpgroups: queries of one, keys of a step, elements of a row in shared memory."""
ACROSS = 16
"""Threads that share a row where no matrix unit does; the side of a tile of an instruction where one does."""
MOST_WARPS = 4
WARPS = 4
"""Warps for each multiprocessor, below which keys are divided among blocks."""
LEAST_KEYS = 256
"""Keys of a part, at least."""
MOST_REGISTERS = 240
"""Registers of a thread, about, that a tile may need."""
EASY_REGISTERS = 200
"""Registers of a thread, about, up to which none is ever spilled."""
SHARED_BYTES = 128
"""What a multiprocessor moves of shared memory in a cycle."""
MOST_HELD = 2048
"""Elements of queries that stay in the registers of a warp, at most."""


class AttentionTile(NamedTuple):
    """What a block computes in a step. rows: queries of a block; of_warp: those of a warp, or of each of the threads along y; keys: of a
    step. Sums and scores stay in registers."""

    rows: int
    of_warp: int
    keys: int


def on_matrix_units(dtype: str, target: Target) -> bool:
    """Whether a target's matrix units multiply a type by mma, with sums in float32."""
    return dtype in ("float16", "bfloat16") and bool(mma_shape(target, dtype, "float32"))


def shared_bytes(tile: AttentionTile, deep: int, wide: int, element: int, units: bool, stages: int) -> int:
    """Shared memory of a block: its queries, keys and values of the steps in flight, and weights where threads exchange them by it.
    deep, wide: elements of a query and of a value. element: bytes of one."""
    weights = 0 if units else tile.rows * tile.keys * element
    return (tile.rows * deep + stages * tile.keys * (deep + wide)) * element + weights


def registers_of(tile: AttentionTile, deep: int, wide: int, units: bool) -> int:
    """Registers of a thread for its scores, weights, sums and queries."""
    if not units:
        across = tile.of_warp * (-(-tile.keys // ACROSS) * 2 + -(-wide // ACROSS))
        return across + -(-max(tile.keys, wide) // ACROSS)
    held = deep // 4 if holds_queries(tile, deep) else 0
    return tile.of_warp * (3 * tile.keys // 4 + wide // 2 + held) // ACROSS + 40


def holds_queries(tile: AttentionTile, deep: int) -> bool:
    """Whether queries stay in the registers of a warp for all steps; otherwise each step reads them from shared memory again."""
    return tile.of_warp * deep <= MOST_HELD


def tiles_of(rows: int, deep: int, wide: int, dtype: str, target: Target) -> list[AttentionTile]:
    """The tiles for which a GPU has shared memory and registers, the best first. rows: all queries of a head."""
    units, element = on_matrix_units(dtype, target), 2 if dtype in ("float16", "bfloat16") else 4
    if dtype not in ("float16", "float32") and not units:
        return []
    gpu = facts_of(target)
    most = gpu.shared_memory_per_block_optin if target.kind.name == "cuda" else gpu.shared_memory_per_block
    most = most or gpu.shared_memory_per_block
    threads = gpu.max_threads_per_block
    found = []
    sides = (
        ((16, 64), (16, 32), (32, 64), (16, 128), (32, 32), (16, 16), (32, 16))
        if units
        else ((4, 64), (4, 32), (2, 64), (2, 32))
    )
    for of_warp, keys in sides:
        for warps in (MOST_WARPS, 8, 2, 1) if units else (16, 8, 4):
            tile = AttentionTile(of_warp * warps, of_warp, keys)
            if warps > 1 and tile.rows >= 2 * ACROSS and of_warp * (warps // 2) >= rows:
                continue
            lanes = 32 if units else ACROSS
            fits = shared_bytes(tile, deep, wide, element, units, 2 if units and gpu.has_cp_async else 1) <= most
            if fits and warps * lanes <= threads and registers_of(tile, deep, wide, units) <= MOST_REGISTERS:
                found.append(tile)
    return found


def _model(
    tiles: list[AttentionTile], heads: int, queries: int, keys: int, deep: int, wide: int, dtype: str, target: Target
) -> AttentionTile:
    """The tile that is likely the fastest. A warp reads all keys and values of a step from shared memory, and multiplies each with its own
    queries: with 16 of these, fast matrix units wait for shared memory. Twice as many are worth it where blocks are still enough for all
    multiprocessors, and registers for them. Warpgroups read shared memory less often, and need no registers for keys and values."""
    if on_matrix_units(dtype, target) and target.gpu.has_wgmma and deep % ROW == wide % ROW == 0 and keys >= GROUP_KEYS:
        for rows in (2 * GROUP_ROWS, GROUP_ROWS):
            tile = AttentionTile(rows, ACROSS, GROUP_KEYS)
            if tile in tiles and queries >= rows and heads * -(-queries // rows) >= target.gpu.multiprocessors:
                return tile
    units = target.gpu.matrix_units(dtype, "float32", "mma") if on_matrix_units(dtype, target) else []
    if units and units[0].multiply_adds > SHARED_BYTES * tiles[0].of_warp // 2:
        for tile in tiles:
            enough = heads * (queries // tile.rows) >= target.gpu.multiprocessors
            doubled = tile.of_warp == 2 * tiles[0].of_warp and 2 * tile.keys >= tiles[0].keys
            if doubled and tile.rows == MOST_WARPS * tile.of_warp and enough:
                if registers_of(tile, deep, wide, True) <= EASY_REGISTERS:
                    return tile
    return tiles[0]


def attention_blocks(
    plan: KernelDecisions, heads: int, queries: int, keys: int, depth: int, width: int, dtype: str
) -> Blocks | None:
    """The blocks of attention as computes take them. None where no tile fits."""
    target = plan.target
    deep, wide = [-(-n // ACROSS) * ACROSS for n in (depth, width)]
    tiles = tiles_of(queries, deep, wide, dtype, target)
    if not tiles:
        return None
    best = _model(tiles, heads, queries, keys, deep, wide, dtype, target)
    tile = AttentionTile(*plan.choose("attention_sums.tile", tuple(best), lambda: [tuple(t) for t in tiles]))
    blocks = heads * -(-queries // tile.rows)
    wanted = WARPS * max(facts_of(target).multiprocessors, 1) // (tile.rows // tile.of_warp)
    steps = -(-keys // tile.keys)
    # Without matrix units no thread has what belongs to a row for itself, which parts hand on.
    most = steps if on_matrix_units(dtype, target) else 1
    choices = [n for n in (1, 2, 4, 8, 16, 32, 64) if n == 1 or n <= most]
    model = max([n for n in choices if n == 1 or (blocks * n <= wanted and keys // n >= LEAST_KEYS)])
    parts = plan.choose("attention_sums.parts", model, lambda: choices)
    return Blocks((tile.of_warp, tile.keys), (tile.of_warp, tile.keys), tile.rows, 1, True, ACROSS, parts, True)


__all__ = ["ACROSS", "AttentionTile", "attention_blocks", "on_matrix_units", "registers_of", "shared_bytes", "tiles_of"]
