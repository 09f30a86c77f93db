"""Passes on functions of other compilers: moving them to their calls, outlining, inlining, and marking compiled ones."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TypeGuard

from tilewright.ir import BaseFunc, GlobalVar, IRModule, Op
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Expr, Function, Tuple, Var
from tilewright.relay.functor import ExprMutator, substitute
from tilewright.relay.op.contrib.register import get_pattern_table
from tilewright.relay.transform.byoc.annotations import is_composite, is_external
from tilewright.relay.typing.infer_type import infer_module
from tilewright.relay.typing.open_types import type_of
from tilewright.support.errors import TVMError

CALL_LOWERED = "call_lowered"


def inlined(call: Call, function: Function) -> Expr:
    """The body of a called function, with arguments in place of parameters."""
    return substitute(function.body, dict(zip(function.params, call.args, strict=True)))


class _OwnMutator(ExprMutator):
    """Leaves the functions of other compilers unchanged."""

    def visit_function(self, fn: Function) -> Expr:
        return fn if fn.is_primitive or is_external(fn) else super().visit_function(fn)


def _each_own(mod: IRModule, mutator: ExprMutator, without: Sequence[GlobalVar] = ()) -> dict[GlobalVar, BaseFunc]:
    return {
        g: mutator.rewritten_function(f) if isinstance(f, Function) and not is_external(f) else f
        for g, f in mod.functions.items()
        if g not in without
    }


class _Undo(_OwnMutator):
    """Inlines calls of some global functions, with the composite functions in them."""

    def __init__(self, functions: dict[GlobalVar, Function]) -> None:
        super().__init__()
        self.functions = functions

    def visit_call(self, call: Call) -> Expr:
        new = self.rewritten_call(call)
        found = self.functions.get(new.op) if isinstance(new.op, GlobalVar) else None
        if found is None:
            return new
        return self.visit(inlined(new, _WithoutComposites().rewritten_function(found)))


class _WithoutComposites(ExprMutator):
    """Inlines composite functions (those with some names, or all)."""

    def __init__(self, names: frozenset[str] | None = None) -> None:
        super().__init__()
        self.names = names

    def visit_call(self, call: Call) -> Expr:
        new = self.rewritten_call(call)
        if not is_composite(new.op) or self.names is not None and str(new.op.attrs["Composite"]) not in self.names:
            return new
        return inlined(new, new.op)


def InlineComposites(target: str) -> Pass:
    """Undo MergeComposite: replace calls of composite functions in a compiler's pattern table by the calls that they
    hold.

    Raises TVMError for a compiler that has no table.
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        table = get_pattern_table(target)
        if table is None:
            raise TVMError(
                f"InlineComposites: the compiler {target!r} has no pattern table; register it with"
                " relay.op.contrib.register_pattern_table"
            )
        names = frozenset([str(entry[0]) for entry in table])
        return infer_module(mod.with_functions(_each_own(mod, _WithoutComposites(names))))

    return Pass(PassInfo(0, "InlineComposites"), run)


def InlineCompilerFunctionsBoundTo(global_vars: Sequence[GlobalVar | str]) -> Pass:
    """Undo partitioning: inline calls of these global functions, and the composite functions in them.

    The functions leave the module. Raises TVMError for a name that the module does not have.
    """
    names = [g.name_hint if isinstance(g, GlobalVar) else str(g) for g in global_vars]

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        known = {g.name_hint: g for g in mod.functions}
        chosen: dict[GlobalVar, Function] = {}
        for name in names:
            function = mod.functions[known[name]] if name in known else None
            if not isinstance(function, Function):
                raise TVMError(f"InlineCompilerFunctionsBoundTo: the module has no relay function @{name}")
            chosen[known[name]] = function
        return infer_module(mod.with_functions(_each_own(mod, _Undo(chosen), list(chosen))))

    return Pass(PassInfo(0, "InlineCompilerFunctionsBoundTo"), run)


def _wanted(function: object, compiler_filter: str) -> TypeGuard[Function]:
    if not isinstance(function, Function) or "Compiler" not in function.attrs:
        return False
    return not compiler_filter or function.attrs["Compiler"] == compiler_filter


class _Outline(ExprMutator):
    def __init__(self, compiler_filter: str, known: dict[str, GlobalVar]) -> None:
        super().__init__()
        self.filter, self.known = compiler_filter, known
        self.made: dict[GlobalVar, Function] = {}

    def visit_function(self, fn: Function) -> Expr:
        return fn if fn.is_primitive or is_external(fn) else super().visit_function(fn)

    def visit_call(self, call: Call) -> Expr:
        new = self.rewritten_call(call)
        if not _wanted(new.op, self.filter):
            return new
        symbol = str(new.op.attrs.get("global_symbol") or "")
        if not symbol:
            raise TVMError(
                "OutlineCompilerFunctionsWithExistingGlobalSymbols: a function of the compiler"
                f" {new.op.attrs['Compiler']} has no attribute global_symbol, which would be its name:\n{new.op}"
            )
        if symbol not in self.known:
            self.known[symbol] = GlobalVar(symbol)
            self.made[self.known[symbol]] = new.op
        return new.replace(op=self.known[symbol])


def OutlineCompilerFunctionsWithExistingGlobalSymbols(compiler_filter: str = "") -> Pass:
    """Make functions with the attribute Compiler that stand at their call global functions, named by their
    global_symbol. Of several with one name, the first is used. compiler_filter: only functions of this compiler.
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        outline = _Outline(compiler_filter, {g.name_hint: g for g in mod.functions})
        functions = _each_own(mod, outline)
        return infer_module(mod.with_functions({**functions, **outline.made}))

    return Pass(PassInfo(0, "OutlineCompilerFunctionsWithExistingGlobalSymbols"), run)


class _CallLowered(_OwnMutator):
    def __init__(self, extern: Container[GlobalVar]) -> None:
        super().__init__()
        self.extern = extern

    def visit_call(self, call: Call) -> Expr:
        new = self.rewritten_call(call)
        if isinstance(new.op, GlobalVar) and new.op in self.extern:
            return constructor(CALL_LOWERED)(new.op, Tuple(new.args))
        return new


def MarkCompilerFunctionsAsExtern(compiler_filter: str = "") -> Pass:
    """Replace the attributes of global functions with the attribute Compiler by the attribute Extern, and calls of them
    by `call_lowered(@f, (arguments,))`. Their code exists already, and is found by the name of the function.

    compiler_filter: only functions of this compiler. The modules with the code are in the IRModule's attribute
    "external_mods".
    """

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        extern = {g: f.replace(attrs={"Extern": 1}) for g, f in mod.functions.items() if _wanted(f, compiler_filter)}
        if not extern:
            return mod
        mod = infer_module(mod)
        return infer_module(mod.with_functions({**_each_own(mod, _CallLowered(extern)), **extern}))

    return Pass(PassInfo(0, "MarkCompilerFunctionsAsExtern"), run)


class _InPlace(_OwnMutator):
    """Moves functions of other compilers to their calls, and inlines composite functions without a compiler."""

    def __init__(self, functions: dict[GlobalVar, Function]) -> None:
        super().__init__()
        self.functions = functions

    def visit_call(self, call: Call) -> Expr:
        if isinstance(call.op, GlobalVar) and call.op in self.functions:
            return call.replace(op=self.functions[call.op], args=self.visit_all(call.args))
        if type(call.op) is Op and call.op.name == CALL_LOWERED:
            gvar, args = call.args
            if not isinstance(gvar, GlobalVar) or gvar not in self.functions or not isinstance(args, Tuple):
                raise TVMError(
                    f"call_lowered takes a function that is marked Extern and a tuple of arguments, but stands here as\n{call}"
                )
            return Call(self.functions[gvar], self.visit_all(args.fields), None, (), call.span)
        new = self.rewritten_call(call)
        return self.visit(inlined(new, new.op)) if is_composite(new.op) else new

    def visit_global_var(self, gvar: GlobalVar) -> Expr:
        function = self.functions.get(gvar)
        if function is None:
            return gvar
        # As a value it becomes a relay function that calls it.
        params = tuple([Var(p.name_hint, type_of(p) or p.type_annotation) for p in function.params])
        return Function(params, Call(function, params), function.ret_type)


def external_in_place(mod: IRModule) -> IRModule:
    """The module for executors: functions of other compilers are at their calls, and composite functions without a compiler
    are inlined."""
    functions: dict[GlobalVar, Function] = {}
    for g, f in mod.functions.items():
        if is_external(f):
            assert isinstance(f, Function)
            attrs = {"global_symbol": g.name_hint, **f.attrs, "Primitive": 1}
            functions[g] = f.replace(attrs=attrs)
    changed = _each_own(mod, _InPlace(functions), list(functions))
    if len(changed) == len(mod.functions) and all([changed[g] is f for g, f in mod.functions.items()]):
        return mod
    return mod.with_functions(changed)
