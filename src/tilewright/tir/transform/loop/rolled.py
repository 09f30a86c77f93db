"""Unrolled loops as plain ones, where nothing but time depends on it: code that runs seldom is then short."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilewright.ir import PointerType
from tilewright.node import Mutator, nodes_of, on
from tilewright.tir.expr import BufferLoad, Call, Var
from tilewright.tir.stmt import BufferStore, For, ForKind, Stmt
from tilewright.tir.stmt_functor import used_vars

IN_MEMORY = ("global", "shared")
"""Scopes of memory that is indexed; all others are registers, whose numbers must be constants."""


def rolled(stmt: Stmt) -> Stmt:
    """The statement with its outermost unrolled loops as serial ones, unless they number registers."""
    return _Rolled().visit(stmt)


class _Rolled(Mutator):
    @on(For)
    def _for(self, s: For) -> Stmt:
        if s.kind != ForKind.UNROLLED:
            return self.rebuild(s)
        if any([s.loop_var in used_vars(e) for e in _register_numbers(s.body)]):
            return self.rebuild(s)
        return s.replace(kind=ForKind.SERIAL)


def _register_numbers(body: Stmt) -> Iterator[Any]:
    """Expressions that decide which registers a statement accesses."""
    accesses: list[BufferLoad | BufferStore] = [*nodes_of(body, BufferLoad), *nodes_of(body, BufferStore)]
    for access in accesses:
        if not access.buffer.scope().startswith(IN_MEMORY):
            yield from access.indices
    for call in nodes_of(body, Call):
        of_registers = False
        for a in call.args:
            if isinstance(a, Var) and isinstance(a.type_annotation, PointerType):
                scope = a.type_annotation.storage_scope or "global"
                of_registers = not scope.startswith(IN_MEMORY)
            elif isinstance(a, Call) and a.dtype.code == "handle":
                of_registers = False
            elif of_registers:  # an offset, which follows its pointer
                yield a


__all__ = ["rolled"]
