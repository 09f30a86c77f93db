"""ToBasicBlockNormalForm: what several scopes use is let-bound in the scope around them; inside of a scope, graphs stay graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.ir import GlobalVar, IRModule, Op
from tilewright.ir.transform import PassContext, module_pass
from tilewright.relay.adt import Constructor, Match
from tilewright.relay.expr import Call, Constant, Expr, Function, If, Let, Tuple, Var
from tilewright.relay.functor import ExprMutator, flow_children, lets_around, recursive_lets

LET_BODY = -1
"""The part of a let that its variable is known in."""
LET_FUNCTION = -2
"""The part of a let that is a function, which may name the variable; the body is inside of that part, too, as far as uses go."""
LATER = -3
"""The bindings that an expression needs, evaluated where its value is asked for."""
_ATOMS = (Var, Constant, GlobalVar, Op, Constructor)


class Scopes:
    """For every expression the scope that it is evaluated in: the innermost one around all of its uses. Scopes are numbered; each has
    its parent and depth. `lifted` are the expressions that other blocks use than that of their scope, operands first. Of these the
    operands of those that `later` names are in a scope of their own (part LATER). An expression that names a recursive function and is used
    in that as well as after it belongs to both places, and is not lifted."""

    def __init__(self, root: Expr, later: Callable[[Expr], bool] = lambda e: False) -> None:
        self.later = later
        self.parent: list[int] = [-1]
        self.depth: list[int] = [0]
        self.block: list[int] = [0]
        self.used_in: dict[Expr, list[int]] = {}
        self.scope: dict[Expr, int] = {}
        self.inner: dict[tuple[Expr, int], int] = {}
        self.lifted: dict[Expr, None] = {}
        self._walk(root)

    def _new(self, around: int, of_let: bool) -> int:
        """A scope; the body of a let is one too, in the block of the let."""
        self.parent.append(around)
        self.depth.append(self.depth[around] + 1)
        self.block.append(self.block[around] if of_let else len(self.block))
        return len(self.parent) - 1

    def common(self, a: int, b: int) -> int:
        """The innermost scope around both."""
        while a != b:
            if self.depth[a] < self.depth[b]:
                a, b = b, a
            a = self.parent[a]
        return a

    def operands(self, e: Expr) -> list[tuple[Expr, int]]:
        """The expressions right under `e`: (expression, number of the part of `e` that it is in; 0 for the scope of `e` itself)."""
        if isinstance(e, Function):
            return [] if e.is_primitive else [(e.body, 1)]
        if isinstance(e, If):
            return [(e.cond, 0), (e.true_branch, 1), (e.false_branch, 2)]
        if isinstance(e, Match):
            return [(e.data, 0), *[(c.rhs, i + 1) for i, c in enumerate(e.clauses)]]
        if isinstance(e, Let):
            return [(e.value, LET_FUNCTION if isinstance(e.value, Function) else 0), (e.body, LET_BODY)]
        return [(c, 0) for c in flow_children(e)]

    def _walk(self, root: Expr) -> None:
        """Users before what they use, so that the scope of an expression is known when its operands are reached."""
        order: list[Expr] = []
        stack: list[tuple[Expr, bool]] = [(root, False)]
        seen: set[Expr] = set()
        while stack:
            e, done = stack.pop()
            if done:
                order.append(e)
            elif e not in seen:
                seen.add(e)
                stack.append((e, True))
                stack += [(c, False) for c, _ in self.operands(e)]
        self.scope[root] = 0
        lifted: list[Expr] = []
        around_function: dict[int, Var] = {}
        bits = {v: 1 << i for i, v in enumerate(recursive_lets(root))}
        named = _names(order, bits, self.operands)
        for e in reversed(order):
            here = self.scope[e]
            while here in around_function and not named[e] & bits.get(around_function[here], 0):
                here = self.scope[e] = self.parent[here]
            elsewhere = any([self.block[p] != self.block[here] for p in self.used_in.get(e, ())])
            if elsewhere and here not in around_function and not isinstance(e, _ATOMS):
                lifted.append(e)
                if self.later(e):
                    here = self.inner[e, LATER] = self._new(here, False)
            function = here
            for c, part in self.operands(e):
                where = here
                if part == LET_FUNCTION:
                    where = function = self.inner[e, part] = self._new(here, True)
                    around_function[where] = e.var  # type: ignore[attr-defined]
                elif part:
                    where = self.inner[e, part] = self._new(function, part == LET_BODY)
                self.used_in.setdefault(c, []).append(where)
                self.scope[c] = where if c not in self.scope else self.common(self.scope[c], where)
        self.lifted = dict.fromkeys(reversed(lifted))


def _names(
    order: Sequence[Expr], bits: Mapping[Var, int], operands: Callable[[Expr], list[tuple[Expr, int]]]
) -> dict[Expr, int]:
    """The bits of the variables that stand in each expression, of which operands come first."""
    found: dict[Expr, int] = {}
    for e in order:
        bit = bits.get(e, 0) if isinstance(e, Var) else 0
        for c, _ in operands(e):
            bit |= found[c]
        found[e] = bit
    return found


class _Blocks(ExprMutator):
    """Lets for what is lifted, at the head of the scope that it belongs to."""

    def __init__(self, scopes: Scopes) -> None:
        super().__init__()
        self.scopes = scopes
        self.lets: dict[int, list[tuple[Var, Expr]]] = {}
        self.count = 0

    def bound(self, old: Expr, new: Expr) -> Expr:
        if old not in self.scopes.lifted:
            return new
        v = Var(f"x{self.count}")
        self.count += 1
        self.lets.setdefault(self.scopes.scope[old], []).append((v, new))
        return v

    def block(self, e: Expr, part: int, body: Expr) -> Expr:
        """A part of `e` that is a scope, with the lets that belong to it."""
        return self.within(self.scopes.inner[e, part], self.visit(body))

    def within(self, scope: int, body: Expr) -> Expr:
        return lets_around(self.lets.pop(scope, []), body)

    def visit_let(self, let: Let) -> Expr:
        chain = [(node, self.visit(node.value)) for node in self.chain_of(let)]
        new: Expr = self.visit(chain[-1][0].body)
        for node, value in reversed(chain):
            new = node.replace(value=value, body=self.within(self.scopes.inner[node, LET_BODY], new))
            self.memo_map[node] = new
        return new

    def visit_call(self, call: Call) -> Expr:
        return self.bound(call, super().visit_call(call))

    def visit_tuple(self, tup: Tuple) -> Expr:
        return self.bound(tup, super().visit_tuple(tup))

    def visit_tuple_getitem(self, op: Any) -> Expr:
        return self.bound(op, super().visit_tuple_getitem(op))

    def visit_ref_create(self, r: Any) -> Expr:
        return self.bound(r, super().visit_ref_create(r))

    def visit_ref_read(self, r: Any) -> Expr:
        return self.bound(r, super().visit_ref_read(r))

    def visit_ref_write(self, r: Any) -> Expr:
        return self.bound(r, super().visit_ref_write(r))

    def visit_if(self, ite: If) -> Expr:
        cond = self.visit(ite.cond)
        new = ite.replace(
            cond=cond,
            true_branch=self.block(ite, 1, ite.true_branch),
            false_branch=self.block(ite, 2, ite.false_branch),
        )
        return self.bound(ite, new)

    def visit_match(self, m: Match) -> Expr:
        data = self.visit(m.data)
        clauses = tuple([c.replace(rhs=self.block(m, i + 1, c.rhs)) for i, c in enumerate(m.clauses)])
        return self.bound(m, Match(data, clauses, m.complete, m.span))

    def visit_function(self, fn: Function) -> Expr:
        if fn.is_primitive:
            return fn
        return self.bound(fn, fn.replace(body=self.block(fn, 1, fn.body)))


def to_basic_block(e: Expr) -> Expr:
    """`e` with let-bound what several of its scopes use."""
    scopes = Scopes(e)
    blocks = _Blocks(scopes)
    new: Expr = blocks.visit(e)
    return blocks.within(0, new)


def is_basic_block(e: Expr) -> bool:
    """Whether nothing but names is used from another scope than its own."""
    return not Scopes(e).lifted


@module_pass(opt_level=0, name="ToBasicBlockNormalForm")
class ToBasicBlockNormalForm:
    """Convert every function to basic-block normal form: an expression that several scopes use (both branches of an if,
    a closure and the code around it) is bound by a let in the scope around them, and computed once. Expressions in one
    scope stay a graph.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        functions: dict[Any, Any] = {
            g: to_basic_block(f) if isinstance(f, Function) and not f.is_primitive else f
            for g, f in mod.functions.items()
        }
        return mod.with_functions(functions)


__all__ = ["Scopes", "ToBasicBlockNormalForm", "is_basic_block", "to_basic_block"]
