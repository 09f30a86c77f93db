"""Programs that are thousands of calls, lets and scopes deep, through everything that walks programs."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import relay
from tilewright.node import load_json, save_json, structural_equal, structural_hash
from tilewright.relay import transform
from tilewright.relay.analysis import all_vars, bound_vars, free_vars, well_formed

X = relay.var("x", shape=(2,))
FLAG = relay.var("flag", shape=(), dtype="bool")


def calls(count: int) -> relay.Expr:
    e: relay.Expr = X
    for _ in range(count):
        e = relay.tanh(e)
    return e


def lets(count: int) -> relay.Expr:
    names = [X, *[relay.var(f"v{i}") for i in range(count)]]
    body: relay.Expr = names[-1]
    for before, v in reversed(list(zip(names, names[1:], strict=False))):
        body = relay.Let(v, relay.tanh(before), body)
    return body


def ifs(count: int) -> relay.Expr:
    e: relay.Expr = X
    for _ in range(count):
        e = relay.If(FLAG, relay.tanh(X), e)
    return e


def tuples(count: int) -> relay.Expr:
    e: relay.Expr = X
    for _ in range(count):
        e = relay.TupleGetItem(relay.Tuple([e, e]), 1)
    return e


def functions(count: int) -> relay.Expr:
    e: relay.Expr = X
    for _ in range(count):
        p = relay.var("p", shape=(2,))
        e = relay.Function([p], relay.tanh(p))(e)
    return e


def let_values(count: int) -> relay.Expr:
    e: relay.Expr = X
    for _ in range(count):
        v = relay.var("v")
        e = relay.Let(v, e, relay.tanh(v))
    return e


def module(make: Callable[[int], relay.Expr], count: int) -> relay.IRModule:
    return relay.IRModule.from_expr(relay.Function([X, FLAG], make(count)))


CASES = [(calls, 10_000), (lets, 10_000), (tuples, 8_000), (ifs, 2_000), (functions, 2_000), (let_values, 2_000)]


@pytest.mark.parametrize(("make", "count"), CASES)
def test_language(make: Callable[[int], relay.Expr], count: int) -> None:
    mod, other = module(make, count), module(make, count)
    assert structural_hash(mod) == structural_hash(other)
    assert structural_equal(mod, other)
    text = mod.astext()
    assert structural_equal(relay.parse(text), mod)
    assert structural_equal(load_json(save_json(mod)), mod)
    assert well_formed(mod)
    assert free_vars(mod["main"]) == [] and X in bound_vars(mod["main"]) and X in all_vars(mod["main"])
    assert relay.ExprMutator().visit(mod["main"]) is mod["main"]
    relay.ExprVisitor().visit(mod["main"])
    got = relay.create_executor("debug", mod).evaluate()(np.ones(2, "float32"), np.array(False))
    assert got.numpy().shape == (2,)


@pytest.mark.parametrize(("make", "count"), [(make, min(count, 2_000)) for make, count in CASES[:5]])
@pytest.mark.parametrize(
    "name",
    [
        "ToANormalForm",
        "ToGraphNormalForm",
        "SimplifyInference",
        "FoldConstant",
        "SimplifyExpr",
        "EliminateCommonSubexpr",
    ]
    + ["DeadCodeElimination", "FuseOps", "Inline", "LambdaLift", "AlterOpLayout"],
)
def test_passes(make: Callable[[int], relay.Expr], count: int, name: str) -> None:
    getattr(transform, name)()(module(make, count))


def test_inference_is_linear() -> None:
    def steps(count: int) -> int:
        profile = cProfile.Profile()
        profile.runcall(transform.InferType(), module(calls, count))
        return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]

    steps(1000)
    assert steps(16_000) < 5 * steps(4_000)


def test_inference_looks_only_at_what_is_new() -> None:
    ran: list[Any] = []

    class noted(relay.op.OpCard, key="test.noted"):
        """Tells of each run of its rule."""

        def infer(self, data: relay.TensorType) -> relay.Type:
            ran.append(data)
            return data

    make = relay.op.constructor("test.noted")
    e: relay.Expr = X
    for _ in range(100):
        e = make(e)
    mod = transform.InferType()(relay.IRModule.from_expr(relay.Function([X], e)))
    assert len(ran) == 100
    new = make(mod["main"].body)
    assert transform.InferTypeLocal(new) == relay.TensorType((2,))
    assert len(ran) == 101
    transform.InferType()(relay.IRModule.from_expr(relay.Function([X], new)))
    assert len(ran) == 101
