"""Forms of products of matrices and of attention: what each costs, and the cheapest."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.scheduling.cost import MAX_ROWS, cycles_of_add, padded_rows, register_tile, tiling
from tilewright.target.cpu import CpuFacts
from tilewright.topi.planner import Tiling
from tilewright.topi.utils import ceil_div


def product_costs(
    m: int, n: int, k: int, left_along_k: bool, right_along_k: bool, cpu: CpuFacts, lanes: int
) -> Mapping[str, float]:
    """Cycles of each form of an m x k by k x n product that is possible, what has to be copied included."""
    core = cpu.core
    tiles = tiling(m, ceil_div(n, lanes), core)
    passes = ceil_div(tiles.columns, tiles.tile_columns)
    size = m * k * 4
    if size > cpu.l2_bytes >= n * k * 4:
        # Rows meet all columns before the next ones do: the first matrix comes from memory once.
        passes = 1
    # Scalars of the first matrix come one by one: what is not in the first cache is waited for.
    missed = core.second_missed if size > cpu.l2_bytes else core.first_missed if size > cpu.l1_bytes else 0.0
    tiled = k * tiles.cycles + passes * size / core.line * missed
    far = m >= core.far_reads and k * n * 4 > core.far_bytes and n * 4 >= core.far_row
    summed = ceil_div(k, lanes) * tiling(m, n, core, True).cycles + m * n * core.folded
    found = {} if right_along_k else {"columns": tiled * (core.far if far else 1.0)}
    found["panels"] = tiled + n * k * (core.gathered if right_along_k else core.copied)
    turned = (0 if left_along_k else m * k) + (0 if right_along_k else n * k)
    found["dots"] = summed + turned * core.gathered
    return found


def cheapest_product(costs: Mapping[str, float]) -> str:
    """The form of the fewest cycles; of equal ones columns before panels before dots."""
    return min(costs, key=lambda form: costs[form])


def long_tiles(vectors: int, cpu: CpuFacts) -> Tiling:
    """Tiles of a single row over a matrix that memory holds: as many neighbouring vectors as there are registers for their sums, since each
    of the matrix's rows lies on pages of its own, from which pieces of a few lines come slowly. Each thread gets one."""
    most = cpu.vector_registers * 3 // 4
    columns = ceil_div(vectors, max(ceil_div(vectors, most), min(vectors, cpu.threads)))
    computed = ceil_div(vectors, columns) * columns
    return Tiling(1, columns, 1, computed, computed / cpu.core.multiply_adds)


def attention_rows(heads: int, queries: int, keys: int, tile_rows: int, bits: int, cpu: CpuFacts) -> int:
    """The queries that go through all stages of attention together: as many tiles of `tile_rows` as leave their scores, and what the
    softmax makes of them, in half of the second cache."""
    tiles = ceil_div(queries, tile_rows)
    most = max(1, cpu.l2_bytes // 2 // (bits // 4 * tile_rows * keys))
    blocks = max(ceil_div(tiles, most), min(tiles, ceil_div(cpu.threads, heads)))
    return int(tile_rows * ceil_div(tiles, blocks))


def attention_pays(heads: int, queries: int, keys: int, cpu: CpuFacts) -> bool:
    """Whether attention of float32 is better computed in blocks: where its scores fill the second cache twice."""
    return (
        cpu.lanes(32) >= 4
        and min(queries, keys) >= cpu.core.attention_rows
        and 2 * heads * queries * keys > cpu.l2_bytes
    )


def panel_width(columns: int, bytes_of_column: int, rows: int | None, cpu: CpuFacts) -> int:
    """Columns per panel of a packed weight: up to four vectors (two where registers are few), a whole number of vectors that
    divides the columns where there is one, or that costs less with its padded columns. A panel of more than two takes no more than half of
    the second cache: a tile of two reads every other pair of lines of a wider one, which share half of that cache's sets. A few rows are
    one tile of registers, and memory bounds their product: then a panel is no wider than the tile, so that weights are read in the order
    in which they lie."""
    lanes, core = cpu.lanes(32), cpu.core
    widest = 4 if lanes >= 16 else 2
    while widest > 2 and widest * lanes * bytes_of_column > cpu.l2_bytes // 2:
        widest -= 1
    if rows is not None:
        widest = next((c for c in range(widest, 1, -1) if rows * c + c + 1 <= core.registers), widest)
    widest = min(widest, -(-columns // lanes))
    chosen = next((v for v in range(widest, 0, -1) if columns % (v * lanes) == 0), widest)
    for vectors in range(widest, 0, -1):
        cost = panels_cost(vectors, columns, rows, cpu)
        if cost < core.padded_share * panels_cost(chosen, columns, rows, cpu):
            chosen = vectors
    return chosen * lanes


def panels_cost(vectors: int, columns: int, rows: int | None, cpu: CpuFacts) -> float:
    """Cycles of a step of the reduction by panels of so many vectors, for the rows or for a whole tile of them. Tiles stay within panels
    that are wider than a vector."""
    panels, core = -(-columns // (vectors * cpu.lanes(32))), cpu.core
    along = panels if vectors == 1 else vectors
    height = padded_rows(rows or MAX_ROWS, along, core)
    return height * panels * vectors * cycles_of_add(*register_tile(height, along, core), core)


def strassen_panel(columns: int, cpu: CpuFacts) -> int:
    """Columns in a panel of weights of Strassen's factors: whole vectors that divide the columns. Panels of three are one register tile,
    and were the fastest, 0.96 to 0.98 of the time of those of two and four (AMD EPYC with AVX-512)."""
    return next(v for v in (3, 2, 4, 1) if columns % (v * cpu.lanes(32)) == 0) * cpu.lanes(32)


def sums_along_k(rows: int, columns: int, inner: int, cpu: CpuFacts) -> bool:
    """Whether a product by constant weights costs less with vectors along the reduction than along columns in panels."""
    lanes = cpu.lanes(32)
    if rows >= lanes and columns % (4 * lanes) == 0:
        # Whole panels over enough rows run at the multipliers' rate, wherever the rows come from.
        return False
    costs = product_costs(rows, columns, inner, True, True, cpu, lanes)
    return lanes >= 4 and costs["dots"] < costs["panels"] - columns * inner * cpu.core.gathered
