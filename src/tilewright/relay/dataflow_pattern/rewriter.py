"""Rewriting and partitioning of graphs by dataflow patterns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.ir import IRModule, Op
from tilewright.relay.dataflow_pattern.matcher import Matcher, Uses
from tilewright.relay.dataflow_pattern.patterns import ConstantPattern, DFPattern, register_use
from tilewright.relay.expr import Call, Expr, Function, Tuple, TupleGetItem, TupleWrapper, Var
from tilewright.relay.functor import ExprMutator, children, post_order, users
from tilewright.relay.typing.infer_type import infer_types
from tilewright.relay.typing.open_types import type_of
from tilewright.support.errors import TVMError

MAX_ROUNDS = 100
MAX_BETWEEN = 64
"""How many expressions besides the matched ones a match may take in: the search for them must not walk whole programs."""
MAX_GROWTH = 1000
"""How many times as large a program may become before its callbacks are taken not to end."""


class DFPatternCallback:
    """Rewrites matches: subclass it, set `self.pattern`, define `callback`."""

    pattern: DFPattern

    def __init__(self, require_type: bool = False, rewrite_once: bool = False) -> None:
        self.require_type, self.rewrite_once = require_type, rewrite_once

    def rewrite(self, expr: Expr) -> Expr:
        """`expr` with this callback applied until it changes nothing more."""
        return rewrite(self, expr)

    def callback(self, pre: Expr, post: Expr, node_map: Mapping[DFPattern, list[Expr]]) -> Expr:
        """The replacement of a match: `pre` as it was, `post` with rewritten operands; `node_map[pattern]` are the
        expressions in `post` that a part of the pattern stands for."""
        raise TVMError(f"{type(self).__name__} must define callback(pre, post, node_map)")


def find_group(pattern: DFPattern, root: Expr, uses: Uses) -> Matcher | None:
    """A match at `root` whose inner expressions nothing outside uses, or None. What reads them and is read by nothing but
    the match itself, lies between them and belongs to the group."""
    matcher = Matcher(uses)
    if not matcher.match(pattern, root):
        return None
    inside = {**matcher.group(), root: None}
    pending = [e for e in inside if e is not root]
    while pending:
        for user in uses.get(pending.pop(), ()):
            if user in inside:
                continue
            if (
                type(user) not in (Call, Tuple, TupleGetItem)
                or not uses.get(user)
                or len(matcher.between) == MAX_BETWEEN
            ):
                return None
            inside[user] = matcher.between[user] = None
            pending.append(user)
    return matcher


class _Reforming(ExprMutator):
    """Rewrites operands first, then asks `reform`."""

    def reform(self, old: Expr, rebuild: Callable[[Any, Any], Any]) -> Expr:
        raise TVMError(f"{type(self).__name__} must define reform(old, rebuild)")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._table = {kind: _reforming(method) for kind, method in cls._table.items()}


def _reforming(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda self, e: self.reform(e, method)


class _Rewriter(_Reforming):
    def __init__(self, callback: DFPatternCallback, uses: Uses) -> None:
        super().__init__()
        self.callback, self.uses = callback, uses
        self.changed = False

    def reform(self, old: Expr, rebuild: Callable[[Any, Any], Any]) -> Expr:
        new: Expr = rebuild(self, old)
        if type(old) is Op or (self.callback.rewrite_once and self.changed):
            return new
        if find_group(self.callback.pattern, old, self.uses) is None:
            return new
        again = Matcher(self.uses if new is old else None, new)
        if not again.match(self.callback.pattern, new):
            return new
        found = self.callback.callback(old, new, again.found)
        if isinstance(found, TupleWrapper):
            found = found.tuple_value
        if not isinstance(found, Expr):
            raise TVMError(
                f"{type(self.callback).__name__}.callback must return an expression, but returned"
                f" {type(found).__name__}. Return `post` to leave a match as it is"
            )
        self.changed = self.changed or found is not new
        return found


def rewrite(
    callbacks: DFPatternCallback | Sequence[DFPatternCallback], expr: Expr, mod: IRModule | None = None
) -> Expr:
    """`expr` with each callback applied, one after another, until none changes anything.

    Raises TVMError when the callbacks do not come to an end."""
    listed = [callbacks] if isinstance(callbacks, DFPatternCallback) else list(callbacks)
    names = ", ".join([type(c).__name__ for c in listed])
    limit = 0
    for _ in range(MAX_ROUNDS):
        changed = False
        for c in listed:
            if c.require_type:
                infer_types(expr, mod)
            uses = users([expr])
            limit = limit or MAX_GROWTH * (len(uses) + 10)
            if len(uses) > limit:
                raise TVMError(
                    f"the callbacks {names} made a program of more than {limit} expressions, {MAX_GROWTH} times the first,"
                    " and go on: what they return is matched again. Set rewrite_once=True, or match less"
                )
            rewriter = _Rewriter(c, uses)
            expr = rewriter.visit(expr)
            changed = changed or (rewriter.changed and not c.rewrite_once)
        if not changed:
            return expr
    raise TVMError(f"the callbacks {names} still change the program after {MAX_ROUNDS} rounds: one undoes another")


class _Extract(ExprMutator):
    """The inside of a group, its inputs made parameters."""

    def __init__(self, group: Mapping[Expr, None], number: int) -> None:
        super().__init__()
        self.group, self.number = group, number
        self.params: list[Var] = []
        self.args: list[Expr] = []

    def visit(self, expr: Expr) -> Expr:
        if expr not in self.memo_map and expr not in self.group and type(expr) is not Op:
            param = Var(f"FunctionVar_{self.number}_{len(self.params)}", type_of(expr))
            self.params.append(param)
            self.args.append(expr)
            self.memo_map[expr] = param
        if expr in self.group:
            for c in children(expr):
                self.visit(c)
        return super().visit(expr)


def partition(
    pattern: DFPattern,
    expr: Expr,
    attrs: Mapping[str, Any] | None = None,
    check: Callable[[Expr], bool] = lambda e: True,
) -> Expr:
    """`expr` with every match (for which `check` holds) replaced by a call of a function that does the same.

    Matches are taken from the end and do not overlap. The function has the attribute "PartitionedFromPattern", the
    operators in it, and `attrs`; constants that the pattern asks for are inside, other inputs are its parameters."""
    uses = users([expr])
    # What an earlier pattern took is not matched again.
    taken: set[Expr] = set()
    for e in post_order(expr):
        if type(e) is Function and "PartitionedFromPattern" in e.attrs:
            taken.update(post_order(e.body))
    groups: dict[Expr, dict[Expr, None]] = {}
    for e in reversed(list(post_order(expr))):
        if e in taken or type(e) is Op:
            continue
        matcher = find_group(pattern, e, uses)
        if matcher is None:
            continue
        group = matcher.group()
        if not group or not taken.isdisjoint(group) or not check(e):
            continue
        taken.update(group)
        fixed = [x for p, found in matcher.found.items() if isinstance(p, ConstantPattern) for x in found]
        groups[e] = {**group, **dict.fromkeys(fixed)}
    return _Partitioner(groups, dict(attrs or {})).visit(expr)


class _Partitioner(_Reforming):
    def __init__(self, groups: Mapping[Expr, dict[Expr, None]], attrs: dict[str, Any]) -> None:
        super().__init__()
        self.groups, self.attrs = groups, attrs
        self.count = 0

    def reform(self, old: Expr, rebuild: Callable[[Any, Any], Any]) -> Expr:
        group = self.groups.get(old)
        if group is None:
            new: Expr = rebuild(self, old)
            return new
        extract = _Extract(group, self.count)
        self.count += 1
        body = extract.visit(old)
        names = [x.op.name for x in post_order(body) if type(x) is Call and type(x.op) is Op]
        given = {"PartitionedFromPattern": "".join([n + "_" for n in names]), **self.attrs}
        function = Function(extract.params, body, type_of(old), (), given)
        return Call(function, tuple([self.visit(a) for a in extract.args]))


register_use("partition", partition)
