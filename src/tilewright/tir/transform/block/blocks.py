"""Passes on blocks: initialisation of reductions, places of allocations, and removal of iteration variables."""

from __future__ import annotations

from tilewright.ir import IntImm, PrimExpr
from tilewright.ir.transform import Pass
from tilewright.node import Mutator, mutate_tuple, on
from tilewright.tir.analysis.lca import Place, find_places
from tilewright.tir.arithmetic import const_true, eq, logical_and
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import IterVar, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import Block, BlockRealize, For, IfThenElse, Stmt, stmt_seq
from tilewright.tir.substitution import BufferMutator
from tilewright.tir.transform.base import body_pass
from tilewright.tir.transform.block.empty_reductions import define_empty_reductions


class _LowerInit(Mutator):
    """init -> a conditional before the body, on the first step of every reduction axis."""

    @on(Block)
    def _block(self, block: Block) -> Block:
        block = self.rebuild(block)
        if block.init is None:
            return block
        first: PrimExpr | None = None
        for axis in block.iter_vars:
            if axis.iter_type == IterVar.CommReduce and axis.dom is not None:
                here = eq(axis.var, axis.dom.min)
                first = here if first is None else logical_and(first, here)
        init: Stmt = block.init if first is None else IfThenElse(first, block.init)
        return block.replace(init=None, body=stmt_seq(init, block.body))


def LowerInitBlock() -> Pass:
    """Move `init` of blocks into their bodies, under the condition that all reduction axes are at their start. If the
    loops of a reduction may have no iteration, also initialise before them.
    """
    return body_pass(
        "LowerInitBlock", lambda f: _LowerInit().visit(define_empty_reductions(f.body)), gives=("no_init",)
    )


class _Allocate(Mutator):
    """Allocates each buffer at its place in `places`. For a loop it adds an opaque block around the body."""

    def __init__(self, places: dict[Buffer, Place]) -> None:
        self.at: dict[int, list[Buffer]] = {}
        for buffer, place in places.items():
            self.at.setdefault(id(place.node), []).append(buffer)
        self.moved = places
        self.placed: list[Buffer] = []
        """The placed buffers, in the order in which the walk leaves their places."""

    @on(For)
    def _for(self, s: For) -> Stmt:
        new = self.rebuild(s)
        here = self.at.get(id(s))
        if not here:
            return new
        self.placed += here
        block = Block((), (), (), "", new.body, alloc_buffers=tuple(here))
        return new.replace(body=BlockRealize((), const_true(), block))

    @on(Block)
    def _block(self, block: Block) -> Block:
        mark = len(self.placed)
        new = self.rebuild(block)
        inner = set(self.placed[mark:])
        if inner:
            # The regions of a block do not include buffers that it allocates.
            reads, writes = ([r for r in regions if r.buffer not in inner] for regions in (new.reads, new.writes))
            if len(reads) < len(new.reads) or len(writes) < len(new.writes):
                new = new.replace(reads=tuple(reads), writes=tuple(writes))
        here = self.at.get(id(block), [])
        self.placed += here
        kept = [b for b in block.alloc_buffers if b not in self.moved]
        buffers = (*kept, *here)
        if len(buffers) == len(block.alloc_buffers) and set(buffers) == set(block.alloc_buffers):
            return new
        return new.replace(alloc_buffers=buffers)


def _plan(func: PrimFunc) -> Stmt:
    places = find_places(func)
    out: Stmt = _Allocate(places).visit(func.body)
    return out


def PlanAndUpdateBufferAllocationLocation() -> Pass:
    """Allocate each buffer of a block at the innermost loop or block that holds all its accesses.

    A loop stays inside the allocation if a value may be kept from one iteration to the next. It goes outside only if
    each read provably gets a value that the same iteration wrote, whatever the kinds of the block's axes are.
    """
    return body_pass("PlanAndUpdateBufferAllocationLocation", _plan, gives=("allocations_placed",))


class _Opaque(BufferMutator):
    """Replaces block variables by their values in the realization."""

    def __init__(self) -> None:
        super().__init__()
        self.env: dict[Var, PrimExpr] = {}

    @on(Var)
    def _var(self, v: Var) -> PrimExpr:
        return self.env.get(v, v)

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> Stmt:
        block = s.block
        if not block.iter_vars:
            return self.rebuild(s)
        predicate = self.visit(s.predicate)
        for axis, value in zip(block.iter_vars, s.iter_values, strict=True):
            bound = self.visit(value)
            if isinstance(bound, IntImm) and bound.dtype is not axis.var.dtype:
                bound = IntImm(axis.var.dtype, bound.value)
            self.env[axis.var] = bound
        new = self.rebuild(block.replace(iter_vars=()))
        alloc = mutate_tuple(self.visit, new.alloc_buffers)
        return BlockRealize((), predicate, new.replace(alloc_buffers=alloc), s.span)


def ConvertBlocksToOpaque() -> Pass:
    """Replace block variables by their values. The remaining blocks hold only buffers and predicates."""
    return body_pass(
        "ConvertBlocksToOpaque", lambda f: _Opaque().visit(f.body), needs=("no_init",), gives=("opaque_blocks",)
    )
