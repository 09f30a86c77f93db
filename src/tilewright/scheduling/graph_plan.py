"""Plans of programs: each decision about an operator that is taken before there are kernels, by the problem that it solves.

    with GraphPlan(target) as plan:                 # the cost model decides
        relay.build(mod, target)
    plan.values()       # {"winograd(64 to 64, 1x56x56).tile": 4, "dense(1x512x1000, 32 bits).panel": 64, ...}
    plan.space()        # {"winograd(64 to 64, 1x56x56).tile": [0, 4, 2], ...}
    with GraphPlan(target, given={"winograd(64 to 64, 1x56x56).tile": 0}):
        ...             # a tuner, a user or a database decides what is given

    nn.conv2d(...).block    the channels in a block of the result
    nn.conv2d(...).layout   blocks, or plain
    nn.conv2d(...).filters  filters of each group of bytes, with padded ones; 0: the plain form
    nn.conv2d_transpose(...).form   a convolution by phases, or a product whose windows are added, in planes or rows
    winograd(...).tile      the side of the tiles of results; 0: the direct form
    dense(...).panel        the columns in a panel of packed weights; 0: weights along the reduction, in no panels
    windows(...).form       whether a convolution along a dynamic line is a product of copied windows (product), or a convolution
    product(...).rows       whether rows are counted along all leading axes (together) or along the last two (apart)
    attention(...).form     in blocks of queries, or as products and a softmax (whole)
    dense(...).branch       whether a product joins others of the same data (joined), or runs by itself (apart)
    branches(...).form      the same of convolutions
    product(..., resize ..).place  (operators above a product, operators above its data), among those before it; (0, 0): where it is
    batch(...).split        (images at a time, first layers that run so); (images, 0): all images at once
    nn.contrib_conv2d_NCHWc(...).halo  whether the producer of the data writes it, or the convolution copies the data

Operators that solve the same problem share a decision. What is decided about kernels stands in their KernelPlans.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from typing import Any, Self

from tilewright.scheduling.batches import BatchSplit, Traffic, batch_splits, best_split
from tilewright.scheduling.convolutions import GroupedBytes, filled_costs, plain_is_faster
from tilewright.scheduling.cost import cycles_of_add, image_tile, padded_rows, register_tile
from tilewright.scheduling.decisions import Decisions, Value
from tilewright.scheduling.instructions import DotProduct
from tilewright.scheduling.product_places import MARGIN, Place, Step, place_cycles, sum_cycles
from tilewright.scheduling.products import attention_pays, panel_width, sums_along_k
from tilewright.scheduling.transposed import Transposed, transposed_costs
from tilewright.scheduling.winograd import WinogradPlan, choose_winograd, winograd_plans
from tilewright.target import Target
from tilewright.topi.problems import Windows
from tilewright.topi.utils import ceil_div, prod

PANEL = 4
"""Vectors in a panel of weights, at most."""


class GraphPlan(Decisions):
    """The decisions about the operators of programs for a target, in force inside of `with`."""

    def __init__(self, target: Target | str, given: Mapping[str, Any] | None = None) -> None:
        super().__init__(target, given)
        self._tokens: list[Token[GraphPlan | None]] = []

    def __enter__(self) -> Self:
        self._tokens.append(_current.set(self))
        return self

    def __exit__(self, *exc: object) -> None:
        _current.reset(self._tokens.pop())

    def choose(self, name: str, model: Value, choices: Callable[[], Iterable[Value]]) -> Value:
        """The value of a decision. The same problem always gets the same value."""
        known = self.decisions.get(name)
        if known is not None and known.by == "given":
            value: Value = known.value
            return value
        return super().choose(name, model, choices)

    def block(self, problem: str, model: int, widest: int, divides: int | None = None) -> int:
        """Channels in a block of a convolution's result: whole vectors or halves of them. divides: what a block has to divide."""
        blocks = (widest, widest // 2) if model & (model - 1) == 0 else ()
        fits = sorted({model, *[b for b in blocks if b >= 4 and (divides is None or divides % b == 0)]}, reverse=True)
        return self.choose(f"{problem}.block", model, lambda: fits)

    def tile_block(self, problem: str, fits: Sequence[int]) -> int:
        """Channels in a block of the result of a convolution by tile registers. fits: what may be, the model's first."""
        return self.choose(f"{problem}.block", fits[0], lambda: fits)

    def filled_filters(self, problem: str, p: GroupedBytes, found: Sequence[DotProduct]) -> int:
        """Filters of each group of a convolution of bytes, of which some are padded, so that one of the instructions computes them; 0: the
        plain form."""
        costs = filled_costs(p, found, self.target.cpu)
        model = min(costs, key=lambda filters: (costs[filters], filters))
        return self.choose(f"{problem}.filters", model, lambda: list(costs))

    def transposed_form(self, problem: str, t: Transposed) -> str:
        """phases, planes or rows: see `scheduling/transposed.py`."""
        costs = transposed_costs(t, self.target.cpu)
        return self.choose(f"{problem}.form", min(costs, key=lambda form: costs[form]), lambda: list(costs))

    def in_blocks(self, problem: str, w: Windows | None, block_in: int, block_out: int, have: bool) -> bool:
        """Whether a convolution runs on channel blocks. w: what is priced in both forms; None: blocks it is. have: whether its data
        comes in blocks."""
        faster = w is not None and plain_is_faster(w, block_in, block_out, have, self.target.cpu)
        return (
            self.choose(f"{problem}.layout", "plain" if faster else "blocks", lambda: ["blocks", "plain"]) == "blocks"
        )

    def winograd(self, channels: int, filters: int, pixels: tuple[int, int, int]) -> WinogradPlan | None:
        """Winograd's form of a 3 x 3 convolution whose result has the (images, rows, columns) `pixels`; None: direct."""
        found = winograd_plans(channels, filters, pixels, self.target.cpu)
        model = choose_winograd(channels, filters, pixels, self.target.cpu)
        if not found:
            return None
        name = f"winograd({channels} to {filters}, {_times(pixels)}).tile"
        tile = self.choose(name, 0 if model is None else model.tile_size, lambda: [0, *found])
        return found.get(tile)

    def panel(self, rows: int | None, inner: int, columns: int, bytes_of_element: int, along: bool) -> int:
        """Columns in a panel of packed weights; 0: none, but weights along the reduction, which `along` allows."""
        cpu = self.target.cpu
        lanes = cpu.lanes(32)
        model = panel_width(columns, inner * bytes_of_element, rows, cpu)
        along = along and rows is not None
        if along and rows is not None and sums_along_k(rows, columns, inner, cpu):
            model = 0
        widths = [v * lanes for v in range(1, PANEL + 1) if v == 1 or v * lanes < columns + lanes]
        name = f"dense({'?' if rows is None else rows}x{inner}x{columns}, {8 * bytes_of_element} bits).panel"
        return self.choose(name, model, lambda: sorted({model, *widths, *([0] if along else [])}))

    def copies_windows(self, window: int, filters: int) -> bool:
        """Whether a convolution of one channel along a dynamic line is a product of copied windows. window: elements of one."""
        core = self.target.cpu.core
        model = "product" if window >= core.copied_window and filters >= core.copied_filters else "convolution"
        name = f"windows({window}, {filters} filters).form"
        return self.choose(name, model, lambda: ["convolution", "product"]) == "product"

    def together(self, lead: Sequence[int], columns: int, lanes: int) -> bool:
        """Whether rows are counted along all leading axes of a product: where they then fill register tiles better."""
        if prod(lead[:-1]) == 1:
            return False
        core = self.target.cpu.core
        vectors, total = min(PANEL, ceil_div(columns, max(lanes, 1))), prod(lead)
        lines, rows, c = image_tile(lead[-2], lead[-1], vectors, core)
        before = cycles_of_add(lines * rows, c, core)
        computed = padded_rows(total, vectors, core)
        after = cycles_of_add(*register_tile(computed, vectors, core), core) * computed / total
        model = "together" if after < core.padded_share * before else "apart"
        name = f"product({_times([*lead, columns])}).rows"
        return self.choose(name, model, lambda: ["apart", "together"]) == "together"

    def attention_in_blocks(self, heads: int, queries: int, keys: int) -> bool:
        """Whether attention is computed in blocks of queries, whose scores stay in a cache."""
        cpu = self.target.cpu
        if cpu.lanes(32) < 4:
            return False
        model = "blocks" if attention_pays(heads, queries, keys, cpu) else "whole"
        name = f"attention({heads}x{queries}x{keys}).form"
        return self.choose(name, model, lambda: ["blocks", "whole"]) == "blocks"

    def joins_product(self, rows: int, inner: int, columns: int, bits: int) -> bool:
        """Whether a product by constant weights is joined with others of the same data: where starting threads for it counts."""
        model = "joined" if rows * inner * columns <= self.target.cpu.core.joined_product else "apart"
        name = f"dense({rows}x{inner}x{columns}, {bits} bits).branch"
        return self.choose(name, model, lambda: ["apart", "joined"]) == "joined"

    def joins_convolutions(self, problem: str, filters: Sequence[int], work: Sequence[int]) -> bool:
        """Whether convolutions of the same data become one. problem: the first one; filters, work: of each, in multiply-adds.

        Filters of one vector and less take 0.57 to 0.97 of the time joined; others, where starting threads counts for all.
        """
        cpu = self.target.cpu
        narrow = any([f <= min(max(cpu.lanes(32), 4), 16) for f in filters])
        small = all([w <= cpu.core.joined_convolution for w in work])
        name = f"branches({problem}, {'+'.join(map(str, filters))} filters).form"
        return self.choose(name, "joined" if narrow or small else "apart", lambda: ["apart", "joined"]) == "joined"

    def product_place(
        self, channels: int, filters: int, size: int, steps: Sequence[Step], choices: Sequence[Place], summed: bool
    ) -> Place:
        """Where a product over channels is computed, of the places `choices` among the operators before it. size: elements of each channel
        in its result; summed: whether its result is added to others at any place but the first."""
        here, *others = choices
        limit = place_cycles(here, channels, filters, size, steps, self.target.cpu)
        limit -= sum_cycles(filters, size, self.target.cpu) if summed else 0.0
        cycles = {p: place_cycles(p, channels, filters, size, steps, self.target.cpu) for p in others}
        less = [p for p in others if cycles[p] < limit]
        if not less:
            return here
        best = min(less, key=lambda p: cycles[p])
        told = "".join([f", {s.kind} {s.below}x{s.channels}" for s in steps])
        name = f"product({size}x{channels}x{filters}{told}{', summed' * summed}).place"
        model = tuple(best) if cycles[best] <= MARGIN * limit else tuple(here)
        return Place(*self.choose(name, model, lambda: [tuple(p) for p in (here, *less)]))

    def batch_split(
        self, inputs: Sequence[Sequence[int]], layers: Sequence[Traffic], ends: Collection[int]
    ) -> BatchSplit | None:
        """How many images of a batch go through how many first layers at a time; None: all of them. inputs: the shapes of what holds
        the images; ends: numbers of layers after which one value goes on."""
        batch = inputs[0][0]
        splits: dict[tuple[int, ...], BatchSplit] = {
            (s.images, s.layers): s for s in batch_splits(layers, ends, batch, self.target.cpu)
        }
        if not splits:
            return None
        model = best_split([*splits.values()])
        name = f"batch({', '.join(map(_times, inputs))}, {len(layers)} layers).split"
        whole = (batch, 0)
        value = self.choose(name, whole if model is None else (model.images, model.layers), lambda: [whole, *splits])
        return splits.get(value)

    def halo_by_producer(self, problem: str, bits: int) -> bool:
        """Whether the producer of a convolution's data writes it with its halo around it."""
        model = "producer" if bits <= self.target.cpu.core.halo_bits else "copy"
        return self.choose(f"{problem}.halo", model, lambda: ["copy", "producer"]) == "producer"


_current: ContextVar[GraphPlan | None] = ContextVar("graph plan", default=None)


def given_plan() -> GraphPlan | None:
    """The plan that a program or a tuner has put in force."""
    return _current.get()


def graph_plan() -> GraphPlan | None:
    """The plan in force; else one in which the model decides for the current target; None where there is none."""
    found, target = _current.get(), Target.current(True)
    return found or (GraphPlan(target) if target is not None else None)


def portable_plan() -> GraphPlan:
    """The same; where there is no target either, a plan for any x86-64 with AVX-512."""
    return graph_plan() or GraphPlan("llvm -mcpu=x86-64-v4")


def problem_name(
    kind: str, shapes: Sequence[Sequence[Any]], attributes: Mapping[str, Any], dtypes: Sequence[str]
) -> str:
    """The name of a problem: the operator, its shapes ("?" for dynamic dimensions), attributes, types."""
    told = "".join([f", {k} {_times(v) if isinstance(v, (tuple, list)) else v}" for k, v in attributes.items()])
    types = dtypes[0] if len(set(dtypes)) == 1 else " by ".join(dtypes)
    return f"{kind}({', '.join(map(_times, shapes))}{told}, {types})"


def _times(extents: Iterable[Any]) -> str:
    return "x".join([str(d) if isinstance(d, int) else "?" for d in extents])


__all__ = ["GraphPlan", "given_plan", "graph_plan", "portable_plan", "problem_name"]
