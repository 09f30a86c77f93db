"""The scope that each expression of a program is evaluated in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tilewright.ir import GlobalVar, Op
from tilewright.relay.adt import Constructor, Match
from tilewright.relay.expr import Constant, Expr, Function, If, Let, Var
from tilewright.relay.functor import flow_children, recursive_lets

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
                if part == LET_FUNCTION and isinstance(e, Let):
                    where = function = self.inner[e, part] = self._new(here, True)
                    around_function[where] = e.var
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


def check_basic_block_normal_form(expr: Expr) -> bool:
    """Whether only variables are used outside of the scope that computes them (see `transform.ToBasicBlockNormalForm`)."""
    return not Scopes(expr).lifted
