"""Rewrite rules as data: a generator yields `pattern, result[, condition]`, and its parameters are the wildcards.

    @rules(Add, commute=True)
    def add_rules(x, y, c1, c2):
        yield x + 0, x

A wildcard that is named `c`, or starts with `c` and a digit, matches a constant and stands for its Python value;
one that starts with `n` matches the number of lanes. A wildcard that occurs twice must match the same simplified node.
Literals match constants of any type, and vectors of them. Conditions are Python expressions over the wildcards.
Each group is compiled to one Python function per node type; `Rule.hits` counts uses.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from tilewright.ir import FloatImm, IntImm, PrimExpr
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
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
)


class Pattern:
    """A pattern, a result or a condition; Python's operators build larger ones."""

    def __init__(self, op: Any, *args: Any) -> None:
        self.op, self.args = op, args

    def __add__(self, other: Term) -> Pattern:
        return Pattern(Add, self, other)

    def __radd__(self, other: Term) -> Pattern:
        return Pattern(Add, other, self)

    def __sub__(self, other: Term) -> Pattern:
        return Pattern(Sub, self, other)

    def __rsub__(self, other: Term) -> Pattern:
        return Pattern(Sub, other, self)

    def __mul__(self, other: Term) -> Pattern:
        return Pattern(Mul, self, other)

    def __floordiv__(self, other: Term) -> Pattern:
        return Pattern(FloorDiv, self, other)

    def __mod__(self, other: Term) -> Pattern:
        return Pattern(FloorMod, self, other)

    def __eq__(self, other: object) -> Any:
        return Pattern(EQ, self, other)

    def __ne__(self, other: object) -> Any:
        return Pattern(NE, self, other)

    def __lt__(self, other: Term) -> Pattern:
        return Pattern(LT, self, other)

    def __le__(self, other: Term) -> Pattern:
        return Pattern(LE, self, other)

    def __gt__(self, other: Term) -> Pattern:
        return Pattern(GT, self, other)

    def __ge__(self, other: Term) -> Pattern:
        return Pattern(GE, self, other)

    def __and__(self, other: Term) -> Pattern:
        return Pattern("and", self, other)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        if self.op == "wild":
            return str(self.args[0])
        name = self.op if isinstance(self.op, str) else self.op.__name__.lower()
        return f"{name}({', '.join(str(a) for a in self.args)})"


Term = Pattern | int
"""A part of a rule."""
Rules = Iterator[tuple[Term, ...]]
"""The rules of a generator: left side, right side, and optionally a condition."""


def _maker(op: Any) -> Callable[..., Pattern]:
    return lambda *args: Pattern(op, *args)


min_, max_, div, mod = _maker(Min), _maker(Max), _maker(Div), _maker(Mod)
select, not_, ramp, broadcast = (
    _maker(Select),
    _maker(Not),
    _maker(Ramp),
    _maker(Broadcast),
)
lt, le, eq, and_, or_ = _maker(LT), _maker(LE), _maker(EQ), _maker(And), _maker(Or)

FIELDS: dict[Any, tuple[str, ...]] = {
    Select: ("condition", "true_value", "false_value"),
    Not: ("a",),
    Ramp: ("base", "stride", "lanes"),
    Broadcast: ("value", "lanes"),
    Cast: ("value",),
}
COMMUTATIVE = frozenset({Add, Mul, Min, Max, EQ, NE, And, Or})
_SIGNS = {
    Add: "+",
    Sub: "-",
    Mul: "*",
    FloorDiv: "//",
    FloorMod: "%",
    EQ: "==",
    NE: "!=",
    LT: "<",
    LE: "<=",
    GT: ">",
    GE: ">=",
    "and": "and",
}


def fields_of(op: Any) -> tuple[str, ...]:
    return FIELDS.get(op, ("a", "b"))


class Rule:
    """One rule: its source line, its three parts, the types for which it is valid, and the number of its uses."""

    __slots__ = ("condition", "domain", "hits", "lhs", "rhs", "where")

    def __init__(self, lhs: Pattern, rhs: Term, condition: Pattern | None, domain: str, where: str) -> None:
        self.lhs, self.rhs, self.condition, self.domain, self.where, self.hits = (
            lhs,
            rhs,
            condition,
            domain,
            where,
            0,
        )

    def __str__(self) -> str:
        return f"{self.where}: {self.lhs} -> {self.rhs}" + (
            f" if {self.condition}" if self.condition is not None else ""
        )


ALL: list[Rule] = []
_groups: dict[type, list[Rule]] = {}


def is_literal(node: Any, value: int) -> bool:
    """Whether the node is this constant, or a vector of it."""
    while type(node) is Broadcast:
        node = node.value
    return type(node) in (IntImm, FloatImm) and node.value == value


def constant_value(node: PrimExpr) -> Any:
    """The value of a constant node; None for other nodes."""
    return node.value if type(node) is IntImm or type(node) is FloatImm else None


def rules(
    *ops: type, domain: str = "any", commute: bool = False
) -> Callable[[Callable[..., Rules]], Callable[..., Rules]]:
    """Registers the rules of a generator. `OP` in a pattern's root stands for each of `ops` in turn.

    `domain`: "any", "int" (invalid for floats: NaN, infinities) or "index" (valid only without overflow:
    int32 and int64, whose overflow is undefined as in C). The sign of a float zero is not kept: x + 0.0 -> x.
    With `commute`, each rule also gets a twin with the operands of the root swapped.
    """

    def register(
        generator: Callable[..., Rules],
    ) -> Callable[..., Rules]:
        names = list(inspect.signature(generator).parameters)
        wild = {n: Pattern("wild", n) for n in names if n != "OP"}
        for op in ops:
            source: Any = generator(**wild, **({"OP": _maker(op)} if "OP" in names else {}))
            for item in source:
                line = f"{generator.__name__}:{source.gi_frame.f_lineno}"
                lhs, rhs, condition = item if len(item) == 3 else (*item, None)
                twins = [lhs]
                if commute and lhs.op in COMMUTATIVE and str(lhs.args[0]) != str(lhs.args[1]):
                    twins.append(Pattern(lhs.op, lhs.args[1], lhs.args[0]))
                for twin in twins:
                    rule = Rule(twin, rhs, condition, domain, line)
                    ALL.append(rule)
                    _groups.setdefault(twin.op, []).append(rule)
        return generator

    return register


class _Compiler:
    """Python source of one rule: inline tests, then the construction of the result through the engine."""

    def __init__(self) -> None:
        self.tests: list[str] = []
        self.names: dict[str, str] = {}
        self.env: dict[str, Any] = {"is_literal": is_literal, "value": constant_value}

    def type_name(self, op: type) -> str:
        self.env[op.__name__] = op
        return op.__name__

    def match(self, p: Any, path: str) -> None:
        if not isinstance(p, Pattern):
            self.tests.append(f"is_literal({path}, {p!r})")
        elif p.op == "wild":
            name = p.args[0]
            if is_constant_name(name):
                if name in self.names:
                    self.tests.append(f"value({path}) == {name}")
                else:
                    self.names[name] = path
                    self.tests.append(f"({name} := value({path})) is not None")
            else:
                if name in self.names:
                    self.tests.append(f"{path} {'==' if name[0] == 'n' else 'is'} {self.names[name]}")
                else:
                    self.names[name] = path
        else:
            self.tests.append(f"type({path}) is {self.type_name(p.op)}")
            for field, arg in zip(fields_of(p.op), p.args, strict=True):
                self.match(arg, f"{path}.{field}")

    def evaluate(self, p: Any) -> str:
        """A condition, or a result's constant part, over Python values."""
        if not isinstance(p, Pattern):
            return repr(p)
        if p.op == "wild":
            return p.args[0] if is_constant_name(p.args[0]) else self.names[p.args[0]]
        if p.op not in _SIGNS:
            return f"e.{p.op}({', '.join(self.evaluate(a) for a in p.args)})"
        return f"({f' {_SIGNS[p.op]} '.join(self.evaluate(a) for a in p.args)})"

    def build(self, p: Any, like: str) -> str:
        if not isinstance(p, Pattern):
            return f"e.constant({p!r}, {like})"
        if is_constant_part(p):
            return f"e.constant({self.evaluate(p)}, {like})"
        if p.op == "wild":
            return self.names[p.args[0]]
        if p.op in (Ramp, Broadcast) and not like.startswith("e.element"):
            like = f"e.element({like})"
        args = ", ".join(self.build(a, like) for a in p.args)
        return f"e.make({self.type_name(p.op)}, {args})"

    def rule(self, r: Rule, index: int) -> str:
        self.tests, self.names = [], {}
        for field, arg in zip(fields_of(r.lhs.op), r.lhs.args, strict=True):
            self.match(arg, f"x0.{field}")
        condition = f" and {self.evaluate(r.condition)}" if r.condition is not None else ""
        like = "x0" if r.lhs.op not in (LT, LE, GT, GE, EQ, NE) else "x0.a"
        if isinstance(r.rhs, bool):
            like = "x0"
        self.env[f"r{index}"] = r
        head = f" if {' and '.join(self.tests) or 'True'}{condition}:\n"
        return f"{head}   r{index}.hits += 1\n   return {self.build(r.rhs, like)}\n"


def is_constant_name(name: str) -> bool:
    return name == "c" or (name[0] == "c" and name[1:].isdigit())


def is_constant_part(p: Any) -> bool:
    """Whether the pattern contains only constants."""
    if not isinstance(p, Pattern):
        return True
    if p.op == "wild":
        return is_constant_name(p.args[0])
    return p.op in _SIGNS and all([is_constant_part(a) for a in p.args])


Rewriter = Callable[[Any, PrimExpr], PrimExpr | None]
_compiled: dict[tuple[type, str], Rewriter | None] = {}


def domain_of(node: Any) -> str:
    """The domain of a node's operands: "index", "int" (narrow or unsigned, which wrap around) or "any"."""
    dtype = node.a.dtype if type(node) in (EQ, NE, LT, LE, GT, GE) else node.dtype
    if not (dtype.is_int or dtype.is_uint):
        return "any"
    return "index" if dtype.is_int and dtype.bits >= 32 else "int"


DOMAINS = {"any": ("any",), "int": ("any", "int"), "index": ("any", "int", "index")}
"""The domains of rules that hold for operands of a domain."""


def rewriter(op: type, domain: str) -> Rewriter | None:
    """`f(engine, node)`: the node rewritten by the first rule that matches; None if no rule matches."""
    if (op, domain) not in _compiled:
        group = [r for r in _groups.get(op, ()) if r.domain in DOMAINS[domain]]
        _compiled[op, domain] = _compile(group) if group else None
    return _compiled[op, domain]


def _compile(group: list[Rule]) -> Rewriter:
    compiler = _Compiler()
    body = "".join(compiler.rule(r, i) for i, r in enumerate(group))
    source = f"def rewrite(e, x0):\n{body} return None\n"
    exec(source, compiler.env)
    out: Rewriter = compiler.env["rewrite"]
    return out
