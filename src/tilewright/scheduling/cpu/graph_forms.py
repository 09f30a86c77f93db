"""The forms of operators on CPUs: channel blocks, panels, Winograd's form, attention in blocks. `scheduling/graph_plan.py` names them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tilewright.scheduling.batches import BatchSplit, Traffic, batch_splits, best_split
from tilewright.scheduling.convolutions import GroupedBytes, filled_costs, plain_is_faster
from tilewright.scheduling.cost import cycles_of_add, image_tile, padded_rows, register_tile
from tilewright.scheduling.graph_forms import AttentionProblem, GraphForms, times
from tilewright.scheduling.instructions import DotProduct
from tilewright.scheduling.product_places import MARGIN, Place, Step, place_cycles, sum_cycles
from tilewright.scheduling.products import attention_pays, panel_width, strassen_panel, sums_along_k
from tilewright.scheduling.transposed import Transposed, transposed_costs
from tilewright.scheduling.winograd import WinogradPlan, choose_winograd, winograd_plans
from tilewright.topi.problems import Windows
from tilewright.topi.utils import ceil_div, prod

PANEL = 4
"""Vectors in a panel of weights, at most."""
STRASSEN_ROWS, STRASSEN_INNER, STRASSEN_COLUMNS = 16, 128, 256
"""The fewest rows of a product, and the least inner dimension and fewest columns, for which Strassen's algorithm is tried. With 128
columns, the sums of data took more than the multiplications that they save: 1.04 to 1.07 times the time of the plain product."""


class CpuGraphForms(GraphForms):
    """Answers to passes, by the cost model of a CPU."""

    def block(self, problem: str, model: int, widest: int, divides: int | None = None) -> int:
        blocks = (widest, widest // 2) if model & (model - 1) == 0 else ()
        fits = sorted({model, *[b for b in blocks if b >= 4 and (divides is None or divides % b == 0)]}, reverse=True)
        return self.plan.choose(f"{problem}.block", model, lambda: fits)

    def tile_block(self, problem: str, fits: Sequence[int]) -> int:
        return self.plan.choose(f"{problem}.block", fits[0], lambda: fits)

    def filled_filters(self, problem: str, p: GroupedBytes, found: Sequence[DotProduct]) -> int:
        costs = filled_costs(p, found, self.plan.target.cpu)
        model = min(costs, key=lambda filters: (costs[filters], filters))
        return self.plan.choose(f"{problem}.filters", model, lambda: list(costs))

    def transposed_form(self, problem: str, t: Transposed) -> str:
        costs = transposed_costs(t, self.plan.target.cpu)
        return self.plan.choose(f"{problem}.form", min(costs, key=lambda form: costs[form]), lambda: list(costs))

    def in_blocks(self, problem: str, w: Windows | None, block_in: int, block_out: int, have: bool) -> bool:
        faster = w is not None and plain_is_faster(w, block_in, block_out, have, self.plan.target.cpu)
        return (
            self.plan.choose(f"{problem}.layout", "plain" if faster else "blocks", lambda: ["blocks", "plain"])
            == "blocks"
        )

    def winograd(self, channels: int, filters: int, pixels: tuple[int, int, int]) -> WinogradPlan | None:
        found = winograd_plans(channels, filters, pixels, self.plan.target.cpu)
        model = choose_winograd(channels, filters, pixels, self.plan.target.cpu)
        if not found:
            return None
        name = f"winograd({channels} to {filters}, {times(pixels)}).tile"
        tile = self.plan.choose(name, 0 if model is None else model.tile_size, lambda: [0, *found])
        return found.get(tile)

    def panel(self, rows: int | None, inner: int, columns: int, bytes_of_element: int, along: bool) -> int:
        cpu = self.plan.target.cpu
        lanes = cpu.lanes(32)
        model = panel_width(columns, inner * bytes_of_element, rows, cpu)
        along = along and rows is not None
        if along and rows is not None and sums_along_k(rows, columns, inner, cpu):
            model = 0
        widths = [v * lanes for v in range(1, PANEL + 1) if v == 1 or v * lanes < columns + lanes]
        name = f"dense({'?' if rows is None else rows}x{inner}x{columns}, {8 * bytes_of_element} bits).panel"
        return self.plan.choose(name, model, lambda: sorted({model, *widths, *([0] if along else [])}))

    def by_strassen(self, rows: int, inner: int, columns: int) -> int:
        """The model never chooses it: sums are taken in another order, and it takes seven eighths of the time at best."""
        cpu = self.plan.target.cpu
        lanes = cpu.lanes(32)
        small = lanes < 4 or rows < STRASSEN_ROWS or inner < STRASSEN_INNER or columns < STRASSEN_COLUMNS
        if small or inner % (2 * lanes) or columns % (2 * lanes):
            return 0
        name = f"dense({rows}x{inner}x{columns}, 32 bits).algorithm"
        if self.plan.choose(name, "plain", lambda: ["plain", "strassen"]) == "plain":
            return 0
        return strassen_panel(columns // 2, cpu)

    def copies_windows(self, window: int, filters: int) -> bool:
        core = self.plan.target.cpu.core
        model = "product" if window >= core.copied_window and filters >= core.copied_filters else "convolution"
        name = f"windows({window}, {filters} filters).form"
        return self.plan.choose(name, model, lambda: ["convolution", "product"]) == "product"

    def together(self, lead: Sequence[int], columns: int, lanes: int, constant: bool) -> bool:
        if prod(lead[:-1]) == 1:
            return False
        core = self.plan.target.cpu.core
        vectors, total = min(PANEL, ceil_div(columns, max(lanes, 1))), prod(lead)
        lines, rows, c = image_tile(lead[-2], lead[-1], vectors, core)
        before = cycles_of_add(lines * rows, c, core)
        computed = padded_rows(total, vectors, core)
        after = cycles_of_add(*register_tile(computed, vectors, core), core) * computed / total
        # Together a second matrix that is no constant is brought into its order once, not for each product.
        least = core.padded_share if constant else 1.0
        model = "together" if after <= least * before else "apart"
        name = f"product({times([*lead, columns])}).rows"
        return self.plan.choose(name, model, lambda: ["apart", "together"]) == "together"

    def attention_in_blocks(self, p: AttentionProblem) -> bool:
        cpu = self.plan.target.cpu
        if cpu.lanes(32) < 4 or p.dtype != "float32" or not p.plain:
            return False
        model = "blocks" if attention_pays(p.heads, p.queries, p.keys, cpu) else "whole"
        name = f"attention({p.heads}x{p.queries}x{p.keys}).form"
        return self.plan.choose(name, model, lambda: ["blocks", "whole"]) == "blocks"

    def joins_product(self, rows: int, inner: int, columns: int, bits: int) -> bool:
        model = "joined" if rows * inner * columns <= self.plan.target.cpu.core.joined_product else "apart"
        name = f"dense({rows}x{inner}x{columns}, {bits} bits).branch"
        return self.plan.choose(name, model, lambda: ["apart", "joined"]) == "joined"

    def joins_convolutions(self, problem: str, filters: Sequence[int], work: Sequence[int]) -> bool:
        """Filters of one vector and less take 0.57 to 0.97 of the time joined; others, where starting threads counts for all."""
        cpu = self.plan.target.cpu
        narrow = any([f <= min(max(cpu.lanes(32), 4), 16) for f in filters])
        small = all([w <= cpu.core.joined_convolution for w in work])
        name = f"branches({problem}, {'+'.join(map(str, filters))} filters).form"
        return self.plan.choose(name, "joined" if narrow or small else "apart", lambda: ["apart", "joined"]) == "joined"

    def product_place(
        self, channels: int, filters: int, size: int, steps: Sequence[Step], choices: Sequence[Place], summed: bool
    ) -> Place:
        here, *others = choices
        limit = place_cycles(here, channels, filters, size, steps, self.plan.target.cpu)
        limit -= sum_cycles(filters, size, self.plan.target.cpu) if summed else 0.0
        cycles = {p: place_cycles(p, channels, filters, size, steps, self.plan.target.cpu) for p in others}
        less = [p for p in others if cycles[p] < limit]
        if not less:
            return here
        best = min(less, key=lambda p: cycles[p])
        told = "".join([f", {s.kind} {s.below}x{s.channels}" for s in steps])
        name = f"product({size}x{channels}x{filters}{told}{', summed' * summed}).place"
        model = tuple(best) if cycles[best] <= MARGIN * limit else tuple(here)
        return Place(*self.plan.choose(name, model, lambda: [tuple(p) for p in (here, *less)]))

    def batch_split(
        self, inputs: Sequence[Sequence[int]], layers: Sequence[Traffic], ends: Collection[int]
    ) -> BatchSplit | None:
        batch = inputs[0][0]
        splits: dict[tuple[int, ...], BatchSplit] = {
            (s.images, s.layers): s for s in batch_splits(layers, ends, batch, self.plan.target.cpu)
        }
        if not splits:
            return None
        model = best_split([*splits.values()])
        name = f"batch({', '.join(map(times, inputs))}, {len(layers)} layers).split"
        whole = (batch, 0)
        value = self.plan.choose(
            name, whole if model is None else (model.images, model.layers), lambda: [whole, *splits]
        )
        return splits.get(value)

    def halo_by_producer(self, problem: str, bits: int) -> bool:
        model = "producer" if bits <= self.plan.target.cpu.core.halo_bits else "copy"
        return self.plan.choose(f"{problem}.halo", model, lambda: ["copy", "producer"]) == "producer"


__all__ = ["CpuGraphForms"]
