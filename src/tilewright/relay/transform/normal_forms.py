"""A-normal form, where every intermediate value has a let, and graph normal form, where only effects and recursion do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir import GlobalVar, IRModule, Op
from tilewright.ir.transform import PassContext, module_pass
from tilewright.node import deep_recursion
from tilewright.relay.adt import Constructor, Match
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
from tilewright.relay.functor import ExprMutator, flow_children, free_vars, post_order
from tilewright.relay.transform.rewriting import card_of

_ATOMS = (Var, Constant, GlobalVar, Op, Constructor)


def _is_atom(e: Expr) -> bool:
    """Whether an operand needs no name: names, constants, and kernels, which stand where they are called."""
    return isinstance(e, _ATOMS) or (isinstance(e, Function) and e.is_primitive)


class _Anf:
    """The lets of one scope; a value that a scope around it named already is not computed again."""

    def __init__(self, outer: _Anf | None) -> None:
        self.outer = outer
        self.names: dict[Expr, Expr] = {}
        self.lets: list[tuple[Var, Expr]] = []
        self.count: list[int] = outer.count if outer is not None else [0]

    def find(self, e: Expr) -> Expr | None:
        scope: _Anf | None = self
        while scope is not None:
            if e in scope.names:
                return scope.names[e]
            scope = scope.outer
        return None

    def name(self, root: Expr) -> Expr:
        """The atom that stands for `root`; what it needs is let-bound before."""
        stack = [root]
        while stack:
            e = stack[-1]
            if _is_atom(e) or self.find(e) is not None:
                stack.pop()
                continue
            if isinstance(e, Let):
                stack.pop()
                self.names[e] = self.chain(e)
                continue
            pending = [c for c in flow_children(e) if not _is_atom(c) and self.find(c) is None]
            if pending:
                stack += reversed(pending)
                continue
            stack.pop()
            value = self.value(e)
            v = Var(f"x{self.count[0]}")
            self.count[0] += 1
            self.lets.append((v, value))
            self.names[e] = v
        return self.atom(root)

    def atom(self, e: Expr) -> Expr:
        return self.find(e) or e

    def chain(self, e: Let) -> Expr:
        """The atom of a let's body; its bindings join those of this scope."""
        body: Expr = e
        while isinstance(body, Let):
            if isinstance(body.value, Function):
                self.lets.append((body.var, self.value(body.value)))
                self.names[body.value] = body.var
            else:
                self.lets.append((body.var, self.name(body.value)))
            body = body.body
        return self.name(body)

    def value(self, e: Expr) -> Expr:
        """`e` with atoms for operands."""
        if isinstance(e, Function):
            return e.replace(body=self.inner(e.body))
        if isinstance(e, If):
            return If(self.name(e.cond), self.inner(e.true_branch), self.inner(e.false_branch), e.span)
        if isinstance(e, Match):
            data = self.name(e.data)
            clauses = tuple([c.replace(rhs=self.inner(c.rhs)) for c in e.clauses])
            return Match(data, clauses, e.complete, e.span)
        return _Operands(self).visit_one(e)

    def inner(self, body: Expr) -> Expr:
        scope = _Anf(self)
        return scope.close(scope.name(body))

    def close(self, result: Expr) -> Expr:
        for v, value in reversed(self.lets):
            result = Let(v, value, result)
        return result


class _Operands(ExprMutator):
    """Replaces the operands of one expression by their atoms."""

    def __init__(self, scope: _Anf) -> None:
        super().__init__()
        self.scope = scope

    def visit_one(self, e: Expr) -> Expr:
        for c in (*flow_children(e), *([e.op] if isinstance(e, Call) else [])):
            self.memo_map[c] = self.scope.atom(c)
        return self.visit(e)  # type: ignore[no-any-return]


def to_anf(expr: Expr) -> Expr:
    """`expr` in A-normal form: operands are variables, constants or names, and the order of the lets is the order of
    evaluation, so effects happen when they did."""
    with deep_recursion():
        if isinstance(expr, Function):
            return expr if expr.is_primitive else expr.replace(body=_Anf(None).inner(expr.body))
        return _Anf(None).inner(expr)


def has_effect(e: Expr, pure: set[Expr] | None = None) -> bool:
    """Whether evaluating `e` may do or depend on something besides its operands: references, calls of functions,
    operators that are not pure. What is inside a function happens when it is called. `pure` are expressions
    known to have none; those found to have none are added."""
    pure = set() if pure is None else pure
    stack, seen = [e], {e}
    while stack:
        node = stack.pop()
        if isinstance(node, (RefCreate, RefRead, RefWrite)):
            return True
        if isinstance(node, Call) and not isinstance(node.op, Constructor):
            primitive = isinstance(node.op, Function) and node.op.is_primitive
            if not primitive and (type(node.op) is not Op or not card_of(node).pure):
                return True
        parts: tuple[Expr, ...] = flow_children(node)
        if isinstance(node, Let):
            parts = (node.value, node.body)
        elif isinstance(node, If):
            parts = (node.cond, node.true_branch, node.false_branch)
        elif isinstance(node, Match):
            parts = (node.data, *[c.rhs for c in node.clauses])
        stack += [c for c in parts if c not in seen and c not in pure]
        seen.update(parts)
    pure |= seen
    return False


class _Graph(ExprMutator):
    """Puts the values of lets where their variables are used."""

    def __init__(self) -> None:
        super().__init__()
        self.pure: set[Expr] = set()

    def visit_let(self, let: Let) -> Expr:
        kept: list[tuple[Let, Expr]] = []
        body: Expr = let
        while isinstance(body, Let):
            recursive = isinstance(body.value, Function) and body.var in free_vars(body.value)
            value: Expr = self.visit(body.value)
            if recursive or has_effect(body.value, self.pure):
                kept.append((body, value))
            else:
                self.memo_map[body.var] = value
            body = body.body
        result: Expr = self.visit(body)
        for node, value in reversed(kept):
            result = node.replace(value=value, body=result)
        return result

    def visit_function(self, fn: Function) -> Expr:
        return fn if fn.is_primitive else super().visit_function(fn)


def to_graph(expr: Expr) -> Expr:
    """`expr` in graph normal form: values of lets stand where they are used (shared, not copied). Lets stay that bind
    recursive functions, or values whose evaluation has effects."""
    return _Graph().visit(expr)  # type: ignore[no-any-return]


def is_anf(expr: Expr) -> bool:
    """Whether every operand in `expr` is a variable, a constant or a name."""
    return all(
        [
            _is_atom(c)
            for e in post_order(expr)
            if isinstance(e, (Call, Tuple, TupleGetItem, RefCreate, RefRead, RefWrite))
            for c in flow_children(e)
        ]
    )


def _every_function(mod: IRModule, form: Callable[[Expr], Expr]) -> IRModule:
    functions: dict[GlobalVar, Any] = {g: form(f) if isinstance(f, Function) else f for g, f in mod.functions.items()}
    return mod.with_functions(functions)


@module_pass(opt_level=0, name="ToANormalForm")
class ToANormalForm:
    """Every function in A-normal form."""

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return _every_function(mod, to_anf)


@module_pass(opt_level=0, name="ToGraphNormalForm")
class ToGraphNormalForm:
    """Every function in graph normal form."""

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        return _every_function(mod, to_graph)
