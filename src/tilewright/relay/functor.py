"""Walks over relay expressions. Dataflow chains of any depth are walked with an explicit stack, never by recursion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from tilewright.ir import GlobalVar, Op, RelayExpr
from tilewright.ir.module import register_expr_wrapper
from tilewright.node import deep_recursion
from tilewright.relay.adt import Constructor, Match, Pattern, PatternVar, parts_of, pattern_vars
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
from tilewright.support.errors import TVMError

_NONE: tuple[Expr, ...] = ()
R = TypeVar("R")
K = TypeVar("K", bound=Expr)


def let_chain(e: Expr) -> tuple[list[tuple[Var, Expr]], Expr]:
    """The bindings of a chain of lets, and its result."""
    found = []
    while isinstance(e, Let):
        found.append((e.var, e.value))
        e = e.body
    return found, e


def lets_around(bindings: Sequence[tuple[Var, Expr]], body: Expr) -> Expr:
    """Lets of the bindings, the first outermost, with a body."""
    for var, value in reversed(bindings):
        body = Let(var, value, body)
    return body


_children: dict[type, Callable[[Any], tuple[Expr, ...]]] = {
    Var: lambda e: _NONE,
    Constant: lambda e: _NONE,
    GlobalVar: lambda e: _NONE,
    Op: lambda e: _NONE,
    Constructor: lambda e: _NONE,
    Call: lambda e: e.args if type(e.op) is Op or type(e.op) is Constructor else (e.op, *e.args),
    Tuple: lambda e: e.fields,
    TupleGetItem: lambda e: (e.tuple_value,),
    Let: lambda e: (e.var, e.value, e.body),
    If: lambda e: (e.cond, e.true_branch, e.false_branch),
    Function: lambda e: (*e.params, e.body),
    Match: lambda e: (e.data, *[x for c in e.clauses for x in (*pattern_vars(c.lhs), c.rhs)]),
    RefCreate: lambda e: (e.value,),
    RefRead: lambda e: (e.ref,),
    RefWrite: lambda e: (e.ref, e.value),
}

_SCOPES = frozenset({Function, Let, If, Match})


def children(e: Expr) -> tuple[Expr, ...]:
    """The expressions right under `e` in evaluation order, bound variables included, operators left out."""
    return _children[type(e)](e)


def flow_children(e: Expr) -> tuple[Expr, ...]:
    """The operands of `e` in the same scope; nothing for a function, let, if or match, which open scopes of their own."""
    kind = type(e)
    return _NONE if kind in _SCOPES else _children[kind](e)


def all_children(e: Expr) -> tuple[Expr, ...]:
    """The expressions right under `e`, operators and constructors that it calls included."""
    return (e.op, *e.args) if isinstance(e, Call) else children(e)


def post_order(
    root: Expr,
    skip: Callable[[Expr], bool] | None = None,
    below: Callable[[Expr], tuple[Expr, ...]] = children,
) -> Iterator[Expr]:
    """Every expression at or under `root` once, operands first. `skip(e)` omits `e` and everything that is only under
    it; `below(e)` are the expressions right under `e`.
    """
    done: set[Expr] = set()
    stack: list[tuple[Expr, Iterator[Expr]]] = []
    if skip is not None and skip(root):
        return
    stack.append((root, iter(below(root))))
    entered = {root}
    while stack:
        node, rest = stack[-1]
        for child in rest:
            if child not in entered and (skip is None or not skip(child)):
                entered.add(child)
                stack.append((child, iter(below(child))))
                break
        else:
            stack.pop()
            if node not in done:
                done.add(node)
                yield node


def contains(root: Expr, test: Callable[[Expr], bool]) -> bool:
    """Whether `test` holds of an expression under or of `root`; the order of asking is no one's business, which makes it quick."""
    seen, stack = {root}, [root]
    while stack:
        e = stack.pop()
        if test(e):
            return True
        for c in _children[type(e)](e):
            if c not in seen:
                seen.add(c)
                stack.append(c)
    return False


def post_order_visit(expr: Expr, fvisit: Callable[[Expr], None]) -> None:
    """Call `fvisit` once on every expression at or under `expr`, operators included, operands first."""
    for node in post_order(expr, below=all_children):
        fvisit(node)


class Functor(Generic[R]):
    """Dispatch by type and the memo of results, of type R; operands are visited before the node that uses them."""

    _methods: ClassVar[dict[type, str]] = {
        Var: "visit_var",
        Constant: "visit_constant",
        GlobalVar: "visit_global_var",
        Op: "visit_op",
        Call: "visit_call",
        Tuple: "visit_tuple",
        TupleGetItem: "visit_tuple_getitem",
        Let: "visit_let",
        If: "visit_if",
        Function: "visit_function",
        Match: "visit_match",
        Constructor: "visit_constructor",
        RefCreate: "visit_ref_create",
        RefRead: "visit_ref_read",
        RefWrite: "visit_ref_write",
    }

    _table: ClassVar[dict[type, Callable[[Any, Any], Any]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Functions of the class: bound methods kept by each object would make it, and all that it visited, a cycle.
        cls._table = {t: getattr(cls, name) for t, name in cls._methods.items() if hasattr(cls, name)}

    _entered = False

    def __init__(self) -> None:
        self.memo_map: dict[Expr, R] = {}

    def visit(self, expr: Expr) -> R:
        memo = self.memo_map
        if expr in memo:
            return memo[expr]
        if not self._entered:
            return self._first(expr)
        stack = [expr]
        while stack:
            node = stack[-1]
            if node in memo:
                stack.pop()
                continue
            pending = [c for c in flow_children(node) if c not in memo]
            if pending:
                pending.reverse()
                stack += pending
                continue
            stack.pop()
            memo[node] = self._table[type(node)](self, node)
        return memo[expr]

    def _first(self, expr: Expr) -> R:
        """The visit that the others are inside of: scopes in scopes, which recurse, may be as deep as a program is."""
        self._entered = True
        try:
            with deep_recursion():
                return self.visit(expr)
        finally:
            self._entered = False


class UnhandledKind(TVMError, NotImplementedError):
    """A functor met a kind of expression that it defines no method for."""


def _unhandled(name: str) -> Callable[[Any, Expr], Any]:
    def method(self: Any, expr: Expr) -> Any:
        raise UnhandledKind(f"{type(self).__name__} meets a {type(expr).__name__}, but defines no {name}")

    return method


for _name in Functor._methods.values():
    setattr(Functor, _name, _unhandled(_name))


class ExprVisitor(Functor[None]):
    """Visits every expression once. Override visit_call and the like; call `super()` to go on below a scope."""

    def visit_var(self, var: Var) -> None:
        pass

    def visit_constant(self, const: Constant) -> None:
        pass

    def visit_global_var(self, gv: GlobalVar) -> None:
        pass

    def visit_op(self, op: Op) -> None:
        pass

    def visit_call(self, call: Call) -> None:
        self.visit(call.op)
        for arg in call.args:
            self.visit(arg)

    def visit_tuple(self, tup: Tuple) -> None:
        for f in tup.fields:
            self.visit(f)

    def visit_tuple_getitem(self, t: TupleGetItem) -> None:
        self.visit(t.tuple_value)

    def visit_let(self, let: Let) -> None:
        body: Expr = let
        while type(body) is Let:
            self.visit(body.var)
            self.visit(body.value)
            body = body.body
        self.visit(body)

    def visit_if(self, i: If) -> None:
        self.visit(i.cond)
        self.visit(i.true_branch)
        self.visit(i.false_branch)

    def visit_function(self, fn: Function) -> None:
        for p in fn.params:
            self.visit(p)
        self.visit(fn.body)

    def visit_match(self, m: Match) -> None:
        self.visit(m.data)
        for c in m.clauses:
            self.visit_pattern(c.lhs)
            self.visit(c.rhs)

    def visit_pattern(self, pattern: Pattern) -> None:
        """Visits the variables that the pattern binds."""
        for v in pattern_vars(pattern):
            self.visit(v)

    def visit_constructor(self, con: Constructor) -> None:
        pass

    def visit_ref_create(self, r: RefCreate) -> None:
        self.visit(r.value)

    def visit_ref_read(self, r: RefRead) -> None:
        self.visit(r.ref)

    def visit_ref_write(self, r: RefWrite) -> None:
        self.visit(r.ref)
        self.visit(r.value)


class ExprMutator(Functor[Expr]):
    """Rewrites expressions; an unchanged expression comes back as the same object, a shared one is rewritten once."""

    def visit_var(self, var: Var) -> Expr:
        return var

    def visit_constant(self, const: Constant) -> Expr:
        return const

    def visit_global_var(self, gvar: GlobalVar) -> Expr:
        return gvar

    def visit_op(self, op: Op) -> Expr:
        return op

    def visit_call(self, call: Call) -> Expr:
        return self.rewritten_call(call)

    def rewritten_call(self, call: Call) -> Call:
        """The call with rewritten operands."""
        args = self.visit_all(call.args)
        op = call.op if type(call.op) is Op or type(call.op) is Constructor else self.visit(call.op)
        if args is call.args and op is call.op:
            return call
        return Call(op, args, call.attrs, call.given_types, call.span)

    def visit_all(self, exprs: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Each one rewritten; the same tuple if none changed."""
        new = tuple([self.visit(e) for e in exprs])
        return new if any([a is not b for a, b in zip(new, exprs, strict=True)]) else exprs

    def visit_tuple(self, tup: Tuple) -> Expr:
        fields = self.visit_all(tup.fields)
        return tup if fields is tup.fields else Tuple(fields, tup.span)

    def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
        value = self.visit(op.tuple_value)
        return op if value is op.tuple_value else TupleGetItem(value, op.index, op.span)

    def chain_of(self, let: Let) -> Iterator[Let]:
        """A let and those that follow in its body, until one that is rewritten already: other scopes may share it. Who rewrites each puts
        it into `memo_map`, so that it is rewritten once.
        """
        body: Expr = let
        while type(body) is Let and body not in self.memo_map:
            yield body
            body = body.body

    def visit_let(self, let: Let) -> Expr:
        chain = [(node, self.visit(node.var), self.visit(node.value)) for node in self.chain_of(let)]
        result = self.visit(chain[-1][0].body)
        for node, var, value in reversed(chain):
            result = self.memo_map[node] = node.replace(var=var, value=value, body=result)
        return result

    def visit_if(self, ite: If) -> Expr:
        return ite.replace(
            cond=self.visit(ite.cond),
            true_branch=self.visit(ite.true_branch),
            false_branch=self.visit(ite.false_branch),
        )

    def rewritten_var(self, var: Var) -> Var:
        """`var` visited, where the result is a variable again: one that is bound."""
        new = self.visit(var)
        assert isinstance(new, Var)
        return new

    def rewritten_function(self, fn: Function) -> Function:
        """`fn` visited, where the result is a function again: one of a module."""
        new = self.visit(fn)
        assert isinstance(new, Function)
        return new

    def visit_function(self, fn: Function) -> Expr:
        params = self.visit_all(fn.params)
        return fn.replace(params=params, body=self.visit(fn.body))

    def visit_match(self, m: Match) -> Expr:
        data = self.visit(m.data)
        clauses = tuple([c.replace(lhs=self.visit_pattern(c.lhs), rhs=self.visit(c.rhs)) for c in m.clauses])
        same = all([a is b for a, b in zip(clauses, m.clauses, strict=True)])
        return m if same and data is m.data else Match(data, clauses, m.complete, m.span)

    def visit_pattern(self, pattern: Pattern) -> Pattern:
        """The pattern with the variables that it binds rewritten."""
        if isinstance(pattern, PatternVar):
            return pattern.replace(var=self.visit(pattern.var))
        inner = parts_of(pattern)
        new = tuple([self.visit_pattern(p) for p in inner])
        return pattern.replace(patterns=new) if any([a is not b for a, b in zip(new, inner, strict=True)]) else pattern

    def visit_constructor(self, con: Constructor) -> Expr:
        return con

    def visit_ref_create(self, r: RefCreate) -> Expr:
        return r.replace(value=self.visit(r.value))

    def visit_ref_read(self, r: RefRead) -> Expr:
        return r.replace(ref=self.visit(r.ref))

    def visit_ref_write(self, r: RefWrite) -> Expr:
        return r.replace(ref=self.visit(r.ref), value=self.visit(r.value))


class _Substitute(ExprMutator):
    def __init__(self, table: Mapping[K, Expr]) -> None:
        super().__init__()
        self.memo_map.update(dict(table.items()))


def substitute(expr: Expr, table: Mapping[K, Expr]) -> Expr:
    """`expr` with variables, or other expressions that are the same objects, replaced."""
    return _Substitute(table).visit(expr)


def rewrite(func: Function, change: Callable[[Expr, Expr], Expr | None]) -> Function:
    """Post-order rewriting: `change(old, new)` gets each expression and its form with rewritten operands, and returns the
    replacement (None: `new`). Function and let scopes are entered."""

    class Rewriter(ExprMutator):
        def visit_call(self, call: Call) -> Expr:
            new = self.rewritten_call(call)
            return change(call, new) or new

        def visit_tuple_getitem(self, op: TupleGetItem) -> Expr:
            new = super().visit_tuple_getitem(op)
            return change(op, new) or new

        def visit_tuple(self, tup: Tuple) -> Expr:
            new = super().visit_tuple(tup)
            return change(tup, new) or new

    return Rewriter().rewritten_function(func)


def binders(node: Expr) -> list[Var]:
    """The variables that an expression itself binds: those of a function, a let or a match."""
    if type(node) is Let:
        return [node.var]
    if type(node) is Function:
        return list(node.params)
    if type(node) is Match:
        return [v for c in node.clauses for v in pattern_vars(c.lhs)]
    return []


def free_vars(expr: Expr) -> list[Var]:
    """The variables that `expr` uses and does not bind, in the order of their first use."""
    bound: set[Expr] = set()
    used: dict[Var, None] = {}
    for node in post_order(expr):
        if type(node) is Var:
            used[node] = None
        bound.update(binders(node))
    return [v for v in used if v not in bound]


def bound_vars(expr: Expr) -> list[Var]:
    """The variables that the functions, lets and matches in `expr` bind."""
    return list(dict.fromkeys([v for node in post_order(expr) for v in binders(node)]))


def all_vars(expr: Expr) -> list[Var]:
    """All variables in `expr`, in post-order."""
    return [n for n in post_order(expr) if type(n) is Var]


def recursive_lets(root: Expr) -> set[Var]:
    """The variables of lets in `root` whose values name them: functions that call themselves."""
    found: set[Var] = set()
    seen: set[Expr] = set()
    # A let without its body stands for having seen all of its value.
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        e, value_seen = stack.pop()
        if value_seen:
            assert isinstance(e, Let)
            if e.var in seen:
                found.add(e.var)
        elif e not in seen:
            seen.add(e)
            if isinstance(e, Let):
                stack += [(e.body, False), (e, True), (e.value, False)]
            elif isinstance(e, Match):
                stack += [(c.rhs, False) for c in e.clauses]
                stack.append((e.data, False))
            else:
                stack += [(c, False) for c in ((e.body,) if isinstance(e, Function) else children(e))]
    return found


def users(roots: Iterable[Expr]) -> dict[Expr, list[Expr]]:
    """For every expression under `roots`, the expressions that use it as an operand (once per use)."""
    table: dict[Expr, list[Expr]] = {}
    seen: set[Expr] = set()
    for root in roots:
        for node in post_order(root):
            if node in seen:
                continue
            seen.add(node)
            for child in children(node):
                table.setdefault(child, []).append(node)
    return table


def is_expr(value: object) -> bool:
    return isinstance(value, RelayExpr)


def _as_function(expr: object) -> Function | None:
    if isinstance(expr, TupleWrapper):
        expr = expr.tuple_value
    return Function(free_vars(expr), expr) if isinstance(expr, RelayExpr) else None


register_expr_wrapper(_as_function)
