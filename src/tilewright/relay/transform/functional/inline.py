"""Inline: replaces calls of non-recursive functions by their bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.ir import BaseFunc, GlobalVar, IRModule
from tilewright.ir.transform import PassContext, module_pass
from tilewright.relay.expr import Call, Expr, Function, Var
from tilewright.relay.functor import ExprMutator, lets_around, post_order
from tilewright.relay.transform.effects import Effects
from tilewright.relay.typing.retype import unfolded

KEPT_APART = ("Primitive", "Composite", "Compiler")
"""Functions with one of these attributes are separate units, and are never inlined."""


def recursive_functions(mod: IRModule) -> set[GlobalVar]:
    """The functions of a module that may call themselves, directly or not."""
    uses = {
        g: {e for e in post_order(f) if isinstance(e, GlobalVar)} if isinstance(f, Function) else set()
        for g, f in mod.functions.items()
    }
    found: set[GlobalVar] = set()
    for g in uses:
        reached, pending = set(), list(uses[g])
        while pending:
            callee = pending.pop()
            if callee not in reached:
                reached.add(callee)
                pending += uses.get(callee, ())
        if g in reached:
            found.add(g)
    return found


class _Inliner(ExprMutator):
    def __init__(self, mod: IRModule, wanted: Callable[[Function], bool]) -> None:
        super().__init__()
        self.mod, self.wanted = mod, wanted
        self.recursive = recursive_functions(mod)
        self.has_effect = Effects()

    def visit_call(self, call: Call) -> Expr:
        new = self.rewritten_call(call)
        op = new.op
        function = self.mod.functions.get(op) if isinstance(op, GlobalVar) and op not in self.recursive else op
        if not isinstance(function, Function) or not self.wanted(function):
            return new
        if any([k in function.attrs for k in KEPT_APART]) or len(function.params) != len(new.args):
            return new
        args: list[Expr] = []
        effects: list[tuple[Var, Expr]] = []
        for param, arg in zip(function.params, new.args, strict=True):
            v: Expr = arg
            if self.has_effect(arg):
                # An argument with effects is evaluated once, before the body.
                v = Var(param.name_hint, None if function.type_params else param.type_annotation)
                effects.append((v, arg))
            args.append(v)
        return lets_around(effects, self.visit(unfolded(function, args, new.given_types)))

    def visit_function(self, fn: Function) -> Expr:
        return fn if fn.is_primitive else super().visit_function(fn)


class _CallInPlace(ExprMutator):
    """Moves functions of other compilers, which are not inlined, to their calls."""

    def __init__(self, functions: Mapping[GlobalVar, Function]) -> None:
        super().__init__()
        self.functions = functions

    def visit_call(self, call: Call) -> Expr:
        new = self.rewritten_call(call)
        function = self.functions.get(new.op) if isinstance(new.op, GlobalVar) else None
        return new if function is None else new.replace(op=function)

    def visit_function(self, fn: Function) -> Expr:
        return fn if fn.is_primitive else super().visit_function(fn)


def call_in_place(mod: IRModule, functions: Mapping[GlobalVar, Function]) -> IRModule:
    """The module with these global functions at their calls, and without unused ones."""
    if not functions:
        return mod
    mutator = _CallInPlace(functions)
    changed = {g: mutator.rewritten_function(f) if isinstance(f, Function) else f for g, f in mod.functions.items()}
    named = {e for f in changed.values() if isinstance(f, Function) for e in post_order(f) if isinstance(e, GlobalVar)}
    return mod.with_functions({g: f for g, f in changed.items() if g not in functions or g in named})


def inline(mod: IRModule, wanted: Callable[[Function], bool]) -> IRModule:
    """The module with calls of those functions replaced by their bodies."""
    inliner = _Inliner(mod, wanted)
    functions: dict[GlobalVar, BaseFunc] = {
        g: inliner.rewritten_function(f) if isinstance(f, Function) else f for g, f in mod.functions.items()
    }
    return mod.with_functions(functions)


@module_pass(opt_level=1, name="Inline")
class Inline:
    """Inline calls of functions with the attribute Inline=1, unless they recurse. Functions of other compilers stay
    functions, but move to the place of the call.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        external = {g: f for g, f in mod.functions.items() if isinstance(f, Function) and "Compiler" in f.attrs}
        called = {g: f for g, f in external.items() if f.attrs.get("Inline", 0)}
        return call_in_place(inline(mod, lambda f: bool(f.attrs.get("Inline", 0))), called)
