"""Functions on schedules beside the methods: whether a block exists, and whether it is an output."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule
    from tilewright.tir.schedule.trace import BlockRV


def has_block(sch: Schedule, block_name: str) -> bool:
    """Whether the selected (or only) function has a block of this name."""
    gvar = sch._function(None)
    return any([ref.stmt.name_hint == block_name for ref in sch._blocks(gvar)])


def is_output_block(sch: Schedule, block: BlockRV | str) -> bool:
    """Whether a block writes a buffer that its scope does not allocate."""
    from tilewright.tir.schedule.facts.block_checks import written_buffers
    from tilewright.tir.schedule.facts.leaves import scope_root

    ref = sch.block(sch.get_block(block) if isinstance(block, str) else block)
    own = set(scope_root(ref).stmt.alloc_buffers)
    return any([b not in own for b in written_buffers(ref.stmt)])
