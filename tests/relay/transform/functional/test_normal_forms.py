"""A-normal and graph normal form, inlining: the shape of the result, and that it computes the same."""

from __future__ import annotations

import numpy as np
import pytest

from tests.relay.language.test_language import as_ints, prelude, rows, run
from tests.relay.random_graphs import Generator, assert_same, evaluate
from tilewright import relay
from tilewright.ir import IRModule
from tilewright.node import assert_structural_equal
from tilewright.relay import transform
from tilewright.relay.analysis import well_formed
from tilewright.relay.transform import InferType, Inline, ToANormalForm, ToGraphNormalForm
from tilewright.relay.transform.functional.normal_forms import is_anf, to_anf, to_graph

PROGRAM = """
def @main(%l: List[int32]) {
  let %r = ref(1);
  let %loop = fn (%k: int32) -> int32 {
    if (%k == 0) { ref_read(%r) } else { ref_write(%r, ref_read(%r) * 2 + %k); %loop(%k - 1) }
  };
  let %before = ref_read(%r);
  let %s = @sum(@map(fn (%x) { %x * %x + (%x - 1) }, %l));
  %loop(%s);
  match (%l) { Cons(%h, _) => (%before + %h * %h, ref_read(%r)), Nil => (0, 0) }
}"""


def test_text_of_both_forms() -> None:
    f = relay.parse_expr("fn (%x: float32) { if (%x < 0f) { tanh(%x * %x) } else { %x } }")
    anf = to_anf(f)
    assert anf.astext(show_meta_data=False).split("\n")[1:] == [
        "fn (%x: float32) {",
        "  let %x0 = less(%x, 0f);",
        "  let %x3 = if (%x0) {",
        "    let %x1 = multiply(%x, %x);",
        "    let %x2 = tanh(%x1);",
        "    %x2",
        "  } else {",
        "    %x",
        "  };",
        "  %x3",
        "}",
    ]
    assert relay.alpha_equal(to_graph(anf), f)


@pytest.mark.parametrize("seed", range(8))
def test_random_graphs(seed: int) -> None:
    g = Generator(seed, 15)
    mod, inputs = g.module(), g.inputs()
    anf = ToANormalForm()(mod)
    assert is_anf(anf["main"]) and not is_anf(mod["main"]) and well_formed(anf, report=True)
    graph = ToGraphNormalForm()(anf)
    assert relay.alpha_equal(graph, mod)
    want = evaluate(mod, inputs)
    assert_same(evaluate(anf, inputs), want)
    assert_same(evaluate(graph, inputs), want)


def test_effects_keep_their_order() -> None:
    mod = prelude(PROGRAM)
    arg = rows(mod, [np.int32(1), np.int32(2)])
    want = as_ints(run(mod, arg))
    anf = ToANormalForm()(mod)
    assert is_anf(anf["main"]) and well_formed(anf, report=True)
    graph = ToGraphNormalForm()(anf)
    assert as_ints(run(anf, arg)) == as_ints(run(graph, arg)) == as_ints(run(ToGraphNormalForm()(mod), arg)) == want


def test_values_shared_by_branches_are_computed_in_each() -> None:
    c, x = relay.var("c", "bool"), relay.var("x", shape=(2,))
    e = relay.exp(x)
    mod = relay.IRModule.from_expr(relay.Function([c, x], relay.Tuple([relay.If(c, e + x, e * x), relay.tanh(x)])))
    anf = ToANormalForm()(mod)
    assert well_formed(anf, report=True)
    for flag in (True, False):
        args = [np.array(flag), np.array([1, 2], "float32")]
        assert_same(evaluate(anf, args), evaluate(mod, args))


def test_deep_chains() -> None:
    x = relay.var("x", shape=(2,))
    e: relay.Expr = x
    for _ in range(4000):
        e = relay.nn.relu(e)
    f = relay.Function([x], e)
    assert relay.alpha_equal(to_graph(to_anf(f)), f)


def test_inline() -> None:
    mod = relay.parse("""
    def @twice(%x: float32, Inline=1) -> float32 { %x + %x }
    def @quad(%x: float32, Inline=1) -> float32 { @twice(@twice(%x)) }
    def @loop(%n: int32, Inline=1) -> int32 { if (%n == 0) { 0 } else { @loop(%n - 1) } }
    def @plain(%x: float32) -> float32 { tanh(%x) }
    def @main(%x: float32) { (@quad(%x), @loop(3), @plain(%x)) }""")
    inlined = Inline()(mod)
    want = relay.parse_expr("fn (%x: float32) { %0 = %x + %x; (%0 + %0, @loop(3), @plain(%x)) }", init_module=mod)
    assert relay.alpha_equal(inlined["main"], want)
    got = relay.create_executor("debug", inlined).evaluate()(np.float32(0.5))
    np.testing.assert_allclose([float(g.numpy()) for g in got], [2.0, 0.0, np.tanh(0.5)], rtol=1e-6)


def test_programs_of_lets_compile() -> None:
    mod = relay.parse("def @main(%x: Tensor[(4), float32]) { let %y = tanh(%x); let %z = exp(%y); %z + %y }")
    executor = relay.create_executor("graph", mod).evaluate()
    x = np.linspace(-1, 1, 4).astype("float32")
    np.testing.assert_allclose(executor(x).numpy(), np.exp(np.tanh(x)) + np.tanh(x), rtol=1e-5)


def test_inlined_functions_bind_variables_of_their_own_and_become_of_one_type() -> None:
    mod = relay.parse("""
    type List[A] { Cons(A, List[A]), Nil }
    def @empty[A](%x: A, Inline=1) -> List[A] { let %n: List[A] = Nil(); %n }
    def @pair[A](%x: A, Inline=1) -> (A, A) { let %copy = fn (%y: A) { (%y, %x) }; %copy(%x) }
    def @main(%x: float32) { (Cons(%x, @empty(%x)), @pair(%x), @pair(1)) }
    def @wide(%x: int64) { Cons(%x, @empty(%x)) }
    """)
    inlined = InferType()(Inline()(mod))
    assert well_formed(inlined, report=True)
    assert str(inlined["wide"].ret_type) == "List[int64]"
    assert str(inlined["main"].ret_type) == "(List[float32], (float32, float32), (int32, int32))"
    assert_structural_equal(relay.parse(inlined.astext()), inlined)


@pytest.mark.parametrize("name", ["ToANormalForm", "ToBasicBlockNormalForm"])
def test_what_names_a_recursive_function_stays_where_that_is_known(name: str) -> None:
    x, n, f = relay.var("x", shape=()), relay.var("n", "int32"), relay.var("f")
    both = relay.Tuple([f, x])
    outer = relay.exp(x)
    call = relay.Call(relay.TupleGetItem(both, 0), [n - relay.const(1)])
    inside = relay.If(relay.equal(n, relay.const(0)), outer, call + relay.TupleGetItem(both, 1))
    function = relay.Function([n], inside, relay.TensorType(()))
    after = relay.Call(relay.TupleGetItem(both, 0), [relay.const(3)]) + outer
    mod = IRModule.from_expr(relay.Function([x], relay.Let(f, function, after)))
    made = getattr(transform, name)()(InferType()(mod))
    assert well_formed(made, report=True)
    assert relay.analysis.list_op_freqs(made)["exp"] == 1
    got = relay.create_executor("debug", InferType()(made)).evaluate()(np.float32(0.5)).numpy()
    np.testing.assert_allclose(got, 2 * np.exp(0.5) + 1.5, rtol=1e-6)
