"""Steps that make kernels of GPUs: loops bound to threads, data staged in shared memory, sums over threads."""

from __future__ import annotations

from typing import Any

from tests.generators import steps
from tests.generators.steps import Pick, Unfit
from tilewright.tir import IntImm, IterVar
from tilewright.tir.schedule import Schedule

WIDTH = 4
"""Threads along x in every kernel: loops bound to one axis must agree."""


def _thread_loops(s: Schedule, loops: list[Any]) -> dict[str, Any]:
    """The loops that are bound already, by tag."""
    found = {}
    for rv in loops:
        binding = s.get(rv).thread_binding
        if binding is not None:
            found[binding.thread_tag] = rv
    tags = list(found)
    if "blockIdx.x" in tags and "threadIdx.x" in tags and tags.index("blockIdx.x") > tags.index("threadIdx.x"):
        raise Unfit  # reordered: a thread of several blocks has no storage of its own
    return found


def tile(s: Schedule, p: Pick) -> None:
    """The spatial loops of a block over blocks and threads, maybe with virtual threads between."""
    block = s.get(p.block)
    if _thread_loops(s, p.loops) or len(p.loops) != len(block.iter_vars):
        raise Unfit
    spatial = [lp for lp, iv in zip(p.loops, block.iter_vars, strict=True) if iv.iter_type == IterVar.DataPar]
    if not spatial:
        raise Unfit
    s.reorder(*spatial, *[lp for lp in p.loops if lp not in spatial])
    fused = s.fuse(*spatial) if len(spatial) > 1 else spatial[0]
    if p.rng.random() < 0.3:
        outer, virtual, inner = s.split(fused, [None, 2, WIDTH])
        s.bind(virtual, p.rng.choice(["vthread.x", "vthread.y"]))
    elif p.rng.random() < 0.4:
        outer, inner, _ = s.split(fused, [None, WIDTH, p.rng.choice([2, 3])])
    else:
        outer, inner = s.split(fused, [None, WIDTH])
    s.bind(outer, "blockIdx.x")
    s.bind(inner, "threadIdx.x")


def fetch(s: Schedule, p: Pick) -> None:
    """An operand into shared memory by all threads of the block together."""
    bound = _thread_loops(s, p.loops)
    if "blockIdx.x" not in bound or "threadIdx.x" not in bound:
        raise Unfit
    below = p.loops[p.loops.index(bound["threadIdx.x"]) + 1 :]
    at = p.rng.choice([bound["blockIdx.x"], *below])
    index = p.index("read")
    copy = s.cache_read(p.block, index, p.rng.choice(["shared", "shared", "shared.dyn"]))
    s.compute_at(copy, at)
    own = s.get_loops(copy)
    around = s.get_loops(p.block)
    mine = own[around.index(at) + 1 :] if at in around else own
    if not mine:
        return
    fused = s.fuse(*mine) if len(mine) > 1 else mine[0]
    if at is bound["blockIdx.x"]:
        _, inner = s.split(fused, [None, WIDTH])
        s.bind(inner, "threadIdx.x")


def collect(s: Schedule, p: Pick) -> None:
    """The output in registers, written back by the thread."""
    bound = _thread_loops(s, p.loops)
    if "threadIdx.x" not in bound:
        raise Unfit
    copy = s.cache_write(p.block, p.index("write"), "local")
    s.reverse_compute_at(copy, bound["threadIdx.x"])


def reduce(s: Schedule, p: Pick) -> None:
    """A loop of a reduction over threads."""
    block = s.get(p.block)
    if _thread_loops(s, p.loops).keys() & {"threadIdx.x", "threadIdx.y"} or len(p.loops) != len(block.iter_vars):
        raise Unfit
    over = [lp for lp, iv in zip(p.loops, block.iter_vars, strict=True) if iv.iter_type == IterVar.CommReduce]
    if not over:
        raise Unfit
    loop = p.rng.choice(over)
    extent = s.get(loop).extent
    if p.rng.random() < 0.5 or not isinstance(extent, IntImm):
        _, loop = s.split(loop, [None, WIDTH])
    elif extent.value != WIDTH:
        raise Unfit
    s.bind(loop, "threadIdx.x")
    rest = [lp for lp in s.get_loops(p.block) if s.get(lp).thread_binding is None]
    if rest and p.rng.random() < 0.7 and rest[0] is s.get_loops(p.block)[0]:
        s.bind(rest[0], "blockIdx.x")


def into_kernel(s: Schedule, p: Pick) -> None:
    """A producer computed where its reader's thread needs it."""
    bound = _thread_loops(s, s.get_loops(s.get_block(p.other)))
    if not bound:
        raise Unfit
    s.compute_at(p.block, bound.get("threadIdx.x", next(iter(bound.values()))))


def decompose(s: Schedule, p: Pick) -> None:
    """The start of a reduction apart, by the thread that goes on with it."""
    bound = _thread_loops(s, p.loops)
    below = p.loops[1 + max([p.loops.index(lp) for lp in bound.values()], default=-1) :]
    if not below or bound and "threadIdx.x" not in bound:
        raise Unfit
    s.decompose_reduction(p.block, p.rng.choice(below))


AXES = ["blockIdx.x", "blockIdx.y", *["threadIdx.x"] * 3, "threadIdx.y", "vthread.x", "vthread.y", "vthread"]
SCOPES = ["local", "shared", "shared", "global", "shared.dyn"]


def bind_any(s: Schedule, p: Pick) -> None:
    """Any loop on any axis, whatever the blocks beside it do: lowering says what no threads can run."""
    free = [lp for lp in p.loops if s.get(lp).thread_binding is None]
    if not free:
        raise Unfit
    loop = p.rng.choice(free)
    if p.rng.random() < 0.6:
        _, loop = s.split(loop, [None, p.rng.choice([2, WIDTH])])
    s.bind(loop, p.rng.choice(AXES))


def keep_in(s: Schedule, p: Pick) -> None:
    """A buffer in any memory."""
    s.set_scope(p.block, 0, p.rng.choice(SCOPES))


def _near(s: Schedule, p: Pick) -> Any:
    loops = s.get_loops(s.get_block(p.other))
    if not loops:
        raise Unfit
    return p.rng.choice(loops)


def compute_near(s: Schedule, p: Pick) -> None:
    """A producer at any loop of another block."""
    s.compute_at(p.block, _near(s, p))


def compute_after(s: Schedule, p: Pick) -> None:
    """A consumer at any loop of another block."""
    s.reverse_compute_at(p.block, _near(s, p))


def stage(s: Schedule, p: Pick) -> None:
    """An operand or the output in any memory, copied at any loop."""
    scope, way = p.rng.choice(SCOPES), p.rng.choice(["read", "write"])
    copy = getattr(s, f"cache_{way}")(p.block, p.index(way), scope)
    if p.loops:
        (s.compute_at if way == "read" else s.reverse_compute_at)(copy, p.rng.choice(p.loops))


STEPS = {
    "gpu tile": (12, tile), "gpu fetch": (6, fetch), "gpu collect": (4, collect), "gpu reduce": (5, reduce),
    "gpu compute_at": (3, into_kernel), "gpu decompose": (2, decompose), "gpu bind": (4, bind_any),
    "gpu scope": (2, keep_in), "gpu near": (3, compute_near), "gpu after": (2, compute_after), "gpu stage": (4, stage),
}  # fmt: skip
PLAIN = [
    "split", "reorder", "unroll", "vectorize", "compute_inline", "reverse_compute_inline",
    "rfactor", "storage_align", "double_buffer", "add_unit_loop", "annotate", "compute_inline", "software_pipeline",
]  # fmt: skip
steps.STEPS.update(STEPS)
KINDS = [kind for kind, (weight, _) in STEPS.items() for _ in range(weight)] + PLAIN
