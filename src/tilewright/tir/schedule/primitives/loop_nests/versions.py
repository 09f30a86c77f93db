"""add_version: makes two versions of a program; a size selects one at run time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tilewright.ir import IntImm, PrimExpr
from tilewright.node import Visitor, on, post_order_visit, structural_equal
from tilewright.tir import EQ, LE, Add, Block, BlockRealize, Buffer, BufferStore, FloorDiv, IfThenElse, Mul, floordiv
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.primitives.rewrite import TRUE, body_list, with_statements
from tilewright.tir.schedule.state import seq_of
from tilewright.tir.schedule.trace import BlockRV, primitive
from tilewright.tir.stmt_functor import renew_body
from tilewright.tir.substitution import BufferMutator

if TYPE_CHECKING:
    from tilewright.tir.schedule.schedule import Schedule

SPARE = 16
"""The larger tiles are chosen if they compute at most one more row for each so many rows."""


@primitive
def add_version(s: Schedule, block: BlockRV | str, multiple: int, other: int, free_rows: str = "") -> list[BlockRV]:
    """S over (n + 3) // 4 * 4 rows
    -->
    if (n + 7) // 8 * 8 * 16 <= (n + 3) // 4 * 4 * 17: S over (n + 7) // 8 * 8 rows;  else: S

    block: the root block. multiple: the number to which a size n is rounded up; other: the number in the added version,
    a multiple of it. free_rows: an annotation of blocks which compute each row for itself, and of which only the n rows
    are read. If nothing but their domains and the buffers between blocks is rounded up, the added version may compute
    more rows; otherwise it runs where both numbers of rows are equal. Returns a block for each version, the added one
    first. Handles of loops and blocks inside become invalid.
    """
    ref = s.block(block)
    old = ref.stmt
    if ref.parent is not None:
        refuse("{0} must be the root block", old)
    if multiple < 1 or other % multiple or other == multiple:
        refuse(f"the other number must be a multiple of {multiple}, but is {other}", old)
    func = s.state.functions[s.state.function_of(ref)]
    parameters = func.buffer_map.values()
    inner = old.replace(body=seq_of(body_list(old.body)))
    raised = _Raised(parameters, multiple, other)
    more = raised.visit(inner)
    if raised.size is None:
        refuse(f"a size must be rounded up to a multiple of {multiple} in {{0}}", old)
    rows, wide = rounded(raised.size, multiple), rounded(raised.size, other)
    free = _only_free(inner, parameters, multiple, free_rows)
    condition = LE(wide * SPARE, rows * (SPARE + 1)) if free else EQ(rows, wide)
    versions: list[Any] = [renew_body(func.replace(body=BlockRealize((), TRUE, v))) for v in (more, inner)]
    both = IfThenElse(condition, *versions)
    s.state.replace(ref, old.replace(alloc_buffers=(), body=with_statements(old.body, [both]), annotations={}))
    return [s.block_rv(s.state.ref(v.block)) for v in versions]


def rounded(size: Any, multiple: int) -> Any:
    """A size rounded up to a multiple."""
    return floordiv(size + (multiple - 1), multiple) * multiple


def size_of(e: Mul, multiple: int) -> PrimExpr | None:
    """The size d of an expression (d + multiple - 1) // multiple * multiple, else None."""
    if not (isinstance(e.b, IntImm) and e.b.value == multiple and isinstance(e.a, FloorDiv)):
        return None
    total, by = e.a.a, e.a.b
    if not (isinstance(by, IntImm) and by.value == multiple and isinstance(total, Add)):
        return None
    return total.a if isinstance(total.b, IntImm) and total.b.value == multiple - 1 else None


class _Raised(BufferMutator):
    """Rounds one size that is rounded up to a multiple up to another one. Parameters stay."""

    def __init__(self, parameters: Iterable[Buffer], multiple: int, other: int) -> None:
        super().__init__()
        self.buffers.update({b: b for b in parameters})
        self.multiple, self.other = multiple, other
        self.size: PrimExpr | None = None

    @on(Mul)
    def _mul(self, e: Mul) -> PrimExpr:
        size = size_of(e, self.multiple)
        if size is None or self.size is not None and not structural_equal(size, self.size):
            return self.rebuild(e)
        self.size = size
        return rounded(size, self.other)  # type: ignore[no-any-return]


def _only_free(block: Block, parameters: Iterable[Buffer], multiple: int, free_rows: str) -> bool:
    """Whether only domains of blocks with the annotation are rounded up."""
    parts: list[Any] = [d for b in parameters for d in b.shape]

    def look(e: Any) -> None:
        if isinstance(e, Block) and free_rows not in e.annotations:
            parts.extend([iv.dom.extent for iv in e.iter_vars if iv.dom is not None])
        elif isinstance(e, BufferStore):
            parts.extend([e.value, *e.indices])

    post_order_visit(block, look)
    found = _Rounded(multiple)
    for part in parts:
        found.visit(part)
    return not found.any


class _Rounded(Visitor):
    """Whether an expression rounds up. The shapes of buffers that it reads do not count."""

    def __init__(self, multiple: int) -> None:
        self.multiple, self.any = multiple, False

    @on(Buffer)
    def _buffer(self, b: Buffer) -> None:
        pass

    @on(Mul)
    def _mul(self, e: Mul) -> None:
        self.any = self.any or size_of(e, self.multiple) is not None
        self.visit_children(e)


def rounds_up(block: Block, parameters: Iterable[Buffer], multiple: int) -> bool:
    """Whether a block can have a version with a size rounded up to another number."""
    raised = _Raised(parameters, multiple, multiple)
    raised.visit(block)
    return raised.size is not None
