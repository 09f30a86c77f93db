"""The forms of computes on CPUs, as the cost model decides or as is given: what `topi.planner` asks of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.ir import DataType
from tilewright.scheduling.convolutions import has_own_data, window_costs, window_form
from tilewright.scheduling.cost import (
    MAX_ROWS,
    cycles_of_add,
    padded_rows,
    register_tile,
    tile_cost,
    tiling,
    whole_tiles,
)
from tilewright.scheduling.decisions import KernelDecisions
from tilewright.scheduling.instructions import (
    MOST_COLUMNS,
    dot_products,
    padded_steps,
    row_tiles,
    takes_tiles,
    tile_product,
    whole_row_tiles,
    whole_steps,
)
from tilewright.scheduling.orderings import cheapest_order, order_forms
from tilewright.scheduling.pairs import channel_costs, dot_costs, paired_costs
from tilewright.scheduling.products import attention_rows, cheapest_product, long_tiles, product_costs
from tilewright.target import Target
from tilewright.tir.tensor_intrin.amx import SIDE
from tilewright.topi.planner import Blocks, Columns, Form, GroupedForm, Planner, Tiling
from tilewright.topi.problems import Matrices, Windows
from tilewright.topi.utils import ceil_div, prod


class CpuForms(Planner):
    """Answers to computes, by vectors, registers and caches. plan: takes the decisions."""

    def __init__(self, plan: KernelDecisions) -> None:
        self.plan = plan

    def lanes(self, dtype: str) -> int:
        return self.plan.target.cpu.lanes(DataType(dtype).bits)

    def in_threads(self, elements: int) -> bool:
        model = "parallel" if elements >= self.plan.target.cpu.core.looped_elements else "serial"
        return self.plan.choose("loop.kind", model, lambda: ["parallel", "serial"]) == "parallel"

    def product(self, p: Matrices, name: str) -> Form | None:
        cpu, lanes = self.plan.target.cpu, self.lanes(p.dtype)
        if lanes < 4:
            return None
        costs = product_costs(p.m, p.n, p.k, p.left_along_k, p.right_along_k, cpu, lanes)
        kind = self.plan.choose(f"{name}.form", cheapest_product(costs), lambda: list(costs))
        vectors = ceil_div(p.n, lanes)
        if kind == "columns" and p.m == 1 and p.k * p.n * DataType(p.dtype).bytes > cpu.l2_bytes:
            return Form(kind, lanes, self.tiles(name, 1, vectors, long_tiles(vectors, cpu)))
        if kind == "dots":
            return Form(kind, lanes, self.tiles(name, p.m, p.n, tiling(p.m, p.n, cpu.core, True), True))
        return Form(kind, lanes, self.tiles(name, p.m, vectors, tiling(p.m, vectors, cpu.core)))

    def tiles(self, name: str, rows: int, columns: int, model: Tiling, vectors_of_rows: bool = False) -> Tiling:
        """Register tiles over rows and vectors of columns: the model's, or others with what they compute."""
        core = self.plan.target.cpu.core
        r, c = self.plan.choose(
            f"{name}.tile", (model.tile_rows, model.tile_columns), lambda: _fitting(self.plan.target, rows, columns)
        )
        if (r, c) == (model.tile_rows, model.tile_columns):
            return model
        computed = ceil_div(rows, r) * r, ceil_div(columns, c) * c
        cost = cycles_of_add(r, c, core, vectors_of_rows)
        return Tiling(r, c, *computed, cost * computed[0] * computed[1])

    def grouped(self, p: Matrices, types: tuple[str, str], name: str) -> GroupedForm | None:
        found = dot_products(self.plan.target, *types, p.dtype)
        whole = tile_product(self.plan.target, *types, p.dtype)
        if not (found or whole):
            return None
        core = self.plan.target.cpu.core
        # Integers cannot be read otherwise; floats can.
        pays = "float" not in p.dtype or p.m >= core.grouped_rows
        kinds = ("grouped", "single")
        if self.plan.choose(f"{name}.products", kinds[0] if pays else kinds[1], lambda: kinds) == "single":
            return None
        if whole is not None and p.k >= whole.group * core.tile_groups:
            # Rows that there are not are zeros of the copy, for registers load neighbours.
            model = MOST_COLUMNS if p.n > SIDE else SIDE
            lanes = self.plan.choose(f"{name}.panel", model, lambda: (SIDE, MOST_COLUMNS))
            groups = ceil_div(p.k, whole.group)
            steps = self.plan.choose(f"{name}.groups", whole_steps(groups, core), lambda: padded_steps(groups, core))
            rows = self._rows_of_tiles(f"{name}.rows", p.m)
            return GroupedForm(whole.group, lanes, steps, rows, ceil_div(p.n, lanes), None, True)
        if not found:
            return None
        lanes, group = found[0].lanes, found[0].group
        vectors = ceil_div(p.n, lanes)
        tiles = self.tiles(name, p.m, vectors, tiling(p.m, vectors, core))
        return GroupedForm(group, lanes, ceil_div(p.k, group), tiles.rows, tiles.columns, tiles, False)

    def dynamic_product(self, m: Any, n: Any, dtype: str) -> tuple[Any, int] | None:
        if not DataType(dtype).is_float or (isinstance(m, int) and isinstance(n, int)):
            return None
        lanes = self.lanes(dtype)
        core = self.plan.target.cpu.core
        model = core.dynamic_vectors if not isinstance(n, int) else _narrowest(n, lanes)
        vectors = self.plan.once("dynamic.panel", model, lambda: WIDTHS)
        return padded_rows(m, vectors, core) if isinstance(m, int) else self._dynamic_rows(m), vectors * lanes

    def _dynamic_rows(self, size: Any) -> Any:
        """A dynamic number of rows, rounded up to whole tiles."""
        return whole_tiles(
            size, self.plan.once("dynamic.rows", self.plan.target.cpu.core.dynamic_rows, lambda: (1, 2, 4, 6, 8))
        )

    def packed_rows(self, lead: Sequence[Any], panel: Any, dtype: str) -> Any:
        if not lead or not isinstance(panel, int):
            return None
        vectors = max(panel // self.lanes(dtype), 1)
        if not isinstance(lead[-1], int):
            return self._dynamic_rows(lead[-1])
        if not all([isinstance(d, int) for d in lead]) or prod(lead[:-1]) != 1:
            return None
        rows = self._rows("T_dense_pack.rows", lead[-1], vectors, False)
        return rows if rows != lead[-1] else None

    def _rows(self, name: str, rows: int, vectors: int, apart: bool) -> int:
        """How many rows to compute, so that tiles are whole."""
        model = padded_rows(rows, vectors, self.plan.target.cpu.core, apart)
        heights = range(1, MAX_ROWS + 1)
        return self.plan.choose(
            name, model, lambda: sorted({ceil_div(rows, h) * h for h in heights if h <= max(rows, 16)})
        )

    def tiled_rows(self, rows: int, types: tuple[str, str, str], groups: Any, name: str) -> int | None:
        return self._rows_of_tiles(name, rows) if takes_tiles(self.plan.target, types, groups) else None

    def _rows_of_tiles(self, name: str, rows: int) -> int:
        """How many rows to compute, so that tile registers are filled well."""
        core = self.plan.target.cpu.core
        return self.plan.choose(name, row_tiles(rows, core)[1], lambda: whole_row_tiles(rows, core))

    def image_columns(self, width: Any, vectors: int, padded: bool, name: str) -> Columns:
        if not isinstance(width, int):
            return Columns(self._dynamic_rows(width), False)
        return Columns(self._rows(f"{name}.columns", width, vectors, not padded), padded)

    def depthwise_columns(self, width: Any, offsets: int, dilation: int, padded: bool, name: str) -> Columns:
        """Large dilated kernels are computed in tiles, which divide the columns; others in windows, whose last one may be narrower."""
        if offsets <= self.plan.target.cpu.core.unrolled_offsets or dilation == 1 or not isinstance(width, int):
            return Columns(width, False)
        return self.image_columns(width, 1, padded, name)

    def paired_places(self, places: int, filters: int, name: str) -> int:
        costs = (dot_costs if self.plan.target.cpu.byte_dots else paired_costs)(places, filters)
        return self.plan.choose(f"{name}.places", min(costs, key=lambda n: costs[n]), lambda: list(costs))

    def paired_channels(self, places: int, name: str) -> int:
        costs = channel_costs(places)
        return self.plan.choose(f"{name}.places", min(costs, key=lambda n: costs[n]), lambda: list(costs))

    def windows(self, w: Windows, name: str) -> Form | None:
        lanes, core = self.lanes(w.dtype), self.plan.target.cpu.core
        if lanes < 4:
            return None
        costs = window_costs(w, lanes, core)
        model = min(costs, key=lambda form: costs[form])
        form = window_form(w, self.plan.choose(f"{name}.form", model, lambda: list(costs)), lanes, core)
        tiles = form.tiles
        dots = form.kind == "dots"
        return form._replace(tiles=self.tiles(name, w.filters, tiles.columns, tiles, dots))

    def apart(self, w: Windows, name: str) -> bool:
        if w.groups == 1:
            return False
        model = "own" if has_own_data(w, self.plan.target.cpu.core) else "shared"
        return self.plan.choose(f"{name}.data", model, lambda: ("own", "shared")) == "own"

    def in_vectors(self, stride: int) -> bool:
        model = "vectors" if stride <= self.plan.target.cpu.core.near else "phases"
        return self.plan.choose("pad_temp.order", model, lambda: ("phases", "vectors")) == "vectors"

    def pooled_apart(self, first: int, rest: int, behind: float, stride: int, bytes_between: int) -> bool:
        cpu = self.plan.target.cpu
        # Elements at a stride are picked from whole vectors. What lies between is written and read, from beyond the second cache if large.
        picked = stride + 1 if stride > 1 else 1
        moved = 4 if bytes_between > cpu.l2_bytes else 2
        together, apart = first * rest * picked, (first + moved) * behind + rest * picked
        model = "apart" if apart <= cpu.core.pooled_apart * together else "together"
        return self.plan.choose("pool.axes", model, lambda: ("apart", "together")) == "apart"

    def phase_vector(self, stride: int, out: Any, dtype: str) -> int:
        lanes = self.lanes(dtype)
        if lanes < 4 or stride < 2 or not isinstance(out, int):
            return 0
        whole = min(lanes, ceil_div(out, stride))
        most = min(whole, self.plan.target.cpu.core.interleaved_vectors * lanes // stride)
        lengths = [0, *[1 << n for n in range(1, (whole - 1).bit_length() + 1)]]
        return self.plan.choose("T_phases.vector", _power(most) if most > 1 else 0, lambda: lengths)

    def one_row(self, last: int, elements: int, dtype: str) -> bool:
        lanes = self.lanes(dtype)
        # Rows of whole vectors, several of them, need no merging.
        model = "one row" if last % (4 * lanes) and elements >= 2 * lanes else "apart"
        return self.plan.choose("reduction.axes", model, lambda: ("one row", "apart")) == "one row"

    def first_apart(self, steps: int, elements: int, dtype: str) -> bool:
        lanes, cpu = self.lanes(dtype), self.plan.target.cpu
        # Rows fill vectors, which their last axis may not; the rows of sums stay in the first caches.
        near = elements * (DataType(dtype).bits // 8) <= cpu.l1_bytes
        model = "two" if near and steps >= lanes and elements >= lanes else "one"
        return self.plan.choose("reduction.stages", model, lambda: ("one", "two")) == "two"

    def reduced(self, extent: int, dtype: str) -> int:
        lanes, core = self.lanes(dtype), self.plan.target.cpu.core
        vectors = ceil_div(extent, lanes)
        whole = {ceil_div(vectors, several) * several * lanes for several in (1, 2, 4)}
        if extent <= (lanes // 2 if lanes > 8 else 4):
            model = extent
        else:
            # Long rows fill several vectors, so that sums are independent.
            several = 4 if vectors >= core.summed_in_fours else 2 if vectors >= core.summed_in_pairs else 1
            model = ceil_div(vectors, several) * several * lanes
        return self.plan.choose("reduction.extent", model, lambda: sorted({extent, *whole}))

    def pooled_columns(self, count: int, dtype: str) -> int:
        width = self.lanes(dtype)
        widths = [width]
        while width > 4 and width >= 2 * count:
            width //= 2
            widths.append(width)
        model = ceil_div(count, width) * width if count > 1 else count
        return self.plan.choose(
            "windows.columns", model, lambda: sorted({count, *[ceil_div(count, w) * w for w in widths]})
        )

    def order(self, n: int, number: int, lines: int, wide: bool) -> str:
        model = cheapest_order(n, number, lines, wide, self.plan.target.cpu)
        return self.plan.choose("order.form", model, lambda: order_forms(n, number, lines, wide))

    def attention(self, heads: int, queries: int, keys: int, depth: int, width: int, dtype: str) -> Blocks:
        cpu, lanes = self.plan.target.cpu, self.lanes(dtype)
        vectors, wide = ceil_div(keys, lanes), ceil_div(width, lanes)
        scores = self.tiles("attention_products", queries, vectors, tiling(queries, vectors, cpu.core))
        tall = scores.tile_rows
        together = attention_rows(heads, queries, keys, tall, DataType(dtype).bits, cpu)
        counts = range(tall, ceil_div(queries, tall) * tall + 1, tall)
        rows = self.plan.choose("attention_sums.rows", together, lambda: counts)
        model = register_tile(rows, wide, cpu.core)
        r, c = self.plan.choose("attention_sums.tile", model, lambda: _dividing(self.plan.target, rows, wide))
        return Blocks((tall, scores.tile_columns), (r, c), rows, lanes)


def dynamic_height(plan: KernelDecisions) -> int:
    """The height of tiles over a dynamic number of rows: that of the kernel's computes, else the model's."""
    decided = plan.decisions.get("dynamic.rows")
    return plan.target.cpu.core.dynamic_rows if decided is None else int(decided.value)


WIDTHS = range(1, 5)
"""Numbers of vectors in a panel of columns of a product with dynamic dimensions."""


def _power(n: int) -> int:
    """The least power of two that is no smaller."""
    return 1 << (n - 1).bit_length()


def _dividing(target: Target, rows: int, columns: int) -> list[tuple[int, int]]:
    """The tiles that registers hold, and whose sides divide the extents."""
    return [(r, c) for r, c in _fitting(target, rows, columns) if rows % r == 0 and columns % c == 0]


def _narrowest(columns: int, lanes: int) -> int:
    """The vectors in a panel that leave the fewest columns over."""
    return min(WIDTHS, key=lambda v: (-(-columns // (v * lanes)) * v, -v))


def _fitting(target: Target, rows: int, columns: int) -> list[tuple[int, int]]:
    """The tiles that registers hold."""
    core = target.cpu.core
    pairs = [(r, c) for r in range(1, min(rows, MAX_ROWS) + 1) for c in range(1, min(columns, core.registers) + 1)]
    return [(r, c) for r, c in pairs if tile_cost(r, c, core) is not None]


__all__ = ["CpuForms", "dynamic_height"]
