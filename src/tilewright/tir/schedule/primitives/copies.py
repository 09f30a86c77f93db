"""Copies of statements with new variables, for primitives that duplicate code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilewright.node import Mutator, on
from tilewright.tir import Block, Buffer, For, IterVar, Var

if TYPE_CHECKING:
    from tilewright.tir.stmt import Stmt


def renewed_thread(thread: IterVar | None) -> IterVar | None:
    """The thread axis of a loop with a new variable, since no variable may be bound twice."""
    return None if thread is None else thread.replace(var=Var(thread.var.name, thread.var.dtype))


class _Copy(Mutator):
    def __init__(self, suffix: str) -> None:
        self.env: dict[Any, Any] = {}
        self.buffers: dict[Any, Any] = {}
        self.suffix = suffix

    @on(Var)
    def _var(self, v: Var) -> Any:
        return self.env.get(v, v)

    @on(Buffer)
    def _buffer(self, b: Buffer) -> Any:
        return self.buffers.get(b, b)

    @on(For)
    def _for(self, x: For) -> Stmt:
        var = self.env[x.loop_var] = Var(x.loop_var.name, x.loop_var.dtype)
        return For(
            var,
            self.visit(x.min),
            self.visit(x.extent),
            x.kind,
            self.visit(x.body),
            renewed_thread(x.thread_binding),
            x.annotations,
            x.span,
        )

    @on(Block)
    def _block(self, x: Block) -> Block:
        iters = []
        for iv in x.iter_vars:
            var = self.env[iv.var] = Var(iv.var.name, iv.var.dtype)
            iters.append(IterVar(self.visit(iv.dom), var, iv.iter_type, iv.thread_tag, iv.span))
        for b in x.alloc_buffers:
            data = self.env[b.data] = Var(b.data.name, b.data.type_annotation)
            self.buffers[b] = b.replace(data=data)
        new = self.rebuild(x)
        allocs = tuple([self.buffers[b] for b in x.alloc_buffers])
        return new.replace(iter_vars=tuple(iters), name_hint=x.name_hint + self.suffix, alloc_buffers=allocs)


def copy_statement(stmt: Stmt, suffix: str = "") -> Stmt:
    """Copy a statement with new loop and block variables and new allocated buffers, and `suffix` after the names of
    blocks.
    """
    return _Copy(suffix).visit(stmt)


class _Rename(Mutator):
    def __init__(self, suffix: str) -> None:
        self.suffix = suffix

    @on(Block)
    def _block(self, x: Block) -> Block:
        return x.replace(name_hint=x.name_hint + self.suffix)


def rename_blocks(stmt: Stmt, suffix: str) -> Stmt:
    """Put `suffix` after the names of the outermost blocks of a statement."""
    return _Rename(suffix).visit(stmt)


def copy_iters(
    iter_vars: list[IterVar] | tuple[IterVar, ...], suffix: str = ""
) -> tuple[tuple[IterVar, ...], Mapping[Var, Var]]:
    """New iteration variables over the same domains, and the map from the old variables."""
    env = {iv.var: Var(iv.var.name + suffix, iv.var.dtype) for iv in iter_vars}
    return tuple([IterVar(iv.dom, env[iv.var], iv.iter_type, iv.thread_tag) for iv in iter_vars]), env
