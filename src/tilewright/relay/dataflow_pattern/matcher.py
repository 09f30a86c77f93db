"""Whether a dataflow pattern matches an expression, and what each part of it stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilewright.ir import Op, TensorType, Type
from tilewright.node import structural_equal
from tilewright.relay.cards.card import OpCard, find_card
from tilewright.relay.dataflow_pattern.patterns import (
    INNER,
    AltPattern,
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
    is_op,
    register_use,
)
from tilewright.relay.expr import Call, Constant, Expr, Function, If, Let, Tuple, TupleGetItem, Var
from tilewright.relay.functor import flow_children, post_order, users
from tilewright.relay.typing.infer_type import infer_types
from tilewright.relay.typing.open_types import type_of
from tilewright.support.errors import TVMError

COMMUTATIVE = frozenset({"add", "multiply", "maximum", "minimum", "equal", "not_equal"})

Uses = Mapping[Expr, Sequence[Expr]]


class Matcher:
    """One attempt. `found` maps each pattern to the expressions that it matched."""

    def __init__(self, uses: Uses | None, root: Expr | None = None) -> None:
        self._uses, self.root = uses, root
        self.found: dict[DFPattern, list[Expr]] = {}
        self.log: list[DFPattern] = []
        self.between: dict[Expr, None] = {}
        """Expressions that no pattern describes, but that lie between those of the match."""
        self.entered: set[tuple[DFPattern, Expr]] = set()
        """Redirected wildcards that are being matched."""

    @property
    def uses(self) -> Uses:
        """Who uses each expression; without the whole program's, found now under the root (only dominators ask)."""
        if self._uses is None:
            self._uses = users([] if self.root is None else [self.root])
        return self._uses

    def match(self, p: DFPattern, e: Expr) -> bool:
        """Whether `p` matches `e`; a failed attempt leaves nothing behind."""
        known = self.found.get(p)
        if known:
            return known[-1] is e or structural_equal(known[-1], e)
        mark = len(self.log)
        if _RULES[type(p)](self, p, e):
            # A pattern that has itself in it matched what is further in first.
            self.note(p, e)
            return True
        self.undo(mark)
        return False

    def note(self, p: DFPattern, e: Expr) -> None:
        self.found.setdefault(p, []).append(e)
        self.log.append(p)

    def undo(self, mark: int) -> None:
        for p in reversed(self.log[mark:]):
            if len(self.found[p]) == 1:
                del self.found[p]
            else:
                self.found[p].pop()
        del self.log[mark:]

    def all(self, patterns: Sequence[DFPattern], exprs: Sequence[Expr]) -> bool:
        if len(patterns) != len(exprs):
            return False
        # Stops at the first that does not match: a later one may only match together with it.
        return all(self.match(p, e) for p, e in zip(patterns, exprs, strict=True))

    def expr(self, p: ExprPattern, e: Expr) -> bool:
        return p.expr is e or (type(p.expr) is not Op and structural_equal(p.expr, e))

    def call(self, p: CallPattern, e: Expr) -> bool:
        if type(e) is not Call:
            return False
        mark = len(self.log)
        if not self.match(p.op, e.op):
            return self.regrouped(p, e)
        if p.args is None:
            return True
        inner = len(self.log)
        if self.all(p.args, e.args):
            return True
        self.undo(inner)
        if type(e.op) is Op and e.op.name in COMMUTATIVE and self.all(p.args, (e.args[1], e.args[0])):
            return True
        self.undo(mark)
        return False

    def regrouped(self, p: CallPattern, e: Call) -> bool:
        """Whether `e` is a product that only groups its factors and divisor otherwise than the pattern."""
        return any(self.match(again, e) for again in _regrouped(p, e))

    def wildcard(self, p: WildcardPattern, e: Expr) -> bool:
        if p.pattern is None:
            return True
        if (p, e) in self.entered:
            raise TVMError(f"the wildcard is redirected to a pattern that asks for itself at once: {p!r}")
        self.entered.add((p, e))
        matched = self.match(p.pattern, e)
        self.entered.discard((p, e))
        return matched

    def function(self, p: FunctionPattern, e: Expr) -> bool:
        if type(e) is not Function or not (p.params is None or self.all(p.params, e.params)):
            return False
        return self.match(p.body, e.body)

    def dtype(self, p: DataTypePattern, e: Expr) -> bool:
        t = known_type(e) if self.match(p.pattern, e) else None
        return isinstance(t, TensorType) and t.dtype == p.dtype

    def shape(self, p: ShapePattern, e: Expr) -> bool:
        t = known_type(e) if self.match(p.pattern, e) else None
        return isinstance(t, TensorType) and structural_equal(t.shape, TensorType(p.shape, t.dtype).shape)

    def dominator(self, p: DominatorPattern, e: Expr) -> bool:
        if not self.match(p.child, e):
            return False
        inputs = self.inputs(p.child)
        region: dict[Expr, None] = {}
        parent: Expr | None = None
        besides: set[Expr] = set()
        pending = [c for c in flow_children(e) if not inputs or c in inputs]
        while pending:
            node = pending.pop()
            if node in region or node is parent or node in besides or type(node) is Constant:
                continue
            if parent is None and self.match(p.parent, node):
                parent = node
                continue
            path = Matcher(self._uses, self.root)
            if not flow_children(node) or not path.match(p.path, node):
                return False
            region[node] = None
            operands = flow_children(node)
            if len(operands) > 1:
                besides.update([c for c in operands if type(c) is Var])
            pending += operands
        if parent is None or not besides.isdisjoint(post_order(parent)):
            return False
        inside = {e, *region}
        if any([user not in inside for node in (parent, *region) for user in self.uses.get(node, ())]):
            return False
        for node in region:
            self.note(p.path, node)
        return True

    def inputs(self, child: DFPattern) -> set[Expr]:
        """Values of the open operands of a matched child, where paths upwards start."""
        if not isinstance(child, CallPattern) or child.args is None:
            return set()
        return {self.found[a][0] for a in child.args if isinstance(a, WildcardPattern) and a.pattern is None}

    def group(self) -> dict[Expr, None]:
        """The expressions inside the match, in no particular order; the others that were matched are its inputs."""
        inner = dict(self.between)
        for p, exprs in self.found.items():
            if isinstance(p, INNER):
                inner.update(dict.fromkeys(exprs))
            elif isinstance(p, DominatorPattern):
                inner.update(dict.fromkeys(self.found.get(p.path, ())))
        return inner


def _regrouped(p: CallPattern, e: Call) -> Iterator[CallPattern]:
    """The pattern with its product grouped as that of `e`: `a * (b / c)`, or `(a * b) / c` commuted or not."""
    if p.args is None or len(p.args) != 2 or len(e.args) != 2 or _operator(p) not in _PRODUCTS:
        return
    product, quotient = is_op("multiply"), is_op("divide")
    left, right = p.args
    if _operator(p) == "divide" and _names(e.op) == "multiply" and (factors := _operands(left, "multiply")):
        a, b = factors
        yield product(a, quotient(b, right))
        yield product(b, quotient(a, right))
    elif _operator(p) == "multiply" and _names(e.op) == "divide":
        for a, inner in ((left, right), (right, left)):
            if parts := _operands(inner, "divide"):
                b, c = parts
                yield quotient(product(a, b), c)


_PRODUCTS = ("multiply", "divide")


def _operator(p: DFPattern) -> str | None:
    """The operator of a pattern for calls of two operands."""
    if type(p) is not CallPattern or p.args is None or len(p.args) != 2 or type(p.op) is not ExprPattern:
        return None
    return _names(p.op.expr)


def _operands(p: DFPattern, operator: str) -> Sequence[DFPattern]:
    """The two operands of a pattern for calls of an operator; none for other patterns."""
    return p.args or () if isinstance(p, CallPattern) and _operator(p) == operator else ()


def _names(op: Expr) -> str | None:
    return op.name if type(op) is Op else None


def _parts(kind: type, *names: str) -> Callable[[Matcher, Any, Expr], bool]:
    """Matches expressions of `kind` whose fields match the pattern's fields of the same names."""

    def rule(m: Matcher, p: Any, e: Expr) -> bool:
        return type(e) is kind and m.all([getattr(p, n) for n in names], [getattr(e, n) for n in names])

    return rule


_RULES: dict[type, Callable[[Matcher, Any, Expr], bool]] = {
    WildcardPattern: Matcher.wildcard,
    ExprPattern: Matcher.expr,
    VarPattern: lambda m, p, e: type(e) is Var and p.name in ("", e.name_hint),
    ConstantPattern: lambda m, p, e: type(e) is Constant,
    CallPattern: Matcher.call,
    FunctionPattern: Matcher.function,
    IfPattern: _parts(If, "cond", "true_branch", "false_branch"),
    LetPattern: _parts(Let, "var", "value", "body"),
    TuplePattern: lambda m, p, e: type(e) is Tuple and (p.fields is None or m.all(p.fields, e.fields)),
    TupleGetItemPattern: lambda m, p, e: (
        type(e) is TupleGetItem and p.index in (None, e.index) and m.match(p.tuple, e.tuple_value)
    ),
    AltPattern: lambda m, p, e: m.match(p.left, e) or m.match(p.right, e),
    AttrPattern: lambda m, p, e: m.match(p.pattern, e) and has_attributes(e, p.attrs),
    TypePattern: lambda m, p, e: m.match(p.pattern, e) and known_type(e) == p.type,
    DataTypePattern: Matcher.dtype,
    ShapePattern: Matcher.shape,
    DominatorPattern: Matcher.dominator,
}


def known_type(e: Expr) -> Type:
    """The type of an expression, inferred now if it was not yet."""
    return type_of(e) or infer_types(e)


def has_attributes(e: Expr, wanted: Mapping[str, Any]) -> bool:
    """Whether a call, an operator or a function has these attributes; "TOpPattern" is the operator's fusion kind."""
    for name, value in wanted.items():
        if type(e) is Op:
            found = find_card(e.name).fuse if name == "TOpPattern" else e.get_attr(name)
        elif type(e) is Call and isinstance(e.attrs, OpCard):
            found = getattr(e.attrs, name, _ABSENT)
        elif type(e) is Function:
            found = e.attrs.get(name, _ABSENT)
        else:
            return False
        if not _same(found, value):
            return False
    return True


_ABSENT = object()


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all([_same(x, y) for x, y in zip(a, b, strict=True)])
    return bool(a == b)


def match(pattern: DFPattern, expr: Expr) -> bool:
    """Whether `pattern` matches `expr`."""
    if not isinstance(pattern, DFPattern):
        raise TVMError(f"a dataflow pattern is expected, but {type(pattern).__name__} was given")
    return Matcher(None, expr).match(pattern, expr)


register_use("match", match)
