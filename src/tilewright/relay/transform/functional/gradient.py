"""Automatic differentiation in reverse mode.

First order: a dataflow graph is walked backwards once. Its adjoints are dataflow, too.

Higher order: every tensor becomes a pair of its value and a reference to its adjoint. Every operator adds a step to a chain of
closures that propagates adjoints back (B. A. Pearlmutter, J. M. Siskind: Reverse-Mode AD in a Functional Framework, 2008). The
result is in the same language, with branches, recursion, closures and data types, and can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.ir import BaseFunc, FuncType, GlobalVar, IRModule, Op, RefType, TensorType, TupleType, Type, TypeCall
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.node import deep_recursion
from tilewright.relay.adt import Constructor, Match, Pattern, PatternVar
from tilewright.relay.cards.card import OpCard, constructor
from tilewright.relay.excerpt import excerpt
from tilewright.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    TupleWrapper,
    Var,
)
from tilewright.relay.functor import post_order, substitute
from tilewright.relay.op.adjoint import derived
from tilewright.relay.rewriting import CallRewriter, card_of, tuple_type_of, typed
from tilewright.relay.scope_builder import ScopeBuilder
from tilewright.relay.texts import span_text, type_text
from tilewright.relay.transform.functional.normal_forms import to_anf, to_graph
from tilewright.relay.typing.infer_type import infer_module, infer_types
from tilewright.relay.typing.open_types import set_type, type_of
from tilewright.relay.typing.retype import fresh_type_params
from tilewright.support.errors import OpNotImplemented, TVMError

MODES = ("higher_order", "first_order")


def gradient(expr: Expr, mod: IRModule | None = None, mode: str = "higher_order") -> Function:
    """Make the function that returns (value, (adjoint of each parameter...)) for a function from tensors to a tensor or
    a tuple of tensors. The adjoints are those of the sum of all elements of the value.

    mode: "first_order" for dataflow graphs, whose adjoints are dataflow again; "higher_order" for the whole language:
    functions of `mod` that are called are differentiated, too (and added to `mod` as `name_grad`), and the result may be
    differentiated again. Raises OpNotImplemented for an operator without a gradient, with its place; TVMError if
    `mode` does not fit the function.
    """
    if mode not in MODES:
        raise ValueError(f"the modes of gradient are {', '.join(MODES)}, but {mode!r} was given")
    if isinstance(expr, GlobalVar):
        if mod is None:
            raise TVMError(f"gradient of @{expr.name_hint} needs the module that holds it: gradient(f, mod)")
        expr = mod[expr]
    if not isinstance(expr, Function):
        raise TypeError(f"gradient takes a relay.Function, but was given {type(expr).__name__}")
    with deep_recursion():
        func = _typed_function(expr, mod)
        made = _first_order(func) if mode == "first_order" else _HigherOrder(mod).whole(func)
        infer_types(made, mod)
    return made


def _typed_function(func: Function, mod: IRModule | None) -> Function:
    infer_types(func, infer_module(mod) if mod is not None else None)
    t = func.body.checked_type
    for p in func.params:
        if not isinstance(p.checked_type, TensorType):
            raise TVMError(
                f"gradient is taken by tensors, but the parameter %{p.name_hint} is {type_text(p.checked_type)}; take the"
                " parts of it that are tensors as parameters"
            )
    parts = t.fields if isinstance(t, TupleType) else (t,)
    if not all([isinstance(x, TensorType) for x in parts]):
        raise TVMError(f"gradient takes a function that returns tensors, but this one returns {type_text(t)}")
    return func


def call_adjoints(call: Call, dy: Expr) -> Sequence[Expr | None]:
    """The adjoints of an operator call's arguments, from its result's adjoint; None for arguments without one."""
    card = card_of(call)
    if card.flat:
        return [None] * len(call.args)
    if card.undifferentiable is not None:
        raise no_gradient(call, card.undifferentiable)
    if type(card).grad is not OpCard.grad:
        return card.grad(*call.args, call, dy)
    if card.expands():
        return _through_expansion(call, card, dy)
    if card.outputs == 1 and type(card).compute is not OpCard.compute:
        return derived(card, call.args, dy)
    raise no_gradient(
        call,
        f"its card {type(card).__name__} defines neither grad(), expand() nor a compute of one result. Define grad(), or keep adjoints"
        " from it",
    )


def no_gradient(call: Call, why: str) -> OpNotImplemented:
    """The error for a call without a gradient, with its place in the model's text and in the program."""
    where = span_text(call.span)
    return OpNotImplemented(
        f"{where + ': ' if where else ''}{call.operator.name} has no gradient: {why}\n{excerpt(call, call)}"
    )


def _through_expansion(call: Call, card: OpCard, dy: Expr) -> Sequence[Expr | None]:
    params = [Var(f"x{i}", a.checked_type) for i, a in enumerate(call.args)]
    for p in params:
        infer_types(p)
    body = card.expand(*params)
    body = body.astuple() if isinstance(body, TupleWrapper) else body
    infer_types(body)
    adjoints = _Backwards(body, dy).adjoints(params)
    table = dict(zip(params, call.args, strict=True))
    return [None if a is None else substitute(a, table) for a in adjoints]


class _Backwards:
    """Computes the adjoints of everything under an expression from the expression's adjoint."""

    def __init__(self, body: Expr, seed: Any) -> None:
        self.found: dict[Expr, Any] = {}
        self.add(body, seed)
        for node in reversed(list(post_order(body))):
            if node in self.found:
                self.step(node)

    def add(self, e: Expr, value: Any) -> None:
        """Adds to an expression's adjoint. A tuple's adjoint is a list, with None for parts without one."""
        if value is None:
            return
        t = typed(e).checked_type
        if isinstance(t, TupleType):
            parts = self.found.setdefault(e, [None] * len(t.fields))
            for i in range(len(t.fields)):
                part = value[i] if isinstance(value, list) else _item(value, i)
                parts[i] = _plus(parts[i], part)
        else:
            self.found[e] = _plus(self.found.get(e), value)

    def step(self, e: Expr) -> None:
        if isinstance(e, (Var, Constant)):
            return
        if isinstance(e, Tuple):
            for f, a in zip(e.fields, self.found[e], strict=True):
                self.add(f, a)
        elif isinstance(e, TupleGetItem):
            parts: list[Expr | list[Any] | None] = [None] * len(tuple_type_of(e.tuple_value).fields)
            parts[e.index] = self.found[e]
            self.add(e.tuple_value, parts)
        elif isinstance(e, Call) and type(e.op) is Op:
            for a, adjoint in zip(e.args, call_adjoints(e, typed(self.whole(e))), strict=False):
                self.add(a, adjoint)
        else:
            raise TVMError(
                f"first-order gradient takes dataflow graphs of operators, but the function holds {type(e).__name__}; use"
                ' mode="higher_order"'
            )

    def whole(self, e: Expr) -> Expr:
        """The adjoint of a call, as an expression of the call's type."""
        value = self.found[e]
        if not isinstance(value, list):
            return value  # type: ignore[no-any-return]
        fields = [constructor("zeros_like")(typed(TupleGetItem(e, i))) if v is None else v for i, v in enumerate(value)]
        return typed(Tuple(tuple([typed(f) for f in fields])))

    def adjoints(self, params: Sequence[Var]) -> list[Expr | None]:
        return [self.found.get(p) for p in params]


def _item(value: Expr, index: int) -> Expr:
    return value.fields[index] if isinstance(value, Tuple) else TupleGetItem(value, index)


def _plus(a: Expr | None, b: Expr | None) -> Expr | None:
    if a is None or b is None:
        return b if a is None else a
    return constructor("add")(a, b)


def _seed(e: Expr) -> Any:
    t = typed(e).checked_type
    if isinstance(t, TupleType):
        return [constructor("ones_like")(typed(_item(e, i))) for i in range(len(t.fields))]
    return constructor("ones_like")(e)


def _first_order(func: Function) -> Function:
    body = to_graph(func.body)
    infer_types(body)
    walk = _Backwards(body, _seed(body))
    adjoints = [
        constructor("zeros_like")(p) if a is None else a
        for p, a in zip(func.params, walk.adjoints(func.params), strict=True)
    ]
    result = Tuple((body, Tuple(tuple(adjoints))))
    infer_types(result)
    return func.replace(body=CallRewriter(_simpler).visit(result), ret_type=None)


def _simpler(call: Call) -> Expr | None:
    """A simpler form of an operator in adjoints if its shapes are known; None for other calls."""
    if call.operator.name in ("collapse_sum_like", "broadcast_to_like"):
        return card_of(call).simplify(*call.args)
    return None


# ---- higher order


def paired(t: Type) -> Type:
    """The type of a pair (value, reference to its adjoint)."""
    if isinstance(t, TensorType):
        return TupleType((t, RefType(t)))
    if isinstance(t, TupleType):
        return TupleType(tuple([paired(f) for f in t.fields]))
    if isinstance(t, FuncType):
        return FuncType(tuple([paired(a) for a in t.arg_types]), paired(t.ret_type), t.type_params)
    if isinstance(t, RefType):
        return RefType(paired(t.value))
    if isinstance(t, TypeCall):
        return TypeCall(t.func, tuple([paired(a) for a in t.args]))
    return t


BACK = FuncType((), TupleType(()))
"""The type of a step that propagates adjoints back."""


class _HigherOrder:
    def __init__(self, mod: IRModule | None) -> None:
        self.mod = mod
        self.names: dict[GlobalVar, GlobalVar] = {}

    def whole(self, func: Function) -> Function:
        """The differentiated function, with plain tensors as parameters and results."""
        params = [Var(p.name_hint, p.checked_type) for p in func.params]
        sb = ScopeBuilder()
        back = sb.let(("back", RefType(BACK)), RefCreate(Function((), Tuple(()), TupleType(()))))
        scope = _Scope(self, back)
        pairs = [scope.pair(sb, p) for p in params]
        for p, pair in zip(func.params, pairs, strict=True):
            scope.values[p] = pair
        result = scope.visit(sb, self.named(func).body)
        t = func.body.checked_type
        count = len(t.fields) if isinstance(t, TupleType) else None
        outputs = [sb.let("out", TupleGetItem(result, i)) for i in range(count)] if count is not None else [result]
        for o in outputs:
            value = sb.let("value", TupleGetItem(o, 0))
            sb.let("_", RefWrite(TupleGetItem(o, 1), constructor("ones_like")(value)))
        sb.let("_", Call(sb.let("run", RefRead(back)), ()))
        values = [TupleGetItem(o, 0) for o in outputs]
        adjoints = [RefRead(TupleGetItem(pair, 1)) for pair in pairs]
        sb.ret(Tuple((Tuple(tuple(values)) if count is not None else values[0], Tuple(tuple(adjoints)))))
        return Function(tuple(params), sb.get(), None, func.type_params, func.attrs)

    def named(self, func: Function) -> Function:
        """The function with a let for every value, which gives the order of effects and a type for each name."""
        made = func.replace(body=to_anf(func.body))
        infer_types(made, self.mod)
        return made

    def function(self, gvar: GlobalVar) -> GlobalVar:
        """The differentiated form of a global function. Its parameters are the chain of steps, then pairs."""
        if self.mod is None or gvar not in self.mod.functions:
            raise TVMError(f"gradient: @{gvar.name_hint} is called, but the module has no such function")
        if gvar not in self.names:
            taken = {g.name_hint for g in self.mod.functions}
            name = f"{gvar.name_hint}_grad"
            while name in taken:
                name += "_"
            made = self.names[gvar] = GlobalVar(name)
            f = self.mod[gvar]
            if not isinstance(f, Function):
                raise TVMError(f"gradient: @{gvar.name_hint} is not a relay function")
            # Stored before its body is walked, so that the name is taken.
            self.mod[made] = f
            back = Var("back", RefType(BACK))
            scope = _Scope(self, back)
            inner = scope.local(self.named(f))
            whole = Function((back, *inner.params), inner.body, inner.ret_type)
            self.mod[made] = fresh_type_params(whole, f.type_params)
        return self.names[gvar]


class _Scope:
    """Rewrites expressions in A-normal form. `back`: the reference to the chain of backward steps."""

    def __init__(self, home: _HigherOrder, back: Var) -> None:
        self.home, self.back = home, back
        self.values: dict[Expr, Expr] = {}

    def pair(self, sb: ScopeBuilder, value: Expr) -> Var:
        """A pair of a value and a zero adjoint."""
        return sb.let("pair", Tuple((value, RefCreate(constructor("zeros_like")(value)))))

    def local(self, f: Function) -> Function:
        """A function with pairs as parameters and result."""
        params = [Var(p.name_hint, paired(p.checked_type)) for p in f.params]
        self.values.update(zip(f.params, params, strict=True))
        ret = paired(f.ret_type) if f.ret_type is not None else None
        return Function(tuple(params), self.inner(f.body), ret, f.type_params)

    def inner(self, e: Expr) -> Expr:
        sb = ScopeBuilder()
        sb.ret(self.visit(sb, e))
        return sb.get()

    def visit(self, sb: ScopeBuilder, e: Expr) -> Expr:
        """The pair (or structure of pairs) for an expression. Its operands are bound before."""
        while isinstance(e, Let):
            if isinstance(e.value, Function):
                # The function may call itself by this name.
                fresh = self.values[e.var] = Var(e.var.name_hint)
                sb.let(fresh, self.local(e.value))
            else:
                self.values[e.var] = sb.let(e.var.name_hint, self.value(sb, e.value))
            e = e.body
        return self.value(sb, e)

    def value(self, sb: ScopeBuilder, e: Expr) -> Expr:
        if isinstance(e, Var):
            if e not in self.values:
                raise TVMError(f"gradient: the variable %{e.name_hint} is not bound in the function")
            return self.values[e]
        if isinstance(e, Constant):
            return self.pair(sb, e)
        if isinstance(e, Tuple):
            return Tuple(tuple([self.value(sb, f) for f in e.fields]))
        if isinstance(e, TupleGetItem):
            return TupleGetItem(self.value(sb, e.tuple_value), e.index)
        if isinstance(e, If):
            cond = TupleGetItem(self.value(sb, e.cond), 0)
            return If(cond, self.inner(e.true_branch), self.inner(e.false_branch), e.span)
        if isinstance(e, Match):
            data = self.value(sb, e.data)
            clauses = tuple([c.replace(lhs=self.pattern(c.lhs), rhs=self.inner(c.rhs)) for c in e.clauses])
            return Match(data, clauses, e.complete, e.span)
        if isinstance(e, Function):
            return self.local(e)
        if isinstance(e, GlobalVar):
            return self.as_value(e)
        if isinstance(e, Constructor):
            return e
        if isinstance(e, RefCreate):
            return RefCreate(self.value(sb, e.value))
        if isinstance(e, RefRead):
            return RefRead(self.value(sb, e.ref))
        if isinstance(e, RefWrite):
            return RefWrite(self.value(sb, e.ref), self.value(sb, e.value))
        if isinstance(e, Call):
            return self.call(sb, e)
        raise TVMError(f"gradient: {type(e).__name__} cannot be differentiated:\n{e}")

    def as_value(self, gvar: GlobalVar) -> Expr:
        assert self.home.mod is not None
        t = self.home.mod[gvar].checked_type
        assert isinstance(t, FuncType)
        params = tuple([Var(f"a{i}", paired(a)) for i, a in enumerate(t.arg_types)])
        body = Call(self.home.function(gvar), (self.back, *params))
        return Function(params, body, paired(t.ret_type), t.type_params)

    def pattern(self, p: Pattern) -> Pattern:
        if isinstance(p, PatternVar):
            t = type_of(p.var) or p.var.type_annotation
            fresh = self.values[p.var] = Var(p.var.name_hint, paired(t) if t is not None else None)
            return p.replace(var=fresh)
        inner = getattr(p, "patterns", ())
        return p.replace(patterns=tuple([self.pattern(x) for x in inner])) if inner else p

    def call(self, sb: ScopeBuilder, e: Call) -> Expr:
        args = [self.value(sb, a) for a in e.args]
        if isinstance(e.op, Constructor):
            return Call(e.op, tuple(args), None, (), e.span)
        if isinstance(e.op, GlobalVar):
            return Call(self.home.function(e.op), (self.back, *args), None, (), e.span)
        if type(e.op) is not Op:
            return Call(self.value(sb, e.op), tuple(args), None, (), e.span)
        return self.operator(sb, e, args)

    def operator(self, sb: ScopeBuilder, e: Call, args: list[Expr]) -> Expr:
        """The operator on values, with a backward step that adds to its arguments' adjoints."""
        plain = [self.plain(sb, sb.let("arg", a), t.checked_type) for a, t in zip(args, e.args, strict=True)]
        named = [a for a, _ in plain]
        result = Call(e.op, tuple(named), e.attrs, (), e.span)
        out = sb.let("y", result)
        set_type(out, e.checked_type)
        made, adjoint = self.with_adjoints(sb, out, e.checked_type)
        if not card_of(e).flat:
            inner = ScopeBuilder()
            dy = inner.let("dy", adjoint())
            set_type(dy, e.checked_type)
            # The gradient rule gets operands and result as variables of known types.
            call = Call(e.op, tuple(named), e.attrs, (), e.span)
            infer_types(call)
            adjoints = call_adjoints(call, dy)
            for (_, cells), a in zip(plain, adjoints, strict=False):
                if a is not None:
                    self.accumulate(inner, cells, substitute(a, {call: out}))
            before = sb.let("before", RefRead(self.back))
            inner.ret(Call(before, ()))
            sb.let("_", RefWrite(self.back, Function((), inner.get(), TupleType(()))))
        return made

    def plain(self, sb: ScopeBuilder, value: Expr, t: Type) -> tuple[Expr, Any]:
        """(the value of a structure of pairs as a variable of known type, the references to its adjoints in the same structure)."""
        if isinstance(t, TupleType):
            parts = [self.plain(sb, sb.let("part", TupleGetItem(value, i)), f) for i, f in enumerate(t.fields)]
            whole = Tuple(tuple([p for p, _ in parts]))
            set_type(whole, t)
            return whole, [cells for _, cells in parts]
        named = sb.let(("x", t), TupleGetItem(value, 0))
        set_type(named, t)
        return named, TupleGetItem(value, 1)

    def with_adjoints(self, sb: ScopeBuilder, out: Expr, t: Type) -> tuple[Expr, Any]:
        """(a result as a structure of pairs, a function that returns its adjoint)."""
        if isinstance(t, TupleType):
            parts = []
            for i, f in enumerate(t.fields):
                part = sb.let("part", TupleGetItem(out, i))
                set_type(part, f)
                parts.append(self.with_adjoints(sb, part, f))
            return Tuple(tuple([p for p, _ in parts])), lambda: Tuple(tuple([a() for _, a in parts]))
        pair = self.pair(sb, out)
        return pair, lambda: RefRead(TupleGetItem(pair, 1))

    def accumulate(self, sb: ScopeBuilder, cells: Any, adjoint: Expr) -> None:
        if isinstance(cells, list):
            for i, cell in enumerate(cells):
                self.accumulate(sb, cell, _item(adjoint, i))
            return
        sb.let("_", RefWrite(cells, constructor("add")(RefRead(cells), adjoint)))


def FirstOrderGradient() -> Pass:
    """Replace every function of a module by one that returns its value and the adjoints of its parameters."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        functions: dict[GlobalVar, BaseFunc] = {
            g: gradient(f, mod, "first_order") if isinstance(f, Function) and not f.is_primitive else f
            for g, f in mod.functions.items()
        }
        return infer_module(mod.with_functions(functions))

    return Pass(PassInfo(0, "FirstOrderGradient"), run)


__all__ = ["FirstOrderGradient", "gradient"]
