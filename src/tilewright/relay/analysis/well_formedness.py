"""Whether the variables of programs are bound once, and used only in their scopes."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.ir import IRModule
from tilewright.node import deep_recursion
from tilewright.relay.adt import Match, pattern_vars
from tilewright.relay.analysis.expressions import free_type_vars
from tilewright.relay.expr import Expr, Function, If, Let, Var
from tilewright.relay.functor import flow_children
from tilewright.support.errors import DiagnosticError


def well_formed(expr: Expr | IRModule, diag_ctx: object = None, report: bool = False) -> bool:
    """Whether every variable is bound once, is used only in its scope, and all type variables are bound.

    A lone expression may have free variables (a module's functions may not). With `report` a program that is not well
    formed raises DiagnosticError with all findings.
    """
    with deep_recursion():
        found = findings(expr)
    if found and report:
        raise DiagnosticError("the program is not well formed\n" + "\n".join(found))
    return not found


def findings(program: Expr | IRModule) -> list[str]:
    """Messages about all places where a program is not well formed."""
    out: list[str] = []
    if isinstance(program, IRModule):
        bound: set[Var] = set()
        for gvar, f in program.functions.items():
            if isinstance(f, Function):
                out += [f"@{gvar.name_hint}: {text}" for text in function_findings(f, bound)]
    else:
        checker = _Scopes(set(), set())
        checker.walk(program)
        out = checker.findings
        inside = checker.bound & set(checker.free)
        out += [f"%{v.name_hint} is used outside of the scope that binds it" for v in inside]
    return list(dict.fromkeys(out))


def function_findings(func: Expr, bound: set[Var]) -> list[str]:
    """Finds what makes a function of a module malformed. `bound`: variables that other functions bind; those of this function are added."""
    checker = _Scopes(bound, set())
    checker.walk(func)
    free = [f"%{v.name_hint} is used, but nothing binds it" for v in checker.free]
    loose = [f"the type variable {v.name_hint} is used, but nothing binds it" for v in free_type_vars(func)]
    return [*checker.findings, *free, *loose]


class _Scopes:
    """Walks scopes with the set of variables that may be named; shared operands are looked at once per scope."""

    def __init__(self, bound: set[Var], known: set[Var]) -> None:
        self.bound, self.known = bound, known
        self.free: dict[Var, None] = {}
        self.findings: list[str] = []
        self.done: set[Expr] = set()
        self.log: list[Expr] = []
        self.scopes: set[Expr] = set()

    def bind(self, variables: Iterable[Var], again: bool) -> list[Var]:
        """The variables that were not known before; `again` when the scope is met a second time, being shared."""
        fresh: list[Var] = []
        for v in variables:
            if v in self.bound and not again:
                self.findings.append(f"%{v.name_hint} is bound twice")
            self.bound.add(v)
            if v not in self.known:
                fresh.append(v)
                self.known.add(v)
        return fresh

    def leave(self, fresh: Iterable[Var], mark: int) -> None:
        """Forget a scope's variables, and that what was seen in it is done: outside it may be wrong."""
        self.known.difference_update(fresh)
        self.done.difference_update(self.log[mark:])
        del self.log[mark:]

    def inside(self, variables: Iterable[Var], body: Expr, again: bool) -> None:
        mark = len(self.log)
        fresh = self.bind(variables, again)
        self.walk(body)
        self.leave(fresh, mark)

    def walk(self, root: Expr) -> None:
        stack = [root]
        while stack:
            e = stack.pop()
            if e in self.done:
                continue
            self.done.add(e)
            self.log.append(e)
            again = e in self.scopes
            if isinstance(e, Var):
                if e not in self.known:
                    self.free[e] = None
            elif isinstance(e, Function):
                self.scopes.add(e)
                self.inside(e.params, e.body, again)
            elif isinstance(e, Let):
                self.lets(e)
            elif isinstance(e, If):
                stack += [e.false_branch, e.true_branch, e.cond]
            elif isinstance(e, Match):
                self.scopes.add(e)
                stack.append(e.data)
                for c in e.clauses:
                    self.inside(pattern_vars(c.lhs), c.rhs, again)
            else:
                stack += reversed(flow_children(e))

    def lets(self, e: Let) -> None:
        fresh: list[Var] = []
        mark = len(self.log)
        body: Expr = e
        while isinstance(body, Let):
            recursive = isinstance(body.value, Function)
            if not recursive:
                self.walk(body.value)
            fresh += self.bind([body.var], body in self.scopes)
            self.scopes.add(body)
            if recursive:
                self.walk(body.value)
            body = body.body
        self.walk(body)
        self.leave(fresh, mark)
