"""Relay passes: the same values before and after on random graphs, and the graphs they are known to make."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.relay.random_graphs import Generator, assert_same, evaluate
from tilewright import relay
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.node import assert_structural_equal
from tilewright.relay import transform
from tilewright.relay.analysis import list_op_freqs
from tilewright.relay.rewriting import is_op
from tilewright.target import Target

PASSES: dict[str, Callable[[], transform.Pass]] = {
    "SimplifyInference": transform.SimplifyInference,
    "CanonicalizeOps": transform.CanonicalizeOps,
    "FoldConstant": transform.FoldConstant,
    "SimplifyExpr": transform.SimplifyExpr,
    "FoldScaleAxis": transform.FoldScaleAxis,
    "EliminateCommonSubexpr": transform.EliminateCommonSubexpr,
    "DeadCodeElimination": transform.DeadCodeElimination,
    "CombineSmallProducts": transform.CombineSmallProducts,
    "AlterOpLayout": transform.AlterOpLayout,
    "FlattenRows": transform.FlattenRows,
    "ImageViews": transform.ImageViews,
    "SliceSplits": transform.SliceSplits,
    "FuseAttention": transform.FuseAttention,
    "FuseRmsNorm": transform.FuseRmsNorm,
    "PackDense": transform.PackDense,
    "FuseOps": transform.FuseOps,
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", PASSES)
def test_pass_keeps_values(name: str, seed: int) -> None:
    g = Generator(seed)
    mod, inputs = g.module(), g.inputs()
    # Scale folding acts on what batch norms become.
    before = transform.SimplifyInference()(mod) if name == "FoldScaleAxis" else mod
    after = PASSES[name]()(before)
    assert_same(evaluate(after, inputs), evaluate(mod, inputs))


@pytest.mark.parametrize("seed", range(100, 125))
def test_pipeline_keeps_values(seed: int) -> None:
    g = Generator(seed, 20)
    mod, inputs = g.module(), g.inputs()
    optimized, _ = relay.optimize(mod, "llvm")
    assert_same(evaluate(optimized, inputs), evaluate(mod, inputs))


def run(name: str, *exprs: relay.Expr) -> relay.Expr:
    """The body of main after one pass."""
    body = exprs[0] if len(exprs) == 1 else relay.Tuple(exprs)
    function = PASSES[name]()(IRModule.from_expr(body))["main"]
    assert isinstance(function, relay.Function)
    return function.body


def image(channels: int = 4) -> relay.Var:
    return relay.var("x", shape=(1, channels, 8, 8))


def values(*shape: int) -> relay.Constant:
    return relay.const(np.random.default_rng(0).standard_normal(shape).astype("float32"))


def test_reshapes_collapse() -> None:
    x = relay.var("x", shape=(2, 3, 4))
    y = relay.reshape(relay.squeeze(relay.expand_dims(relay.reshape(x, (6, 4)), 0), [0]), (4, 6))
    assert_structural_equal(run("SimplifyExpr", y), relay.reshape(x, (4, 6)))
    assert run("SimplifyExpr", relay.reshape(relay.reshape(x, (24,)), (2, 3, 4))) is x


def test_transposes_and_casts_collapse() -> None:
    x = relay.var("x", shape=(2, 3, 4))
    assert run("SimplifyExpr", relay.transpose(relay.transpose(x, (2, 0, 1)), (1, 2, 0))) is x
    two = run("SimplifyExpr", relay.transpose(relay.transpose(x, (2, 0, 1)), (2, 0, 1)))
    assert_structural_equal(two, relay.transpose(x, (1, 2, 0)))
    assert run("SimplifyExpr", relay.cast(relay.cast(x, "float64"), "float32")) is x
    narrow = relay.cast(relay.cast(x, "float16"), "float32")
    assert_structural_equal(run("SimplifyExpr", narrow), narrow)


def test_neutral_operands_go_but_shapes_stay() -> None:
    x = relay.var("x", shape=(1, 4))
    zeros = relay.const(np.zeros((1, 4), "float32"))
    assert run("SimplifyExpr", relay.multiply(x + zeros, relay.const(1.0))) is x
    wider = x + relay.const(np.zeros((3, 4), "float32"))
    assert_structural_equal(run("SimplifyExpr", wider), wider)


def test_what_is_chosen_everywhere_needs_no_condition() -> None:
    x, y = relay.var("x", shape=(3, 4)), relay.var("y", shape=(3, 1))
    none, some = np.zeros((3, 1), bool), np.array([[True], [False], [False]])
    assert run("SimplifyExpr", relay.where(relay.const(none), y, x)) is x
    assert run("SimplifyExpr", relay.where(relay.const(~none), x, y)) is x
    for kept in (relay.where(relay.const(some), y, x), relay.where(relay.const(none), x, y)):
        assert is_op(run("SimplifyExpr", kept), "where")


def test_a_large_mask_of_zeros_is_not_added() -> None:
    x = relay.var("x", shape=(2, 300, 300))
    mask = np.zeros((300, 300), "float32")
    assert run("SimplifyExpr", x + relay.const(mask)) is x
    mask[299, 299] = 1
    assert is_op(run("SimplifyExpr", x + relay.const(mask)), "add")


def test_constants_join() -> None:
    x = relay.var("x", shape=(1, 4))
    got = run("SimplifyExpr", (x + relay.const(1.0)) + relay.const(2.0))
    assert_structural_equal(got, x + relay.const(3.0))


def test_pad_moves_into_convolution() -> None:
    w = values(4, 4, 3, 3)
    x = image()
    got = run(
        "SimplifyExpr", relay.nn.conv2d(relay.nn.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1)), 0.0), w, padding=(1, 1))
    )
    assert_structural_equal(got, relay.nn.conv2d(x, w, padding=(2, 1, 3, 2)))


def test_constants_fold_once_and_do_not_grow() -> None:
    x = relay.var("x", shape=(4,))
    folded = run("FoldConstant", x + (relay.const(np.ones(4, "float32")) + relay.const(2.0)))
    assert_structural_equal(folded, x + relay.const(np.full(4, 3, "float32")))
    big = relay.broadcast_to(relay.const(np.ones((1, 4), "float32")), (100000, 4))
    assert list_op_freqs(transform.FoldConstant()(IRModule.from_expr(big))) == {"broadcast_to": 1}


def test_shapes_fold() -> None:
    x = relay.var("x", shape=(2, 3))
    assert_structural_equal(run("FoldConstant", relay.shape_of(x)), relay.const(np.array([2, 3], "int32")))


@pytest.mark.parametrize("bias", [False, True])
def test_batch_norm_folds_into_convolution(bias: bool) -> None:
    x = image()
    y = relay.nn.conv2d(x, values(6, 4, 3, 3), padding=(1, 1))
    if bias:
        y = relay.nn.bias_add(y, values(6))
    y = relay.nn.batch_norm(y, values(6), values(6), values(6), relay.const(np.full(6, 2, "float32")))[0]
    mod = IRModule.from_expr(y)
    with PassContext(opt_level=3):
        optimized = transform.Sequential(
            [
                transform.SimplifyInference(),
                transform.CanonicalizeOps(),
                transform.FoldConstant(),
                transform.FoldScaleAxis(),
                transform.SimplifyExpr(),
            ]
        )(mod)
    assert list_op_freqs(optimized) == {"nn.conv2d": 1, "add": 1}
    data = [np.random.default_rng(1).standard_normal((1, 4, 8, 8)).astype("float32")]
    assert_same(evaluate(optimized, data), evaluate(mod, data))


def test_scale_stays_out_of_a_shared_convolution() -> None:
    conv = relay.nn.conv2d(image(), values(6, 4, 3, 3))
    mod = IRModule.from_expr(relay.Tuple([conv * values(6, 1, 1), conv]))
    assert list_op_freqs(transform.FoldScaleAxis()(mod)) == {"nn.conv2d": 1, "multiply": 1}


def test_equal_calls_become_one() -> None:
    x = relay.var("x", shape=(4,))
    got = run("EliminateCommonSubexpr", relay.tanh(x + relay.const(1.0)) * relay.tanh(x + relay.const(1.0)))
    assert isinstance(got, relay.Call)
    assert got.args[0] is got.args[1]
    apart = run("EliminateCommonSubexpr", relay.sum(x, axis=[0]) + relay.max(x, axis=[0]))
    assert isinstance(apart, relay.Call)
    assert apart.args[0] is not apart.args[1]


def test_unused_lets_go() -> None:
    x, unused, used = relay.var("x", shape=(4,)), relay.var("a"), relay.var("b")
    body = relay.Let(unused, relay.tanh(x), relay.Let(used, relay.exp(x), used + used))
    got = run("DeadCodeElimination", body)
    assert isinstance(got, relay.Let)
    assert got.var is used


def kernels(mod: IRModule) -> list[list[str]]:
    """Operators of every primitive function of main, in the order of the calls."""
    main = mod["main"]
    assert isinstance(main, relay.Function)
    found = []
    for e in relay.analysis.post_order(main.body, lambda e: isinstance(e, relay.Function)):
        if isinstance(e, relay.Call) and isinstance(e.op, relay.Function):
            assert e.op.is_primitive
            found.append([n.op.name for n in relay.analysis.post_order(e.op.body) if isinstance(n, relay.Call)])
    return found


def fused(*exprs: relay.Expr) -> list[list[str]]:
    body = exprs[0] if len(exprs) == 1 else relay.Tuple(exprs)
    return kernels(transform.FuseOps()(IRModule.from_expr(body)))


def test_epilogue_joins_its_convolution() -> None:
    x = image()
    y = relay.nn.relu(relay.nn.conv2d(x, values(4, 4, 3, 3), padding=(1, 1)) + values(4, 1, 1))
    assert fused(relay.nn.conv2d(y, values(4, 4, 1, 1)) + x) == [["nn.conv2d", "add", "nn.relu"], ["nn.conv2d", "add"]]


def test_two_convolutions_never_share_a_kernel() -> None:
    x = image()
    a, b = (relay.nn.conv2d(x, values(4, 4, 1, 1)) for _ in range(2))
    got = fused(relay.nn.relu(a + b))
    assert sorted(map(len, got)) == [1, 3]


def test_diamond_is_one_kernel() -> None:
    x = relay.var("x", shape=(8,))
    y = relay.exp(x)
    assert fused(relay.tanh(y) * relay.sigmoid(y)) == [["exp", "tanh", "sigmoid", "multiply"]]


def test_reduction_takes_producers_but_ends_the_kernel_on_a_broadcast() -> None:
    x = relay.var("x", shape=(4, 8))
    e = relay.exp(x)
    s = relay.sum(e, axis=[1], keepdims=True)
    assert fused(e / s) == [["exp"], ["sum"], ["divide"]]
    assert fused(relay.sum(relay.exp(x) + relay.const(1.0), axis=[1])) == [["exp", "add", "sum"]]


def test_costly_producer_is_not_repeated_by_a_broadcast() -> None:
    x, y = relay.var("x", shape=(4, 1)), relay.var("y", shape=(4, 64))
    assert fused(relay.exp(x) * y) == [["exp"], ["multiply"]]
    assert fused((x + x) * y) == [["add", "multiply"]]


def test_depth_is_bounded() -> None:
    x = relay.var("x", shape=(8,))
    y: relay.Expr = x
    for _ in range(10):
        y = relay.tanh(y)
    with PassContext(config={"relay.FuseOps.max_depth": 4}):
        got = fused(y)
    assert sum(map(len, got)) == 10
    assert max(map(len, got)) <= 4


def test_values_used_outside_stay_outputs() -> None:
    x = relay.var("x", shape=(8,))
    y = relay.exp(x)
    assert fused(relay.tanh(y), y) == [["exp"], ["tanh"]]


def test_residual_block_runs_on_channel_blocks() -> None:
    x = image(32)
    y = relay.nn.relu(relay.nn.conv2d(x, values(32, 32, 3, 3), padding=(1, 1)) + values(32, 1, 1))
    y = relay.nn.max_pool2d(relay.nn.relu(y + relay.nn.conv2d(y, values(32, 32, 1, 1))), (2, 2), (2, 2))
    optimized, _ = relay.optimize(IRModule.from_expr(y), "llvm -mcpu=skylake-avx512")
    counts = list_op_freqs(optimized)
    assert counts["layout_transform"] == 2
    assert counts["nn.contrib_conv2d_NCHWc"] == 2
    assert "nn.conv2d" not in counts
    assert "NCHW16c" in relay.astext(optimized)


@pytest.mark.parametrize(("cpu", "block"), [("skylake-avx512", 16), ("haswell", 8), ("nehalem", 4)])
def test_block_follows_the_vectors(cpu: str, block: int) -> None:
    mod = IRModule.from_expr(relay.nn.conv2d(image(32), values(32, 32, 3, 3)))
    optimized, _ = relay.optimize(mod, f"llvm -mcpu={cpu}")
    assert f'out_layout="NCHW{block}c"' in relay.astext(optimized)


@pytest.mark.parametrize(("inner", "width"), [(768, 64), (2048, 64), (2600, 48), (3072, 32), (9000, 32)])
def test_panels_leave_room_in_the_second_cache(inner: int, width: int) -> None:
    with Target("llvm -mcpu=x86-64-v4 -l2-cache-bytes=1048576"):
        packed = transform.PackDense()(
            IRModule.from_expr(relay.nn.dense(relay.var("x", shape=(64, inner)), values(192, inner)))
        )
    assert f"NK{width}n" in relay.astext(packed)


@pytest.mark.parametrize("columns", [64, 48, 40, 10, 100])
def test_packed_dense(columns: int) -> None:
    x = relay.var("x", shape=(3, 20))
    mod = IRModule.from_expr(relay.nn.dense(x, values(columns, 20)))
    packed = transform.PackDense()(mod)
    assert "nn.contrib_dense_pack" in list_op_freqs(packed)
    data = [np.random.default_rng(1).standard_normal((3, 20)).astype("float32")]
    assert_same(evaluate(packed, data), evaluate(mod, data))


def test_long_chains() -> None:
    x = relay.var("x", shape=(1, 4))
    y: relay.Expr = x
    for _ in range(5000):
        y = relay.nn.relu(y + x)
    mod = IRModule.from_expr(y)
    optimized, _ = relay.optimize(mod, "llvm")
    data = [np.ones((1, 4), "float32")]
    assert_same(evaluate(optimized, data), evaluate(mod, data))
    assert relay.astext(optimized).count("nn.relu") == 5000


def test_writes_in_branches_are_not_dead() -> None:
    x, r, unused = relay.var("x", shape=()), relay.var("r"), relay.var("u")
    write = relay.If(x < relay.const(2.0), relay.RefWrite(r, x), relay.Tuple([]))
    body = relay.Let(r, relay.RefCreate(relay.const(1.0)), relay.Let(unused, write, relay.RefRead(r)))
    mod = IRModule.from_expr(relay.Function([x], body))
    data = [np.array(0.5, "float32")]
    assert_same(evaluate(transform.DeadCodeElimination()(mod), data), evaluate(mod, data))


def test_what_only_dead_code_uses_is_dead() -> None:
    a, b, f = (relay.var(n) for n in "abf")
    x, y = relay.var("x", shape=(4,)), relay.var("y", shape=(4,))
    recursive = relay.Function([y], relay.Call(f, [y]), relay.TensorType((4,)))
    body = relay.Let(a, relay.tanh(x), relay.Let(b, relay.exp(a), relay.Let(f, recursive, x)))
    assert transform.DeadCodeElimination()(IRModule.from_expr(relay.Function([x], body)))["main"].body is x


def test_calls_of_functions_are_dead_on_request() -> None:
    x, a, f, y = relay.var("x", shape=(4,)), relay.var("a"), relay.var("f"), relay.var("y", shape=(4,))
    body = relay.Let(f, relay.Function([y], relay.tanh(y)), relay.Let(a, relay.Call(f, [x]), x))
    mod = IRModule.from_expr(relay.Function([x], body))
    assert isinstance(transform.DeadCodeElimination()(mod)["main"].body, relay.Let)
    assert transform.DeadCodeElimination(ignore_impurity=True)(mod)["main"].body is x


def test_values_used_once_are_inlined_on_request() -> None:
    x, a, b, r = relay.var("x", shape=(4,)), relay.var("a"), relay.var("b"), relay.var("r")
    body = relay.Let(a, relay.tanh(x), relay.Let(r, relay.RefCreate(x), relay.Let(b, relay.RefRead(r), a + b)))
    mod = IRModule.from_expr(relay.Function([x], body))
    after = transform.DeadCodeElimination(inline_once=True)(mod)["main"].body
    # What reads or makes references stays in its order.
    assert isinstance(after, relay.Let) and after.var is r and after.body.var is b
    assert after.body.body.args[0].op.name == "tanh"
