"""Rewrites shared by primitives: they replace loop variables, buffers and predicates, and keep everything else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tilewright.ir import IntImm, PrimExpr
from tilewright.node import Mutator, mutate_tuple, on
from tilewright.tir import (
    AllocateConst,
    Block,
    BlockRealize,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    MatchBufferRegion,
    SeqStmt,
    Var,
    decl_buffer,
)
from tilewright.tir.arithmetic import cast_to
from tilewright.tir.schedule.errors import refuse
from tilewright.tir.schedule.facts.leaves import conjunction, conjuncts
from tilewright.tir.schedule.facts.linear_forms import Forms
from tilewright.tir.schedule.state import children, seq_of
from tilewright.tir.stmt_functor import used_vars

if TYPE_CHECKING:
    from tilewright.tir.stmt import Stmt


_vars_of_blocks: dict[int, tuple[Any, set[Any]]] = {}


def vars_of_block(block: Block) -> set[Var]:
    """All variables in a block, cached per block: loop primitives do not change blocks."""
    found = _vars_of_blocks.get(id(block))
    if found is not None and found[0] is block:
        return found[1]
    if len(_vars_of_blocks) > 4096:
        _vars_of_blocks.clear()
    used = vars_in(block)
    _vars_of_blocks[id(block)] = (block, used)
    return used


def vars_in(e: PrimExpr | Stmt) -> set[Var]:
    """The variables in an expression or statement."""
    return set(used_vars(e))


class SubstituteLoops(Mutator):
    """Replaces loop variables in a loop nest. Bindings are put in canonical form.

    `conditions` are added to the predicate of every block that the loops reach.
    """

    def __init__(self, forms: Forms, env: Mapping[Var, PrimExpr], conditions: Iterable[PrimExpr] = ()) -> None:
        # The variables of fused or split loops may have a wider type than the variables that they replace.
        self.env = {v: cast_to(e, v.dtype) for v, e in env.items()}
        self.forms = forms
        self.form_env = {v: forms.of(e) for v, e in env.items()}
        self.conditions = list(conditions)

    @on(Var)
    def _var(self, v: Var) -> PrimExpr:
        return self.env.get(v, v)

    @on(BlockRealize)
    def _realize(self, x: BlockRealize) -> Stmt:
        forms = self.forms
        values = []
        for value in x.iter_values:
            if self.env.keys().isdisjoint(vars_in(value)):
                values.append(value)
            else:
                values.append(forms.emit(forms.of(value, self.form_env), value.dtype))
        block = x.block
        if not self.env.keys().isdisjoint(vars_of_block(block)):
            block = self.visit(block)
        conditions = [self.visit(c) for c in conjuncts(x.predicate)]
        if self.conditions:
            conditions += self.conditions
        return x.replace(iter_values=tuple(values), predicate=conjunction(conditions), block=block)


def substitute_loops(forms: Forms, stmt: Any, env: Mapping[Any, Any], conditions: Iterable[Any] = ()) -> Any:
    return SubstituteLoops(forms, env, conditions).visit(stmt)


class ReplaceBuffers(Mutator):
    """Replaces buffers by others of the same shape, in bodies, regions and allocations, but not inside other blocks.

    wanted: whether to rewrite a block and everything in it; None for all blocks.
    """

    def __init__(self, buffers: Mapping[Buffer, Buffer], wanted: Callable[[Any], bool] | None = None) -> None:
        self.buffers = buffers
        self.data = {a.data: b.data for a, b in buffers.items() if a.data is not b.data}
        self.wanted = wanted
        self.reuse: dict[Any, Any] = {}

    @on(Buffer)
    def _buffer(self, b: Buffer) -> Buffer:
        return self.buffers.get(b, b)

    @on(Var)
    def _var(self, v: Var) -> Var:
        return self.data.get(v, v)

    @on(Block)
    def _block(self, x: Block) -> Stmt:
        wanted = self.wanted
        if wanted is None:
            return self._replaced(x)
        if not wanted(x):
            return x
        self.wanted = None  # everything inside of it is rewritten too
        new = self._replaced(x)
        self.wanted = wanted
        return new

    def _replaced(self, x: Block) -> Stmt:
        if not touches(x, self.buffers):
            return x
        views = {
            m.buffer: _view_of(m.buffer, self.buffers[m.source.buffer])
            for m in x.match_buffers
            if m.source.buffer in self.buffers and m.buffer.scope() != self.buffers[m.source.buffer].scope()
        }
        if not views:
            new = self.rebuild(x)
        else:
            below = ReplaceBuffers({**self.buffers, **views})
            new = below.rebuild(x)
            self.reuse.update(below.reuse)
        if new is not x:
            self.reuse[x] = new
        return new


def _view_of(view: Buffer, source: Buffer) -> Buffer:
    """A copy of a view for memory in the scope of `source`."""
    like = decl_buffer(view.shape, view.dtype, view.name, scope=source.scope())
    return view.replace(data=like.data)


def touches(block: Block, buffers: Mapping[Any, Any] | set[Any]) -> bool:
    """Whether a block declares to read, write, allocate or view one of the buffers."""
    for regions in (block.reads, block.writes):
        for r in regions:
            if r.buffer in buffers:
                return True
    return any([b in buffers for b in block.alloc_buffers]) or any(
        [m.source.buffer in buffers for m in block.match_buffers]
    )


def need_no_pointer(v: Var, buffer: Buffer) -> Var:
    """Require that the address of a buffer is used only in loads and stores. Other uses cannot be rewritten."""
    if v is buffer.data:
        refuse("{0} is given to a call by its address, which this primitive cannot rewrite", buffer)
    return v


class RewriteAccesses(Mutator):
    """Replaces loads and stores of one buffer by callbacks, in the blocks that access it, and regions through `region`."""

    def __init__(
        self,
        buffer: Buffer,
        load: Callable[[Any], Any],
        store: Callable[[Any], Any] | None = None,
        region: Callable[[Any], Any] | None = None,
    ) -> None:
        self.buffer, self.load, self.store, self.region = buffer, load, store, region
        self.wanted = {buffer}
        self.reuse: dict[Any, Any] = {}

    @on(BufferLoad)
    def _load(self, x: BufferLoad) -> PrimExpr:
        new = self.rebuild(x)
        return self.load(new) if x.buffer is self.buffer else new

    @on(BufferStore)
    def _store(self, x: BufferStore) -> Stmt:
        new = self.rebuild(x)
        return self.store(new) if self.store is not None and x.buffer is self.buffer else new

    @on(Var)
    def _var(self, v: Var) -> Var:
        return need_no_pointer(v, self.buffer)

    @on(Buffer)
    def _buffer(self, b: Buffer) -> Buffer:
        return b

    @on(BufferRegion)
    def _region(self, x: BufferRegion) -> BufferRegion:
        return self.region(x) if self.region is not None and x.buffer is self.buffer else x

    @on(MatchBufferRegion)
    def _match(self, x: MatchBufferRegion) -> Any:
        if x.source.buffer is self.buffer:
            refuse("{0} is viewed through a match_buffer, which this primitive cannot rewrite", self.buffer)
        return self.rebuild(x)

    @on(Block)
    def _block(self, x: Block) -> Block:
        if not touches(x, self.wanted):
            return x
        new = self.rebuild(x)
        if new is not x:
            self.reuse[x] = new
        return new


class ReplaceStmts:
    """Replaces loops and block realizations of one scope by identity. None removes one, and loops that become empty."""

    def __init__(self, changes: Mapping[int, Stmt | None]) -> None:
        self.changes = changes

    def run(self, stmt: Stmt) -> Any:
        """The changed statement; None if it became empty."""
        if id(stmt) in self.changes:
            return self.changes[id(stmt)]
        kind = type(stmt)
        if kind is BlockRealize:
            return stmt
        below = children(stmt)
        if not below:
            return stmt
        new = [self.run(s) for s in below]
        if all([a is b for a, b in zip(new, below, strict=True)]):
            return stmt
        if kind is SeqStmt:
            left = [s for s in new if s is not None]
            return seq_of(left) if left else None
        if kind is IfThenElse and new[0] is not None:
            return stmt.replace(then_case=new[0], else_case=new[1] if len(new) > 1 else None)
        return None if new[0] is None else stmt.replace(body=new[0])


def only_child(loop: Any) -> Any | None:
    """The loop that is the whole body of a loop; None if the body is something else."""
    return loop.body if type(loop.body) is For else None


def body_list(stmt: Any) -> list[Any]:
    """The statements of a body in order, below the buffers that it declares and the constants that it has."""
    while type(stmt) in (DeclBuffer, AllocateConst):
        stmt = stmt.body
    return list(stmt.seq) if hasattr(stmt, "seq") else [stmt]


def with_statements(body: Stmt, statements: list[Stmt]) -> Any:
    """A body with other statements, below the buffers that it declares and the constants that it has."""
    if isinstance(body, (DeclBuffer, AllocateConst)):
        return body.replace(body=with_statements(body.body, statements))
    return seq_of(statements)


def fresh_buffer(buffer: Buffer, name: str | None = None, scope: str | None = None, **changes: Any) -> Buffer:
    """A copy of a buffer with its own storage."""
    return decl_buffer(
        changes.get("shape", buffer.shape), changes.get("dtype", buffer.dtype), name or buffer.name,
        scope=buffer.scope() if scope is None else scope,
    )  # fmt: skip


TRUE = IntImm("bool", 1)
__all__ = [
    "TRUE", "ReplaceBuffers", "ReplaceStmts", "RewriteAccesses", "SubstituteLoops", "body_list", "fresh_buffer", "mutate_tuple",
    "need_no_pointer", "only_child", "substitute_loops", "touches", "vars_in", "vars_of_block", "with_statements",
]  # fmt: skip
