"""PrimFunc: a function of the tensor dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.ir import BaseFunc, IntImm, IRModule, PrimExpr, as_prim_expr
from tilewright.ir.inspection import register_inspection
from tilewright.ir.span import BaseSpan
from tilewright.ir.types import FuncType, Type, VoidType
from tilewright.node import Def, Skip, register_converter
from tilewright.support import lazy
from tilewright.support.errors import ProgramError
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import HANDLE, Var
from tilewright.tir.stmt import Stmt
from tilewright.tir.substitution import Substitute

IN_PLACE = "tilewright.in_place"
"""Attribute of a kernel: the numbers of parameters that may share one memory. The kernel reads each of its elements before it writes
it."""


class PrimFunc(BaseFunc, key="tir.PrimFunc"):
    """Parameters, of which handles are bound to buffers by `buffer_map`, and a body."""

    params: Def[tuple[Var, ...]]
    body: Stmt
    ret_type: Type
    buffer_map: Def[Mapping[Var, Buffer]]
    attrs: Mapping[str, Any]
    span: Skip[BaseSpan | None] = None

    def _binds(self) -> list[Var | Buffer]:
        bound: list[Var | Buffer] = list(self.params)
        for buffer in self.buffer_map.values():
            bound += (buffer, *buffer.own_variables())
            bound += [v for v in buffer.shape if isinstance(v, Var)]
        return bound

    def __init__(
        self,
        params: Any,
        body: Any,
        ret_type: Type | None = None,
        buffer_map: Mapping[Var, Buffer] | None = None,
        attrs: Mapping[str, Any] | None = None,
        span: BaseSpan | None = None,
    ) -> None:
        buffers = dict(buffer_map or {})
        variables = []
        for param in params:
            if isinstance(param, Buffer):
                handle = Var(f"{param.name}_handle", "handle")
                buffers[handle] = param
                param = handle
            variables.append(param)
        self._build(tuple(variables), body, ret_type or VoidType(), buffers, dict(attrs or {}), span)

    def _derive(self) -> None:
        for param in self.params:
            if not isinstance(param, Var):
                raise TypeError(
                    f"PrimFunc.params takes variables and buffers, but was given {type(param).__name__}: {param!r}"
                )
        known = set(self.params)
        if len(known) != len(self.params):
            twice = next(p.name for k, p in enumerate(self.params) if p in self.params[:k])
            raise TypeError(f"PrimFunc: {twice} is a parameter twice")
        for param, buffer in self.buffer_map.items():
            if param not in known:
                raise TypeError(f"PrimFunc: buffer {buffer.name} is bound to {param.name}, which is not a parameter")
            if param.dtype is not HANDLE:
                raise TypeError(
                    f"PrimFunc: buffer {buffer.name} is bound to parameter {param.name}, which must be a handle, but is {param.dtype}"
                )

    def with_body(self, new_body: Stmt, span: BaseSpan | None = None) -> PrimFunc:
        return self.replace(body=new_body)

    def specialize(self, param_map: Mapping[Var, PrimExpr | Buffer]) -> PrimFunc:
        """The function with some parameters fixed: symbolic sizes to numbers, buffers to buffers of fixed shape."""
        env: dict[Var, PrimExpr] = {}
        for param, value in param_map.items():
            if param not in self.params:
                raise ProgramError(
                    f"specialize: {param.name} is not a parameter; they are {[p.name for p in self.params]}"
                )
            if isinstance(value, Buffer):
                old = self.buffer_map[param]
                if len(old.shape) != len(value.shape):
                    raise ProgramError(
                        f"specialize: buffer {old.name} has {len(old.shape)} dimensions, the new one {len(value.shape)}"
                    )
                for before, after in zip((*old.shape, *old.strides), (*value.shape, *value.strides), strict=False):
                    if isinstance(before, Var):
                        env[before] = after
                    elif isinstance(before, IntImm) and isinstance(after, IntImm) and before.value != after.value:
                        raise ProgramError(
                            f"specialize: buffer {old.name} has a dimension of {before.value}, not {after.value}"
                        )
            else:
                env[param] = as_prim_expr(value)
        rewriter = Substitute(env)
        kept = tuple([p for p in self.params if p not in env])
        buffers = {p: rewriter.visit(b) for p, b in self.buffer_map.items()}
        return self.replace(params=kept, buffer_map=buffers, body=rewriter.visit(self.body))

    @property
    def checked_type(self) -> Type:
        return FuncType(tuple([p.type_annotation for p in self.params]), self.ret_type)


register_converter("PrimFunc", PrimFunc)
register_inspection(PrimFunc, "tilewright.tir.analysis.well_formed:faults")


def as_module(func: PrimFunc | IRModule, name: str = "main") -> IRModule:
    """A module around a function, under its global_symbol."""
    if isinstance(func, IRModule):
        return func
    symbol = func.attrs.get("global_symbol", name)
    return IRModule({symbol: func.with_attr("global_symbol", symbol)})


lazy.declare(__name__, {name: f"tilewright.tir:{name}" for name in ("IndexMap", "TensorIntrin")})
__getattr__, __dir__ = lazy.late(__name__)
