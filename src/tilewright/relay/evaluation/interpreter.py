"""The interpreter: runs the whole language on NumPy by the cards' references. The oracle of passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.ir import GlobalVar, IntImm, IRModule, Op
from tilewright.node.structural import deep_recursion
from tilewright.relay.adt import (
    Constructor,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
)
from tilewright.relay.cards.open_attributes import name_sizes
from tilewright.relay.cards.relations import is_static
from tilewright.relay.evaluation.run_card import run_card
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
from tilewright.relay.functor import flow_children
from tilewright.relay.printer import Printer
from tilewright.relay.size_rules import NUMBER, STATED, size_rules
from tilewright.relay.texts import span_text
from tilewright.relay.typing.infer_type import infer_module
from tilewright.support.errors import DepthError, TVMError
from tilewright.tir import Var as SizeName

Value = Any
"""An ndarray, a tuple of values, a ConstructorValue, a RefValue, or a callable (a Closure or a Python function)."""


DEPTH_LIMIT = 10_000
"""How deep calls of relay functions may nest in the interpreter."""


class ConstructorValue:
    """A value of an algebraic data type: which constructor made it (of which `tag` is the place in its type), and from what."""

    __slots__ = ("constructor", "fields")

    def __init__(self, tag: int, fields: Sequence[Value], constructor: Constructor) -> None:
        if tag != constructor.tag:
            raise ValueError(f"the tag of {constructor.name_hint} is {constructor.tag}, but {tag} was given")
        self.constructor, self.fields = constructor, tuple(fields)

    @property
    def tag(self) -> int:
        """The place of the constructor in its type."""
        return self.constructor.tag

    def __repr__(self) -> str:
        return self.text(8)

    def text(self, depth: int) -> str:
        """As relay writes it, `...` for what is nested deeper than `depth`: a list may be as long as memory."""
        if not self.fields:
            return self.constructor.name_hint
        parts = [
            (v.text(depth - 1) if depth else "...") if isinstance(v, ConstructorValue) else repr(v) for v in self.fields
        ]
        return f"{self.constructor.name_hint}({', '.join(parts)})"


class RefValue:
    """A mutable cell."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"ref({self.value!r})"


class Closure:
    """A function and the scope that it was made in; called with values."""

    __slots__ = ("function", "home", "name")

    def __init__(self, function: Function, home: Interpreter, name: str = "a function") -> None:
        self.function, self.home, self.name = function, home, name

    def __call__(self, *args: Value) -> Value:
        if self.home.budget.depth:
            return self.home.apply(self, args)
        # CPython keeps the frames of Python calls on the heap: as deep as the limit needs no deep C stack.
        with deep_recursion():
            return self.home.apply(self, args)


class Budget:
    """How deep the calls of one evaluation nest."""

    __slots__ = ("depth", "limit")

    def __init__(self, limit: int) -> None:
        self.depth, self.limit = 0, limit


class Scope(dict[Expr, Any]):
    """Values of one scope; what it does not have is looked up in the scopes around it."""

    __slots__ = ("outer",)

    def __init__(self, outer: Scope | None, values: Mapping[Expr, Value]) -> None:
        super().__init__(values)
        self.outer = outer

    def find(self, e: Expr) -> Value:
        """The value of `e`, or _MISSING."""
        scope: Scope | None = self
        while scope is not None:
            if e in scope:
                return scope[e]
            scope = scope.outer
        return _MISSING


_MISSING = object()


class Interpreter:
    """Evaluates expressions; one instance holds the variables of one scope."""

    def __init__(
        self,
        mod: IRModule | None = None,
        env: Mapping[Expr, Value] | None = None,
        outer: Interpreter | None = None,
        depth_limit: int = DEPTH_LIMIT,
    ) -> None:
        self.mod = mod
        self.values: Scope = Scope(outer.values if outer is not None else None, env or {})
        self.budget: Budget = outer.budget if outer is not None else Budget(depth_limit)
        self.sizes: dict[SizeName, IntImm] = outer.sizes if outer is not None else {}

    def evaluate(self, root: Expr) -> Value:
        """The value of `root`. Chains of any depth."""
        values, find, rules = self.values, self.values.find, _RULES
        # The stack holds no scope that is entered: those are evaluated by a nested call.
        stack = [root]
        while stack:
            node = stack[-1]
            if find(node) is not _MISSING:
                stack.pop()
                continue
            pending = [c for c in flow_children(node) if find(c) is _MISSING]
            if pending:
                pending.reverse()
                stack += pending
                continue
            stack.pop()
            values[node] = rules[type(node)](self, node)
        return find(root)

    def var(self, v: Var) -> Value:
        raise TVMError(f"the variable %{v.name_hint} has no value here")

    def constant(self, e: Constant) -> Value:
        return e.value

    def tuple(self, e: Tuple) -> Value:
        return tuple([self.values.find(f) for f in e.fields])

    def item(self, e: TupleGetItem) -> Value:
        return self.values.find(e.tuple_value)[e.index]

    def let(self, e: Let) -> Value:
        body: Expr = e
        inner = Interpreter(self.mod, None, self)
        while type(body) is Let:
            value = inner.evaluate(body.value)
            if type(value) is Closure and value.name == "a function":
                value.name = f"%{body.var.name_hint}"
            inner.values[body.var] = value
            body = body.body
        return inner.evaluate(body)

    def branch(self, e: If) -> Value:
        return self.evaluate(e.true_branch if bool(self.evaluate(e.cond)) else e.false_branch)

    def match(self, e: Match) -> Value:
        data = self.evaluate(e.data)
        for c in e.clauses:
            bound: dict[Expr, Value] = {}
            if fits(c.lhs, data, bound):
                return Interpreter(self.mod, bound, self).evaluate(c.rhs)
        where = span_text(e.span)
        raise TVMError(
            f"{where + ': ' if where else ''}no clause of the match fits the value {brief(data)}; its clauses are"
            f" {', '.join([Printer().pattern(c.lhs) for c in e.clauses])}. Add a clause `_ => ...` for the rest"
        )

    def closure(self, f: Function) -> Closure:
        return Closure(f, self)

    def global_var(self, g: GlobalVar) -> Closure:
        if self.mod is None:
            raise TVMError(f"@{g.name_hint} is called, but there is no module to find it in")
        f = self.mod[g]
        if not isinstance(f, Function):
            raise TVMError(f"@{g.name_hint} is called, but it is not a relay function and cannot be interpreted")
        top = Interpreter(self.mod)
        top.budget = self.budget
        return Closure(f, top, f"@{g.name_hint}")

    def constructor(self, c: Constructor) -> Value:
        # A constructor as a value is a function of its fields.
        return lambda *fields: ConstructorValue(c.tag, fields, c)

    def ref_create(self, e: RefCreate) -> RefValue:
        return RefValue(self.values.find(e.value))

    def ref_read(self, e: RefRead) -> Value:
        return self.values.find(e.ref).value

    def ref_write(self, e: RefWrite) -> Value:
        self.values.find(e.ref).value = self.values.find(e.value)
        return ()

    def call(self, e: Call) -> Value:
        args = [self.values.find(a) for a in e.args]
        if type(e.op) is Op:
            return run_card(e, args, self.sizes)
        if type(e.op) is Constructor:
            return ConstructorValue(e.op.tag, args, e.op)
        callee = self.values.find(e.op)
        return self.apply(callee, args) if type(callee) is Closure else callee(*args)

    def apply(self, callee: Closure, args: Sequence[Value]) -> Value:
        """The value of a call. Raises TVMError when calls nest deeper than the limit."""
        budget, f = self.budget, callee.function
        if len(args) != len(f.params):
            raise TVMError(f"{callee.name} takes {len(f.params)} arguments, but {len(args)} were given")
        if budget.depth >= budget.limit:
            raise DepthError(
                f"calls of relay functions nest deeper than {budget.limit}; the last one is of {callee.name}."
                " Does its recursion have a base case?"
            )
        budget.depth += 1
        try:
            return callee.home.body(f, args)
        finally:
            budget.depth -= 1

    def body(self, f: Function, args: Sequence[Value]) -> Value:
        """The value of a function's body, in a scope within this one."""
        inner = Interpreter(self.mod, dict(zip(f.params, args, strict=True)), self)
        check_sizes(f, args)
        found: dict[SizeName, IntImm] = {}
        for p, v in zip(f.params, args, strict=True):
            name_sizes(p.type_annotation, v, found)
        if found:
            inner.sizes = {**self.sizes, **found}
        return inner.evaluate(f.body)


def check_sizes(f: Function, args: Sequence[Value]) -> None:
    """ValueError where extents of arguments are not what the function's rules say."""
    types = [p.type_annotation for p in f.params]
    stated = f.attrs.get(STATED) or ()
    if not stated and all([t is None or is_static(t) for t in types]):
        return
    for rule in size_rules([p.name_hint for p in f.params], types, stated):
        numbers = [int(args[p]) if axis == NUMBER else args[p].shape[axis] for p, axis in rule.extents.values()]
        if not rule.holds(numbers):
            raise ValueError(rule.message(numbers))


_RULES: dict[type, Callable[[Interpreter, Any], Value]] = {
    Var: Interpreter.var,
    Constant: Interpreter.constant,
    Call: Interpreter.call,
    Tuple: Interpreter.tuple,
    TupleGetItem: Interpreter.item,
    Let: Interpreter.let,
    If: Interpreter.branch,
    Match: Interpreter.match,
    Function: Interpreter.closure,
    GlobalVar: Interpreter.global_var,
    Constructor: Interpreter.constructor,
    RefCreate: Interpreter.ref_create,
    RefRead: Interpreter.ref_read,
    RefWrite: Interpreter.ref_write,
}


def fits(pattern: Pattern, value: Value, bound: dict[Expr, Value]) -> bool:
    """Whether a value has a pattern's form; what its variables stand for goes to `bound`."""
    if isinstance(pattern, PatternVar):
        bound[pattern.var] = value
        return True
    if isinstance(pattern, PatternTuple):
        return all([fits(p, v, bound) for p, v in zip(pattern.patterns, value, strict=True)])
    if isinstance(pattern, PatternConstructor):
        if value.constructor.name_hint != pattern.constructor.name_hint:
            return False
        return all([fits(p, v, bound) for p, v in zip(pattern.patterns, value.fields, strict=True)])
    return True


def brief(value: Value) -> str:
    """A value on one line, cut where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 120 else text[:117] + "..."


def as_value(value: Any) -> Value:
    """What Python gives, as the interpreter takes it: NDArrays, numbers and lists of them as arrays."""
    if isinstance(value, (ConstructorValue, RefValue)) or callable(value):
        return value
    if isinstance(value, (tuple, list)) and value and not np.isscalar(value[0]):
        return tuple([as_value(v) for v in value])
    return value.numpy() if not isinstance(value, np.ndarray) and hasattr(value, "numpy") else np.asarray(value)


def run_function(func: Function, args: Sequence[Any], mod: IRModule | None = None) -> Value:
    """The value of a function on arrays."""
    if mod is None:
        mod = infer_module(IRModule.from_expr(func))
        func = mod["main"]
    with deep_recursion():
        return Interpreter(mod).body(func, list(map(as_value, args)))
