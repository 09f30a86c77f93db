"""Defunctionalization: programs without functions as values. A function value becomes data with the function's identity and its
captured values. Calling it becomes a match.

    let f = fn (y) { y + x }; g(f)   ->   g(Closure(x)), where g calls apply(f, y) = match f { Closure(x) => y + x, ... }
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tilewright.ir import (
    BaseFunc,
    FuncType,
    GlobalTypeVar,
    GlobalVar,
    IRModule,
    Op,
    RefType,
    TupleType,
    Type,
    TypeCall,
    TypeKind,
    TypeVar,
)
from tilewright.ir.type_parts import substitute_types
from tilewright.node import deep_recursion
from tilewright.relay.adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternVar,
    TypeData,
)
from tilewright.relay.expr import Call, Expr, Function, Var
from tilewright.relay.functor import ExprMutator
from tilewright.relay.texts import type_text
from tilewright.relay.transform.functional.lambda_lift import CLOSURE, lambda_lift
from tilewright.relay.typing.infer_type import infer_module
from tilewright.relay.typing.open_types import type_of
from tilewright.relay.typing.retype import fresh_type_params
from tilewright.support.errors import TVMError

Retyping = Callable[[Type], Type]


class _Retype(ExprMutator):
    """Rebuilds a function with other types and new variables."""

    def __init__(self, change: Retyping) -> None:
        super().__init__()
        self.change = change

    def declared(self, t: Type | None) -> Type | None:
        return None if t is None else self.change(t)

    def visit_var(self, var: Var) -> Expr:
        return Var(var.name_hint, self.declared(type_of(var) or var.type_annotation), var.span)

    def visit_call(self, call: Call) -> Expr:
        new = self.rewritten_call(call)
        return Call(new.op, new.args, new.attrs, (), new.span)

    def visit_function(self, fn: Function) -> Expr:
        if fn.is_primitive:
            return fn
        params = [self.rewritten_var(p) for p in fn.params]
        return Function(params, self.visit(fn.body), self.declared(fn.ret_type), (), fn.attrs, fn.span)

    def visit_pattern(self, pattern: Pattern) -> Pattern:
        if isinstance(pattern, PatternVar):
            return pattern.replace(var=self.visit(pattern.var))
        inner = getattr(pattern, "patterns", ())
        return pattern.replace(patterns=tuple([self.visit_pattern(p) for p in inner])) if inner else pattern


def _match(pattern: Type, concrete: Type, found: dict[TypeVar, Type]) -> None:
    """The types of type variables under which one type equals another."""
    if isinstance(pattern, TypeVar):
        found.setdefault(pattern, concrete)
        return
    for field in ("arg_types", "fields", "args"):
        for p, c in zip(getattr(pattern, field, ()), getattr(concrete, field, ()), strict=False):
            _match(p, c, found)
    for field in ("ret_type", "value"):
        if isinstance(getattr(pattern, field, None), Type) and isinstance(getattr(concrete, field, None), Type):
            _match(getattr(pattern, field), getattr(concrete, field), found)


class _Values(ExprMutator):
    """Global functions as values become calls of functions that return them, since a call's type includes its type arguments."""

    def __init__(self, mod: IRModule, made: dict[GlobalVar, Function]) -> None:
        super().__init__()
        self.mod, self.made = mod, made

    def visit_call(self, call: Call) -> Expr:
        args = self.visit_all(call.args)
        op = call.op if isinstance(call.op, (GlobalVar, Constructor)) or type(call.op) is Op else self.visit(call.op)
        return call if args is call.args and op is call.op else Call(op, args, call.attrs, call.given_types, call.span)

    def visit_global_var(self, gvar: GlobalVar) -> Expr:
        func = self.mod.functions.get(gvar)
        if not isinstance(func, Function) or func.attrs.get(CLOSURE):
            return gvar
        value = GlobalVar(f"{gvar.name_hint}_value")
        if value not in self.made:
            t = type_of(func)
            assert isinstance(t, FuncType)
            params = [Var(f"x{i}", a) for i, a in enumerate(t.arg_types)]
            inner = Function(params, Call(gvar, tuple(params)), t.ret_type)
            whole = Function([], inner, FuncType(t.arg_types, t.ret_type), (), {CLOSURE: 1})
            self.made[value] = fresh_type_params(whole, t.type_params)
        return Call(value, ())


def _values_called(mod: IRModule) -> IRModule:
    made: dict[GlobalVar, Function] = {}
    functions: dict[GlobalVar, BaseFunc] = {
        g: _Values(mod, made).rewritten_function(f) if isinstance(f, Function) else f for g, f in mod.functions.items()
    }
    return infer_module(mod.with_functions({**functions, **made}))


class _Monomorphic:
    """Copies each global function for each choice of its type variables."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.made: dict[GlobalVar, Function] = {}
        self.names: dict[tuple[GlobalVar, str], GlobalVar] = {}
        self.pending: list[tuple[GlobalVar, GlobalVar, Mapping[TypeVar, Type]]] = []

    def name(self, gvar: GlobalVar, used_as: Type) -> GlobalVar:
        """The copy of a function for its use at a type."""
        func = self.mod.functions.get(gvar)
        if not isinstance(func, Function):
            return gvar
        bound: dict[TypeVar, Type] = {}
        _match(func.checked_type, used_as, bound)
        chosen = {v: bound[v] for v in func.type_params if isinstance(v, TypeVar) and v in bound}
        key = (gvar, " ".join([type_text(t) for t in chosen.values()]))
        if key not in self.names:
            count = sum([g == gvar for g, _ in self.names])
            self.names[key] = GlobalVar(gvar.name_hint if not count else f"{gvar.name_hint}_{count}")
            self.pending.append((gvar, self.names[key], chosen))
        return self.names[key]

    def run(self, main: GlobalVar) -> dict[GlobalVar, Function]:
        self.name(main, self.mod.functions[main].checked_type)
        while self.pending:
            gvar, name, bound = self.pending.pop()
            func = self.mod.functions[gvar]
            assert isinstance(func, Function)
            self.made[name] = _Specialise(self, bound).function(func)
        return self.made


class _Specialise(_Retype):
    def __init__(self, copies: _Monomorphic, bound: Mapping[TypeVar, Type]) -> None:
        super().__init__(lambda t: substitute_types(t, bound))
        self.copies = copies

    def function(self, func: Function) -> Function:
        new = self.visit(func)
        assert isinstance(new, Function)
        return new

    def visit_call(self, call: Call) -> Expr:
        if not isinstance(call.op, GlobalVar):
            return super().visit_call(call)
        args = tuple([self.visit(a) for a in call.args])
        given = FuncType(tuple([self.change(a.checked_type) for a in call.args]), self.change(call.checked_type))
        return Call(self.copies.name(call.op, given), args, call.attrs, (), call.span)


class _Encoder:
    """The data types for function types, and the functions that apply them."""

    def __init__(self, mod: IRModule, taken: set[str]) -> None:
        self.mod, self.taken = mod, taken
        self.headers: dict[str, GlobalTypeVar] = {}
        self.function_types: dict[GlobalTypeVar, FuncType] = {}
        self.cases: dict[GlobalTypeVar, dict[GlobalVar, Constructor]] = {}

    def type(self, t: Type) -> Type:
        """A type with data types in place of function types."""
        if isinstance(t, FuncType):
            return self.header(t)
        if isinstance(t, TupleType):
            return TupleType(tuple([self.type(f) for f in t.fields]))
        if isinstance(t, RefType):
            return RefType(self.type(t.value))
        if isinstance(t, TypeCall):
            return TypeCall(t.func, tuple([self.type(a) for a in t.args]))
        return t

    def header(self, t: FuncType) -> GlobalTypeVar:
        key = type_text(t)
        if key not in self.headers:
            header = GlobalTypeVar(self.fresh(f"Function{len(self.headers)}"), TypeKind.AdtHandle)
            self.headers[key] = header
            self.function_types[header] = t
            self.cases[header] = {}
        return self.headers[key]

    def fresh(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def constructor(self, gvar: GlobalVar, t: FuncType, captured: tuple[Type, ...]) -> Constructor:
        """The constructor of a function type's data for a global function."""
        header = self.header(t)
        if gvar not in self.cases[header]:
            self.cases[header][gvar] = Constructor(self.fresh(f"Closure_{gvar.name_hint}"), captured, header)
        return self.cases[header][gvar]

    def apply_name(self, t: FuncType) -> GlobalVar:
        return GlobalVar(f"apply_{self.header(t).name_hint}")

    def definitions(self) -> tuple[dict[GlobalTypeVar, TypeData], dict[GlobalVar, Function]]:
        """The data types, each with its function that applies the data."""
        types: dict[GlobalTypeVar, TypeData] = {}
        functions: dict[GlobalVar, Function] = {}
        for header, cases in self.cases.items():
            t = self.function_types[header]
            types[header] = TypeData(header, (), tuple(cases.values()))
            f = Var("f", header)
            args = [Var(f"x{i}", self.type(a)) for i, a in enumerate(t.arg_types)]
            clauses = []
            for gvar, con in cases.items():
                fields = [Var(f"c{i}", c) for i, c in enumerate(con.inputs)]
                lhs = PatternConstructor(con, tuple([PatternVar(v) for v in fields]))
                clauses.append(Clause(lhs, Call(gvar, (*fields, *args))))
            functions[self.apply_name(t)] = Function([f, *args], Match(f, tuple(clauses)), self.type(t.ret_type))
        return types, functions


class _FirstOrder(_Retype):
    """Rewrites one function, with functions as data."""

    def __init__(self, encoder: _Encoder, functions: Mapping[GlobalVar, Function]) -> None:
        super().__init__(encoder.type)
        self.encoder, self.functions = encoder, functions

    def visit_call(self, call: Call) -> Expr:
        args = tuple([self.visit(a) for a in call.args])
        op = call.op
        if isinstance(op, GlobalVar):
            if not self.functions[op].attrs.get(CLOSURE):
                return Call(op, args, call.attrs, (), call.span)
            made = call.checked_type
            assert isinstance(made, FuncType)
            captured = tuple([self.change(a.checked_type) for a in call.args])
            return Call(self.encoder.constructor(op, made, captured), args, None, (), call.span)
        if type(op) is Op or isinstance(op, Constructor) or (isinstance(op, Function) and op.is_primitive):
            return Call(op, args, call.attrs, (), call.span)
        found = op.checked_type
        assert isinstance(found, FuncType)
        return Call(self.encoder.apply_name(found), (self.visit(op), *args), None, (), call.span)

    def first_order(self, func: Function) -> Function:
        params = [self.rewritten_var(p) for p in func.params]
        body = func.body
        attrs = {k: v for k, v in func.attrs.items() if k not in (CLOSURE, "Lifted")}
        result = func.ret_type
        if func.attrs.get(CLOSURE):
            assert isinstance(body, Function)
            params += [self.rewritten_var(p) for p in body.params]
            result, body = body.ret_type, body.body
        return Function(params, self.visit(body), self.declared(result), (), attrs, func.span)


def _higher_order(t: Type) -> bool:
    if isinstance(t, FuncType):
        return True
    inner = [*getattr(t, "fields", ()), *getattr(t, "args", ()), *([t.value] if isinstance(t, RefType) else [])]
    return any([_higher_order(f) for f in inner])


def Defunctionalization(func: Function, mod: IRModule) -> Function:
    """Convert `func` to a program without functions as values: functions that are passed, stored or returned become
    data. The new data types, copies of the polymorphic functions of `mod` that it needs, and functions that apply the
    data are added to `mod`.

    Raises TVMError for a function that takes or answers functions itself, or is polymorphic.
    """
    main = GlobalVar("main")
    whole = infer_module(mod.with_functions({**mod.functions, main: func}))
    found = whole.functions[main].checked_type
    assert isinstance(found, FuncType)
    if func.type_params or any([_higher_order(t) for t in (*found.arg_types, found.ret_type)]):
        raise TVMError(
            "Defunctionalization takes a function of data to data without type parameters, but was given one of the type"
            f" {type_text(found)}"
        )
    with deep_recursion():
        lifted = _values_called(lambda_lift(whole))
        copies = _Monomorphic(lifted).run(main)
        known = infer_module(IRModule(copies, mod.type_definitions, mod.attrs))
        functions = {g: f for g, f in known.functions.items() if isinstance(f, Function)}
        names = {h.name_hint for h in mod.type_definitions} | {
            c.name_hint for t in mod.type_definitions.values() for c in t.constructors
        }
        encoder = _Encoder(known, names)
        first = {g: _FirstOrder(encoder, functions).first_order(f) for g, f in functions.items()}
        types, applies = encoder.definitions()
    result = IRModule({**first, **applies}, {**mod.type_definitions, **types}, mod.attrs)
    infer_module(result)
    for header, data in types.items():
        mod[header] = data
    for gvar, f in result.functions.items():
        mod.update_func(gvar, f)
    answer = result["main"]
    assert isinstance(answer, Function)
    return answer


__all__ = ["Defunctionalization"]
