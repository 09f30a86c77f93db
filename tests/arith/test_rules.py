"""Every rewrite rule by machine: bound wildcards, a result that is no larger, and equal values at random points.

A rule is tried with operands of every type that its domain takes in: int32 (which must not overflow), int8 and uint8
(which wrap around), bool where it connects conditions, and float32 with NaN and infinities.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.arith.brute import Points, agree
from tilewright import tir
from tilewright.arith.simplifier import rewriting
from tilewright.arith.simplifier.engine import Engine
from tilewright.arith.simplifier.rewriting import (
    DOMAINS,
    Pattern,
    Rule,
    _compile,
    domain_of,
    fields_of,
    is_constant_name,
)
from tilewright.arith.simplifier.rules import RULES
from tilewright.ir import IntImm
from tilewright.node import post_order_visit

LANES = 4
COMPARISONS = (tir.EQ, tir.NE, tir.LT, tir.LE, tir.GT, tir.GE)
TYPES = {"any": ["int32", "int8", "uint8", "float32"], "int": ["int32", "int8", "uint8"], "index": ["int32"]}
FLOATS = [0.0, 1.0, -1.0, float("nan"), float("inf"), float("-inf"), 3.5, -2.25, 1e30]
CASES = [(i, dtype) for i, rule in enumerate(RULES) for dtype in TYPES[rule.domain]]


def wildcards(p: Any) -> set[str]:
    if not isinstance(p, Pattern):
        return set()
    return {p.args[0]} if p.op == "wild" else set().union(*[wildcards(a) for a in p.args])


class Instance:
    """One random expression that a rule's pattern matches."""

    def __init__(self, rng: random.Random, dtype: str) -> None:
        self.rng, self.dtype = rng, dtype
        self.bound: dict[str, Any] = {}
        self.variables: list[tir.Var] = []

    def root(self, rule: Rule) -> Any:
        top = rule.lhs
        lanes = LANES if has_vectors(top) and top.op is not tir.Ramp else 1
        if top.op is tir.Select and "lanes" in str(rule.condition):
            condition = self.build(top.args[0], "bool", 1)
            return tir.Select(condition, *[self.build(a, self.dtype, lanes) for a in top.args[1:]])
        return self.build(top, self.dtype, lanes)

    def build(self, p: Any, dtype: str, lanes: int) -> Any:
        """A node of element type `dtype` with `lanes` lanes."""
        full = dtype if lanes == 1 else f"{dtype}x{lanes}"
        if not isinstance(p, Pattern):
            return tir.const(int(p), full)
        if p.op == "wild":
            name = p.args[0]
            if name not in self.bound:
                if is_constant_name(name):
                    value = self.rng.randint(0 if dtype[0] == "u" else -9, 9)
                    self.bound[name] = tir.const(value, dtype)
                else:
                    self.variables.append(tir.Var(f"v{len(self.variables)}", full))
                    self.bound[name] = self.variables[-1]
            return self.bound[name]
        if p.op in (tir.Ramp, tir.Broadcast):
            scalars = [self.build(a, dtype, 1) for a in p.args[:-1]]
            return p.op(*scalars, LANES)
        if p.op is tir.Select:
            return tir.Select(self.build(p.args[0], "bool", lanes), *[self.build(a, dtype, lanes) for a in p.args[1:]])
        operand = dtype
        if p.op in (tir.Not, tir.And, tir.Or):
            operand = "bool"
        elif p.op in COMPARISONS:
            operand = self.dtype
        return p.op(*[self.build(a, operand, lanes) for a in p.args])


def has_vectors(p: Any) -> bool:
    return isinstance(p, Pattern) and (
        p.op in (tir.Ramp, tir.Broadcast) or (p.op != "wild" and any(map(has_vectors, p.args)))
    )


def size(node: Any) -> int:
    count = [0]
    post_order_visit(node, lambda _: count.__setitem__(0, count[0] + 1))
    return count[0]


def values(rng: random.Random, variable: tir.Var, bound: tuple[int, int] | None) -> Any:
    """Random values of a variable: its bounds, or all of its type where it wraps around."""
    element = variable.dtype.element
    shape = (40,) if variable.dtype.lanes == 1 else (40, variable.dtype.lanes)
    draw = np.random.default_rng(rng.randrange(1 << 30))
    if element.is_bool:
        return draw.random(shape) < 0.5
    if element.is_float:
        return draw.choice(np.array(FLOATS, "float32"), shape)
    low, high = bound or {"int8": (-128, 127), "uint8": (0, 255)}.get(str(element), (-12, 12))
    return draw.integers(low, high + 1, shape)


def applies(rule: Rule, dtype: str) -> bool:
    """Whether nodes of the rule's root can have operands of that type."""
    integers = (tir.FloorDiv, tir.FloorMod, tir.Mod)
    return not (dtype == "float32" and (rule.lhs.op in integers or has_ramp(rule.lhs)))


def has_ramp(p: Any) -> bool:
    return isinstance(p, Pattern) and (p.op is tir.Ramp or (p.op != "wild" and any(map(has_ramp, p.args))))


@pytest.mark.parametrize(("index", "dtype"), CASES, ids=lambda v: f"{RULES[v].where}-{v}" if isinstance(v, int) else v)
def test_rule(index: int, dtype: str) -> None:
    rule: Rule = RULES[index]
    assert wildcards(rule.rhs) <= wildcards(rule.lhs), f"{rule} has unbound wildcards"
    assert wildcards(rule.condition) <= wildcards(rule.lhs)
    if not applies(rule, dtype):
        return
    rewrite = _compile([rule])
    rng = random.Random(index)
    fired = checked = 0
    for _ in range(400):
        engine = Engine()
        instance = Instance(rng, dtype)
        node = instance.root(rule)
        assert rule.domain in DOMAINS[domain_of(node)]
        for v in instance.variables:
            # Small ranges, so that conditions on bounds come to hold.
            if v.dtype == "int32" and rng.random() < 0.7:
                low = rng.randint(-3, 6)
                engine.var_bound[engine.leaf(v)] = (low, low + rng.randint(0, 3))
        try:
            out = rewrite(engine, node)
        except ZeroDivisionError:
            continue
        if out is None:
            continue
        fired += 1
        assert out.dtype is node.dtype, f"{rule}: {node.dtype} became {out.dtype}"
        assert size(out) <= size(node) + 1, f"{rule} grows the expression"
        bounds = {v: engine.var_bound.get(engine.leaf(v)) for v in instance.variables}
        points = Points({v: values(rng, v, bounds[v]) for v in instance.variables}, 40)
        expected, bad = points.evaluate(node)
        got, _ = points.evaluate(out)
        checked += int(np.count_nonzero(~bad))
        wrong = ~(agree(expected, got) | bad)
        assert not wrong.any(), f"{rule}\n{node}\n-> {out} at {points.row(int(np.argmax(wrong)))}"
        if fired >= 12 and checked >= 100:
            break
    assert fired and checked, f"{rule} never matched its own pattern"


def test_all_rules_are_checked() -> None:
    """The engine has no rule but those that are tried here, for each type that it applies them to."""
    compiled = [r for group in rewriting._groups.values() for r in group]
    assert {id(r) for r in compiled} == {id(r) for r in RULES} and len(compiled) == len(RULES)
    assert {RULES[i].where for i, _ in CASES} == {r.where for r in RULES}
    for dtype, domain in (("int32", "index"), ("int64", "index"), ("int8", "int"), ("uint32", "int"), ("bool", "int")):
        assert domain_of(tir.Var("x", dtype)) == domain
    for dtype in ("float32", "float16", "bfloat16", "handle"):
        assert domain_of(tir.Var("x", dtype)) == "any"
    x = tir.Var("x", "float32")
    assert domain_of(tir.LT(x, x)) == "any"


def test_floats_keep_what_nan_and_infinity_make() -> None:
    x = tir.Var("x", "float32")
    zero = tir.const(0.0, "float32")
    for e in (x - x, x * zero, tir.Div(x, x), tir.Div(zero, x), tir.LT(x, x), tir.LE(x, x), tir.EQ(x, x), x * 2.0 - x):
        assert Engine().simp(e) is e
    assert Engine().simp(tir.Not(tir.LT(x, zero))).__class__ is tir.Not


def test_uses_are_counted() -> None:
    before = sum(r.hits for r in RULES)
    x = tir.Var("x", "float32")
    assert Engine().simp(tir.Add(x, tir.const(0.0, "float32"))) is x
    assert sum(r.hits for r in RULES) == before + 1


def test_commuted_twins_are_generated() -> None:
    assert any([str(r.lhs) == "add(0, x)" for r in RULES])
    assert isinstance(Engine().simp(IntImm("int32", 3)), IntImm) and fields_of(tir.Not) == ("a",)
