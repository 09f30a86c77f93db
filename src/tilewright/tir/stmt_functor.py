"""Walks over tir programs: substitution, visits, and functors that treat buffers as part of the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright.node import Mutator, Node, Visitor, mutate_tuple, on
from tilewright.node import any_node as any_node
from tilewright.node import has_node as has_node
from tilewright.node import nodes_of as nodes_of
from tilewright.node import post_order_visit as post_order_visit
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import IterVar, Let, Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    Block,
    BlockRealize,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    While,
)
from tilewright.tir.substitution import BufferMutator
from tilewright.tir.substitution import substitute as substitute

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr


class _UsedVars(Visitor):
    def __init__(self) -> None:
        self.found: dict[Var, None] = {}

    @on(Var)
    def _var(self, v: Var) -> None:
        self.found[v] = None


def used_vars(node: Any) -> dict[Var, None]:
    """The variables that an expression or statement reads, as keys, in order of their first use."""
    walk = _UsedVars()
    walk.visit(node)
    return walk.found


class _Renew(BufferMutator):
    """Every variable and buffer that the program binds -> a new one; where it is bound comes before where it is used."""

    def __init__(self) -> None:
        super().__init__()
        self.env: dict[Var, Var] = {}

    def bind(self, var: Var) -> Var:
        new = self.env[var] = var.copy_with_suffix("")
        return new

    @on(Var)
    def _var(self, v: Var) -> Var:
        return self.env.get(v, v)

    def declare(self, buffer: Buffer) -> Buffer:
        """A buffer that is bound here, with the variables that it brings along."""
        for e in (buffer.data, *buffer.shape, *buffer.strides, buffer.elem_offset):
            if isinstance(e, Var) and e not in self.env:
                self.bind(e)
        new: Buffer = self.visit(buffer)
        return new

    def _axis(self, axis: IterVar) -> IterVar:
        dom = None if axis.dom is None else self.visit(axis.dom)
        var = self.env[axis.var] if axis.var in self.env else self.bind(axis.var)
        return type(axis)(dom, var, axis.iter_type, axis.thread_tag, axis.span)

    @on(For)
    def _for(self, s: For) -> Stmt:
        low, extent = self.visit(s.min), self.visit(s.extent)
        var = self.bind(s.loop_var)
        thread = None if s.thread_binding is None else self._axis(s.thread_binding)
        return For(var, low, extent, s.kind, self.visit(s.body), thread, s.annotations, s.span)

    @on(LetStmt, Let)
    def _let(self, s: LetStmt | Let) -> Stmt | PrimExpr:
        value = self.visit(s.value)
        return s.replace(var=self.bind(s.var), value=value, body=self.visit(s.body))

    @on(Allocate, AllocateConst)
    def _allocate(self, s: Allocate | AllocateConst) -> Stmt:
        extents = mutate_tuple(self.visit, s.extents)
        return s.replace(buffer_var=self.bind(s.buffer_var), extents=extents, body=self.visit(s.body))

    @on(AttrStmt)
    def _attr(self, s: AttrStmt) -> Stmt:
        value = self.visit(s.value)
        binds = s.attr_key in ("thread_extent", "virtual_thread") and hasattr(s.node, "thread_tag")
        return s.replace(node=self._axis(s.node) if binds else self.visit(s.node), value=value, body=self.visit(s.body))

    @on(Block)
    def _block(self, block: Block) -> Block:
        axes = tuple([self._axis(a) for a in block.iter_vars])
        allocated = tuple([self.declare(b) for b in block.alloc_buffers])
        matched = []
        for m in block.match_buffers:
            source = self.visit(m.source)
            matched.append(m.replace(buffer=self.declare(m.buffer), source=source))
        reads, writes = mutate_tuple(self.visit, block.reads), mutate_tuple(self.visit, block.writes)
        init = None if block.init is None else self.visit(block.init)
        notes = self.visit(block.annotations)
        body = self.visit(block.body)
        return Block(axes, reads, writes, block.name_hint, body, init, allocated, tuple(matched), notes, block.span)

    @on(BlockRealize)
    def _realize(self, s: BlockRealize) -> Stmt:
        values = mutate_tuple(self.visit, s.iter_values)
        for axis in s.block.iter_vars:
            self.bind(axis.var)
        return BlockRealize(values, self.visit(s.predicate), self.visit(s.block), s.span)


def renew_defs(func: PrimFunc) -> PrimFunc:
    """The function with every variable and buffer that it binds made anew: equal, but sharing none with the original."""
    walk = _Renew()
    params = tuple([walk.bind(p) for p in func.params])
    buffers = {walk.env[p]: walk.declare(b) for p, b in func.buffer_map.items()}
    return func.replace(params=params, buffer_map=buffers, body=walk.visit(func.body))


def renew_body(func: PrimFunc) -> Stmt:
    """The body of a function with every variable and buffer that is bound in it made anew; the function's own stay."""
    walk = _Renew()
    walk.env.update({p: p for p in func.params})
    for b in func.buffer_map.values():
        for e in (b.data, *b.shape, *b.strides, b.elem_offset):
            walk.env.update({v: v for v in used_vars(e)})
    out: Stmt = walk.visit(func.body)
    return out


def renew_stmt(stmt: Stmt) -> Stmt:
    """The statement with every variable and buffer that is bound in it made anew."""
    out: Stmt = _Renew().visit(stmt)
    return out


def ir_transform(
    stmt: Stmt,
    preorder: Callable[[Node], Node | None] | None,
    postorder: Callable[[Node], Node | None] | None,
    only_enable: list[str] | None = None,
) -> Stmt:
    """Rewrites by callbacks: `preorder` may replace a node before its children, `postorder` after; None keeps it."""
    enabled = set(only_enable or ())

    class Transform(Mutator):
        @on(Node)
        def _node(self, x: Node) -> Any:
            if enabled and x.type_key not in enabled:
                return x if x._leaf else self.rebuild(x)
            if preorder is not None:
                early = preorder(x)
                if early is not None:
                    return early
            new = x if x._leaf else self.rebuild(x)
            late = postorder(new) if postorder is not None else None
            return new if late is None else late

    result: Stmt = Transform().visit(stmt)
    return result


class _PreOrder(Visitor):
    def __init__(self, call: Callable[[Node], bool]) -> None:
        self.call = call

    @on(Node)
    def _node(self, x: Node) -> None:
        if self.call(x) and not x._leaf:
            self.visit_children(x)


def pre_order_visit(stmt: Any, fvisit: Callable[[Node], bool]) -> None:
    """Calls `fvisit` on each node before its children, which are entered only if it returns true."""

    _PreOrder(fvisit).visit(stmt)


def child_stmts(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements directly below a statement."""
    if isinstance(stmt, SeqStmt):
        return stmt.seq
    if isinstance(stmt, IfThenElse):
        return (stmt.then_case,) if stmt.else_case is None else (stmt.then_case, stmt.else_case)
    if isinstance(stmt, BlockRealize):
        return (stmt.block,)
    if isinstance(stmt, Block):
        return (stmt.body,) if stmt.init is None else (stmt.init, stmt.body)
    if isinstance(stmt, (For, While, LetStmt, Allocate, AllocateConst, AttrStmt, DeclBuffer)):
        return (stmt.body,)
    body = getattr(stmt, "body", None)
    return (body,) if isinstance(body, Stmt) else ()


def any_stmt(stmt: Stmt, holds: Callable[[Stmt], bool]) -> bool:
    """Whether a condition holds for a statement or any below it; looks no further where it does, and into no expressions."""
    waiting = [stmt]
    while waiting:
        found = waiting.pop()
        if holds(found):
            return True
        waiting += child_stmts(found)
    return False
