"""Relay nodes: constructors, operators, text, equality, JSON, walks of deep chains."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import relay
from tilewright.ir import IRModule, SourceName, Span
from tilewright.node import load_json, save_json, structural_equal, structural_hash
from tilewright.relay.functor import substitute
from tilewright.relay.op.layers import normalisation, products
from tilewright.relay.rewriting import card_of
from tilewright.support.errors import DiagnosticError, OpAttributeInvalid, OpAttributeRequired
from tilewright.tir import Any, Var


def test_text_of_a_function() -> None:
    x = relay.var("x", shape=(1, 3, 8, 8))
    w = relay.var("w", shape=(4, 3, 3, 3))
    y = relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1), channels=4, kernel_size=(3, 3)))
    mod = relay.transform.InferType()(
        IRModule.from_expr(relay.Function([x, w], relay.Tuple([y, y + relay.const(2.0)])))
    )
    assert (
        relay.astext(mod)
        == mod.astext(show_meta_data=False)
        == (
            '#[version = "0.0.5"]\n'
            "def @main(%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32])"
            " -> (Tensor[(1, 4, 8, 8), float32], Tensor[(1, 4, 8, 8), float32]) {\n"
            "  %0 = nn.conv2d(%x, %w, padding=[1, 1], channels=4, kernel_size=[3, 3]) /* ty=Tensor[(1, 4, 8, 8), float32] */;\n"
            "  %1 = nn.relu(%0) /* ty=Tensor[(1, 4, 8, 8), float32] */;\n"
            "  %2 = add(%1, 2f) /* ty=Tensor[(1, 4, 8, 8), float32] */;\n"
            "  (%1, %2)\n"
            "}"
        )
    )


def test_operators_and_attributes_of_calls() -> None:
    x = relay.var("x", shape=(2, 3))
    call = relay.nn.softmax(x, axis=0)
    assert isinstance(call, relay.Call)
    assert call.operator is call.op
    assert card_of(call, normalisation.softmax).axis == 0
    with pytest.raises(TypeError, match="attributes of batch_matmul were expected, but nn.softmax has softmax"):
        card_of(call, products.batch_matmul)
    with pytest.raises(TypeError, match="a call of an operator was expected, but this is a call of a Function"):
        relay.Function([x], x)(x).operator  # noqa: B018


def test_text_of_let_and_if() -> None:
    c, x = relay.var("c", shape=(), dtype="bool"), relay.var("x", shape=(2,))
    t = relay.var("t")
    body = relay.Let(t, relay.tanh(x), relay.If(c, t + x, t))
    assert relay.astext(relay.Function([c, x], body)) == (
        '#[version = "0.0.5"]\n'
        "fn (%c: bool, %x: Tensor[(2,), float32]) {\n"
        "  let %t = tanh(%x);\n"
        "  if (%c) {\n"
        "    add(%t, %x)\n"
        "  } else {\n"
        "    %t\n"
        "  }\n"
        "}"
    )


def test_constants_are_not_copied_and_are_read_only() -> None:
    data = np.arange(6, dtype="float32").reshape(2, 3)
    c = relay.const(data)
    assert np.shares_memory(c.data, data)
    assert c.data.numpy().dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        c.data[0, 0] = 1


@pytest.mark.parametrize(
    ("value", "dtype"), [(1.0, "float32"), (1, "int32"), (True, "bool"), ([1.0, 2.0], "float32"), ([1], "int32")]
)
def test_dtypes_of_constants(value: object, dtype: str) -> None:
    assert relay.const(value).data.dtype.name == dtype
    assert relay.const(value, "int64").data.dtype.name == "int64"


def test_structural_equality_maps_parameters_and_sharing() -> None:
    def make(share: bool) -> relay.Function:
        x = relay.var("x", shape=(4,))
        a = relay.exp(x)
        return relay.Function([x], a + (a if share else relay.exp(x)))

    assert structural_equal(make(True), make(True))
    assert structural_hash(make(True)) == structural_hash(make(True))
    assert not structural_equal(make(True), make(False))


def test_json_round_trip() -> None:
    x = relay.var("x", shape=(1, 3, 8, 8))
    y = relay.nn.conv2d(x, relay.const(np.ones((4, 3, 3, 3), "float32")), strides=(2, 2))
    mod = IRModule.from_expr(relay.Function([x], relay.TupleGetItem(relay.Tuple([y, x]), 0)))
    assert structural_equal(load_json(save_json(mod)), mod)


def test_deep_chains_are_walked_without_recursion() -> None:
    x, y = relay.var("x", shape=(1,)), relay.var("y", shape=(1,))
    e: relay.Expr = x
    for _ in range(10000):
        e = relay.nn.relu(e)
    assert relay.analysis.free_vars(e) == [x]
    assert len(relay.analysis.all_vars(e)) == 1
    assert relay.analysis.free_vars(substitute(e, {x: y})) == [y]
    count = 0

    class Count(relay.ExprVisitor):
        def visit_call(self, call: relay.Call) -> None:
            nonlocal count
            count += 1
            super().visit_call(call)

    Count().visit(e)
    assert count == 10000
    assert relay.ExprMutator().visit(e) is e


def test_python_numbers_need_a_dtype() -> None:
    x = relay.var("x", shape=(1,))
    with pytest.raises(
        TypeError, match=r"add: a Python number has no dtype; write relay.const\(1, dtype\) instead of 1"
    ):
        _ = x + 1


def test_wrong_attributes() -> None:
    x = relay.var("x", shape=(1, 3))
    with pytest.raises(OpAttributeInvalid, match="nn.softmax has no attribute 'axes'; it has axis"):
        relay.nn.softmax(x, axes=1)
    with pytest.raises(
        OpAttributeInvalid,
        match=r"nn.max_pool2d: integers of the attribute strides have 64 bits, but \(1, 10{30}\) was",
    ):
        relay.nn.max_pool2d(relay.var("x", shape=(1, 3, 8, 8)), strides=(1, 10**30))
    with pytest.raises(OpAttributeInvalid, match=r"nn.softmax: the attribute axis is declared int, but 1.5 was given"):
        relay.nn.softmax(x, axis=1.5)
    with pytest.raises(OpAttributeRequired, match="cast needs the attribute 'dtype'"):
        relay.op.find_card("cast").call([x], {})
    with pytest.raises(TypeError, match=r"add takes the arguments \(lhs, rhs\), but rhs was not given"):
        relay.add(x)
    with pytest.raises(AttributeError, match="relay has no operator 'nn.conv2dd'; near it: nn.conv2d"):
        relay.nn.conv2dd(x)


def error(expr: relay.Expr) -> str:
    with pytest.raises(DiagnosticError) as caught:
        relay.transform.infer_types(expr)
    return str(caught.value)


def test_type_error_names_operator_argument_rule_finding_and_node() -> None:
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 5, 3, 3))
    call = relay.nn.conv2d(x, w)
    call = relay.Call(call.op, call.args, call.attrs, (), Span(SourceName("Conv_12")))
    assert error(call) == (
        "Conv_12: nn.conv2d, argument 1 (weight): the weights' input channels times groups must be the data's channels,"
        " but 5 times 1 is not 3\n"
        "  in nn.conv2d(%x, %w)\n"
        "     data: Tensor[(1, 3, 8, 8), float32]\n"
        "     weight: Tensor[(4, 5, 3, 3), float32]"
    )


def test_independent_type_errors_are_reported_together() -> None:
    a, b = relay.var("a", shape=(2,)), relay.var("b", shape=(3,))
    text = error(relay.tanh(a + b) * (b - a))
    assert text.startswith("type inference found 2 errors\nadd, argument 1 (rhs): shapes must broadcast")
    assert "subtract, argument 1 (rhs)" in text


def test_missing_types() -> None:
    assert "the type of %x is not known. Give relay.var a shape and dtype" in error(relay.tanh(relay.var("x")))


def test_dtype_mismatch_says_what_to_insert() -> None:
    text = error(relay.var("a", shape=(2,)) + relay.var("b", shape=(2,), dtype="int32"))
    assert (
        "all arguments must have one dtype, but the first is float32 and this one is int32\n  Insert relay.cast" in text
    )


def test_symbolic_dimensions_broadcast() -> None:
    n = Var("n", "int32")
    x, y = relay.var("x", shape=(n, 1, 4)), relay.var("y", shape=(3, 1))
    assert repr(relay.transform.infer_types(x + y)) == "Tensor[(n, 3, 4), float32]"
    z = relay.var("z", shape=(Any(), 3, 4))
    assert repr(relay.transform.infer_types(z + relay.var("w", shape=(1, 4)))) == "Tensor[(?, 3, 4), float32]"


def test_functions_of_a_module_are_inferred_in_order_of_need() -> None:
    x = relay.var("x", shape=(4,))
    twice = relay.GlobalVar("twice")
    a = relay.var("a", shape=(4,))
    mod = IRModule({"main": relay.Function([x], relay.exp(twice(x))), twice: relay.Function([a], a + a)})
    mod = relay.transform.InferType()(mod)
    assert repr(mod["main"].checked_type) == "fn (Tensor[(4,), float32]) -> Tensor[(4,), float32]"
    got = relay.create_executor("debug", mod).evaluate()(np.ones(4, "float32"))
    np.testing.assert_allclose(got, np.exp(2 * np.ones(4, "float32")))


def test_inference_of_a_changed_graph_looks_only_at_what_is_new() -> None:
    x = relay.var("x", shape=(4,))
    y = relay.exp(x)
    relay.transform.infer_types(y)
    kept = y.checked_type
    relay.transform.infer_types(relay.tanh(y))
    assert y.checked_type is kept


def test_control_flow_and_closures_run() -> None:
    x, c = relay.var("x", shape=(2,)), relay.var("c", shape=(), dtype="bool")
    p = relay.var("p", shape=(2,))
    double = relay.Function([p], p + p)
    f = relay.Function([c, x], relay.If(c, double(x), relay.negative(x)))
    run = relay.create_executor("debug", IRModule.from_expr(f)).evaluate()
    ones = np.ones(2, "float32")
    np.testing.assert_array_equal(run(np.array(True), ones), 2 * ones)
    np.testing.assert_array_equal(run(np.array(False), ones), -ones)
