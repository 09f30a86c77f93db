"""InferType: the type of every expression, by the type rules of the operator cards and by unification.

A type is a function of the (immutable) expression, so it is kept on the expression itself, and a second run over a
changed program only looks at what is new. What is not annotated is a hole until its uses say more; an operator that
is called with a hole waits for it, so every operator's rule runs once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tilewright.ir import (
    DataType,
    FuncType,
    GlobalVar,
    IncompleteType,
    IRModule,
    Op,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeVar,
)
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.ir.type_parts import substitute_types
from tilewright.node import deep_recursion
from tilewright.relay.adt import (
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    constructor_type,
)
from tilewright.relay.cards.card import OpCard, TypeRuleError, argument_names, cards, required_arguments
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
)
from tilewright.relay.functor import flow_children
from tilewright.relay.texts import type_text
from tilewright.relay.typing.annotate import annotated
from tilewright.relay.typing.bound_once import bound_once
from tilewright.relay.typing.findings import call_text, rule_text
from tilewright.relay.typing.open_types import OpenTypes, forget_types, type_of
from tilewright.support.errors import OpNotImplemented, TVMError, said

UNIT = TupleType(())
BOOL = TensorType((), DataType("bool"))


class _Inference(OpenTypes):
    def __init__(self, mod: IRModule | None) -> None:
        super().__init__(mod)
        self.signatures: dict[GlobalVar, FuncType] = {}
        self.binders: dict[Var, Expr | Pattern] = {}
        """The binders of each variable of the current function."""
        self.rebinding: dict[GlobalVar, list[Var]] = {}
        """Functions that bind variables in several places, and these."""

    def visit(self, root: Expr) -> Type | None:
        """The type of `root`; None when it, or something under it, was found wrong."""
        stack = [root]
        while stack:
            node = stack[-1]
            if self.known(node):
                stack.pop()
                continue
            pending = [c for c in flow_children(node) if not self.known(c) and type(c) is not GlobalVar]
            if pending:
                pending.reverse()
                stack += pending
                continue
            stack.pop()
            wrong = any([c in self.failed for c in flow_children(node)])
            found = None if wrong else self.rules[type(node)](self, node)
            if found is None:
                self.failed.add(node)
            elif type(node) is not GlobalVar:
                self.note(node, found)
            if self.ready:
                self.run_ready()
        result: Type | None = self.found(root)
        return result

    def retry(self, e: Expr) -> Type | None:
        if type(e) is TupleGetItem:
            return self.item(e)
        assert type(e) is Call
        return self.apply_card(e, [self.found(a) for a in e.args])

    def bind(self, v: Var, binder: Expr | Pattern) -> None:
        """Notes what binds a variable; of functions that bind one twice the types that are found are not used."""
        if self.binders.setdefault(v, binder) is not binder and self.active:
            self.rebinding.setdefault(next(reversed(self.active)), []).append(v)

    def var(self, v: Var) -> Type:
        return self.opened(
            v.type_annotation,
            v,
            f"the type of %{v.name_hint} is not known. Give relay.var a shape and dtype, or a type annotation",
        )

    def constant(self, c: Constant) -> Type:
        return TensorType(c.data.shape, DataType(c.data.dtype.name))

    def constructor(self, c: Constructor) -> Type:
        return constructor_type(c)

    def tuple(self, t: Tuple) -> Type | None:
        fields = [found for f in t.fields if (found := self.found(f)) is not None]
        return TupleType(tuple(fields)) if len(fields) == len(t.fields) else None

    def item(self, e: TupleGetItem) -> Type | None:
        t = self.found(e.tuple_value)
        if t is None:
            return None
        if type(t) is IncompleteType:
            return self.wait(e, t)
        if not isinstance(t, TupleType):
            self.report(e, f"element {e.index} is taken of {type_text(t)}, which is not a tuple")
            return None
        if not 0 <= e.index < len(t.fields):
            self.report(e, f"element {e.index} is taken of a tuple of {len(t.fields)}: {type_text(t)}")
            return None
        return t.fields[e.index]

    def ref_create(self, e: RefCreate) -> Type:
        """A reference, to which a value of another size may be written."""
        return RefType(self.unifier.widened(self.found(e.value)))

    def ref_read(self, e: RefRead) -> Type | None:
        value = self.hole(e)
        return value if self.reference(e, e.ref, value) else None

    def ref_write(self, e: RefWrite) -> Type | None:
        return UNIT if self.reference(e, e.ref, self.found(e.value)) else None

    def reference(self, e: Expr, ref: Expr, value: Type) -> bool:
        t = self.found(ref)
        if t is None:
            return False
        if self.unifier.unify(RefType(value), t) is None:
            if isinstance(t, RefType):
                self.report(e, f"{type_text(value)} is written to a reference of type {type_text(t)}")
            else:
                self.report(e, f"a reference is read or written, but this is {type_text(t)}")
            return False
        return True

    def let(self, e: Let) -> Type | None:
        chain: list[Let] = []
        body: Expr = e
        while type(body) is Let and (body is e or not self.known(body)):
            if not self.bind_let(body):
                return None
            chain.append(body)
            body = body.body
        t = self.visit(body)
        if t is not None:
            for inner in chain[1:]:
                self.note(inner, t)
        return t

    def bind_let(self, e: Let) -> bool:
        """Types of the variable and its value; a function's variable is known in the function."""
        v, declared = e.var, e.var.type_annotation
        self.bind(v, e)
        recursive = isinstance(e.value, Function)
        if isinstance(e.value, Function):
            self.set_variable(v, declared or self.signature(e.value), e)
        t = self.visit(e.value)
        if t is None:
            return False
        want = self.found(v) if recursive else declared
        if want is not None:
            both = self.unifier.unify(self.opened(want, v), t)
            if both is None:
                self.report(e, f"%{v.name_hint} is declared {type_text(want)}, but its value is {type_text(t)}")
                return False
            t = want if declared is not None and type(declared) is TensorType else both
        self.set_variable(v, t, e.body)
        return True

    def signature(self, f: Function) -> FuncType:
        """The type of a function as its annotations have it, with holes for what they leave out."""
        for p in f.params:
            if not self.known(p):
                self.note(p, self.var(p))
        ret = self.opened(f.ret_type, f)
        return FuncType(
            tuple([self.found(p) for p in f.params]), ret, tuple([v for v in f.type_params if isinstance(v, TypeVar)])
        )

    def branch(self, e: If) -> Type | None:
        cond, a, b = self.visit(e.cond), self.visit(e.true_branch), self.visit(e.false_branch)
        if cond is None or a is None or b is None:
            return None
        cond = self.unifier.resolve(cond)
        if type(cond) is IncompleteType:
            self.unifier.unify(cond, BOOL)
        elif not (isinstance(cond, TensorType) and not cond.shape and cond.dtype == "bool"):
            self.report(e, f"the condition of an if must be a bool scalar, but is {type_text(cond)}")
            return None
        a, b = self.unifier.resolve(a), self.unifier.resolve(b)
        both = self.unifier.unify(a, b, join=True)
        if both is None:
            self.report(e, f"the branches of an if must have one type, but are {type_text(a)} and {type_text(b)}")
        return both

    def match(self, e: Match) -> Type | None:
        data = self.visit(e.data)
        if data is None:
            return None
        if not e.clauses:
            self.report(e, "a match must have a clause, but this one has none")
            return None
        result: Type | None = None
        for c in e.clauses:
            if not self.pattern(e, c.lhs, self.unifier.resolve(data), c.rhs):
                return None
            t = self.visit(c.rhs)
            if t is None:
                return None
            if result is None:
                result = t
                continue
            both = self.unifier.unify(result, t, join=True)
            if both is None:
                first, this = type_text(self.unifier.resolve(result)), type_text(self.unifier.resolve(t))
                self.report(e, f"the clauses of a match must have one type, but are {first} and {this}")
                return None
            result = both
        return result if self.covers(e) else None

    def pattern(self, e: Match, p: Pattern, t: Type, scope: Expr) -> bool:
        """Types of the variables that a pattern binds, from the type of what it is to match."""
        if isinstance(p, PatternVar):
            if p.var.type_annotation is not None:
                both = self.unifier.unify(self.var(p.var), t)
                if both is None:
                    declared = type_text(p.var.type_annotation)
                    self.report(
                        e, f"%{p.var.name_hint} is declared {declared}, but the pattern binds it to {type_text(t)}"
                    )
                    return False
                t = both
            self.bind(p.var, p)
            self.set_variable(p.var, t, scope)
            return True
        if isinstance(p, PatternTuple):
            fields: tuple[Type, ...] = tuple([self.hole(e) for _ in p.patterns])
            if self.unifier.unify(t, TupleType(fields)) is None:
                self.report(e, f"a tuple pattern of {len(fields)} elements is matched with {type_text(t)}")
                return False
        elif isinstance(p, PatternConstructor):
            c = p.constructor
            made = self.instantiate(constructor_type(c), e)
            if self.unifier.unify(t, made.ret_type) is None:
                self.report(
                    e,
                    f"a pattern of {c.name_hint}, which makes {c.belong_to.name_hint}, is matched with {type_text(t)}",
                )
                return False
            fields = made.arg_types
            if len(fields) != len(p.patterns):
                self.report(e, f"{c.name_hint} has {len(fields)} fields, but its pattern has {len(p.patterns)}")
                return False
        else:
            return True
        return all(
            [self.pattern(e, q, self.unifier.resolve(f), scope) for q, f in zip(p.patterns, fields, strict=True)]
        )

    def function(self, f: Function) -> Type | None:
        for p in f.params:
            self.bind(p, f)
        declared = self.signature(f)
        body = self.visit(f.body)
        if body is None:
            return None
        both = self.unifier.unify(declared.ret_type, body)
        if both is None:
            want, got = type_text(declared.ret_type), type_text(self.unifier.resolve(body))
            self.report(f, f"the function is declared to return {want}, but its body is {got}")
            return None
        body = body if type(body) is TensorType else both
        return self.unifier.resolve(FuncType(declared.arg_types, body, declared.type_params))

    def global_var(self, g: GlobalVar) -> Type | None:
        found = self.signatures.get(g)
        if found is not None:
            return found
        if self.mod is None or g not in self.mod.functions:
            self.report(g, f"@{g.name_hint} is called, but the module has no such function")
            return None
        f = self.mod.functions[g]
        if not isinstance(f, Function):
            return type_of(f)
        if g in self.active:
            return self.unifier.resolve(self.active[g])
        declared = self.signature(f)
        if f in self.failed:
            return None
        self.active[g] = declared
        outside, self.binders = self.binders, {}
        t = self.visit(f)
        self.binders = outside
        del self.active[g]
        if not isinstance(t, FuncType):
            return None
        if f.ret_type is None and self.unifier.unify(declared.ret_type, t.ret_type) is None:
            want = type_text(self.unifier.resolve(declared.ret_type))
            self.report(f, f"@{g.name_hint} calls itself for {want}, but returns {type_text(t.ret_type)}")
            return None
        self.signatures[g] = t
        return t

    def instantiate(self, t: FuncType, e: Expr, given: Sequence[Type] = ()) -> FuncType:
        """A function type with holes, or the types given, for its type parameters."""
        if not t.type_params:
            return t
        bound: dict[TypeVar, Type] = {}
        for i, v in enumerate(t.type_params):
            why = f"the type argument {v.name_hint} is not known here. Annotate the variable that this is bound to"
            bound[v] = given[i] if i < len(given) else self.unifier.widened(self.hole(e, why))
        return substitute_types(FuncType(t.arg_types, t.ret_type), bound)

    def call(self, e: Call) -> Type | None:
        types = [self.found(a) for a in e.args]
        if None in [t and 1 for t in types]:
            return None
        if type(e.op) is Op:
            return self.apply_card(e, types)
        callee = self.constructor(e.op) if type(e.op) is Constructor else self.found(e.op)
        if callee is None:
            return None
        if type(callee) is IncompleteType:
            result = self.hole(e)
            return result if self.unifier.unify(callee, FuncType(tuple(types), result)) is not None else None
        if not isinstance(callee, FuncType):
            self.report(e, f"{type_text(callee)} is called, but it is not a function")
            return None
        return self.apply_function(e, callee, types)

    def apply_function(self, e: Call, callee: FuncType, types: Sequence[Any]) -> Type | None:
        what = f"the constructor {e.op.name_hint}" if isinstance(e.op, Constructor) else "a function"
        if len(callee.arg_types) != len(types):
            self.report(e, f"{what} of {len(callee.arg_types)} arguments is called with {len(types)}")
            return None
        if len(e.given_types) > len(callee.type_params):
            self.report(e, f"{what} of {len(callee.type_params)} type parameters is given {len(e.given_types)} types")
            return None
        made = self.instantiate(callee, e, e.given_types)
        for i, (want, got) in enumerate(zip(made.arg_types, types, strict=True)):
            if type(got) is FuncType and got.type_params:
                got = self.instantiate(got, e)
            if self.unifier.unify(want, got) is None:
                called = what if isinstance(e.op, Constructor) else "the called function"
                want, got = self.unifier.resolve(want), self.unifier.resolve(got)
                self.report(e, f"argument {i} of {called} must be {type_text(want)}, but is {type_text(got)}")
                return None
        return self.unifier.resolve(made.ret_type)

    def completed(self, e: Call, types: Sequence[Any]) -> Sequence[Any]:
        """The arguments' types, those of variables without one from the operator's attributes where they say it."""
        card = self.card_of(e)
        known = [None if type(t) is IncompleteType else t for t in types]
        if card is None or any([isinstance(t, TupleType) for t in known]):
            return types
        try:
            wanted = card.complete(known)
        except TypeRuleError:
            # The rule itself finds what is wrong, when all types are known.
            return types
        for t, k, w in zip(types, known, wanted, strict=False):
            if k is None and w is not None:
                self.unifier.unify(t, w)
        return [self.unifier.resolve(t) for t in types]

    def apply_card(self, e: Call, types: Sequence[Any]) -> Type | None:
        if any([type(t) is IncompleteType for t in types]):
            types = self.completed(e, types)
        for t in types:
            if type(t) is not TensorType:
                hole = self.unifier.hole(t)
                if hole is not None:
                    return self.wait(e, hole)
        op: Any = e.op
        card = self.card_of(e)
        if card is None:
            return None
        names, variadic = argument_names(type(card))
        if not variadic and len(types) > len(names):
            self.report(
                e, f"{op.name} takes {len(names)} arguments ({', '.join(names)}), but is called with {len(types)}"
            )
            return None
        if len(types) < required_arguments(type(card)) and not variadic:
            self.report(e, f"{op.name} takes the arguments ({', '.join(names)}), but is called with {len(types)}")
            return None
        try:
            return card.infer(*types)
        except TypeRuleError as error:
            self.report(e, rule_text(e, names, types, error))
        except OpNotImplemented:
            raise
        except TVMError as error:
            self.report(e, f"{op.name}: {error}\n{call_text(e, names, types)}")
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            # A rule that does not guard itself: still say where.
            self.report(e, f"{op.name}: its type rule failed: {said(error)}\n{call_text(e, names, types)}")
        return None

    def card_of(self, e: Call) -> OpCard | None:
        """The attributes of an operator's call, which are its card; a call without any has the defaults."""
        name = e.operator.name
        kind = cards().get(name)
        if kind is None:
            self.report(e, f"{name} is called, but relay has no operator of this name")
        elif type(e.attrs) is kind:
            return e.attrs
        elif e.attrs is not None:
            self.report(e, f"{name} is called with attributes of {e.attrs.type_key or type(e.attrs).__name__}")
        else:
            missing = [f.name for f in kind._fields if f.required]
            if not missing:
                return kind()
            self.report(e, f"{name} needs the attribute {missing[0]}, but is called without attributes")
        return None

    rules: ClassVar[dict[type, Any]] = {
        Var: var,
        Constant: constant,
        Call: call,
        Tuple: tuple,
        TupleGetItem: item,
        Let: let,
        If: branch,
        Match: match,
        Function: function,
        GlobalVar: global_var,
        Op: lambda i, op: FuncType((), UNIT),
        Constructor: constructor,
        RefCreate: ref_create,
        RefRead: ref_read,
        RefWrite: ref_write,
    }


def infer_types(expr: Expr, mod: IRModule | None = None) -> Type:
    """Infer the type of one expression, and set `checked_type` of every expression under it. Raises DiagnosticError."""
    inference = _Inference(mod)
    inference.root = expr
    with deep_recursion():
        inference.visit(expr)
        inference.finish()
    found = inference.found(expr)
    assert isinstance(found, Type)
    return found


def _bound_once(mod: IRModule, rebinding: Mapping[GlobalVar, Sequence[Var]]) -> dict[GlobalVar, Function]:
    """Functions whose variables are bound in one place each, without types."""
    made: dict[GlobalVar, Function] = {}
    for gvar, variables in rebinding.items():
        func = mod.functions[gvar]
        assert isinstance(func, Function)
        made[gvar] = bound_once(func)
        forget_types(made[gvar])
        for v in variables:
            if type_of(v) is not None:
                object.__delattr__(v, "_checked_type")
    return made


def infer_module(mod: IRModule) -> IRModule:
    """Types of all functions, also written on parameters and results; each variable of a function is bound in one place. Raises
    DiagnosticError with all independent findings."""
    inference = _Inference(mod)
    with deep_recursion():
        for gvar, f in mod.functions.items():
            if isinstance(f, Function):
                inference.global_var(gvar)
        if inference.rebinding:
            return infer_module(mod.with_functions({**mod.functions, **_bound_once(mod, inference.rebinding)}))
        inference.finish()
    whole = annotated(mod)
    return mod if whole is mod else infer_module(whole)


def InferType() -> Pass:
    """Infer the type of every expression of a module."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        return infer_module(mod)

    return Pass(PassInfo(0, "InferType", (), (), ("types",)), run)
