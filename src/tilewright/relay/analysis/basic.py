"""Variables, types, features, scopes and match clauses of relay programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.ir import FuncType, GlobalVar, IRModule, TensorType, Type, TypeVar
from tilewright.node import deep_recursion, structural_equal
from tilewright.relay.adt import (
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    pattern_vars,
)
from tilewright.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    Let,
    Tuple,
    Var,
)
from tilewright.relay.functor import (
    all_vars,
    bound_vars,
    children,
    flow_children,
    free_vars,
    post_order,
    post_order_visit,
    recursive_lets,
)
from tilewright.relay.typing.unify import parts
from tilewright.support.errors import DiagnosticError

__all__ = [
    "Feature",
    "all_dtypes",
    "all_type_vars",
    "all_vars",
    "alpha_equal",
    "bound_type_vars",
    "bound_vars",
    "called_functions",
    "check_constant",
    "detect_feature",
    "free_type_vars",
    "free_vars",
    "list_op_freqs",
    "post_order",
    "post_order_visit",
    "unmatched_cases",
    "well_formed",
]


class Feature:
    """Features that a program may use, with the numbers of classic TVM."""

    fVar, fGlobalVar, fConstant, fTuple, fTupleGetItem, fFunction, fOp, fCall, fLet, fIf = range(10)
    fRefCreate, fRefRead, fRefWrite, fConstructor, fMatch, fGraph, fLetRec = range(10, 17)


_FEATURES: dict[str, int] = {n[1:]: i for n, i in vars(Feature).items() if n.startswith("f")}


def detect_feature(a: Expr | IRModule, b: IRModule | None = None) -> set[int]:
    """The features (see Feature) that an expression, or the functions of a module, use."""
    found: set[int] = set()
    roots = list(a.functions.values()) if isinstance(a, IRModule) else [a]
    roots += list(b.functions.values()) if b is not None else []
    for root in roots:
        if recursive_lets(root):
            found.add(Feature.fLetRec)
        used: dict[Expr, int] = {}
        for e in post_order(root):
            found.add(_FEATURES[type(e).__name__])
            if isinstance(e, Call):
                found.add(_FEATURES[type(e.op).__name__])
            for c in children(e):
                used[c] = used.get(c, 0) + 1
        atoms = (Var, GlobalVar, Constant)
        if any([n > 1 and not isinstance(e, atoms) and children(e) for e, n in used.items()]):
            found.add(Feature.fGraph)
    return found


def alpha_equal(a: Expr | Type | IRModule, b: Expr | Type | IRModule) -> bool:
    """Whether two programs are equal up to the names of their variables."""
    return structural_equal(a, b, map_free_vars=False)


def check_constant(expr: Expr) -> bool:
    """Whether `expr` consists only of constants, and of tuples and functions of constants."""
    return all([isinstance(e, (Constant, Tuple)) for e in post_order(expr)])


def _types_in(expr: Expr) -> Iterable[Type]:
    for e in post_order(expr):
        if isinstance(e, Var) and e.type_annotation is not None:
            yield e.type_annotation
        elif isinstance(e, Function) and e.ret_type is not None:
            yield e.ret_type
        elif isinstance(e, Call):
            yield from e.type_args


def _walk_type(t: Type, used: dict[TypeVar, None], bound: dict[TypeVar, None]) -> None:
    if isinstance(t, TypeVar):
        used[t] = None
    if isinstance(t, FuncType):
        bound.update(dict.fromkeys(t.type_params))
    for p in parts(t):
        _walk_type(p, used, bound)


def _type_variables(expr: Expr | Type) -> tuple[dict[TypeVar, None], dict[TypeVar, None]]:
    used: dict[TypeVar, None] = {}
    bound: dict[TypeVar, None] = {}
    if isinstance(expr, Type):
        _walk_type(expr, used, bound)
        return used, bound
    for e in post_order(expr):
        if isinstance(e, Function):
            bound.update({v: None for v in e.type_params if isinstance(v, TypeVar)})
    for t in _types_in(expr):
        _walk_type(t, used, bound)
    return used, bound


def free_type_vars(expr: Expr | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """The type variables that annotations use and no function binds, in the order of their first use."""
    used, bound = _type_variables(expr)
    return [v for v in used if v not in bound]


def bound_type_vars(expr: Expr | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """The type parameters of the functions (or function types) in `expr`."""
    return list(_type_variables(expr)[1])


def all_type_vars(expr: Expr | Type, mod: IRModule | None = None) -> list[TypeVar]:
    """All type variables in `expr`."""
    used, bound = _type_variables(expr)
    return list({**used, **bound})


def all_dtypes(expr: Expr) -> set[str]:
    """The dtypes of all tensors in a typed expression."""
    found = [getattr(e, "_checked_type", None) for e in post_order(expr)]
    return {str(t.dtype) for t in found if isinstance(t, TensorType)}


def well_formed(program: Expr | IRModule, diag_ctx: object = None, report: bool = False) -> bool:
    """Whether every variable is bound once, is used only in its scope, and all type variables are bound.

    A lone expression may have free variables (a module's functions may not). With `report` a program that is not well
    formed raises DiagnosticError with all findings.
    """
    with deep_recursion():
        found = findings(program)
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


def function_findings(func: Function, bound: set[Var]) -> list[str]:
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


def unmatched_cases(match: Match, mod: IRModule | None = None) -> list[Pattern]:
    """Patterns of values that no clause of a match covers; empty if the match is complete."""
    open_cases: list[Pattern] = [PatternWildcard()]
    for clause in match.clauses:
        open_cases = [rest for case in open_cases for rest in _left_over(case, clause.lhs)]
    return open_cases


def _left_over(case: Pattern, lhs: Pattern) -> list[Pattern]:
    """The part of `case` that `lhs` does not fit."""
    if isinstance(lhs, (PatternWildcard, PatternVar)):
        return []
    if isinstance(case, (PatternWildcard, PatternVar)):
        if isinstance(lhs, PatternTuple):
            return _left_over(PatternTuple(tuple([PatternWildcard() for _ in lhs.patterns])), lhs)
        assert isinstance(lhs, PatternConstructor)
        data = lhs.constructor.type_data
        forms = data.constructors if data is not None else (lhs.constructor,)
        whole = [PatternConstructor(c, tuple([PatternWildcard() for _ in c.inputs])) for c in forms]
        return [rest for w in whole for rest in _left_over(w, lhs)]
    if isinstance(case, PatternConstructor) and isinstance(lhs, PatternConstructor):
        if case.constructor.name_hint != lhs.constructor.name_hint:
            return [case]
    inner: Sequence[Pattern] = case.patterns  # type: ignore[attr-defined]
    wanted: Sequence[Pattern] = lhs.patterns  # type: ignore[attr-defined]
    out: list[Pattern] = []
    # Split at the first field that does not fit: the ones before it do, the ones after it are as they were.
    for i, (have, want) in enumerate(zip(inner, wanted, strict=True)):
        for rest in _left_over(have, want):
            out.append(case.replace(patterns=(*wanted[:i], rest, *inner[i + 1 :])))
    return out


def list_op_freqs(mod: IRModule) -> dict[str, int]:
    """The number of calls of each operator in a module."""
    counts: dict[str, int] = {}
    for f in mod.functions.values():
        if isinstance(f, Function):
            for e in post_order(f):
                if isinstance(e, Call) and hasattr(e.op, "name"):
                    counts[e.op.name] = counts.get(e.op.name, 0) + 1
    return counts


def called_functions(mod: IRModule, roots: Sequence[str] = ("main",)) -> list[GlobalVar]:
    """The functions that can be reached from `roots`, in the order in which they are found."""
    pending: list[Expr] = [mod.get_global_var(r) for r in roots]
    found: dict[GlobalVar, None] = {}
    while pending:
        g = pending.pop(0)
        if g in found or g not in mod.functions or not isinstance(g, GlobalVar):
            continue
        found[g] = None
        f = mod.functions[g]
        if isinstance(f, Function):
            pending += [e for e in post_order(f) if isinstance(e, GlobalVar)]
    return list(found)
