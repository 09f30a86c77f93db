"""Programs with other types in their annotations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.ir import IncompleteType, IntImm, IRModule, TensorType, Type, TypeVar
from tilewright.ir.type_parts import map_parts, substitute_types
from tilewright.node import Mutator, on
from tilewright.relay.adt import Match, pattern_vars
from tilewright.relay.expr import Call, Expr, Function, Let, Var
from tilewright.relay.functor import ExprMutator, bound_vars, post_order, substitute
from tilewright.tir import Any as AnyDim
from tilewright.tir import SizeVar
from tilewright.tir import Var as DimVar


class Retype(ExprMutator):
    """`change` applied to every type that a program is annotated with."""

    def __init__(self, change: Callable[[Type], Type]) -> None:
        super().__init__()
        self.change = change

    def _type(self, t: Type | None) -> Type | None:
        return None if t is None else self.change(t)

    def visit_var(self, var: Var) -> Expr:
        return var.replace(type_annotation=self._type(var.type_annotation))

    def visit_call(self, call: Call) -> Expr:
        new = self.rewritten_call(call)
        types = [self.change(t) for t in call.given_types]
        same = all([a is b for a, b in zip(types, call.given_types, strict=True)])
        return new if same else new.replace(given_types=tuple(types))

    def visit_function(self, fn: Function) -> Expr:
        return super().visit_function(fn).replace(ret_type=self._type(fn.ret_type))


class _Copy(Retype):
    """Every bound variable and call anew: those of another place, and what was inferred there, are not taken along."""

    def __init__(self, root: Expr, change: Callable[[Type], Type]) -> None:
        super().__init__(change)
        self.bound = frozenset(bound_vars(root))

    def visit_var(self, var: Var) -> Expr:
        return Var(var.name_hint, self._type(var.type_annotation), var.span) if var in self.bound else var

    def visit_call(self, call: Call) -> Expr:
        new = super().visit_call(call)
        return new if new is not call else Call(call.op, call.args, call.attrs, call.given_types, call.span)


def fresh_type_params(fn: Function, variables: Sequence[Type]) -> Function:
    """The function generic in `variables`, under type variables of its own: what another function binds stays bound there
    alone."""
    if not variables:
        return fn
    fresh = {v: TypeVar(v.name_hint, v.kind) for v in variables if isinstance(v, TypeVar)}
    made = _Copy(fn, lambda t: substitute_types(t, fresh)).rewritten_function(fn)
    return made.replace(type_params=tuple(fresh.values()))


def unfolded(fn: Function, args: Sequence[Expr], type_args: Sequence[Type] = ()) -> Expr:
    """The body of a function for these arguments, to stand in another place: it binds variables of its own, and types that the
    function is generic in are those given, or left to inference."""
    given: dict[Expr, Expr] = dict(zip(fn.params, args, strict=True))
    if not fn.type_params and all([v in given for v in bound_vars(fn)]):
        return substitute(fn.body, given)
    types: dict[TypeVar, Type] = {}
    for i, v in enumerate(fn.type_params):
        assert isinstance(v, TypeVar)
        types[v] = type_args[i] if i < len(type_args) else IncompleteType()
    copy = _Copy(fn.body, lambda t: substitute_types(t, types))
    copy.memo_map.update(given)
    return copy.visit(fn.body)


def _annotations(f: Function) -> list[Type]:
    found: list[Type | None] = []
    for e in post_order(f):
        if isinstance(e, Function):
            found += [e.ret_type, *[p.type_annotation for p in e.params]]
        elif isinstance(e, Let):
            found.append(e.var.type_annotation)
        elif isinstance(e, Match):
            found += [v.type_annotation for c in e.clauses for v in pattern_vars(c.lhs)]
        elif isinstance(e, Call):
            found += e.given_types
    return [t for t in found if t is not None]


def widen_dimensions(mod: IRModule) -> IRModule:
    """The module with its symbolic dimensions in int64, the type of sizes; unchanged if they are."""
    widen = _Widen()

    def change(t: Type) -> Type:
        if not isinstance(t, TensorType):
            return map_parts(t, change)
        shape = tuple([d if isinstance(d, (IntImm, AnyDim)) else widen.visit(d) for d in t.shape])
        same = all([a is b for a, b in zip(shape, t.shape, strict=True)])
        return t if same else TensorType(shape, t.dtype)

    functions = [f for f in mod.functions.values() if isinstance(f, Function)]
    if all([change(t) is t for f in functions for t in _annotations(f)]):
        return mod
    new = Retype(change)
    return mod.with_functions(
        {g: new.rewritten_function(f) if isinstance(f, Function) else f for g, f in mod.functions.items()}
    )


class _Widen(Mutator):
    """Dimensions in int64; a variable becomes the same one wherever it stands."""

    def __init__(self) -> None:
        self.wide: dict[DimVar, DimVar] = {}

    @on(DimVar)
    def _var(self, v: DimVar) -> DimVar:
        if v.dtype == "int64":
            return v
        return self.wide.setdefault(v, SizeVar(v.name, "int64"))

    @on(IntImm)
    def _number(self, n: IntImm) -> IntImm:
        return IntImm("int64", n.value)
