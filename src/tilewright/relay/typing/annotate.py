"""Functions with the types that inference found written on their parameters and results, so that programs are equal however they were
annotated before."""

from __future__ import annotations

from tilewright.ir import BaseFunc, FuncType, GlobalVar, IncompleteType, IRModule, Type
from tilewright.ir.type_parts import parts
from tilewright.relay.expr import Expr, Function, Var
from tilewright.relay.functor import ExprMutator, contains
from tilewright.relay.typing.open_types import type_of


def _open(e: Expr) -> bool:
    """Whether a function leaves a type out that is known."""
    if type(e) is not Function:
        return False
    t = type_of(e)
    if not isinstance(t, FuncType) or _has_holes(t):
        return False
    return e.ret_type is None or any([p.type_annotation is None for p in e.params])


def _has_holes(t: Type) -> bool:
    return isinstance(t, IncompleteType) or any([_has_holes(p) for p in parts(t)])


class _Annotate(ExprMutator):
    """Writes the types of functions on their parameters and results."""

    def visit_function(self, fn: Function) -> Expr:
        t = type_of(fn)
        if not (_open(fn) and isinstance(t, FuncType)):
            return super().visit_function(fn)
        for p, found in zip(fn.params, t.arg_types, strict=True):
            if p.type_annotation is None:
                self.memo_map[p] = Var(p.name_hint, found, p.span)
        made = super().visit_function(fn)
        return made.replace(ret_type=fn.ret_type or t.ret_type)


def annotated(mod: IRModule) -> IRModule:
    """The module, whose functions have types, with those on all parameters and results of functions; itself if they are there. What
    names a new parameter has no type yet."""
    functions: dict[GlobalVar, BaseFunc] = {}
    for gvar, f in mod.functions.items():
        if isinstance(f, Function) and contains(f, _open):
            f = _Annotate().rewritten_function(f)
        functions[gvar] = f
    return mod.with_functions(functions)
