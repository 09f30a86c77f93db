"""Continuation-passing style: functions call a continuation instead of returning. `to_cps` converts to it, `un_cps` back.

fn (%x: A) -> B { e }   ->   fn [answer] (%x: A, %k: fn (B) -> answer) -> answer { ... %k(e) }
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir import FuncType, GlobalVar, IRModule, Op, RefType, TupleType, Type, TypeCall, TypeKind, TypeVar
from tilewright.node import deep_recursion
from tilewright.relay.adt import Constructor, Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from tilewright.relay.expr import Call, Expr, Function, If, Let, Var
from tilewright.relay.functor import ExprMutator, post_order
from tilewright.relay.transform.functional.normal_forms import to_anf
from tilewright.relay.typing.infer_type import infer_types
from tilewright.relay.typing.open_types import type_of
from tilewright.support.errors import TVMError

SUFFIX = "_cps"
Continue = Callable[[Expr], Expr]


class _Converter:
    """Converts the functions that one function needs. The results of all of them have the type variable `answer`."""

    def __init__(self, mod: IRModule | None, answer: TypeVar) -> None:
        self.mod, self.answer = mod, answer
        self.globals: dict[GlobalVar, GlobalVar] = {}
        self.made: dict[GlobalVar, Function] = {}
        self.variables: dict[Type, TypeVar] = {}
        """Type variables of the functions so far -> their replacements."""
        self.count = 0

    def type(self, t: Type) -> Type:
        """The type of a converted value."""
        if isinstance(t, FuncType):
            args = [self.type(a) for a in t.arg_types]
            k = FuncType((self.type(t.ret_type),), self.answer)
            return FuncType((*args, k), self.answer, t.type_params, t.type_constraints)
        if isinstance(t, TupleType):
            return TupleType(tuple([self.type(f) for f in t.fields]))
        if isinstance(t, RefType):
            return RefType(self.type(t.value))
        if isinstance(t, TypeCall):
            return TypeCall(t.func, tuple([self.type(a) for a in t.args]))
        return self.variables.get(t, t) if isinstance(t, TypeVar) else t

    def fresh(self, v: Var) -> Var:
        t = v.type_annotation
        return Var(v.name_hint, None if t is None else self.type(t), v.span)

    def name(self, hint: str) -> Var:
        self.count += 1
        return Var(f"{hint}{self.count}")

    def function(self, f: Function, env: dict[Var, Expr], free_answer: bool) -> Function:
        """A function with one more parameter, the continuation. `free_answer`: it is the outermost function and binds `answer`."""
        inner = dict(env)
        own = [TypeVar(v.name_hint, v.kind) for v in f.type_params if isinstance(v, TypeVar)]
        self.variables.update(zip(f.type_params, own, strict=True))
        params = [self.fresh(p) for p in f.params]
        inner.update(zip(f.params, params, strict=True))
        found = type_of(f)
        result = f.ret_type or (found.ret_type if isinstance(found, FuncType) else None)
        k = Var("k", FuncType((self.type(result),), self.answer) if result is not None else None)
        body = self.expr(f.body, inner, lambda v: Call(k, (v,)))
        variables = (*own, self.answer) if free_answer else tuple(own)
        return Function([*params, k], body, self.answer, variables, f.attrs, f.span)

    def expr(self, e: Expr, env: dict[Var, Expr], then: Continue) -> Expr:
        """`e`, in A-normal form, followed by the rest of the program with its value."""
        if not isinstance(e, Let):
            return then(self.atom(e, env))
        rest: Continue = lambda v: self.expr(e.body, {**env, e.var: v}, then)  # noqa: E731
        value = e.value
        if isinstance(value, Function) and not value.is_primitive:
            v = self.name(e.var.name_hint)
            inner = {**env, e.var: v}
            return Let(v, self.function(value, inner, False), self.expr(e.body, inner, then))
        if isinstance(value, Call) and not (
            type(value.op) is Op
            or isinstance(value.op, Constructor)
            or (isinstance(value.op, Function) and value.op.is_primitive)
        ):
            args = [self.atom(a, env) for a in value.args]
            callee = self.callee(value.op, env)
            return Call(callee, (*args, self.continuation(e.var, rest)), value.attrs, (), value.span)
        if isinstance(value, If):
            join = self.name("join")
            go: Continue = lambda v: Call(join, (v,))  # noqa: E731
            branches = [self.expr(b, env, go) for b in (value.true_branch, value.false_branch)]
            chosen: Expr = If(self.atom(value.cond, env), branches[0], branches[1], value.span)
            return Let(join, self.continuation(e.var, rest), chosen)
        if isinstance(value, Match):
            join = self.name("join")
            clauses = []
            for c in value.clauses:
                inner = dict(env)
                lhs = self.pattern(c.lhs, inner)
                clauses.append(c.replace(lhs=lhs, rhs=self.expr(c.rhs, inner, lambda v: Call(join, (v,)))))
            matched = Match(self.atom(value.data, env), tuple(clauses), value.complete, value.span)
            return Let(join, self.continuation(e.var, rest), matched)
        v = self.name(e.var.name_hint)
        return Let(v, self.operands(value, env), rest(v))

    def continuation(self, var: Var, rest: Continue) -> Function:
        """The continuation of a value, as a function with the value as parameter."""
        found = type_of(var) or var.type_annotation
        v = Var(self.name(var.name_hint).name_hint, self.type(found) if isinstance(found, Type) else None)
        return Function([v], rest(v), self.answer)

    def pattern(self, p: Pattern, env: dict[Var, Expr]) -> Pattern:
        if isinstance(p, PatternVar):
            v = self.fresh(p.var)
            env[p.var] = v
            return PatternVar(v)
        if isinstance(p, (PatternTuple, PatternConstructor)):
            return p.replace(patterns=tuple([self.pattern(q, env) for q in p.patterns]))
        return p

    def callee(self, op: Expr, env: dict[Var, Expr]) -> Expr:
        if isinstance(op, Function):
            return self.function(op, env, False)
        return self.atom(op, env)

    def atom(self, e: Expr, env: dict[Var, Expr]) -> Expr:
        if isinstance(e, Var):
            return env.get(e, e)
        if isinstance(e, GlobalVar):
            return self.global_function(e)
        if isinstance(e, Function) and not e.is_primitive:
            return self.function(e, env, False)
        if isinstance(e, Constructor):
            fields = [Var(f"field{i}", t) for i, t in enumerate(e.inputs)]
            k = Var("k")
            return Function([*fields, k], Call(k, (Call(e, tuple(fields)),)), self.answer)
        return e

    def operands(self, e: Expr, env: dict[Var, Expr]) -> Expr:
        """An expression without inner scopes, with converted operands."""
        return _Operands(self, env).visit(e)

    def global_function(self, gvar: GlobalVar) -> GlobalVar:
        """The converted form of a function of the module."""
        if gvar in self.globals:
            return self.globals[gvar]
        func = self.mod.functions.get(gvar) if self.mod is not None else None
        if not isinstance(func, Function):
            raise TVMError(
                f"to_cps: @{gvar.name_hint} is called, but no module was given that has it; call to_cps(func, mod)"
            )
        new = self.globals[gvar] = GlobalVar(gvar.name_hint + SUFFIX)
        normal = typed_anf(func, self.mod)
        # Each function of the module has its own type of answers, and so its own converter.
        other = _Converter(self.mod, TypeVar("answer", TypeKind.Type))
        other.globals, other.made = self.globals, self.made
        self.made[new] = other.function(normal, {}, True)
        return new


class _Operands(ExprMutator):
    def __init__(self, converter: _Converter, env: dict[Var, Expr]) -> None:
        super().__init__()
        self.converter, self.env = converter, env

    def visit_call(self, call: Call) -> Expr:
        # Always a new object: its type may be a type variable of the earlier function.
        new = self.rewritten_call(call)
        types = tuple([self.converter.type(t) for t in call.given_types])
        return Call(new.op, new.args, new.attrs, types, new.span)

    def visit_var(self, var: Var) -> Expr:
        return self.converter.atom(var, self.env)

    def visit_global_var(self, gvar: GlobalVar) -> Expr:
        return self.converter.atom(gvar, self.env)

    def visit_constructor(self, con: Constructor) -> Expr:
        return self.converter.atom(con, self.env)

    def visit_function(self, fn: Function) -> Expr:
        return self.converter.atom(fn, self.env)


def typed_anf(func: Function, mod: IRModule | None) -> Function:
    """The function in A-normal form, with inferred types."""
    normal = to_anf(func)
    assert isinstance(normal, Function)
    known = mod.functions if mod is not None else {}
    # A missing global function is reported at its conversion.
    if all([e in known for e in post_order(normal) if isinstance(e, GlobalVar)]):
        infer_types(normal, mod)
    return normal


def to_cps(func: Function, mod: IRModule | None = None) -> Function:
    """Convert a function to continuation-passing style: it takes one more argument, a function that it calls with its
    result. Functions of `mod` that it needs get converted forms NAME_cps, which are added to `mod`. Raises TVMError if
    `mod` does not have them.
    """
    normal = typed_anf(func, mod)
    converter = _Converter(mod, TypeVar("answer", TypeKind.Type))
    with deep_recursion():
        new = converter.function(normal, {}, True)
    if mod is not None:
        for gvar, f in converter.made.items():
            mod.update_func(gvar, f)
    return new


def ToCPS(expr: Function, mod: IRModule | None = None) -> Function:
    """`to_cps` under the name of a pass."""
    return to_cps(expr, mod)


def un_cps(func: Function) -> Function:
    """Wrap a function that `to_cps` made, so that it returns its result. The continuation is the identity."""
    *params, k = func.params
    t = k.type_annotation
    result = t.arg_types[0] if isinstance(t, FuncType) else None
    fresh = [Var(p.name_hint, p.type_annotation, p.span) for p in params]
    x = Var("x", result)
    variables = tuple([v for v in func.type_params if v is not func.ret_type])
    call = Call(func, (*fresh, Function([x], x, result)))
    return Function(fresh, call, result, variables)


__all__ = ["ToCPS", "to_cps", "un_cps"]
