"""Every rewrite rule by machine: bound wildcards, a result that is no larger, and equal values at random points."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.arith.evaluate import evaluate
from tilewright import tir
from tilewright.arith.engine import Engine
from tilewright.arith.rewriting import Pattern, Rule, _compile, fields_of, is_constant_name
from tilewright.arith.rules import RULES
from tilewright.ir import IntImm
from tilewright.node import post_order_visit

LANES = 4


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

    def variable(self, dtype: str) -> tir.Var:
        v = tir.Var(f"v{len(self.variables)}", dtype)
        self.variables.append(v)
        return v

    def build(self, p: Any, dtype: str, lanes: int) -> Any:
        """A node of element type `dtype` with `lanes` lanes."""
        full = dtype if lanes == 1 else f"{dtype}x{lanes}"
        if not isinstance(p, Pattern):
            return tir.const(int(p), full)
        if p.op == "wild":
            name = p.args[0]
            if name not in self.bound:
                if is_constant_name(name):
                    self.bound[name] = tir.const(self.rng.randint(-9, 9), dtype)
                else:
                    self.bound[name] = self.variable(full)
            return self.bound[name]
        if p.op in (tir.Ramp, tir.Broadcast):
            scalars = [self.build(a, dtype, 1) for a in p.args[:-1]]
            return p.op(*scalars, LANES)
        if p.op is tir.Select:
            return tir.Select(self.build(p.args[0], "bool", lanes), *[self.build(a, dtype, lanes) for a in p.args[1:]])
        if p.op is tir.Not:
            return tir.Not(self.build(p.args[0], "bool", lanes))
        operand = self.dtype if p.op in (tir.EQ, tir.NE, tir.LT, tir.LE, tir.GT, tir.GE) else dtype
        return p.op(*[self.build(a, operand, lanes) for a in p.args])


def has_vectors(p: Any) -> bool:
    return isinstance(p, Pattern) and (
        p.op in (tir.Ramp, tir.Broadcast) or (p.op != "wild" and any(map(has_vectors, p.args)))
    )


def size(node: Any) -> int:
    count = [0]
    post_order_visit(node, lambda _: count.__setitem__(0, count[0] + 1))
    return count[0]


@pytest.mark.parametrize("index", range(len(RULES)), ids=lambda i: f"{RULES[i].where}-{i}")
def test_rule(index: int) -> None:
    rule: Rule = RULES[index]
    assert wildcards(rule.rhs) <= wildcards(rule.lhs), f"{rule} has unbound wildcards"
    assert wildcards(rule.condition) <= wildcards(rule.lhs)
    rewrite = _compile([rule])
    rng = random.Random(index)
    lanes = LANES if has_vectors(rule.lhs) and rule.lhs.op is not tir.Ramp else 1
    fired = checked = 0
    for _ in range(400):
        engine = Engine()
        instance = Instance(rng, "int32")
        top = rule.lhs
        dtype = "bool" if top.op is tir.Not else "int32"
        if top.op is tir.Ramp:
            node: Any = instance.build(top, dtype, 1)
        else:
            parts = []
            for position, a in enumerate(top.args):
                kind = "bool" if top.op is tir.Not or (top.op is tir.Select and position == 0) else "int32"
                width = (
                    1
                    if kind == "bool" and isinstance(a, Pattern) and a.op == "wild" and "lanes" in str(rule.condition)
                    else lanes
                )
                parts.append(instance.build(a, kind, width))
            node = top.op(*parts)
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
        for _ in range(6):
            env: dict[tir.Var, Any] = {}
            for v in instance.variables:
                low, high = engine.var_bound.get(engine.leaf(v), (-12, 12))
                one = (
                    (lambda: rng.random() < 0.5)
                    if v.dtype.is_bool
                    else (lambda low=low, high=high: rng.randint(low, high))
                )
                env[v] = one() if v.dtype.lanes == 1 else [one() for _ in range(v.dtype.lanes)]
            try:
                expected = evaluate(node, env)
            except ZeroDivisionError:
                continue
            checked += 1
            assert evaluate(out, env) == expected, f"{rule}\n{node}\n-> {out}"
        if fired >= 12 and checked >= 40:
            break
    assert fired and checked, f"{rule} never matched its own pattern"


def test_uses_are_counted() -> None:
    before = sum(r.hits for r in RULES)
    x = tir.Var("x", "float32")
    assert Engine().simp(tir.Add(x, tir.const(0.0, "float32"))) is x
    assert sum(r.hits for r in RULES) == before + 1


def test_commuted_twins_are_generated() -> None:
    assert any([str(r.lhs) == "add(0, x)" for r in RULES])
    assert isinstance(Engine().simp(IntImm("int32", 3)), IntImm) and fields_of(tir.Not) == ("a",)
