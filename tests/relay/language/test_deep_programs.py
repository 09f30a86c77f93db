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
from tilewright.relay.typing import unify

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


CASES = [(calls, 3_000), (lets, 3_000), (tuples, 3_000), (ifs, 1_500), (functions, 1_500), (let_values, 1_500)]


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


@pytest.mark.usefixtures("operators_go")
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


def steps_of(name: str, mod: relay.IRModule) -> int:
    """The calls that a pass makes, which a busy machine does not change."""
    profile = cProfile.Profile()
    profile.runcall(getattr(transform, name)(), mod)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def nested_choices(count: int, pure: bool) -> relay.IRModule:
    """Both branches of each if use the value of the one before."""
    step = relay.GlobalVar("step")
    e: relay.Expr = relay.exp(X)
    for _ in range(count):
        e = relay.If(FLAG, relay.tanh(e) if pure else step(e), relay.sigmoid(e))
    y = relay.var("y", shape=(2,))
    functions = {relay.GlobalVar("main"): relay.Function([X, FLAG], e), step: relay.Function([y], relay.tanh(y))}
    return transform.InferType()(relay.IRModule(functions))


@pytest.mark.parametrize("pure", [True, False], ids=["pure", "calls"])
@pytest.mark.parametrize(
    "name",
    ["ToANormalForm", "ToBasicBlockNormalForm", "ToGraphNormalForm", "PartialEvaluate", "DeadCodeElimination"],
)
def test_what_both_branches_share_is_walked_once(name: str, pure: bool) -> None:
    few, many = nested_choices(10, pure), nested_choices(40, pure)
    assert steps_of(name, many) < 10 * steps_of(name, few)
    after = transform.InferType()(getattr(transform, name)()(many))
    assert well_formed(after, report=True)
    x = np.linspace(-1, 1, 2).astype("float32")
    for flag in (False, True):
        got, want = (
            relay.create_executor("debug", m).evaluate()(x, np.array(flag)).numpy()
            for m in (after, nested_choices(40, True))
        )
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("name", ["DeadCodeElimination", "ToANormalForm", "ToGraphNormalForm", "PartialEvaluate"])
def test_values_in_values_are_walked_once(name: str) -> None:
    assert steps_of(name, module(let_values, 800)) < 5 * steps_of(name, module(let_values, 200))


def test_functions_that_call_functions_twice_are_not_unfolded_for_ever() -> None:
    text = "def @f0(%x: float32, %c: bool) -> float32 { tanh(%x) }\n"
    for i in range(1, 30):
        text += f"def @f{i}(%x: float32, %c: bool) -> float32 {{ if (%c) {{ @f{i - 1}(%x, %c) }} else {{ @f{i - 1}(%x, %c) + 1f }} }}\n"
    mod = relay.parse(text + "def @main(%x: float32, %c: bool) -> float32 { @f29(%x, %c) }")
    after = transform.PartialEvaluate()(mod)
    assert len(list(relay.analysis.post_order(after["main"]))) < 100_000
    assert well_formed(after, report=True)


@pytest.mark.parametrize("typed", (True, False))
def test_types_of_nested_tuples_take_steps_in_proportion(typed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tuple holds the one before: its type is not looked through again for every tuple around it."""
    steps = [0]
    parts = unify.parts

    def counted(t: Any) -> Any:
        steps[0] += 1
        return parts(t)

    monkeypatch.setattr(unify, "parts", counted)

    def took(depth: int) -> int:
        x, y = relay.var("x", shape=(2,) if typed else None), relay.var("y", shape=(2,))
        nested: Any = x
        for _ in range(depth):
            nested = relay.Tuple([nested, x])
        inner = relay.Function([x], relay.TupleGetItem(nested, 1))
        steps[0] = 0
        mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.Function([y], relay.Call(inner, [y]))))
        assert str(mod["main"].ret_type) == "Tensor[(2,), float32]"
        return steps[0]

    assert took(400) < 2.5 * took(200) < 2.5 * 12 * 200
