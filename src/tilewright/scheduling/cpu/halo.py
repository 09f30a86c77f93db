"""Kernels that write their result with its halo, so that a reader with padding needs no copy of it.

T = kernel(..);  for i: P[i] = T[i - before] if inside else 0
-->
for i outside: P[i] = 0
kernel writes T, which is a view of P: the part inside, with P's strides

The other rules do not see the last step (`HALO`), as if the result without its halo were the kernel's.
"""

from __future__ import annotations

from math import prod
from typing import Any

from tilewright.arith import Analyzer
from tilewright.ir import FloatImm, IntImm
from tilewright.scheduling.block_views import HALO, KernelView, extent_of
from tilewright.scheduling.cpu.sharing import shares
from tilewright.scheduling.long_rows import has_roles
from tilewright.target import Target
from tilewright.tir import Buffer, BufferLoad, BufferStore, Call, SeqStmt
from tilewright.tir.schedule import BlockRV, Schedule
from tilewright.tir.schedule.facts.leaves import conjuncts, leaves
from tilewright.tir.transform.base import call_name


def set_halo_apart(sch: Schedule) -> BlockRV | None:
    """Hide the last block of a kernel with products or windows from the other rules, if it adds a halo to the result."""
    root = sch.get(sch.get_block("root"))
    if not isinstance(root.body, SeqStmt):
        return None
    *steps, last = [x for st in root.body.seq for x in leaves(st)]
    if not adds_halo(last.block, root) or not has_roles(steps):
        return None
    if any([r.buffer is last.block.body.buffer for x in steps for r in (*x.block.reads, *x.block.writes)]):
        return None
    rv = sch.get_block(last.block.name_hint)
    sch.annotate(rv, HALO, 1)
    return rv


def adds_halo(block: Any, root: Any) -> bool:
    """Whether a block is P[i] = if_then_else(inside, T[i - before], constant), for a buffer T of the kernel and constant
    sizes.
    """
    store = block.body
    call = store.value if isinstance(store, BufferStore) and store.buffer not in root.alloc_buffers else None
    if not isinstance(call, Call) or call_name(call) != "if_then_else":
        return False
    condition, load, value = call.args
    if not isinstance(load, BufferLoad) or not isinstance(value, (IntImm, FloatImm)):
        return False
    axes = [iv.var for iv in block.iter_vars]
    dims = len(sizes_of(store.buffer)), len(sizes_of(load.buffer)), len(store.indices), len(load.indices)
    if load.buffer not in root.alloc_buffers or any([n != len(axes) for n in dims]):
        return False
    if not all([i is v for i, v in zip(store.indices, axes, strict=True)]):
        return False
    simplify = Analyzer().simplify
    shifts = [simplify(v - i) for v, i in zip(axes, load.indices, strict=True)]
    before = [n.value for n in shifts if isinstance(n, IntImm) and n.value >= 0]
    if len(before) != len(axes):
        return False
    wanted: set[str] = set()
    for v, low, n, size in zip(axes, before, sizes_of(load.buffer), sizes_of(store.buffer), strict=True):
        if low + n > size:
            return False
        wanted |= {str(simplify(v >= low))} if low else set()
        wanted |= {str(simplify(v < low + n))} if low + n < size else set()
    return bool(wanted) and {str(simplify(c)) for c in conjuncts(condition)} == wanted


def write_halo(view: KernelView, block: BlockRV, target: Target) -> None:
    """Let a scheduled kernel write its result inside of the halo, and the halo as well."""
    sch = view.sch
    name, whole = sch.get(block).name_hint, sch.get(block).writes[0].buffer
    elements = prod(sizes_of(whole)) - prod(sizes_of(sch.get(block).reads[0].buffer))
    made = sch.decompose_halo(block)
    lanes = target.cpu.lanes(whole.dtype.bits)
    for part in made:
        last = sch.get_loops(part)[-1]
        if 1 < extent_of(sch.get(last)) <= lanes:
            sch.vectorize(last)
    outer = sch.get_loops(made[0])[0]
    together = len(made) == 1 or len(sch.get_child_blocks(outer)) == len(made)
    if together and shares(view, name, elements, target):
        sch.parallel(outer)
    sch.elide_copy(block)


def sizes_of(buffer: Buffer) -> list[int]:
    """The extents of a buffer of constant shape."""
    return [n.value for n in buffer.shape if isinstance(n, IntImm)]
