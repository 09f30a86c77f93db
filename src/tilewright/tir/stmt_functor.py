"""Walks over tir programs: substitution, visits, and functors that treat buffers as part of the program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.ir import IntImm, PrimExpr, as_prim_expr
from tilewright.node import Mutator, Node, Visitor, mutate_tuple, on
from tilewright.node import post_order_visit as post_order_visit
from tilewright.support.errors import TVMError
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Var
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


class BufferMutator(Mutator):
    """A mutator that rewrites buffers as well: every use of a buffer becomes the same new buffer.

    A buffer changes when an expression of its shape, strides or offset does, or its data variable.
    """

    def __init__(self) -> None:
        self.buffers: dict[Buffer, Buffer] = {}

    @on(Buffer)
    def visit_buffer(self, buffer: Buffer) -> Buffer:
        new = self.buffers.get(buffer)
        if new is None:
            new = self.buffers[buffer] = self.rewrite_buffer(buffer)
        return new

    def rewrite_buffer(self, buffer: Buffer) -> Buffer:
        data = self.visit(buffer.data)
        return buffer.replace(
            data=data if isinstance(data, Var) else buffer.data,
            shape=mutate_tuple(self.visit, buffer.shape),
            strides=mutate_tuple(self.visit, buffer.strides),
            elem_offset=self.visit(buffer.elem_offset),
        )


class _Substitute(BufferMutator):
    def __init__(self, env: Mapping[Var, PrimExpr]) -> None:
        super().__init__()
        self.env = env

    @on(Var)
    def _var(self, v: Var) -> PrimExpr:
        return self.env.get(v, v)

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Any:
        new = self.rebuild(s)
        data = self.env.get(s.buffer_var)
        return new.replace(buffer_var=data) if isinstance(data, Var) else new


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


def substitute(node: Any, vmap: Mapping[Var, Any]) -> Any:
    """The program with variables replaced by expressions, in buffers' shapes and data too."""
    if not vmap:
        return node
    return _Substitute({k: as_prim_expr(v) for k, v in vmap.items()}).visit(node)


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


def pre_order_visit(node: Any, visit: Callable[[Node], bool]) -> None:
    """Calls `visit` on each node before its children, which are entered only if it returns true."""

    _PreOrder(visit).visit(node)


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


def specialize(func: PrimFunc, param_map: Mapping[Var, PrimExpr | Buffer]) -> PrimFunc:
    """See PrimFunc.specialize."""
    env: dict[Var, PrimExpr] = {}
    for param, value in param_map.items():
        if param not in func.params:
            raise TVMError(f"specialize: {param.name} is no parameter; they are {[p.name for p in func.params]}")
        if isinstance(value, Buffer):
            old = func.buffer_map[param]
            if len(old.shape) != len(value.shape):
                raise TVMError(
                    f"specialize: buffer {old.name} has {len(old.shape)} dimensions, the new one {len(value.shape)}"
                )
            for before, after in zip((*old.shape, *old.strides), (*value.shape, *value.strides), strict=False):
                if isinstance(before, Var):
                    env[before] = after
                elif isinstance(before, IntImm) and isinstance(after, IntImm) and before.value != after.value:
                    raise TVMError(
                        f"specialize: buffer {old.name} has a dimension of {before.value}, not {after.value}"
                    )
        else:
            env[param] = as_prim_expr(value)
    rewriter = _Substitute(env)
    kept = tuple([p for p in func.params if p not in env])
    buffers = {p: rewriter.visit(b) for p, b in func.buffer_map.items()}
    return func.replace(params=kept, buffer_map=buffers, body=rewriter.visit(func.body))
