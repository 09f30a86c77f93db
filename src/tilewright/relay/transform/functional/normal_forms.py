"""A-normal form, with a let for every intermediate value, and graph normal form, with lets for effects and recursion only."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.ir import GlobalVar, IRModule, Op
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.node import deep_recursion
from tilewright.relay.adt import Constructor, Match
from tilewright.relay.analysis.scopes import LATER, LET_BODY, Scopes
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
from tilewright.relay.functor import (
    ExprMutator,
    children,
    contains,
    flow_children,
    lets_around,
    post_order,
    recursive_lets,
)
from tilewright.relay.transform.effects import Effects
from tilewright.relay.typing.bound_once import bound_once

_ATOMS = (Var, Constant, GlobalVar, Op, Constructor)


def _is_atom(e: Expr) -> bool:
    """Whether an operand needs no let: names, constants, and kernels, which stay at their calls."""
    return isinstance(e, _ATOMS) or (isinstance(e, Function) and e.is_primitive)


class _Plan:
    """Values that several blocks use, with the scope at whose start each is bound. Pure values are computed there. Impure ones must keep
    the time and number of their evaluations, so large ones become functions that are called where the value is needed."""

    def __init__(self, root: Expr) -> None:
        has_effect = Effects()
        scopes = _containing_scopes(root)
        self.scopes = Scopes(root, lambda e: has_effect(e) and e in scopes)
        self.heads: dict[int, list[Expr]] = {}
        self.calls: dict[Expr, Var] = {}
        """The functions for such values."""
        self.count = 0
        for e in self.scopes.lifted:
            if not _is_atom(e) and (not has_effect(e) or e in scopes):
                self.heads.setdefault(self.scopes.scope[e], []).append(e)

    def name(self) -> Var:
        self.count += 1
        return Var(f"x{self.count - 1}")


def _containing_scopes(root: Expr) -> set[Expr]:
    """The expressions that contain a scope. Copying one may double its contents."""
    found: set[Expr] = set()
    for e in post_order(root, lambda e: isinstance(e, Function) and e.is_primitive):
        if isinstance(e, (Function, If, Let, Match)) or any([c in found for c in children(e)]):
            found.add(e)
    return found


class _Anf:
    """The lets of one scope. Values with a name in an outer scope are not computed again."""

    def __init__(self, outer: _Anf | None, plan: _Plan, number: int) -> None:
        self.outer, self.plan = outer, plan
        self.names: dict[Expr, Expr] = {}
        self.lets: list[tuple[Var, Expr]] = []
        self.head(number)

    def find(self, e: Expr) -> Expr | None:
        scope: _Anf | None = self
        while scope is not None:
            if e in scope.names:
                return scope.names[e]
            scope = scope.outer
        return None

    def bind(self, value: Expr) -> Var:
        v = self.plan.name()
        self.lets.append((v, value))
        return v

    def head(self, number: int) -> None:
        """Names the values that several blocks in the scope use."""
        for e in self.plan.heads.get(number, ()):
            inside = self.plan.scopes.inner.get((e, LATER))
            if inside is None:
                self.name(e)
            else:
                scope = _Anf(self, self.plan, inside)
                self.plan.calls[e] = self.bind(Function([], scope.close(scope.name(e, evaluate=True))))

    def name(self, root: Expr, evaluate: bool = False) -> Expr:
        """The atom for `root`; its operands are bound before. `evaluate`: even if a function stands for it."""
        stack = [root]
        while stack:
            e = stack[-1]
            if _is_atom(e) or self.find(e) is not None:
                stack.pop()
                continue
            if e in self.plan.calls and not (e is root and evaluate):
                stack.pop()
                self.names[e] = self.bind(Call(self.plan.calls[e], ()))
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
            self.names[e] = self.bind(self.value(e))
        return self.atom(root)

    def atom(self, e: Expr) -> Expr:
        return self.find(e) or e

    def chain(self, e: Let) -> Expr:
        """The atom of a let's body. Its bindings are added to this scope."""
        body: Expr = e
        while isinstance(body, Let):
            if isinstance(body.value, Function) and not body.value.is_primitive and self.find(body.value) is None:
                self.lets.append((body.var, self.value(body.value)))
                self.names[body.value] = body.var
            else:
                self.lets.append((body.var, self.name(body.value)))
            self.head(self.plan.scopes.inner[body, LET_BODY])
            body = body.body
        return self.name(body)

    def value(self, e: Expr) -> Expr:
        """`e` with atoms for operands."""
        if isinstance(e, Function):
            return e.replace(body=self.inner(e, 1, e.body))
        if isinstance(e, If):
            cond = self.name(e.cond)
            return If(cond, self.inner(e, 1, e.true_branch), self.inner(e, 2, e.false_branch), e.span)
        if isinstance(e, Match):
            data = self.name(e.data)
            clauses = tuple([c.replace(rhs=self.inner(e, i + 1, c.rhs)) for i, c in enumerate(e.clauses)])
            return Match(data, clauses, e.complete, e.span)
        return _Operands(self).visit_one(e)

    def inner(self, e: Expr, part: int, body: Expr) -> Expr:
        scope = _Anf(self, self.plan, self.plan.scopes.inner[e, part])
        return scope.close(scope.name(body))

    def close(self, result: Expr) -> Expr:
        return lets_around(self.lets, result)


class _Operands(ExprMutator):
    """Replaces the operands of one expression by their atoms."""

    def __init__(self, scope: _Anf) -> None:
        super().__init__()
        self.scope = scope

    def visit_one(self, e: Expr) -> Expr:
        for c in (*flow_children(e), *([e.op] if isinstance(e, Call) else [])):
            self.memo_map[c] = self.scope.atom(c)
        return self.visit(e)


def ToANormalFormExpr(e: Expr) -> Expr:
    """`to_anf` under the name of a pass."""
    return to_anf(e)


def to_anf(expr: Expr) -> Expr:
    """Convert an expression to A-normal form: operands are variables, constants or names, and the order of the lets is
    the order of evaluation, so effects keep their order. A pure value that several scopes use (both branches of an if)
    is computed in the scope around them; an impure one is computed in each.
    """
    with deep_recursion():
        if isinstance(expr, Function) and expr.is_primitive:
            return expr
        made = anf_and_delayed(expr)[0]
        # A block that several scopes use is copied into each of them.
        shared = isinstance(expr, Function) and contains(expr, lambda e: type(e) is Let or type(e) is Match)
        return bound_once(made) if shared and isinstance(made, Function) else made


def anf_and_delayed(expr: Expr) -> tuple[Expr, set[Expr]]:
    """(`expr`, which is no kernel, in A-normal form; the variables of functions without parameters for values that several scopes
    need)."""
    plan = _Plan(expr)
    if isinstance(expr, Function):
        top = _Anf(None, plan, plan.scopes.inner[expr, 1])
        new: Expr = expr.replace(body=top.close(top.name(expr.body)))
    else:
        top = _Anf(None, plan, 0)
        new = top.close(top.name(expr))
    return new, set(plan.calls.values())


class _Graph(ExprMutator):
    """Replaces variables of lets by the lets' values."""

    def __init__(self, root: Expr) -> None:
        super().__init__()
        self.has_effect = Effects()
        self.recursive = recursive_lets(root)

    def visit_let(self, let: Let) -> Expr:
        kept: list[tuple[Let, Expr]] = []
        last = let
        for last in self.chain_of(let):
            value: Expr = self.visit(last.value)
            if last.var in self.recursive or self.has_effect(last.value):
                kept.append((last, value))
            else:
                self.memo_map[last.var] = value
        result: Expr = self.visit(last.body)
        for node, value in reversed(kept):
            result = self.memo_map[node] = node.replace(value=value, body=result)
        return result

    def visit_function(self, fn: Function) -> Expr:
        return fn if fn.is_primitive else super().visit_function(fn)


def to_graph(expr: Expr) -> Expr:
    """`expr` in graph normal form: values of lets replace their variables (shared, not copied). The remaining lets bind
    recursive functions, or values with effects."""
    return _Graph(expr).visit(expr)


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
    functions = dict(mod.functions)
    for g, f in mod.functions.items():
        if isinstance(f, Function):
            made = form(f)
            assert isinstance(made, Function)
            functions[g] = made
    return mod.with_functions(functions)


def ToANormalForm() -> Pass:
    """Convert every function to A-normal form."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        return _every_function(mod, to_anf)

    return Pass(PassInfo(0, "ToANormalForm"), run)


def ToGraphNormalForm() -> Pass:
    """Convert every function to graph normal form."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        return _every_function(mod, to_graph)

    return Pass(PassInfo(0, "ToGraphNormalForm"), run)
