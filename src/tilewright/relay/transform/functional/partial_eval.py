"""PartialEvaluate: evaluates everything that is known at compile time. The residual program is in A-normal form.

A value is an atom of the residual program, a known part (a tensor, a tuple of values, a constructor's fields, a closure, a
reference), or both. Calls of known functions are unfolded. Matches and ifs on known values choose their branch. Reads of references
with known content are removed. Effects are written in the order in which they happen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.ir import BaseFunc, GlobalVar, IRModule, Op, Type
from tilewright.ir.transform import PassContext, module_pass
from tilewright.node import deep_recursion
from tilewright.relay.adt import (
    Clause,
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
)
from tilewright.relay.analysis.expressions import free_type_vars
from tilewright.relay.cards.card import OpCard
from tilewright.relay.evaluation.constant_folding import GROWTH_FROM, SHAPE_OPS
from tilewright.relay.evaluation.run_card import run_card
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
    Var,
    const,
)
from tilewright.relay.functor import free_vars, lets_around, post_order
from tilewright.relay.rewriting import card_of
from tilewright.relay.transform.functional.inline import KEPT_APART, recursive_functions
from tilewright.relay.transform.functional.normal_forms import anf_and_delayed
from tilewright.relay.typing.infer_type import infer_module

GROWTH_LIMIT = 20_000
"""The number of lets after which calls are no longer unfolded (or GROWTH_FACTOR for each expression of the module, if that is more).
Without a limit, functions that each call the next one twice would grow exponentially."""
GROWTH_FACTOR = 50

NESTED_LIMIT = 200
"""The largest number of times that a function may be unfolded within itself."""

HIGHER_ORDER_LIMIT = 8
"""The limit for functions without a name for recursion, after which their arguments must show progress."""

Env = Mapping[Var, "Value"]


class Value:
    """A partial value: `atom` in the residual program (None until needed), and its known part."""

    __slots__ = ("atom", "known")

    def __init__(self, atom: Expr | None, known: Known | None = None) -> None:
        self.atom, self.known = atom, known


class Known:
    """Root of the known parts of values."""

    __slots__ = ()


class KnownTensor(Known):
    """A tensor with known elements."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray) -> None:
        self.array = array


class KnownTuple(Known):
    """A tuple of values."""

    __slots__ = ("fields",)

    def __init__(self, fields: Sequence[Value]) -> None:
        self.fields = tuple(fields)


class KnownData(Known):
    """A constructor and its fields."""

    __slots__ = ("constructor", "fields")

    def __init__(self, constructor: Constructor, fields: Sequence[Value]) -> None:
        self.constructor, self.fields = constructor, tuple(fields)


class KnownClosure(Known):
    """A function and the values of its captured variables; `name` is the variable by which it calls itself, `home` its
    scope. A `delayed` one is a value that several scopes may need."""

    __slots__ = ("delayed", "env", "function", "home", "name")

    def __init__(self, function: Function, env: Env, name: Var | None, home: Scope, delayed: bool) -> None:
        self.function, self.env, self.name, self.home, self.delayed = function, env, name, home, delayed


class KnownGlobal(Known):
    """A function of the module."""

    __slots__ = ("gvar",)

    def __init__(self, gvar: GlobalVar) -> None:
        self.gvar = gvar


class KnownRef(Known):
    """A reference. The store has its content, if it is known."""

    __slots__ = ()


class Scope:
    """A scope for lets: the body of a function, or a branch. Atoms of values that are written late are valid from their scope inwards."""

    def __init__(self, outer: Scope | None, store: dict[Known, Value], variables: Sequence[Type] = ()) -> None:
        self.outer, self.store = outer, store
        self.type_variables: frozenset[Type] = frozenset(variables) | (outer.type_variables if outer else frozenset())
        self.lets: list[tuple[Var, Expr]] = []
        self.atoms: dict[Value, Expr] = {}
        self.written: list[int] = outer.written if outer is not None else [0]
        """The number of lets written so far, shared by all scopes."""

    def find(self, value: Value) -> Expr | None:
        scope: Scope | None = self
        while scope is not None:
            if value in scope.atoms:
                return scope.atoms[value]
            scope = scope.outer
        return None

    def type(self, t: Type | None) -> Type | None:
        """A declared type; None if it contains type variables of an unfolded function, so that inference must find it."""
        known = t is None or all([v in self.type_variables for v in free_type_vars(t)])
        return t if known else None

    def emit(self, e: Expr, hint: str = "x") -> Var:
        v = Var(hint)
        self.written[0] += 1
        self.lets.append((v, e))
        return v

    def close(self, result: Expr) -> Expr:
        return lets_around(self.lets, result)


class Evaluator:
    """Evaluates functions of one module. `active`: the calls that are being unfolded, with their arguments."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.recursive = recursive_functions(mod)
        self.active: list[tuple[Function, Sequence[Value]]] = []
        self.normal: dict[Expr, Function] = {}
        self.free: dict[Function, list[Var]] = {}
        self.delayed: set[Expr] = set()
        size = sum([1 for f in mod.functions.values() if isinstance(f, Function) for _ in post_order(f)])
        self.limit = max(GROWTH_LIMIT, GROWTH_FACTOR * size)
        self.written = [0]

    def function(self, func: Function) -> Function:
        """A function of the module, evaluated for unknown arguments."""
        func = self.anf(func)
        scope = Scope(None, {}, func.type_params)
        scope.written = self.written
        env = {p: Value(p) for p in func.params}
        result = self.expr(func.body, env, scope)
        return func.replace(body=scope.close(self.atom(result, scope)))

    def anf(self, func: Function) -> Function:
        if func not in self.normal:
            normal, delayed = anf_and_delayed(func)
            assert isinstance(normal, Function)
            self.normal[func] = normal
            self.delayed |= delayed
        return self.normal[func]

    def atom(self, value: Value, scope: Scope) -> Expr:
        """The atom of a value. A value without an atom is written now."""
        if value.atom is not None:
            return value.atom
        found = scope.find(value)
        if found is None:
            known = value.known
            # A function is written once, in its own scope, since many inner scopes may need it.
            home = known.home if isinstance(known, KnownClosure) else scope
            found = self.write(value, home)
            home.atoms[value] = found
        return found

    def write(self, value: Value, scope: Scope) -> Expr:
        known = value.known
        if isinstance(known, KnownTensor):
            return const(known.array)
        if isinstance(known, KnownTuple):
            return scope.emit(Tuple(tuple([self.atom(f, scope) for f in known.fields])))
        if isinstance(known, KnownData):
            return scope.emit(Call(known.constructor, tuple([self.atom(f, scope) for f in known.fields])))
        assert isinstance(known, KnownClosure)
        return self.write_closure(value, known, scope)

    def write_closure(self, value: Value, known: KnownClosure, scope: Scope) -> Expr:
        """The function, evaluated for unknown arguments and unknown contents of references."""
        v = Var(known.name.name_hint if known.name is not None else "f")
        scope.atoms[value] = v
        inner = Scope(scope, {}, known.function.type_params)
        params = [Var(p.name_hint, inner.type(p.type_annotation)) for p in known.function.params]
        env: dict[Var, Value] = dict(known.env)
        if known.name is not None:
            env[known.name] = value
        env.update({p: Value(q) for p, q in zip(known.function.params, params, strict=True)})
        self.active.append((known.function, [Value(q) for q in params]))
        result = self.expr(known.function.body, env, inner)
        self.active.pop()
        f = known.function
        body = inner.close(self.atom(result, inner))
        scope.lets.append((v, Function(params, body, inner.type(f.ret_type), f.type_params, f.attrs, f.span)))
        return v

    def expr(self, e: Expr, env: dict[Var, Value], scope: Scope) -> Value:
        """The value of an expression in A-normal form. `env` gets the variables of lets."""
        while isinstance(e, Let):
            value: Value
            if isinstance(e.value, Function) and not e.value.is_primitive:
                value = self.closure(e.value, env, e.var, scope)
            else:
                value = self.value(e.value, env, scope)
            env[e.var] = value
            e = e.body
        return self.value(e, env, scope)

    def closure(self, f: Function, env: Env, name: Var | None, scope: Scope) -> Value:
        free = self.free.get(f)
        if free is None:
            free = self.free[f] = free_vars(f)
        own = {v: env[v] for v in free if v in env and v is not name}
        return Value(None, KnownClosure(f, own, name if name in free else None, scope, name in self.delayed))

    def value(self, e: Expr, env: dict[Var, Value], scope: Scope) -> Value:
        if isinstance(e, Var):
            return env[e]
        if isinstance(e, Constant):
            return Value(e, KnownTensor(e.value))
        if isinstance(e, GlobalVar):
            return Value(e, KnownGlobal(e))
        if isinstance(e, Function):
            return Value(e) if e.is_primitive else self.closure(e, env, None, scope)
        if isinstance(e, Tuple):
            return Value(None, KnownTuple([self.value(f, env, scope) for f in e.fields]))
        if isinstance(e, TupleGetItem):
            whole = self.value(e.tuple_value, env, scope)
            if isinstance(whole.known, KnownTuple):
                return whole.known.fields[e.index]
            return Value(scope.emit(TupleGetItem(self.atom(whole, scope), e.index, e.span)))
        if isinstance(e, Call):
            return self.call(e, env, scope)
        if isinstance(e, If):
            return self.choice(e, env, scope)
        if isinstance(e, Match):
            return self.match(e, env, scope)
        if isinstance(e, Let):
            return self.expr(e, env, scope)
        if isinstance(e, (RefCreate, RefRead, RefWrite)):
            return self.reference(e, env, scope)
        # Constructors and operators as values
        return Value(e)

    # --- references

    def reference(self, e: RefCreate | RefRead | RefWrite, env: dict[Var, Value], scope: Scope) -> Value:
        if isinstance(e, RefCreate):
            content = self.value(e.value, env, scope)
            known = KnownRef()
            scope.store[known] = content
            return Value(scope.emit(RefCreate(self.atom(content, scope), e.span)), known)
        ref = self.value(e.ref, env, scope)
        if isinstance(e, RefRead):
            held = scope.store.get(ref.known) if ref.known is not None else None
            return held if held is not None else Value(scope.emit(RefRead(self.atom(ref, scope), e.span)))
        content = self.value(e.value, env, scope)
        done = scope.emit(RefWrite(self.atom(ref, scope), self.atom(content, scope), e.span))
        if isinstance(ref.known, KnownRef):
            if ref.known not in scope.store:
                # The reference may be any of the known ones.
                scope.store.clear()
            scope.store[ref.known] = content
        else:
            scope.store.clear()
        return Value(done)

    # --- choices

    def choice(self, e: If, env: dict[Var, Value], scope: Scope) -> Value:
        cond = self.value(e.cond, env, scope)
        if isinstance(cond.known, KnownTensor):
            return self.expr(e.true_branch if bool(cond.known.array) else e.false_branch, dict(env), scope)
        branches = [self.branch(b, dict(env), scope) for b in (e.true_branch, e.false_branch)]
        scope.store.clear()
        return Value(scope.emit(If(self.atom(cond, scope), branches[0], branches[1], e.span)))

    def branch(self, e: Expr, env: dict[Var, Value], scope: Scope) -> Expr:
        """The residual expression of a branch that may not be taken."""
        inner = Scope(scope, dict(scope.store))
        return inner.close(self.atom(self.expr(e, env, inner), inner))

    def match(self, e: Match, env: dict[Var, Value], scope: Scope) -> Value:
        data = self.value(e.data, env, scope)
        for clause in e.clauses:
            bound: dict[Var, Value] = {}
            fits = self.fits(clause.lhs, data, bound)
            if fits is None:
                break
            if fits:
                return self.expr(clause.rhs, {**env, **bound}, scope)
        clauses: list[Clause] = []
        for clause in e.clauses:
            if self.fits(clause.lhs, data, {}) is False:
                continue
            renamed: dict[Var, Value] = {}
            lhs = self.fresh(clause.lhs, renamed, scope)
            clauses.append(clause.replace(lhs=lhs, rhs=self.branch(clause.rhs, {**env, **renamed}, scope)))
        scope.store.clear()
        return Value(scope.emit(Match(self.atom(data, scope), tuple(clauses), e.complete, e.span)))

    def fits(self, pattern: Pattern, value: Value, bound: dict[Var, Value]) -> bool | None:
        """Whether a value matches a pattern; None if that is unknown. `bound` gets the pattern's variables."""
        if isinstance(pattern, PatternWildcard):
            return True
        if isinstance(pattern, PatternVar):
            bound[pattern.var] = value
            return True
        known = value.known
        if isinstance(pattern, PatternTuple):
            if not isinstance(known, KnownTuple):
                return None
            parts: Sequence[Pattern] = pattern.patterns
        else:
            assert isinstance(pattern, PatternConstructor)
            if not isinstance(known, KnownData):
                return None
            if known.constructor.name_hint != pattern.constructor.name_hint:
                return False
            parts = pattern.patterns
        answers = [self.fits(p, f, bound) for p, f in zip(parts, known.fields, strict=True)]
        if False in answers:
            return False
        return None if None in answers else True

    def fresh(self, pattern: Pattern, renamed: dict[Var, Value], scope: Scope) -> Pattern:
        """The pattern with new variables."""
        if isinstance(pattern, PatternVar):
            v = Var(pattern.var.name_hint, scope.type(pattern.var.type_annotation))
            renamed[pattern.var] = Value(v)
            return PatternVar(v)
        if isinstance(pattern, (PatternTuple, PatternConstructor)):
            return pattern.replace(patterns=tuple([self.fresh(p, renamed, scope) for p in pattern.patterns]))
        return pattern

    # --- calls

    def call(self, call: Call, env: dict[Var, Value], scope: Scope) -> Value:
        args = [self.value(a, env, scope) for a in call.args]
        op = call.op
        if isinstance(op, Constructor):
            return Value(None, KnownData(op, args))
        if type(op) is Op:
            return self.operator(call, args, scope)
        callee = self.value(op, env, scope)
        found = self.unfolded(callee, args, scope) if self.written[0] < self.limit else None
        if found is not None:
            function, around = found
            self.active.append((function, args))
            inner = {**around, **dict(zip(function.params, args, strict=True))}
            result = self.expr(function.body, inner, scope)
            self.active.pop()
            return result
        if not (isinstance(op, Function) and op.is_primitive):
            # The called function may write any reference.
            scope.store.clear()
        atoms = tuple([self.atom(a, scope) for a in args])
        return Value(scope.emit(Call(self.atom(callee, scope), atoms, call.attrs, (), call.span)))

    def operator(self, call: Call, args: Sequence[Value], scope: Scope) -> Value:
        card = card_of(call)
        arrays = [_array(a) for a in args]
        name: str = call.operator.name
        known = all([a is not None for a in arrays]) and name not in SHAPE_OPS
        if known and card.pure and type(card).ref is not OpCard.ref:
            result = run_card(call, arrays)
            size = sum([r.nbytes for r in result]) if isinstance(result, tuple) else np.asarray(result).nbytes
            if size <= max(GROWTH_FROM, 2 * sum([_nbytes(a) for a in arrays])):
                return _from_array(result)
        atoms = tuple([self.atom(a, scope) for a in args])
        return Value(scope.emit(Call(call.op, atoms, call.attrs, call.given_types, call.span)))

    def unfolded(self, callee: Value, args: Sequence[Value], scope: Scope) -> tuple[Function, dict[Var, Value]] | None:
        """(the function of a call to unfold, its captured values); None if the call stays in the residual program."""
        known = callee.known
        if isinstance(known, KnownClosure):
            if known.delayed and scope is not known.home:
                # The value may not be needed, and other scopes will need it, too.
                return None
            function, around = known.function, dict(known.env)
            recursive = known.name is not None
            if known.name is not None:
                around[known.name] = callee
        elif isinstance(known, KnownGlobal):
            found = self.mod.functions.get(known.gvar)
            if not isinstance(found, Function) or found.is_primitive:
                return None
            function, around = self.anf(found), {}
            recursive = known.gvar in self.recursive
        else:
            return None
        if any([k in function.attrs for k in KEPT_APART]) or len(function.params) != len(args):
            return None
        earlier = [given for f, given in self.active if f is function]
        if recursive:
            if len(earlier) >= NESTED_LIMIT or not any([_knows(a) for a in args]):
                return None
            if earlier and not _progress(earlier, args):
                return None
        elif len(earlier) >= HIGHER_ORDER_LIMIT and (len(earlier) >= NESTED_LIMIT or not _progress(earlier, args)):
            # The function reached itself through other functions. twice(f) calls f within f, but so do fixpoint combinators.
            return None
        return function, around


def _array(value: Value) -> Any:
    known = value.known
    if isinstance(known, KnownTensor):
        return known.array
    if isinstance(known, KnownTuple):
        parts = [_array(f) for f in known.fields]
        return None if any([p is None for p in parts]) else tuple(parts)
    return None


def _nbytes(array: Any) -> int:
    return sum(map(_nbytes, array)) if isinstance(array, tuple) else int(array.nbytes)


def _from_array(result: Any) -> Value:
    if isinstance(result, tuple):
        return Value(None, KnownTuple([_from_array(r) for r in result]))
    return Value(None, KnownTensor(np.asarray(result)))


def _knows(value: Value) -> bool:
    """Whether a value has a known part that may end a recursion."""
    known = value.known
    if isinstance(known, KnownTuple):
        return any([_knows(f) for f in known.fields])
    return isinstance(known, (KnownTensor, KnownData))


def _measure(value: Value) -> int:
    """The number of known constructors in a value."""
    known = value.known
    total, stack = 0, [known]
    while stack:
        k = stack.pop()
        if isinstance(k, (KnownData, KnownTuple)):
            total += isinstance(k, KnownData)
            stack += [f.known for f in k.fields]
    return total


def _progress(earlier: Sequence[Sequence[Value]], args: Sequence[Value]) -> bool:
    """Whether unfolding a function within itself makes progress: an argument has fewer constructors than before, or
    is a number that differs from all earlier ones."""
    for i, a in enumerate(args):
        known = a.known
        if isinstance(known, KnownData) and _measure(a) < _measure(earlier[-1][i]):
            return True
        if isinstance(known, KnownTensor) and known.array.ndim == 0:
            before = [given[i].known for given in earlier]
            if all([isinstance(b, KnownTensor) and not np.array_equal(b.array, known.array) for b in before]):
                return True
    return False


@module_pass(opt_level=1, name="PartialEvaluate")
class PartialEvaluate:
    """Evaluate everything that is known at compile time: inline known functions (recursive ones while their known
    arguments shrink), decide known ifs and matches, run operators on constants, follow references. The result is in
    A-normal form; DeadCodeElimination removes unused parts.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        mod = infer_module(mod)
        with deep_recursion():
            evaluator = Evaluator(mod)
            functions: dict[GlobalVar, BaseFunc] = {
                g: evaluator.function(f) if isinstance(f, Function) and not f.is_primitive else f
                for g, f in mod.functions.items()
            }
        return infer_module(mod.with_functions(functions))


__all__ = ["Evaluator", "PartialEvaluate"]
