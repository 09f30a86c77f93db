"""A variable that a function binds in several places is one variable for each of them, whatever runs the program."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import relay
from tilewright.node import assert_structural_equal
from tilewright.relay import analysis
from tilewright.relay.prelude import Prelude
from tilewright.relay.transform import InferType, ToANormalForm, ToGraphNormalForm

X = np.arange(3, dtype="float32")


def value(mod: relay.IRModule, kind: str) -> np.ndarray:
    return relay.create_executor(kind, mod).evaluate()(X).numpy()  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", ["debug", "vm"])
def test_a_pattern_binds_the_variable_of_a_let(kind: str) -> None:
    mod = relay.IRModule()
    prelude = Prelude(mod)
    nil, cons = prelude.get_ctor("List", "Nil"), prelude.get_ctor("List", "Cons")
    x, y = relay.var("x", shape=(3,)), relay.var("y")
    head = relay.PatternConstructor(cons, [relay.PatternVar(y), relay.PatternWildcard()])
    match = relay.Match(y, [relay.Clause(head, relay.multiply(y, y))], complete=False)
    mod["main"] = relay.Function([x], relay.Let(y, cons(relay.negative(x), nil()), match))
    assert not analysis.well_formed(mod)
    assert analysis.well_formed(InferType()(mod))
    np.testing.assert_array_equal(value(mod, kind), X * X)


@pytest.mark.parametrize("kind", ["debug", "vm"])
@pytest.mark.parametrize("form", [None, ToANormalForm, ToGraphNormalForm])
def test_an_inner_function_binds_what_the_outer_one_does(kind: str, form: type | None) -> None:
    x, y = relay.var("x", shape=(3,)), relay.var("y")
    inner = relay.Function([x], relay.Let(y, relay.negative(x), relay.multiply(y, y)))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.Let(y, x + x, inner(y) + y + x)))
    mod = InferType()(mod)
    assert analysis.well_formed(mod) and mod["main"].params[0] is x
    np.testing.assert_array_equal(value(form()(mod) if form else mod, kind), 4 * X * X + 3 * X)


def test_a_variable_with_two_types_is_two_variables() -> None:
    x, y = relay.var("x", shape=(3,)), relay.var("y")
    total = relay.sum(y)
    mod = InferType()(
        relay.IRModule.from_expr(relay.Function([x], relay.Let(y, x + x, relay.Let(y, total, y + total))))
    )
    np.testing.assert_array_equal(value(mod, "vm"), 12)


def test_functions_of_a_module_may_share_their_parameters() -> None:
    x = relay.var("x", shape=(3,))
    mod = relay.IRModule.from_expr(relay.Function([x], relay.negative(x)))
    mod["other"] = relay.Function([x], relay.exp(x))
    mod = InferType()(mod)
    assert mod["main"].params[0] is mod["other"].params[0] is x


def shared_block() -> tuple[relay.IRModule, relay.Expr]:
    """A program in which a branch, a closure and the code around them use one block with a let."""
    x, b, r = relay.var("x", shape=(3,)), relay.var("b", shape=(), dtype="bool"), relay.var("r")
    ref, after = relay.var("ref"), relay.var("after")
    block = relay.Let(ref, relay.RefCreate(x), relay.Let(after, relay.RefRead(ref), after * after))
    inner = relay.Let(r, relay.tanh(x), relay.If(b, block, r + x))
    closure = relay.Function([], block + x)
    body = relay.Tuple([inner, relay.If(b, x, block), closure(), block])
    return InferType()(relay.IRModule.from_expr(relay.Function([x, b], body))), block


def test_a_block_that_several_scopes_use_is_printed_once() -> None:
    mod, _ = shared_block()
    text = mod.astext()
    assert text.count("ref(%x)") == 1
    assert_structural_equal(relay.parse(text), mod)


@pytest.mark.parametrize(
    "name", ["ToANormalForm", "ToGraphNormalForm", "FuseOps", "SimplifyExpr", "ToBasicBlockNormalForm"]
)
def test_passes_keep_blocks_that_several_scopes_use(name: str) -> None:
    mod, _ = shared_block()
    made = getattr(relay.transform, name)()(mod)
    assert analysis.well_formed(made)
    for b in (True, False):
        want = relay.create_executor("debug", mod).evaluate()(X, b)
        got = relay.create_executor("debug", made).evaluate()(X, b)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    "name",
    ["ToANormalForm", "ToGraphNormalForm", "ToBasicBlockNormalForm", "DeadCodeElimination", "LambdaLift", "ToMixedPrecision",
     "FoldConstant", "FuseOps", "Inline", "HoistInvariants"],
)  # fmt: skip
@pytest.mark.parametrize("first", [True, False])
def test_passes_keep_a_block_that_ends_another_block_too(name: str, first: bool) -> None:
    """The lets of both follow one another there, but those of the shared one are bound once."""
    x, r, v, w, f = relay.var("x", shape=(3,)), relay.var("r"), relay.var("v"), relay.var("w"), relay.var("f")
    p = relay.var("p", shape=(3,))
    less = relay.negative(x)
    held = relay.Let(v, relay.RefRead(r), v * v + (less + x))
    block = relay.Let(f, relay.Function([p], p - less), relay.Let(r, relay.RefCreate(f(f(x))), held))
    other = relay.Let(w, relay.RefCreate(x), block)
    mod = InferType()(
        relay.IRModule.from_expr(relay.Function([x], relay.Tuple([block, other] if first else [other, block])))
    )
    made = getattr(relay.transform, name)()(mod)
    assert analysis.well_formed(made)
    for g in relay.create_executor("debug", made).evaluate()(X):
        np.testing.assert_allclose(g.numpy(), 9 * X * X, rtol=1e-2)


def test_parts_of_functions_are_typed_in_their_module() -> None:
    """What SimplifyInference changes in a scope is typed again, calls of the module's functions with it."""
    x, f, y = relay.var("x", shape=(3,)), relay.var("f"), relay.var("y", shape=(3,))
    mod = relay.IRModule()
    mod["twice"] = relay.Function([y], y + y)
    call = mod.get_global_var("twice")(relay.nn.softmax(relay.nn.dropout(x)))
    closure = relay.Function([relay.var("p", shape=(3,))], call)
    mod["main"] = relay.Function([x], relay.Tuple([relay.Let(f, closure, f(x) + mod.get_global_var("twice")(x))]))
    mod = InferType()(mod)
    made = relay.transform.SimplifyInference()(mod)
    (got,), (want,) = [relay.create_executor("debug", m).evaluate()(X) for m in (made, mod)]
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)
