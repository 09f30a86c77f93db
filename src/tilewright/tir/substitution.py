"""Rewriting programs with their buffers, and replacing their variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, overload

from tilewright.ir import PrimExpr, as_prim_expr
from tilewright.node import Mutator, mutate_tuple, on
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Var
from tilewright.tir.stmt import Allocate, Stmt

T = TypeVar("T")


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


class Substitute(BufferMutator):
    """env: what replaces variables; a table may be far larger than what one expression mentions, so values are converted where they are
    used."""

    def __init__(self, env: Mapping[Var, Any]) -> None:
        super().__init__()
        self.env = env

    @on(Var)
    def _var(self, v: Var) -> PrimExpr:
        value = self.env.get(v)
        return v if value is None else as_prim_expr(value)

    @on(Allocate)
    def _allocate(self, s: Allocate) -> Stmt:
        new = self.rebuild(s)
        data = self.env.get(s.buffer_var)
        return new.replace(buffer_var=data) if isinstance(data, Var) else new


@overload
def substitute(node: PrimExpr, vmap: Mapping[Var, Any]) -> PrimExpr: ...
@overload
def substitute(node: T, vmap: Mapping[Var, Any]) -> T: ...
def substitute(node: Any, vmap: Mapping[Var, Any]) -> Any:
    """The program with variables replaced by expressions, in buffers' shapes and data too."""
    if not vmap:
        return node
    return Substitute(vmap).visit(node)
