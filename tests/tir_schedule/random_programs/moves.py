"""Random uses of every primitive, for tests that check what becomes of a program."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tilewright.tir.schedule import BlockRV, LoopRV, Schedule
from tilewright.tir.schedule.schedule import all_blocks


def block_names(s: Schedule) -> list[str]:
    """The names that stand for one block each."""
    found = [b.name_hint for b in all_blocks(s.mod["main"].body.block.body)]
    return [n for n in found if found.count(n) == 1] or found


class Site:
    """A random block of the program with its loops, one of them chosen."""

    def __init__(self, s: Schedule, rng: random.Random, name: str = "", number: int | None = None) -> None:
        self.s, self.rng = s, rng
        self.names = block_names(s)
        self.name = name or rng.choice(self.names)
        self.block: BlockRV = s.get_block(self.name)
        self.loops: list[LoopRV] = s.get_loops(self.block)
        chosen = self.loops if number is None else self.loops[number : number + 1]
        self.loop: Any = rng.choice(chosen) if chosen else None

    def other_loop(self) -> Any:
        """A loop around some block."""
        loops = self.s.get_loops(self.s.get_block(self.rng.choice(self.names)))
        return self.rng.choice(loops) if loops else None

    def some(self, things: list[Any]) -> list[Any]:
        return self.rng.sample(things, self.rng.randint(1, len(things)))


Move = Callable[[Site], Any]


def _split(x: Site) -> Any:
    rng = x.rng
    factors: list[Any] = rng.choice(
        [[None, 2], [None, 3], [2, None], [3, None], [None, 1], [None, 2, 2], [2, 2], [4, 2]]
    )
    return x.s.split(x.loop, factors, rng.random() < 0.8)


def _fuse(x: Site) -> Any:
    at = x.rng.randrange(len(x.loops))
    return x.s.fuse(*x.loops[at : at + x.rng.choice([1, 2, 2, 2, 3])], preserve_unit_iters=x.rng.random() < 0.8)


def _rasterize(x: Site) -> Any:
    at = x.rng.randrange(len(x.loops))
    return x.s.rasterize(x.loops[at], x.loops[min(at + 1, len(x.loops) - 1)], x.rng.choice([1, 2, 2, 4, 3]))


def _attach(kind: str) -> Move:
    def move(x: Site) -> Any:
        loop = x.other_loop()
        if loop is not None:
            getattr(x.s, kind)(x.block, loop, x.rng.random() < 0.3, x.rng.choice([-1, -1, -2, 0, 1]))

    return move


def _layout(x: Site) -> Any:
    kind = x.rng.choice(["read", "write"])
    regions = x.s.get(x.block).reads if kind == "read" else x.s.get(x.block).writes
    if not regions or not regions[0].region or regions[0].buffer in x.s.mod["main"].buffer_map.values():
        return
    maps = [
        lambda *i: (*i[1:], i[0]),
        lambda *i: (*i[:-1], i[-1] // 2, i[-1] % 2),
        lambda *i: (*i[:-1], i[-1] // 4, i[-1] % 4),
        lambda *i: (*i, 0),
        lambda *i: (*i[:-1], i[-1] + 1),
    ]
    x.s.transform_layout(x.block, (kind, 0), x.rng.choice(maps), pad_value=x.rng.choice([None, None, 0.0]))


def _block_layout(x: Site) -> Any:
    if not x.s.get(x.block).iter_vars:
        return
    maps = [
        lambda *i: (*i[1:], i[0]),
        lambda *i: (*i[:-1], i[-1] // 2, i[-1] % 2),
        lambda *i: i,
        lambda *i: (*i[:-1], i[-1] // 3, i[-1] % 3),
    ]
    x.s.transform_block_layout(x.block, x.rng.choice(maps))


def _blockize(x: Site) -> Any:
    if x.rng.random() < 0.25 and len(x.names) > 1:
        return x.s.blockize([x.s.get_block(n) for n in x.rng.sample(x.names, 2)], x.rng.random() < 0.7)
    return x.s.blockize(x.loop, x.rng.random() < 0.7)


def _consumers(x: Site) -> list[str] | None:
    return x.some(x.names) if x.rng.random() < 0.3 else None


def _merge(x: Site) -> Any:
    others = [x.other_loop() for _ in range(x.rng.choice([1, 1, 2]))]
    return x.s.merge(x.loop, *[o for o in others if o is not None])


def _order(x: Site) -> Any:
    count = len(x.s.get(x.block).iter_vars)
    return x.s.reorder_block_iter_var(x.block, x.rng.sample(range(count), count))


def _tile(x: Site) -> Any:
    tiles = x.s.sample_perfect_tile(x.loop, x.rng.choice([2, 3]), 4)
    return x.s.split(x.loop, tiles)


def _at_sampled(x: Site) -> Any:
    return x.s.compute_at(x.block, x.s.sample_compute_location(x.block))


def _pad(x: Site) -> Any:
    return x.s.pad_einsum(x.block, [x.rng.choice([1, 2, 4]) for _ in x.s.get(x.block).iter_vars])


NEEDS_LOOP: dict[str, Move] = {
    "split": _split,
    "fuse": _fuse,
    "reorder": lambda x: x.s.reorder(*x.some(x.loops)),
    "parallel": lambda x: x.s.parallel(x.loop),
    "vectorize": lambda x: x.s.vectorize(x.loop),
    "unroll": lambda x: x.s.unroll(x.loop),
    "bind": lambda x: x.s.bind(x.loop, x.rng.choice(["blockIdx.x", "threadIdx.x", "threadIdx.y", "vthread.x"])),
    "decompose_reduction": lambda x: x.s.decompose_reduction(x.block, x.loop),
    "rfactor": lambda x: x.s.rfactor(x.loop, x.rng.choice([0, 0, 1, -1])),
    "rasterize": _rasterize,
    "loop_partition": lambda x: x.s.loop_partition(x.loop, x.rng.choice([[1, None], [2, None], [1, 1, None], [2]])),
    "merge": _merge,
    "blockize": _blockize,
    "decompose_padding": lambda x: x.s.decompose_padding(x.block, x.loop),
    "sample_perfect_tile": _tile,
    "read_at": lambda x: x.s.read_at(x.loop, x.block, 0, "local"),
    "write_at": lambda x: x.s.write_at(x.loop, x.block, 0, "local"),
}
ANYWHERE: dict[str, Move] = {
    "compute_at": _attach("compute_at"),
    "reverse_compute_at": _attach("reverse_compute_at"),
    "compute_inline": lambda x: x.s.compute_inline(x.block),
    "reverse_compute_inline": lambda x: x.s.reverse_compute_inline(x.block),
    "cache_read": lambda x: x.s.cache_read(x.block, 0, "local", _consumers(x)),
    "cache_write": lambda x: x.s.cache_write(x.block, 0, "local", _consumers(x)),
    "cache_inplace": lambda x: x.s.cache_inplace(x.block, 0, "local"),
    "cache_index": lambda x: x.s.cache_index(x.block, "global", x.rng.choice([0, 0, 1, 2])),
    "reindex": lambda x: x.s.reindex(x.block, (x.rng.choice(["read", "write"]), 0)),
    "reindex_cache_read": lambda x: x.s.reindex_cache_read(x.block, 0, "local", lambda *i: i),
    "reindex_cache_write": lambda x: x.s.reindex_cache_write(x.block, 0, "local", lambda *i: i),
    "set_scope": lambda x: x.s.set_scope(x.block, 0, x.rng.choice(["local", "shared"])),
    "storage_align": lambda x: x.s.storage_align(x.block, 0, 0, 8, 1),
    "set_axis_separator": lambda x: x.s.set_axis_separator(x.block, ("write", 0), [1]),
    "add_unit_loop": lambda x: x.s.add_unit_loop(x.rng.choice([x.block, x.loop or x.block])),
    "reorder_block_iter_var": _order,
    "transform_layout": _layout,
    "transform_block_layout": _block_layout,
    "rolling_buffer": lambda x: x.s.rolling_buffer(x.block, 0),
    "pad_einsum": _pad,
    "sample_compute_location": _at_sampled,
    "decompose_halo": lambda x: x.s.decompose_halo(x.block),
    "elide_copy": lambda x: x.s.elide_copy(x.block),
    "merge_axes": lambda x: x.s.merge_axes(x.rng.choice(["root", "root", x.block])),
}
MOVES = {**NEEDS_LOOP, **ANYWHERE}
KINDS = list(MOVES)
OFTEN = ["split", "fuse", "reorder", "compute_at", "reverse_compute_at"] * 2


SETUP = [
    "split", "split", "fuse", "blockize", "blockize", "compute_at", "reverse_compute_at", "cache_read", "cache_write",
    "reindex", "decompose_reduction", "loop_partition", "compute_inline", "reorder", "transform_layout", "merge",
]  # fmt: skip
"""What makes blocks of unusual forms: tiles, parts of domains, loops that repeat them, predicates."""


def sites(s: Schedule) -> list[tuple[str, str, int | None]]:
    """Each primitive at each place: (primitive, block, number of the loop)."""
    out: list[tuple[str, str, int | None]] = []
    names = block_names(s)
    for name in names if len(set(names)) == len(names) else []:
        out += [(kind, name, None) for kind in ANYWHERE]
        out += [(kind, name, n) for kind in NEEDS_LOOP for n in range(len(s.get_loops(s.get_block(name))))]
    return out


def apply(s: Schedule, rng: random.Random, kind: str, name: str, number: int | None) -> None:
    """A primitive at a place, with random arguments."""
    MOVES[kind](Site(s, rng, name, number))


def step(s: Schedule, rng: random.Random, kinds: list[str] | None = None) -> str:
    """One random primitive; its name, and what it was given, for the failure message. Raises what it raises."""
    site = Site(s, rng)
    kind = rng.choice(kinds or KINDS + OFTEN)
    text = f"{kind} {site.name} {site.loops.index(site.loop) if site.loop is not None else None}"
    if kind in ANYWHERE or site.loop is not None:
        MOVES[kind](site)
    return text


__all__ = ["KINDS", "MOVES", "SETUP", "apply", "block_names", "sites", "step"]
