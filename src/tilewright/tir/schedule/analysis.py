"""Functions on schedules beside the methods: whether a block exists, whether it is an output, the layout that fits loops, and the loops
that a tensor intrinsic computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilewright.support import lazy

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.buffer import Buffer
    from tilewright.tir.schedule.index_map import IndexMap
    from tilewright.tir.schedule.schedule import Schedule
    from tilewright.tir.schedule.trace import BlockRV
    from tilewright.tir.stmt import For


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


def suggest_index_map(
    buffer: Buffer, indices: Sequence[PrimExpr], loops: Sequence[For], predicate: PrimExpr
) -> IndexMap | None:
    """The layout of a buffer in which a loop nest reads elements one after the other.

    indices: of the access, in the variables of the loops, which stand outermost first. A digit of the element's number becomes a dimension,
    in the order of the loops: of B[k, j] in the loops j, k0, k1 with k = 4 * k0 + k1 the layout is [j, k // 4, k % 4]. None where the map
    is not found: the loops do not reach each element by one place each, there is a condition, or an extent is not known.
    """
    from tilewright.tir.schedule.facts.suggested_layout import suggested

    return suggested(buffer, indices, loops, predicate)


# These are defined beside the tiling by an intrinsic.
lazy.declare(
    __name__,
    {
        name: f"tilewright.tir.schedule.intrinsic_tiles:{name}"
        for name in ("TensorizeInfo", "get_tensorize_loop_mapping")
    },
)
__getattr__, __dir__ = lazy.late(__name__)
