"""unsafe_set_dtype: sets another element type for an intermediate buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.tir import BufferLoad, BufferRegion, BufferStore, Cast, decl_buffer
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.block_checks import alloc_site
from tilewright.tir.schedule.primitives.rewrite import RewriteAccesses
from tilewright.tir.schedule.state import ScheduleState, StmtSRef

if TYPE_CHECKING:
    from tilewright.tir.buffer import Buffer


def set_buffer_dtype(state: ScheduleState, ref: StmtSRef, old: Buffer, dtype: str) -> None:
    """Make loads cast to the old type, and stores cast to the new one."""
    site = alloc_site(ref, old)
    if site is None:
        refuse("{0} must be an intermediate buffer, but is a parameter of the function", old)
    if old.dtype == dtype:
        return
    new = decl_buffer(old.shape, dtype, old.name, scope=old.scope())
    rewriter = RewriteAccesses(
        old,
        lambda x: Cast(old.dtype, BufferLoad(new, x.indices)),
        lambda x: BufferStore(new, Cast(new.dtype, x.value), x.indices),
        lambda r: BufferRegion(new, r.region),
    )
    block = site.stmt
    body = rewriter.visit(block.body)
    allocs = tuple([new if b is old else b for b in block.alloc_buffers])
    state.replace(site, block.replace(body=body, alloc_buffers=allocs), rewriter.reuse)
