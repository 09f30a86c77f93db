"""Completion of programs: adds the root block, and the regions of blocks that do not state them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import IntImm
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Var
from tilewright.tir.stmt import Block, BlockRealize, BufferRegion, Stmt
from tilewright.tir.stmt_functor import any_stmt


def with_root(body: Stmt, allocations: list[Buffer], detected: set[int]) -> Stmt:
    """The body of a function, in a root block when it has blocks or buffers but none around them."""
    if isinstance(body, BlockRealize) and not body.block.iter_vars and not allocations:
        if id(body.block) in detected:
            # The root block does not count as an access.
            return body.replace(block=body.block.replace(reads=(), writes=()))
        return body
    if not allocations and not has_block(body):
        return body
    root = Block((), (), (), "root", body, None, tuple(allocations))
    return BlockRealize((), IntImm("bool", 1), root)


def has_block(stmt: Stmt) -> bool:
    """Whether a block stands anywhere in a statement."""
    return any_stmt(stmt, lambda s: isinstance(s, BlockRealize))


def with_regions(block: Block, by_data: Mapping[Var, Buffer], missing: tuple[bool, bool]) -> Block:
    """The block with what it reads and writes found from its body, as far as that is missing."""
    from tilewright.tir import parser

    reads, writes, opaque = parser.get_block_access_region(block, by_data)
    changes: dict[str, Any] = {}
    if missing[1]:
        changes["writes"] = (*writes, *opaque)
    if missing[0]:
        # A reduction's own running value is not an input of it.
        excluded = {id(w.buffer) for w in changes.get("writes", block.writes)} if block.init is not None else set()
        kept: list[BufferRegion] = [r for r in reads if id(r.buffer) not in excluded]
        changes["reads"] = (*kept, *opaque)
    return block.replace(**changes)
