"""The best tiling of a problem by branch and bound: every tiling has a lower bound of its cycles, from what each unit and the bus must do
at least; tilings are estimated from the least bound on, until no bound is below the best estimate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from tilewright.support.errors import TVMError
from tilewright.vta.configuration import Configuration
from tilewright.vta.search.costs import steps
from tilewright.vta.search.lacking import no_tile_fits
from tilewright.vta.search.model import Outlook
from tilewright.vta.search.problem import Problem, Tiling
from tilewright.vta.search.tiles import Edge, edges, input_copies, product_steps

TOLERANCE = 0.002
"""Share of the cycles that the search may leave: bounds this near to the best estimate are not looked at."""
MOST_TILINGS, MOST_ESTIMATES, MOST_OPERATIONS, AT_ONCE = 64, 24, 80_000, 8
"""Tilings whose programs are looked at, those of them that are estimated with the bus that units share, and operations of all these
programs, after which the search ends with the best so far; what is left of the gap is told."""


class Freedom(NamedTuple):
    """What a schedule can do: tiles of columns, and either order of the outer loops."""

    columns: bool = True
    orders: bool = True


ALL = Freedom()


class Found(NamedTuple):
    """A tiling, its estimated cycles, the lower bound of all tilings that were not estimated, how many tilings there are, and how many
    were estimated."""

    tiling: Tiling
    cycles: float
    bound: float
    tilings: int
    estimated: int


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


def tilings(p: Problem, config: Configuration, freedom: Freedom = ALL) -> Iterator[Tiling]:
    """All tilings that fit: tiles divide the extents, and virtual threads what is left. Where both orders of loops are one, the first."""
    acc, inp, wgt = (config.depth(m) for m in ("acc", "inp", "wgt"))
    for rows in divisors(p.rows):
        for columns in divisors(p.columns) if freedom.columns else [p.columns]:
            for out in divisors(p.out_blocks):
                if out * rows * columns > acc:
                    break
                for inner in divisors(p.in_blocks):
                    if out * inner * p.offsets > wgt or inner * rows * columns > inp * p.strides[0] * p.strides[1]:
                        break
                    yield from _threaded(Tiling(rows, columns, out, inner), p, config, freedom)


def _threaded(t: Tiling, p: Problem, config: Configuration, freedom: Freedom) -> Iterator[Tiling]:
    for by_out, by_row in ((1, 1), (2, 1), (1, 2)):
        if p.out_blocks // t.out_blocks % by_out or p.rows // t.rows % by_row or (p.dense and by_row > 1):
            continue
        found = t._replace(out_threads=by_out, row_threads=by_row)
        if not found.fits(p, config):
            continue
        yield found
        outs, spatial = _trips(p, found)
        if freedom.orders and outs > 1 and spatial > 1:
            yield found._replace(spatial_outer=True)


def _trips(p: Problem, t: Tiling) -> tuple[int, int]:
    """Tiles of output blocks, and of rows and columns, of a virtual thread."""
    return p.out_blocks // (t.out_blocks * t.out_threads), p.rows // (t.rows * t.row_threads) * (p.columns // t.columns)


def _read_elements(p: Problem, t: Tiling) -> int:
    """Elements of one input block that all tiles of rows and columns read, without padding."""
    if p.dense:
        return p.rows
    window, found = t.window(p), 1
    for axis, (count, tile) in enumerate(((p.rows, t.rows), (p.columns, t.columns))):
        step = p.strides[axis] if p.sampled else 1
        found *= _read_along(
            count, tile, window[axis], p.strides[axis] * p.pool_strides[axis], p.padding[axis], p.size[axis], step
        )
    return found


def _first_elements(p: Problem, t: Tiling) -> int:
    """Elements of one input block that the first tile reads, without padding."""
    if p.dense:
        return t.rows
    height, width = (min(w - pad, size) for w, pad, size in zip(t.window(p), p.padding, p.size, strict=True))
    return max(height, 0) * max(width, 0)


@lru_cache(maxsize=4096)
def _read_along(count: int, tile: int, window: int, stride: int, padding: int, size: int, step: int) -> int:
    return sum([e.length - e.before - e.behind for e in edges(count, tile, window, stride, padding, size, step)])


@lru_cache(maxsize=4096)
def _sampled_copies(p: Problem, t: Tiling, config: Configuration) -> int:
    """Loads of a tile of inp of which only some elements are copied."""
    (height, width), (y, x) = t.window(p), p.strides
    return len(input_copies(p, t, Edge(0, height, 0, 0), Edge(0, width, 0, 0), config)) if y * x > 1 else 1


def bound(p: Problem, t: Tiling, config: Configuration) -> float:
    """Cycles that the busiest of the three units and the bus needs at least."""
    outs, spatial = _trips(p, t)
    parts, n, results = p.in_blocks // t.in_blocks, t.accumulators(p), t.results()
    tiles = p.batch * outs * spatial * t.threads
    weight_loads = input_loads = tiles * parts
    if parts == 1:
        if not t.spatial_outer or outs == 1:
            weight_loads = t.threads * outs * (p.batch if outs > 1 else 1)
        if p.per_group > t.out_blocks:
            input_loads = -(-tiles * t.out_blocks // p.per_group)
        elif not p.per_group and (t.spatial_outer or spatial == 1):
            input_loads = t.threads * spatial * p.batch
    word, latency = config.dram_bytes, config.dram_latency
    weights = weight_loads * t.out_blocks * t.in_blocks * p.offsets * config.element_bytes("wgt") / word
    visits = input_loads * t.row_threads * t.in_blocks / (p.rows // t.rows * (p.columns // t.columns)) / t.row_threads
    inputs = visits * p.groups(t.out_blocks) * _read_elements(p, t) * config.element_bytes("inp") / word
    arrays = sum([n if whole else t.out_blocks for whole in p.copied]) * config.element_bytes("acc") / word
    stored = results * config.element_bytes("out") / word
    head = latency + 3
    before = steps(n, 1, config.gemm_latency, n).alone + arrays + len(p.copied) * head
    after = sum([steps(n, 1, config.alu_latency, n, each).alone for each in p.passes])
    after += sum([steps(results, 1, config.alu_latency, results, each).alone for each in p.pool_passes])
    product = steps(n * t.in_blocks * p.offsets, 1, config.gemm_latency, n).alone
    copies = (
        _sampled_copies(p, t._replace(out_blocks=1, out_threads=1, row_threads=1, spatial_outer=False), config)
        if p.sampled
        else 1
    )
    # What is under way fits into the buffer of a unit, and each beat of it is under way for the latency.
    pace = word * (latency + 1) / (config.dram_requests * config.dram_burst)
    load = max(weights + (weight_loads + input_loads * copies) * head + inputs, pace * (weights + inputs))
    of_weights = weights / weight_loads
    of_inputs = _first_elements(p, t) * t.in_blocks * config.element_bytes("inp") / word
    first = max(of_weights + head, pace * of_weights) + max(of_inputs + copies * head, pace * of_inputs)
    written = product_steps(p, t, config)
    uops = t.threads * (written.uops * config.element_bytes("uop") / word + head) if written.uops > 1 else 0.0
    compute = tiles * (before + parts * product + after) + uops
    last = max(stored + head, pace * stored)
    # Without another thread, a product waits for its loads, and the next loads for it.
    together = load + tiles * parts * product + after + last if t.threads == 1 else load + product + after + last
    bus = weights + inputs + tiles * (arrays + stored) + head
    return max(first + compute - t.threads * before + last, together, tiles * last, bus)


class _Search:
    """The best tiling so far, and the programs that are looked at, of the least bounds."""

    def __init__(self, p: Problem, config: Configuration, most: int) -> None:
        self.p, self.config, self.most = p, config, most
        self.best: Tiling | None = None
        self.cycles = float("inf")
        self.estimated = self.operations = 0
        self._seen: list[tuple[float, int, Tiling, Outlook]] = []

    def is_near(self, least: float) -> bool:
        """Whether what takes at least so long is no better than the best by more than the tolerance."""
        return least >= self.cycles * (1 - TOLERANCE)

    @property
    def looked_at(self) -> int:
        return len(self._seen)

    def look_at(self, tilings: Iterable[Tiling]) -> None:
        """Looks at programs, and estimates the one that is the best without sharing."""
        begin = len(self._seen)
        for t in tilings:
            outlook = Outlook(self.p, t, self.config)
            self._seen.append((outlook.alone(), len(self._seen), t, outlook))
            self.operations += outlook.operations
        self._estimate(min(self._seen[begin:]))

    def _estimate(self, seen: tuple[float, int, Tiling, Outlook]) -> None:
        alone, n, t, outlook = seen
        if self.is_near(alone) or self.estimated == self.most:
            return
        self.estimated += 1
        self._seen[n] = float("inf"), n, t, outlook
        found = outlook.cycles()
        if found < self.cycles:
            self.best, self.cycles = t, found

    def end(self) -> None:
        """Estimates those that could be better, from the best without sharing on."""
        for seen in sorted(self._seen):
            self._estimate(seen)


@lru_cache(maxsize=512)
def choose(p: Problem, config: Configuration, freedom: Freedom = ALL, most: int = MOST_ESTIMATES) -> Found:
    """The tiling of the least estimated cycles, of at most so many that are estimated. TVMError where none fits: which memory lacks how
    much."""
    ordered = sorted([(bound(p, t, config), t) for t in tilings(p, config, freedom)])
    if not ordered:
        raise TVMError(_lacking(p, config, freedom))
    search, at = _Search(p, config, most), 0
    while at < min(len(ordered), MOST_TILINGS) and search.operations < MOST_OPERATIONS:
        if search.is_near(ordered[at][0]):
            break
        search.look_at([t for _, t in ordered[at : at + AT_ONCE]])
        at = search.looked_at
    search.end()
    least = min(ordered[at][0], search.cycles) if at < len(ordered) else search.cycles
    assert search.best is not None
    return Found(search.best, search.cycles, least, len(ordered), search.estimated)


def _lacking(p: Problem, config: Configuration, freedom: Freedom) -> str:
    least = Tiling(1, 1 if freedom.columns else p.columns, 1, 1).uses(p)
    return no_tile_fits(least, config, "one result" if freedom.columns else "one row")


__all__ = ["ALL", "MOST_ESTIMATES", "TOLERANCE", "Found", "Freedom", "bound", "choose", "tilings"]
