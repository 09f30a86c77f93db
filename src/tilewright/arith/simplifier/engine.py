"""The simplifier: dispatch over node types into forms, conditions and rewrite rules, memoised by node identity."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

from tilewright.arith.const_bounds import dtype_bound
from tilewright.arith.linear import (
    LEAF,
    Atom,
    Lin,
    OutOfRange,
    combine,
    constant,
)
from tilewright.arith.simplifier.choices import Choices, may_trap, repeats
from tilewright.arith.simplifier.logic import FALSE, TRUE, boolean
from tilewright.arith.simplifier.rewriting import domain_of, is_literal, rewriter
from tilewright.arith.simplifier.rules import RULES
from tilewright.ir import DataType, FloatImm, IntImm, PrimExpr, Range
from tilewright.node import Node, structural_equal
from tilewright.tir import arithmetic as A
from tilewright.tir.arithmetic import conjuncts
from tilewright.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CmpExpr,
    Div,
    FloorDiv,
    FloorMod,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    ProducerLoad,
    Ramp,
    Reduce,
    Select,
    SizeVar,
    StringImm,
    Sub,
    Var,
)

assert RULES

_BINARY = frozenset({*A.BUILDERS, And, Or})


_MEMOS = ("_bound_memo", "_mod_memo", "_lin_memo", "_simp_memo", "_proved", "_implied", "_negated")


def same(a: Any, b: Any) -> bool:
    """Whether two expressions are equal node by node, free variables by identity."""
    if a is b:
        return True
    kind = type(a)
    while kind in _BINARY:
        if kind is not type(b) or not same(a.b, b.b):
            return False
        # Long sums are nested to the left.
        a, b = a.a, b.a
        if a is b:
            return True
        kind = type(a)
    if kind is not type(b):
        return False
    if kind is IntImm:
        return bool(a.value == b.value and a.dtype is b.dtype)
    if kind is Var:
        return False
    if kind is BufferLoad and a.buffer is b.buffer and a.predicate is b.predicate:
        return _all_same(a.indices, b.indices)
    if kind is Call and a.op is b.op and a.dtype is b.dtype:
        return _all_same(a.args, b.args)
    return structural_equal(a, b)


def _all_same(a: tuple[PrimExpr, ...], b: tuple[PrimExpr, ...]) -> bool:
    return a is b or (len(a) == len(b) and all([same(x, y) for x, y in zip(a, b, strict=True)]))


def _of_data(form: Lin) -> bool:
    """Whether a loaded or called value is part of a sum."""
    return any([t.kind == LEAF and isinstance(t.leaf, (BufferLoad, ProducerLoad, Call)) for t in form.terms])


class Engine(Choices):
    """Simplification of any expression."""

    def __init__(self) -> None:
        super().__init__()
        self._lin_memo: dict[int, Lin] = {}
        self._simp_memo: dict[int, PrimExpr] = {}
        self._alive: list[Any] = []
        self.values: dict[int, Lin | PrimExpr] = {}
        self.domains: dict[int, tuple[Var, Range]] = {}
        self._rebound: list[Atom] = []
        self.stats = [0] * 6
        self._depth = 0
        self.apply_constraints = False

    # Facts

    def forget(self) -> None:
        super().forget()
        self._lin_memo = {}
        self._simp_memo = {}
        self._negated = {}

    def bind_value(self, var: Var, value: PrimExpr) -> None:
        """Binds `var` to `value`."""
        self._forget_var(var)
        self._alive.append(var)
        self.values[id(var)] = self.lin(value) if self.is_index(var) else self.simp(value)

    def bind_range(self, var: Var, domain: Range) -> None:
        """Binds `var` to a range: min <= var < min + extent."""
        first, count = domain.min, domain.extent
        if type(first) is IntImm and type(count) is IntImm and count.value > 1:
            # The common case: a range with constant ends.
            self._forget_var(var)
            self.domains[id(var)] = var, domain
            least, most = dtype_bound(var.dtype)
            self.var_bound[self.leaf(var)] = max(first.value, least), min(first.value + count.value - 1, most)
            return
        start, extent = self.lin(first), self.lin(count)
        self._forget_var(var)
        self.domains[id(var)] = var, domain
        if not extent.terms and extent.const == 1 and self.is_index(var):
            self._alive.append(var)
            self.values[id(var)] = (
                start if domain.min.dtype is var.dtype else self.lin(A.cast_to(domain.min, var.dtype))
            )
            return
        t = self.leaf(var)
        low, high = self.bound(start)[0], self.bound(combine(start, extent))[1] - 1
        whole = dtype_bound(var.dtype)
        self.var_bound[t] = max(low, whole[0]), min(high, whole[1])
        here = Lin({t: 1}, 0)
        # Stored for the variable only, since they say nothing about the extent of a loop that does not run.
        facts = []
        if start.terms:
            facts.append(combine(start, here, -1))
        if start.terms or extent.terms:
            facts.append(combine(combine(here, start, -1), combine(constant(1), extent, -1)))
        if facts:
            self.own_facts[t] = facts

    def bind_ends(self, var: Var, low: Lin | None, high: Lin | None) -> None:
        """Binds `var` between two ends: low <= var <= high."""
        t = self.leaf(var)
        here = Lin({t: 1}, 0)
        facts = [combine(low, here, -1)] if low is not None and low.terms else []
        if high is not None and high.terms:
            facts.append(combine(here, high, -1))
        if facts:
            self.own_facts[t] = facts

    def _forget_var(self, var: Var) -> None:
        self.values.pop(id(var), None)
        self.domains.pop(id(var), None)
        t = self._leaves.get(id(var))
        if t is not None:
            self._rebound.append(t)
            for table in (self.var_bound, self.var_mod, self.own_facts):
                table.pop(t, None)
            self._forget_facts(t)
            self.forget()

    def _forget_facts(self, t: Atom) -> None:
        self.refined.pop(t, None)
        self.refined_mod.pop(t, None)
        for fact in self.facts.pop(t, ()):
            for s in fact.terms:
                if s in self.facts:
                    self.facts[s] = [f for f in self.facts[s] if f is not fact]

    def enter(self, condition: PrimExpr) -> Callable[[], None]:
        """Makes the condition hold until the returned function is called."""
        condition = self.simp(condition)
        saved = self.refined, self.refined_mod, self.facts, self.known
        memos = [getattr(self, name) for name in _MEMOS]
        rebound = len(self._rebound)
        self.refined, self.refined_mod = dict(self.refined), dict(self.refined_mod)
        self.facts, self.known = dict(self.facts), dict(self.known)
        self.stats[1] += 1
        if not isinstance(condition, IntImm):
            self.forget()
            self.assume(condition)

        def leave() -> None:
            self.refined, self.refined_mod, self.facts, self.known = saved
            for name, memo in zip(_MEMOS, memos, strict=True):
                setattr(self, name, memo)
            if len(self._rebound) > rebound:
                # Facts about a variable that was bound again inside belong to another variable.
                for t in self._rebound[rebound:]:
                    self._forget_facts(t)
                self.forget()

        return leave

    @contextmanager
    def scope(self, condition: PrimExpr) -> Iterator[None]:
        """A context in which the condition holds."""
        leave = self.enter(condition)
        try:
            yield
        finally:
            leave()

    # Conversion of integer expressions to forms

    def lin(self, node: PrimExpr) -> Lin:
        """The form of an int32 or int64 scalar expression."""
        found = self._lin_memo.get(id(node))
        if found is None:
            handler = _FORMS.get(type(node))
            found = handler(self, node) if handler is not None else self._opaque(node)
            self._lin_memo[id(node)] = found
            self._alive.append(node)
            self.stats[0] += 1
        return found

    def _sum(self, node: Any) -> Lin:
        """The form of nested sums and products by constants, collected in one walk, in order and without recursion."""
        terms: dict[Atom, int] = {}
        const = 0
        stack: list[tuple[Any, int]] = [(node, 1)]
        pop, push = stack.pop, stack.append
        while stack:
            node, k = pop()
            kind = type(node)
            if kind is Add:
                push((node.b, k))
                push((node.a, k))
            elif kind is Sub:
                push((node.b, -k))
                push((node.a, k))
            elif kind is IntImm:
                const += k * node.value
            elif kind is Mul and type(node.b) is IntImm:
                push((node.a, k * node.b.value))
            elif kind is Mul and type(node.a) is IntImm:
                push((node.b, k * node.a.value))
            else:
                a = self.lin(node)
                for t, c in a.terms.items():
                    terms[t] = terms.get(t, 0) + c * k
                const += a.const * k
        if 0 in terms.values():
            terms = {t: k for t, k in terms.items() if k}
        return self.merge(Lin(terms, const))

    def _product_of(self, node: Mul) -> Lin:
        return self.merge(self.multiply(self.lin(node.a), self.lin(node.b)))

    def _variable(self, node: Var) -> Lin:
        known = self.values.get(id(node))
        if known is not None:
            return known  # type: ignore[return-value]
        t = self.leaf(node)
        low, high = self.atom_bound(t)
        return constant(low) if low == high else Lin({t: 1}, 0)

    def _opaque(self, node: PrimExpr) -> Lin:
        out = self.simp(node)
        if type(out) in _FORMS and self.is_index(out):
            return self.lin(out)
        t = self.leaf(out)
        low, high = self.atom_bound(t)
        return constant(int(low)) if low == high and low not in (inf, -inf) else Lin({t: 1}, 0)

    # Simplification of any expression

    def simp(self, node: PrimExpr) -> PrimExpr:
        """The node of the simplified expression; one node for each value and type."""
        found = self._simp_memo.get(id(node))
        if found is None:
            try:
                found = self._simp(node)
            except OutOfRange:
                found = node
            found = self.known.get(id(found), found)
            self._simp_memo[id(node)] = found
            self._simp_memo[id(found)] = found
            self._alive.append(node)
            self._alive.append(found)
            self.stats[0] += 1
        return found

    def _simp(self, node: Any) -> PrimExpr:
        kind = type(node)
        dtype = node.dtype
        if kind in _FORMS and self.is_index(node):
            return self.emit(self.lin(node), dtype)
        if kind is IntImm and dtype.is_bool:
            return boolean(bool(node.value))
        if kind is IntImm or kind is FloatImm or kind is StringImm:
            return self.keep((kind, node.value, str(node.value), dtype), lambda: node)
        if isinstance(node, Var):
            known = self.values.get(id(node))
            return known if isinstance(known, PrimExpr) else node
        handler = _HANDLERS.get(kind)
        return handler(self, node) if handler is not None else self._generic(node)

    def _comparison(self, node: Any) -> PrimExpr:
        kind, a, b = type(node), node.a, node.b
        if not self.is_index(a):
            return self._arithmetic(node)
        x, y, dtype = self.lin(a), self.lin(b), a.dtype
        if kind is LT:
            found = self.less_equal(x, y, dtype, strict=True)
        elif kind is LE:
            found = self.less_equal(x, y, dtype)
        elif kind is GT:
            found = self.less_equal(y, x, dtype, strict=True)
        elif kind is GE:
            found = self.less_equal(y, x, dtype)
        else:
            found = self.equal(x, y, dtype)
            found = found if kind is EQ else self.negate(found)
        if isinstance(found, CmpExpr) and (_of_data(x) or _of_data(y)):
            # Elements may have any value of their type, so a new sum of them could overflow.
            left, right = self.simp(a), self.simp(b)
            if any([isinstance(e, (Add, Sub)) and e is not left and e is not right for e in (found.a, found.b)]):
                return self.keep((kind, id(left), id(right)), lambda: kind(left, right))
        return found

    def _connective(self, node: Any) -> PrimExpr:
        if node.dtype.lanes > 1:
            return self._generic(node)
        op = type(node)
        # Chains are collected in one walk, without recursion.
        leaves: list[PrimExpr] = []
        stack = [node]
        while stack:
            x = stack.pop()
            if type(x) is op:
                stack += (x.b, x.a)
            else:
                leaves.append(self.simp(x))
        if op is Or:
            return self.disjunction(leaves)
        out = self.conjunction(leaves)
        return self._applied(out) if isinstance(out, And) else out

    def _applied(self, condition: PrimExpr) -> PrimExpr:
        """Applies conditions that pin a variable (with the extension, all conditions) to the other conjuncts.

        Conditions that may trap are left out, since they are evaluated even if the others are false.
        """
        parts = conjuncts(condition)
        for place in reversed(range(len(parts))):
            c = parts[place]
            beside = [p for p in parts if p is not c and p is not TRUE]
            if self.apply_constraints and may_trap(c):
                continue
            if not self.apply_constraints:
                pinned = self.pinned(c)
                if pinned is None:
                    continue
                beside = [p for p in beside if self.pinned(p) is None and self.speaks_of(p, pinned) and not may_trap(p)]
                if not beside:
                    continue
                ids = {id(p) for p in beside}
                with self.scope(c):
                    parts = [self.simp(p) if id(p) in ids else p for p in parts]
            elif beside:
                with self.scope(self.conjunction(beside)):
                    parts[place] = self.simp(c)
        return self.conjunction(parts)

    def _negation(self, node: Not) -> PrimExpr:
        return self._generic(node) if node.dtype.lanes > 1 else self.negate(self.simp(node.a))

    def _arithmetic(self, node: Any) -> PrimExpr:
        """An operation that is not index arithmetic: folds constants, decides by bounds, then applies the rules."""
        a, b = self.simp(node.a), self.simp(node.b)
        kind = type(node)
        if isinstance(a, (IntImm, FloatImm)) and isinstance(b, (IntImm, FloatImm)):
            if not (kind in (Div, Mod, FloorDiv, FloorMod) and is_literal(b, 0)):
                folded = A.BUILDERS[kind](a, b)
                return self.simp(folded) if folded.dtype.is_bool or type(folded) in (IntImm, FloatImm) else folded
        if kind in (LT, LE, GT, GE) and (a.dtype.is_int or a.dtype.is_uint):
            decided = self._decide(kind, a, b)
            if decided is not None:
                return decided if node.dtype.lanes == 1 else self.make(Broadcast, decided, node.dtype.lanes)
        return self._finish(
            kind,
            (kind, id(a), id(b)),
            lambda: node if a is node.a and b is node.b else kind(a, b),
        )

    def _decide(self, kind: type, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
        x, y = self._of(a), self._of(b)
        if kind in (GT, GE):
            x, y, kind = y, x, LT if kind is GT else LE
        if x[1] < y[0] or (kind is LE and x[1] <= y[0]):
            return TRUE
        if x[0] > y[1] or (kind is LT and x[0] >= y[1]):
            return FALSE
        return None

    def _finish(self, kind: type, key: tuple[Any, ...], make: Callable[[], PrimExpr]) -> PrimExpr:
        out = self.keep(key, make)
        if type(out) is not kind:
            return out  # a known fact
        rewrite = rewriter(kind, domain_of(out))
        if rewrite is not None:
            stats = self.stats
            stats[2] += 1
            new = rewrite(self, out)
            if new is not None and new is not out:
                stats[3] += 1
                stats[5] += self._depth > 0
                self._depth += 1
                stats[4] = max(stats[4], self._depth)
                try:
                    return self.simp(new)
                finally:
                    self._depth -= 1
        return out

    def _generic(self, node: PrimExpr) -> PrimExpr:
        """Simplifies the children, interns the node, then applies the rules of its type."""
        key: list[type | DataType | int | None] = [type(node)]
        values: list[Any] = []
        changed = False
        simp = self.simp
        for f in type(node)._fields:
            old = getattr(node, f.name)
            if f.name == "span":
                values.append(old)
                continue
            if isinstance(old, PrimExpr) and not (f.kind == "def" and isinstance(old, Var)):
                new: PrimExpr | int | tuple[PrimExpr, ...] | None = simp(old)
                key.append(id(new))
            elif type(old) is tuple:
                new = old
                parts = [simp(x) if isinstance(x, PrimExpr) else x for x in old]
                key += map(id, parts)
                for x, y in zip(parts, old, strict=True):
                    if x is not y:
                        new = tuple(parts)
                        break
            else:
                new = old
                key.append(id(old) if isinstance(old, Node) else old)
                self._alive.append(old)
            changed = changed or new is not old
            values.append(new)
        if isinstance(node, Call) and not repeats(node):
            key.append(id(node))
        try:
            whole = tuple(key)
            hash(whole)
        except TypeError:
            whole = (type(node), id(node))
        return self._finish(
            type(node),
            whole,
            lambda: type(node).from_fields(*values) if changed else node,
        )

    # Functions for compiled rules

    def make(self, kind: type, *args: Any) -> PrimExpr:
        """A node of a rule's result. Constant scalar operands are folded."""
        fold = A.BUILDERS.get(kind)
        if fold is not None and args[0].dtype is args[1].dtype and not is_literal(args[1], 0):
            return fold(*args)
        return kind(*args)  # type: ignore[no-any-return]

    def constant(self, value: Any, like: PrimExpr) -> PrimExpr:
        """A constant of a rule's result, in the type of the rewritten node."""
        dtype: DataType = like.dtype
        if isinstance(value, bool):
            out: PrimExpr = boolean(value)
            return out if dtype.lanes == 1 else Broadcast(out, dtype.lanes)
        return A.const(value, dtype)

    def element(self, like: PrimExpr) -> PrimExpr:
        """A constant in the scalar type of a vector, which gives the type of constants inside ramp()."""
        return A.const(0, like.dtype.element)

    def lanes(self, node: PrimExpr) -> int:
        return node.dtype.lanes


_FORMS: dict[type, Callable[[Engine, Any], Lin]] = {
    Add: Engine._sum,
    Sub: Engine._sum,
    IntImm: lambda e, n: constant(n.value),
    Mul: lambda e, n: e._sum(n) if type(n.b) is IntImm or type(n.a) is IntImm else e._product_of(n),
    FloorDiv: lambda e, n: e.quotient(e.lin(n.a), e.lin(n.b)),
    FloorMod: lambda e, n: e.remainder(e.lin(n.a), e.lin(n.b)),
    Div: lambda e, n: e.truncated(Div, e.lin(n.a), e.lin(n.b), n.dtype),
    Mod: lambda e, n: e.truncated(Mod, e.lin(n.a), e.lin(n.b), n.dtype),
    Min: lambda e, n: e.minimum(e.lin(n.a), e.lin(n.b)),
    Max: lambda e, n: e.maximum(e.lin(n.a), e.lin(n.b)),
}

_HANDLERS: dict[type, Callable[[Engine, Any], PrimExpr]] = {
    **dict.fromkeys((EQ, NE, LT, LE, GT, GE), Engine._comparison),
    **dict.fromkeys((Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max), Engine._arithmetic),
    And: Engine._connective,
    Or: Engine._connective,
    Not: Engine._negation,
    Cast: Engine._cast,
    Let: Engine._let,
    Reduce: Engine._reduction,
    Select: Engine._select,
    Call: Engine._call,
    Ramp: Engine._generic,
}


_FORMS[Var] = _FORMS[SizeVar] = Engine._variable
