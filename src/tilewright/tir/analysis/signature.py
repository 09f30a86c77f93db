"""Where a function wants its arguments to live; and what kinds of statements it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.ir.types import FuncType, PointerType, PrimType
from tilewright.node import has_node, on
from tilewright.support.errors import TVMError
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Var
from tilewright.tir.function import PrimFunc
from tilewright.tir.stmt import IfThenElse, Stmt
from tilewright.tir.substitution import BufferMutator


def has_if_then_else(stmt: Stmt) -> bool:
    """Whether a statement holds an IfThenElse statement."""
    return has_node(stmt, IfThenElse)


def _tensors(ty: Any) -> int:
    """How many tensors a type of the graph dialect holds."""
    fields = getattr(ty, "fields", None)
    return 1 if fields is None else sum([_tensors(f) for f in fields])


def _arguments(func: PrimFunc, relay_func_type: Any, where: str) -> list[Buffer]:
    """The buffers of the tensors of a graph function's arguments and result, in order."""
    wanted = sum([_tensors(t) for t in relay_func_type.arg_types]) + _tensors(relay_func_type.ret_type)
    buffers = [func.buffer_map[p] for p in func.params if p in func.buffer_map]
    if len(buffers) < wanted:
        raise TVMError(f"{where}: the type has {wanted} tensors, but the function {len(buffers)} buffers")
    return buffers[:wanted]


def get_prim_func_arg_and_result_memory_constraints(func: PrimFunc, relay_func_type: FuncType) -> list[str]:
    """The storage scope that each tensor of a function's arguments and result must be in; "" where any will do.

    relay_func_type: the FuncType of the graph function that the PrimFunc implements.
    """
    buffers = _arguments(func, relay_func_type, "get_prim_func_arg_and_result_memory_constraints")
    return ["" if b.scope() == "global" else b.scope() for b in buffers]


class _Rescope(BufferMutator):
    def __init__(self, env: dict[Var, Var]) -> None:
        super().__init__()
        self.env = env

    @on(Var)
    def _var(self, v: Var) -> Var:
        return self.env.get(v, v)


def apply_prim_func_arg_and_result_memory_constraints(
    func: PrimFunc, relay_func_type: FuncType, arg_and_result_memory_scopes: Sequence[str]
) -> PrimFunc:
    """The function with its arguments and result in these storage scopes; "" leaves a buffer as it is.

    Raises TVMError where the function has asked for another scope already.
    """
    where = "apply_prim_func_arg_and_result_memory_constraints"
    buffers = _arguments(func, relay_func_type, where)
    if len(buffers) != len(arg_and_result_memory_scopes):
        raise TVMError(f"{where}: {len(buffers)} tensors, but {len(arg_and_result_memory_scopes)} scopes")
    env: dict[Var, Var] = {}
    for b, scope in zip(buffers, arg_and_result_memory_scopes, strict=True):
        if not scope or scope == b.scope():
            continue
        if b.scope() != "global":
            raise TVMError(f"{where}: buffer {b.name} must be in {b.scope()!r}, so it cannot be in {scope!r}")
        env[b.data] = Var(b.data.name, PointerType(PrimType(b.dtype), scope))
    if not env:
        return func
    walk = _Rescope(env)
    return func.replace(buffer_map={p: walk.visit(b) for p, b in func.buffer_map.items()}, body=walk.visit(func.body))
