"""Random primitives of tir.Schedule on whatever program it holds."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tilewright.support.errors import InternalError, ScheduleError, TVMError
from tilewright.tir import IntImm
from tilewright.tir.schedule import Schedule
from tilewright.tir.schedule.schedule import all_blocks

SCOPES = ["local", "local", "shared", "global"]


class StepRefused(Exception):
    """A primitive said no."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Unfit(Exception):
    """The block that was picked has nothing to give to the primitive."""


class Pick:
    """A random block of the program and its loops."""

    def __init__(self, s: Schedule, rng: random.Random) -> None:
        self.s, self.rng = s, rng
        self.blocks = [b.name_hint for b in all_blocks(s.mod["main"].body.block.body)]
        self.unique = [n for n in self.blocks if self.blocks.count(n) == 1]
        if not self.unique:
            raise Unfit
        self.name = rng.choice(self.unique)
        self.block = s.get_block(self.name)
        self.loops = s.get_loops(self.block)

    @property
    def loop(self) -> Any:
        """One of the loops, the innermost more often."""
        if not self.loops:
            raise Unfit
        return self.loops[-1] if self.rng.random() < 0.3 else self.rng.choice(self.loops)

    @property
    def other(self) -> str:
        return self.rng.choice(self.unique)

    def accesses(self, way: str) -> Any:
        """Regions that the block reads or writes."""
        block = self.s.get(self.block)
        regions = block.reads if way == "read" else block.writes
        if not regions:
            raise Unfit
        return regions

    def index(self, way: str) -> int:
        return self.rng.randrange(len(self.accesses(way)))

    def index_map(self, rank: int, extents: list[Any]) -> Any:
        """A bijection on indices, or one that pads."""
        if rank == 0:
            raise Unfit
        kinds = ["rotate", "split", "split", "fuse", "swap"]
        kind = self.rng.choice(kinds)
        factor = self.rng.choice([2, 2, 3, 4])
        a = self.rng.randrange(rank)
        if kind == "split":
            return lambda *i: (*i[:a], i[a] // factor, i[a] % factor, *i[a + 1 :])
        if kind == "fuse" and rank > 1 and isinstance(extents[-1], IntImm):
            n = int(extents[-1])
            return lambda *i: (*i[:-2], i[-2] * n + i[-1])
        if kind == "swap" and rank > 1:
            return lambda *i: (*i[:a], i[-1], *i[a + 1 : -1], i[a]) if a < len(i) - 1 else i
        return lambda *i: (*i[1:], i[0])


def _factors(rng: random.Random) -> list[int | None]:
    few = rng.choice([2, 3, 4, 5, 8, 16, 1])
    choice = rng.random()
    if choice < 0.7:
        return [None, few]
    if choice < 0.85:
        return [few, None]
    return [rng.choice([1, 2, 3]), None, rng.choice([2, 4])] if choice < 0.95 else [None, 2, rng.choice([2, 3])]


def split(s: Schedule, p: Pick) -> None:
    s.split(p.loop, _factors(p.rng), preserve_unit_iters=p.rng.random() < 0.8)


def fuse(s: Schedule, p: Pick) -> None:
    count = p.rng.choice([2, 2, 3])
    if len(p.loops) < count:
        raise Unfit
    i = p.rng.randrange(len(p.loops) - count + 1)
    s.fuse(*p.loops[i : i + count], preserve_unit_iters=p.rng.random() < 0.8)


def reorder(s: Schedule, p: Pick) -> None:
    if len(p.loops) < 2:
        raise Unfit
    s.reorder(*p.rng.sample(p.loops, p.rng.randint(2, len(p.loops))))


def _marked(kind: str) -> Callable[[Schedule, Pick], None]:
    def mark(s: Schedule, p: Pick) -> None:
        loop = p.loops[-1] if kind == "vectorize" and p.loops and p.rng.random() < 0.5 else p.loop
        getattr(s, kind)(loop)

    return mark


def bind(s: Schedule, p: Pick) -> None:
    s.bind(p.loop, p.rng.choice(["blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.x", "threadIdx.y", "vthread.x"]))


def _at(kind: str) -> Callable[[Schedule, Pick], None]:
    def compute_at(s: Schedule, p: Pick) -> None:
        targets = s.get_loops(s.get_block(p.other))
        if not targets:
            raise Unfit
        index = p.rng.choice([-1, -1, -1, -2, 0])
        getattr(s, kind)(p.block, p.rng.choice(targets), preserve_unit_loops=p.rng.random() < 0.3, index=index)

    return compute_at


def _on_block(kind: str) -> Callable[[Schedule, Pick], None]:
    return lambda s, p: getattr(s, kind)(p.block)


def _on_both(kind: str) -> Callable[[Schedule, Pick], None]:
    return lambda s, p: getattr(s, kind)(p.block, p.loop)


def _cache(kind: str, way: str) -> Callable[[Schedule, Pick], None]:
    def cache(s: Schedule, p: Pick) -> None:
        index = p.index(way)
        consumers = None
        if p.rng.random() < 0.15:
            buffer = p.accesses(way)[index].buffer
            readers = [n for n in p.unique if any([r.buffer is buffer for r in s.get(s.get_block(n)).reads])]
            consumers = [p.rng.choice(readers)] if readers else None
        getattr(s, kind)(p.block, index, p.rng.choice(SCOPES), consumer_blocks=consumers)

    return cache


def _staged_at(kind: str, way: str) -> Callable[[Schedule, Pick], None]:
    return lambda s, p: getattr(s, kind)(p.loop, p.block, p.index(way), p.rng.choice(SCOPES))


def cache_inplace(s: Schedule, p: Pick) -> None:
    s.cache_inplace(p.block, p.index("read"), p.rng.choice(SCOPES))


def cache_index(s: Schedule, p: Pick) -> None:
    s.cache_index(p.block, p.rng.choice(SCOPES), p.rng.choice([0, 1, 2]))


def reindex(s: Schedule, p: Pick) -> None:
    way = p.rng.choice(["read", "write"])
    s.reindex(p.block, (way, p.index(way)))


def _reindex_cache(kind: str, way: str) -> Callable[[Schedule, Pick], None]:
    def cache(s: Schedule, p: Pick) -> None:
        index = p.index(way)
        change: Any = p.rng.choice([lambda *i: i, lambda *i: tuple(reversed(i)), lambda *i: i[:-1] or i])
        getattr(s, kind)(p.block, index, p.rng.choice(SCOPES), change)

    return cache


def rfactor(s: Schedule, p: Pick) -> None:
    writes = p.accesses("write")
    s.rfactor(p.loop, p.rng.randint(0, len(writes[0].region)))


def set_scope(s: Schedule, p: Pick) -> None:
    s.set_scope(p.block, p.index("write"), p.rng.choice(SCOPES))


def storage_align(s: Schedule, p: Pick) -> None:
    index = p.index("write")
    rank = len(p.accesses("write")[index].region)
    s.storage_align(p.block, index, p.rng.randrange(-1, rank), p.rng.choice([4, 8, 32]), p.rng.choice([0, 1, 4]))


def set_axis_separator(s: Schedule, p: Pick) -> None:
    way = p.rng.choice(["read", "write"])
    index = p.index(way)
    rank = len(p.accesses(way)[index].region)
    s.set_axis_separator(p.block, (way, index), [p.rng.randint(1, max(rank - 1, 1))] if p.rng.random() < 0.8 else [])


def add_unit_loop(s: Schedule, p: Pick) -> None:
    s.add_unit_loop(p.block if p.rng.random() < 0.5 else p.loop)


def blockize(s: Schedule, p: Pick) -> None:
    s.blockize(p.loop, preserve_unit_iters=p.rng.random() < 0.7)


def transform_layout(s: Schedule, p: Pick) -> None:
    way = p.rng.choice(["read", "write", "write"])
    index = p.index(way)
    buffer = p.accesses(way)[index].buffer
    if buffer in s.mod["main"].buffer_map.values():
        raise Unfit  # that would change what callers pass
    pad = None
    if p.rng.random() < 0.4:
        pad = False if buffer.dtype == "bool" else 0.0 if "float" in buffer.dtype else 0
    chosen = p.index_map(len(buffer.shape), list(buffer.shape))
    s.transform_layout(p.block, (way, index), chosen, pad)


def transform_block_layout(s: Schedule, p: Pick) -> None:
    iters = s.get(p.block).iter_vars
    if not iters:
        raise Unfit
    s.transform_block_layout(p.block, p.index_map(len(iters), [iv.dom.extent for iv in iters]))


def reorder_block_iter_var(s: Schedule, p: Pick) -> None:
    count = len(s.get(p.block).iter_vars)
    s.reorder_block_iter_var(p.block, p.rng.sample(range(count), count))


def rasterize(s: Schedule, p: Pick) -> None:
    loops = s.get_loops(p.block)
    if len(loops) < 2:
        raise Unfit
    at = p.rng.randrange(len(loops) - 1)
    s.rasterize(loops[at], loops[at + 1], p.rng.choice([1, 2, 4]))


def loop_partition(s: Schedule, p: Pick) -> None:
    s.loop_partition(p.loop, p.rng.choice([[1, None], [2, None], [None, 2], [1, None, 1]]))


def merge(s: Schedule, p: Pick) -> None:
    other = s.get_loops(s.get_block(p.other))
    if not other:
        raise Unfit
    s.merge(p.loop, p.rng.choice(other))


def pad_einsum(s: Schedule, p: Pick) -> None:
    count = len(s.get(p.block).iter_vars)
    s.pad_einsum(p.block, [p.rng.choice([1, 1, 2, 3, 4]) for _ in range(count)])


def rolling_buffer(s: Schedule, p: Pick) -> None:
    s.rolling_buffer(p.block, p.index("write"))


def annotate(s: Schedule, p: Pick) -> None:
    key, value = p.rng.choice(
        [
            ("pragma_auto_unroll_max_step", 4),
            ("pragma_auto_unroll_max_step", 64),
            ("pragma_unroll_explicit", 1),
            ("mark", [1, 2]),
        ]
    )
    if p.rng.random() < 0.2:
        s.annotate(p.block, "mark", "text")
    else:
        s.annotate(p.loop, key, value)


def unannotate(s: Schedule, p: Pick) -> None:
    marked = [loop for loop in p.loops if s.get(loop).annotations]
    if not marked:
        raise Unfit
    loop = p.rng.choice(marked)
    s.unannotate(loop, p.rng.choice(sorted(s.get(loop).annotations)))


def software_pipeline(s: Schedule, p: Pick) -> None:
    """Stages and order of the statements in a loop that holds several."""
    from tilewright.tir import SeqStmt

    fit = [loop for loop in p.loops if isinstance(s.get(loop).body, SeqStmt)]
    if not fit:
        raise Unfit
    loop = fit[-1]
    count = len(s.get(loop).body.seq)
    s.annotate(loop, "software_pipeline_stage", sorted([p.rng.choice([0, 1]) for _ in range(count)]))
    s.annotate(loop, "software_pipeline_order", list(range(count)))


def double_buffer(s: Schedule, p: Pick) -> None:
    s.annotate(p.block, "double_buffer_scope", 0)


def sample_perfect_tile(s: Schedule, p: Pick) -> None:
    loop = p.loop
    s.split(loop, s.sample_perfect_tile(loop, p.rng.choice([2, 3]), p.rng.choice([4, 16])))


def sample_partitioned_tile(s: Schedule, p: Pick) -> None:
    loop = p.loop
    s.split(loop, s.sample_partitioned_tile(loop, 3, 1, p.rng.choice([1, 2])))


def sample_categorical(s: Schedule, p: Pick) -> None:
    s.split(p.loop, [None, s.sample_categorical([2, 3, 4], [0.25, 0.25, 0.5])])


def sample_compute_location(s: Schedule, p: Pick) -> None:
    s.compute_at(p.block, s.sample_compute_location(p.block))


def unsafe_set_dtype(s: Schedule, p: Pick) -> None:
    """Wider floats for a buffer between: values are exact in either."""
    index = p.index("write")
    if p.accesses("write")[index].buffer.dtype not in ("float16", "bfloat16"):
        raise Unfit
    s.unsafe_set_dtype(p.block, index, "float32")


def enter_postproc(s: Schedule, p: Pick) -> None:
    s.enter_postproc()


STEPS: dict[str, tuple[int, Callable[[Schedule, Pick], None]]] = {
    "split": (9, split), "fuse": (5, fuse), "reorder": (6, reorder), "vectorize": (4, _marked("vectorize")),
    "unroll": (3, _marked("unroll")), "parallel": (2, _marked("parallel")), "compute_at": (7, _at("compute_at")),
    "reverse_compute_at": (7, _at("reverse_compute_at")), "compute_inline": (3, _on_block("compute_inline")),
    "reverse_compute_inline": (3, _on_block("reverse_compute_inline")), "cache_read": (3, _cache("cache_read", "read")),
    "cache_write": (3, _cache("cache_write", "write")), "cache_inplace": (1, cache_inplace),
    "cache_index": (1, cache_index), "reindex": (2, reindex),
    "reindex_cache_read": (1, _reindex_cache("reindex_cache_read", "read")),
    "reindex_cache_write": (1, _reindex_cache("reindex_cache_write", "write")),
    "read_at": (1, _staged_at("read_at", "read")), "write_at": (1, _staged_at("write_at", "write")),
    "decompose_reduction": (3, _on_both("decompose_reduction")), "rfactor": (4, rfactor), "set_scope": (2, set_scope),
    "storage_align": (1, storage_align), "set_axis_separator": (1, set_axis_separator),
    "add_unit_loop": (1, add_unit_loop), "blockize": (2, blockize), "transform_layout": (3, transform_layout),
    "transform_block_layout": (2, transform_block_layout), "reorder_block_iter_var": (1, reorder_block_iter_var),
    "loop_partition": (2, loop_partition), "rasterize": (1, rasterize), "merge": (2, merge), "pad_einsum": (1, pad_einsum),
    "decompose_padding": (2, _on_both("decompose_padding")), "rolling_buffer": (1, rolling_buffer),
    "annotate": (1, annotate), "unannotate": (1, unannotate), "software_pipeline": (1, software_pipeline),
    "double_buffer": (1, double_buffer), "sample_perfect_tile": (1, sample_perfect_tile),
    "sample_partitioned_tile": (1, sample_partitioned_tile), "sample_categorical": (1, sample_categorical),
    "sample_compute_location": (1, sample_compute_location), "unsafe_set_dtype": (1, unsafe_set_dtype),
    "enter_postproc": (1, enter_postproc),
}  # fmt: skip
KINDS = [kind for kind, (weight, _) in STEPS.items() for _ in range(weight)]


def step(s: Schedule, rng: random.Random, kinds: list[str] | None = None) -> tuple[str, str]:
    """One random primitive: its name, and that with the block it was given. Raises StepRefused."""
    for _ in range(4):
        kind = rng.choice(kinds or KINDS)
        name = ""
        try:
            pick = Pick(s, rng)
            name = pick.name
            STEPS[kind][1](s, pick)
        except Unfit:
            continue
        except ScheduleError:
            raise StepRefused(kind) from None
        except InternalError:
            raise
        except TVMError:
            raise StepRefused(kind) from None
        return kind, f"{kind} {name}"
    raise StepRefused("nothing fits")
