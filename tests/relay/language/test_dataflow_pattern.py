"""Dataflow patterns: matching, rewriting, partitioning."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tilewright import relay
from tilewright.node import structural_equal
from tilewright.relay.cards.card import BROADCAST, ELEMWISE
from tilewright.relay.dataflow_pattern import (
    DFPattern,
    DFPatternCallback,
    dominates,
    has_attr,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    rewrite,
    wildcard,
)
from tilewright.relay.transform import infer_types
from tilewright.support.errors import TVMError

X = relay.var("x", shape=(2, 4))
Y = relay.var("y", shape=(2, 4))
W = relay.const(np.ones((3, 4), "float32"))


def test_leaves() -> None:
    assert is_var().match(X) and is_var("x").match(X) and not is_var("y").match(X)
    assert is_constant().match(W) and not is_constant().match(X)
    assert wildcard().match(X + Y)
    assert is_expr(X + Y).match(X + Y) and not is_expr(X + Y).match(Y + X)
    assert is_expr(relay.const(1.0)).match(relay.const(1.0))


def test_calls_match_commuted_operands() -> None:
    pattern = is_op("add")(is_op("nn.relu")(wildcard()), is_var("y"))
    assert pattern.match(relay.nn.relu(X) + Y)
    assert pattern.match(Y + relay.nn.relu(X))
    assert not is_op("subtract")(is_op("nn.relu")(wildcard()), is_var("y")).match(Y - relay.nn.relu(X))
    assert is_op("nn.dense")(None).match(relay.nn.dense(X, W))
    assert not is_op("nn.dense")(wildcard()).match(relay.nn.dense(X, W))


def test_one_pattern_object_is_one_expression() -> None:
    w = wildcard()
    assert (w + w).match(X + X)
    assert not (w + w).match(X + Y)


def test_alternatives_and_options() -> None:
    pattern = is_op("add")(wildcard(), wildcard()) | is_op("subtract")(wildcard(), wildcard())
    assert pattern.match(X + Y) and pattern.match(X - Y) and not pattern.match(X * Y)
    maybe = is_op("nn.dense")(wildcard(), is_constant()).optional(lambda d: is_op("nn.relu")(d))
    assert maybe.match(relay.nn.dense(X, W)) and maybe.match(relay.nn.relu(relay.nn.dense(X, W)))
    assert not maybe.match(relay.tanh(relay.nn.dense(X, W)))


def test_attributes_types_and_shapes() -> None:
    soft = relay.nn.softmax(X, axis=1)
    assert is_op("nn.softmax")(wildcard()).has_attr({"axis": 1}).match(soft)
    assert not is_op("nn.softmax")(wildcard()).has_attr({"axis": 0}).match(soft)
    assert has_attr({"TOpPattern": ELEMWISE})(wildcard()).match(relay.tanh(X))
    assert not has_attr({"TOpPattern": ELEMWISE})(wildcard()).match(soft)
    assert wildcard().has_type(relay.TensorType((2, 3))).match(relay.nn.dense(X, W))
    assert wildcard().has_shape((2, 3)).match(relay.nn.dense(X, W))
    assert not wildcard().has_shape((2, 4)).match(relay.nn.dense(X, W))
    assert wildcard().has_dtype("float32").match(X) and not wildcard().has_dtype("int8").match(X)
    named = relay.Function([X], X).with_attr("Composite", "x.y")
    assert wildcard().has_attr({"Composite": "x.y"}).match(named)


def test_tuples_scopes() -> None:
    pair = relay.Tuple([X, Y])
    assert is_tuple([is_var("x"), wildcard()]).match(pair) and is_tuple(None).match(pair)
    assert not is_tuple([wildcard()]).match(pair)
    assert is_tuple_get_item(is_tuple(None), 1).match(relay.TupleGetItem(pair, 1))
    assert not is_tuple_get_item(wildcard(), 0).match(relay.TupleGetItem(pair, 1))
    assert is_op("concatenate")(is_tuple([wildcard(), wildcard()])).match(relay.concatenate([X, Y], 0))
    c, t = relay.var("c", "bool"), relay.var("t")
    assert is_if(is_var("c"), wildcard(), is_var("y")).match(relay.If(c, X, Y))
    assert is_let(is_var("t"), is_op("tanh")(wildcard()), wildcard()).match(relay.Let(t, relay.tanh(X), t))


def test_dominator_needs_every_way_and_no_use_outside() -> None:
    path = has_attr({"TOpPattern": ELEMWISE})(wildcard())
    child = has_attr({"TOpPattern": BROADCAST})(wildcard(), wildcard())
    pattern = dominates(is_op("nn.dense")(wildcard(), wildcard()), path, child)
    dense = relay.nn.dense(X, W)
    assert pattern.match(relay.tanh(dense) + relay.exp(dense))
    assert not pattern.match(relay.tanh(dense) + relay.exp(relay.var("z", shape=(2, 3))))
    shared = relay.tanh(dense)
    assert not is_tuple([pattern, wildcard()]).match(relay.Tuple([shared + relay.exp(dense), shared]))


class FuseMultiplyAdd(DFPatternCallback):
    """a * b + a * c  ->  a * (b + c)"""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = wildcard(), wildcard(), wildcard()
        self.pattern = self.a * self.b + self.a * self.c

    def callback(self, pre: relay.Expr, post: relay.Expr, node_map: Mapping[DFPattern, list[relay.Expr]]) -> relay.Expr:
        a, b, c = (node_map[p][0] for p in (self.a, self.b, self.c))
        return relay.multiply(a, relay.add(b, c))


def test_fields_of_patterns() -> None:
    parts, x = wildcard(), is_var("x")
    item, both = is_tuple_get_item(parts, 1), is_op("add")(x, wildcard())
    assert item.tuple is parts and item.index == 1 and both.args[0] is x and x.name == "x"
    assert is_tuple([x, both]).fields == (x, both) and (x | both).left is x


def test_rewrite() -> None:
    z = relay.var("z", shape=(2, 4))
    before = relay.nn.relu(X * Y + X * z)
    after = rewrite(FuseMultiplyAdd(), before)
    assert structural_equal(after, relay.nn.relu(X * (Y + z)))
    assert rewrite(FuseMultiplyAdd(), X + Y * z).same_as is not None
    unchanged = X + Y * z
    assert rewrite(FuseMultiplyAdd(), unchanged) is unchanged


def test_rewrite_runs_to_the_end_inside_functions_and_deep_chains() -> None:
    class DropRelu(DFPatternCallback):
        """relu(relu(x)) -> relu(x)"""

        def __init__(self) -> None:
            super().__init__()
            self.x = wildcard()
            self.pattern = is_op("nn.relu")(is_op("nn.relu")(self.x))

        def callback(
            self, pre: relay.Expr, post: relay.Expr, node_map: Mapping[DFPattern, list[relay.Expr]]
        ) -> relay.Expr:
            return relay.nn.relu(node_map[self.x][0])

    e: relay.Expr = X
    for _ in range(300):
        e = relay.nn.relu(e)
    f = rewrite(DropRelu(), relay.Function([X], e))
    assert structural_equal(f, relay.Function([X], relay.nn.relu(X)))


def test_callbacks_that_undo_each_other_end_in_an_error() -> None:
    class Swap(DFPatternCallback):
        """x + y -> y + x"""

        def __init__(self) -> None:
            super().__init__()
            self.x, self.y = wildcard(), wildcard()
            self.pattern = self.x - self.y

        def callback(
            self, pre: relay.Expr, post: relay.Expr, node_map: Mapping[DFPattern, list[relay.Expr]]
        ) -> relay.Expr:
            return relay.subtract(node_map[self.y][0], node_map[self.x][0])

    with pytest.raises(TVMError) as caught:
        rewrite(Swap(), X - Y)
    assert str(caught.value) == "the callbacks Swap still change the program after 100 rounds: one undoes another"


def test_partition() -> None:
    pattern = is_op("nn.relu")(is_op("nn.dense")(wildcard(), is_constant()) + wildcard())
    bias = relay.const(np.full(3, 0.5, "float32"))
    body = relay.exp(relay.nn.relu(relay.nn.dense(X, W) + bias))
    infer_types(body)
    cut = pattern.partition(body, {"Composite": "test.dense"})
    assert isinstance(cut, relay.Call)
    call = cut.args[0]
    assert isinstance(call, relay.Call) and isinstance(call.op, relay.Function)
    assert call.args == (X, bias)
    assert dict(call.op.attrs) == {
        "PartitionedFromPattern": "nn.dense_add_nn.relu_",
        "Composite": "test.dense",
    }
    value = np.random.default_rng(0).standard_normal((2, 4)).astype("float32")
    want = np.exp(np.maximum(value @ np.ones((4, 3), "float32") + 0.5, 0))
    mod = relay.IRModule.from_expr(relay.Function([X], cut))
    got = relay.create_executor("debug", mod).evaluate()(value)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)
    assert pattern.partition(body, check=lambda e: False) is body


def test_partition_leaves_what_is_used_outside() -> None:
    pattern = is_op("nn.relu")(is_op("nn.dense")(wildcard(), wildcard()))
    dense = relay.nn.dense(X, W)
    both = relay.Tuple([relay.nn.relu(dense), dense])
    assert pattern.partition(both) is both
    chain = relay.nn.relu(relay.nn.dense(relay.nn.relu(relay.nn.dense(X, W)), relay.const(np.ones((3, 3), "float32"))))
    cut = pattern.partition(chain)
    assert isinstance(cut, relay.Call) and isinstance(cut.op, relay.Function)
    assert isinstance(cut.args[0], relay.Call) and isinstance(cut.args[0].op, relay.Function)


def test_dominator_lets_operators_on_the_way_take_variables_besides() -> None:
    bias, z = relay.var("b", shape=(3,)), relay.var("z", shape=(2, 3))
    dense = relay.nn.dense(X, W)
    path = is_op("nn.relu")(wildcard()) | is_op("tanh")(wildcard()) | is_op("add")(wildcard(), wildcard())
    pattern = dominates(is_op("nn.dense")(wildcard(), wildcard()), path, is_op("multiply")(wildcard(), wildcard()))
    assert pattern.match(relay.nn.relu(relay.add(dense, bias)) * relay.tanh(dense))
    # What is computed besides, the data that the parent reads, and a way without the parent are ways around it.
    assert not pattern.match(relay.nn.relu(relay.add(dense, relay.exp(z))) * relay.tanh(dense))
    square = relay.nn.dense(z, relay.var("v", shape=(3, 3)))
    assert not pattern.match(relay.nn.relu(relay.add(square, z)) * relay.tanh(square))
    assert not pattern.match(relay.nn.relu(relay.add(dense, bias)) * z)


def test_wildcard_redirected_to_a_pattern_around_it() -> None:
    again = wildcard()
    pattern = is_op("nn.relu")(again)
    again.redirect_to(pattern | is_var("x"))
    chain = relay.nn.relu(relay.nn.relu(relay.nn.relu(X)))
    assert pattern.match(chain)
    assert not pattern.match(relay.nn.relu(relay.tanh(X)))
    assert not pattern.match(relay.nn.relu(relay.nn.relu(Y)))
    call = pattern.partition(chain)
    assert call.op.attrs["PartitionedFromPattern"] == "nn.relu_nn.relu_nn.relu_"
    assert repr(pattern) == "CallPattern(ExprPattern(nn.relu), [WildcardPattern(AltPattern(..., VarPattern(x)))])"
    itself = wildcard()
    itself.redirect_to(itself | is_var())
    with pytest.raises(TVMError, match="redirected to a pattern that asks for itself at once: WildcardPattern"):
        itself.match(X)


def test_products_match_however_factors_and_divisor_are_grouped() -> None:
    x, mean, gamma, root, beta = (relay.var(n) for n in ("x", "mean", "gamma", "root", "beta"))
    pattern = is_var("gamma") * (is_var("x") - is_var("mean")) / is_var("root") + is_var("beta")
    forms = [
        gamma * (x - mean) / root + beta,
        beta + (x - mean) * gamma / root,
        (gamma / root) * (x - mean) + beta,
        gamma * ((x - mean) / root) + beta,
        ((x - mean) / root) * gamma + beta,
    ]
    assert all([pattern.match(f) for f in forms])
    assert not pattern.match(gamma / (x - mean) * root + beta)
    other = is_var("gamma") * ((is_var("x") - is_var("mean")) / is_var("root")) + is_var("beta")
    assert all([other.match(f) for f in forms if f is not forms[2]])


def test_partition_takes_in_what_only_the_match_reads() -> None:
    dense = relay.nn.dense(X, W)
    total = dense + relay.var("b", shape=(3,))
    pattern = is_op("multiply")(is_op("add")(is_op("nn.dense")(wildcard(), wildcard()), wildcard()), wildcard())
    call = pattern.partition(total * relay.sigmoid(total))
    assert call.op.attrs["PartitionedFromPattern"] == "nn.dense_add_sigmoid_multiply_"
    assert len(call.args) == 3
    outside = relay.sigmoid(total)
    before = relay.Tuple([total * outside, outside])
    assert pattern.partition(before) is before


def test_callbacks_that_match_their_own_answers_end_in_an_error() -> None:
    class Grow(DFPatternCallback):
        def __init__(self) -> None:
            super().__init__()
            self.pattern = is_op("add")(wildcard(), wildcard())

        def callback(
            self, pre: relay.Expr, post: relay.Expr, node_map: Mapping[DFPattern, list[relay.Expr]]
        ) -> relay.Expr:
            return relay.add(post, post)

    with pytest.raises(TVMError, match="the callbacks Grow made a program of more than 12000 expressions, 1000 times"):
        Grow().rewrite(X + Y)
