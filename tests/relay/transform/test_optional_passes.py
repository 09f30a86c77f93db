"""Passes outside of the default pipeline: the same values before and after on random graphs, and the forms they are known to make."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.relay.random_graphs import Generator, assert_same, evaluate
from tilewright import relay
from tilewright.ir import IRModule
from tilewright.ir.instrument import PassVerifier
from tilewright.ir.transform import PassContext, Sequential
from tilewright.node import assert_structural_equal
from tilewright.relay import transform
from tilewright.relay.analysis import list_op_freqs
from tilewright.support.errors import TVMError

NHWC = {"nn.conv2d": ["NHWC", "default"], "nn.max_pool2d": ["NHWC"]}
PASSES: dict[str, Callable[[], transform.Pass]] = {
    "BackwardFoldScaleAxis": transform.BackwardFoldScaleAxis,
    "BatchingOps": transform.BatchingOps,
    "CanonicalizeCast": transform.CanonicalizeCast,
    "CapturePostDfsIndexInSpans": transform.CapturePostDfsIndexInSpans,
    "CombineParallelBatchMatmul": lambda: transform.CombineParallelBatchMatmul(2),
    "CombineParallelConv2D": lambda: transform.CombineParallelConv2D(2),
    "CombineParallelDense": lambda: transform.CombineParallelDense(2),
    "CombineParallelDense flat": lambda: transform.CombineParallelDense(2, to_batch=False),
    "ConvertLayout": lambda: transform.ConvertLayout(NHWC),
    "DefuseOps": lambda: Sequential([transform.FuseOps(), transform.DefuseOps()]),
    "DivToMul": transform.DivToMul,
    "FastMath": transform.FastMath,
    "FlattenAtrousConv": transform.FlattenAtrousConv,
    "FoldExplicitPadding": transform.FoldExplicitPadding,
    "ForwardFoldScaleAxis": transform.ForwardFoldScaleAxis,
    "LabelOps": lambda: Sequential([transform.FuseOps(), transform.LabelOps()]),
    "LazyGradientInit": transform.LazyGradientInit,
    "Legalize": transform.Legalize,
    "SimplifyExprPostAlterOp": transform.SimplifyExprPostAlterOp,
    "SplitArgs": lambda: transform.SplitArgs(2),
    "ToBasicBlockNormalForm": transform.ToBasicBlockNormalForm,
}


@pytest.mark.parametrize("seed", range(300, 306))
@pytest.mark.parametrize("name", PASSES)
def test_pass_keeps_values(name: str, seed: int) -> None:
    g = Generator(seed, 16)
    mod, inputs = g.module(), g.inputs()
    before = transform.SimplifyInference()(mod) if "FoldScaleAxis" in name else mod
    with PassContext(opt_level=4, instruments=[PassVerifier()]):
        after = PASSES[name]()(before)
    assert_same(evaluate(after, inputs), evaluate(mod, inputs))


def test_spans_are_places_in_the_text() -> None:
    g = Generator(7)
    mod, inputs = g.module(), g.inputs()
    after = transform.AnnotateSpans()(mod)
    assert_structural_equal(after, mod)
    assert_same(evaluate(after, inputs), evaluate(mod, inputs))
    calls = [e for e in relay.analysis.post_order(after["main"]) if isinstance(e, relay.Call)]
    assert calls and all([c.span is not None for c in calls])


def run(made: transform.Pass, *exprs: Any) -> Any:
    """The body of main after a pass."""
    body = exprs[0] if len(exprs) == 1 else relay.Tuple(exprs)
    with PassContext(opt_level=4, instruments=[PassVerifier()]):
        function = made(IRModule.from_expr(body))["main"]
    assert isinstance(function, relay.Function)
    return function.body


def checked(made: transform.Pass, *exprs: Any) -> dict[str, int]:
    """How often each operator is called after the pass, which must not have changed the values."""
    body = exprs[0] if len(exprs) == 1 else relay.Tuple(exprs)
    mod = transform.InferType()(IRModule.from_expr(body))
    with PassContext(opt_level=4, instruments=[PassVerifier()]):
        after = made(mod)
    rng = np.random.default_rng(0)
    inputs = [
        rng.standard_normal(p.checked_type.concrete_shape).astype(p.checked_type.dtype) for p in mod["main"].params
    ]
    assert_same(evaluate(after, inputs), evaluate(mod, inputs))
    return list_op_freqs(after)


def values(*shape: int, seed: int = 0) -> relay.Constant:
    return relay.const(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


# --- joining what runs side by side


def test_convolutions_of_the_same_data_become_one() -> None:
    x = relay.var("x", shape=(1, 4, 8, 8))
    branches = [relay.nn.conv2d(x, values(n, 4, 3, 3, seed=n), padding=(1, 1)) for n in (2, 3, 5)]
    branches = [relay.nn.relu(b + values(n, 1, 1, seed=9 + n)) for b, n in zip(branches, (2, 3, 5), strict=True)]
    got = checked(transform.CombineParallelConv2D(), *branches)
    assert got == {"nn.conv2d": 1, "add": 1, "nn.relu": 1, "strided_slice": 3}
    assert checked(transform.CombineParallelConv2D(4), *branches)["nn.conv2d"] == 3


def test_other_kernels_strides_and_groups_stay_apart() -> None:
    x = relay.var("x", shape=(1, 4, 8, 8))
    apart = [
        relay.nn.conv2d(x, values(4, 4, 3, 3), padding=(1, 1)),
        relay.nn.conv2d(x, values(4, 4, 1, 1)),
        relay.nn.conv2d(x, values(4, 4, 3, 3), padding=(1, 1), strides=(2, 2)),
        relay.nn.conv2d(x, values(4, 1, 3, 3), padding=(1, 1), groups=4),
    ]
    assert checked(transform.CombineParallelConv2D(2), *apart)["nn.conv2d"] == 4


def test_a_branch_that_needs_another_is_not_joined_with_it() -> None:
    x = relay.var("x", shape=(1, 4, 4, 4))
    w = values(4, 4, 1, 1)
    a = relay.nn.conv2d(x, w)
    b = relay.nn.conv2d(x, w + relay.mean(a, axis=[0, 1, 2, 3]))
    c = relay.nn.conv2d(x, values(4, 4, 1, 1, seed=1))
    assert checked(transform.CombineParallelConv2D(2), a, b, c)["nn.conv2d"] == 2
    # What follows may need another branch too: it is left out of what is joined.
    assert checked(transform.CombineParallelConv2D(2), a + c, c + a)["nn.conv2d"] == 1


def test_dense_layers_become_one_batch_or_one_wide_layer() -> None:
    x = relay.var("x", shape=(5, 8))
    layers = [relay.nn.relu(relay.nn.dense(x, values(6, 8, seed=i)) + values(6, seed=9 + i)) for i in range(3)]
    batched = checked(transform.CombineParallelDense(), *layers)
    assert batched["nn.batch_matmul"] == 1 and "nn.dense" not in batched and batched["nn.relu"] == 1
    wide = checked(transform.CombineParallelDense(to_batch=False), *layers)
    assert wide == {"nn.dense": 1, "add": 1, "nn.relu": 1, "strided_slice": 3}
    uneven = [relay.nn.dense(x, values(n, 8)) for n in (3, 4, 6)]
    assert checked(transform.CombineParallelDense(), *uneven)["nn.dense"] == 3
    assert checked(transform.CombineParallelDense(to_batch=False), *uneven)["nn.dense"] == 1


@pytest.mark.parametrize("transpose_b", [True, False])
def test_batched_products_become_one(transpose_b: bool) -> None:
    x = relay.var("x", shape=(2, 5, 8))
    sides = [values(2, *((n, 8) if transpose_b else (8, n)), seed=n) for n in (3, 4, 6)]
    products = [relay.nn.batch_matmul(x, y, transpose_b=transpose_b) for y in sides]
    got = checked(transform.CombineParallelBatchMatmul(), *products)
    assert got == {"nn.batch_matmul": 1, "strided_slice": 3}


# --- layouts


def test_a_network_runs_in_another_layout_from_end_to_end() -> None:
    x = relay.var("x", shape=(1, 4, 8, 8))
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, values(6, 4, 3, 3), padding=(1, 1)), values(6)))
    y = relay.nn.max_pool2d(y, (2, 2), (2, 2))
    y = relay.nn.batch_norm(y, values(6), values(6), values(6), relay.const(np.full(6, 2, "float32")))[0]
    y = relay.nn.conv2d(y * values(6, 1, 1), values(6, 1, 3, 3), groups=6)
    y = relay.concatenate([y, relay.nn.pad(y, ((0, 0), (0, 0), (0, 0), (0, 0)))], axis=1)
    got = checked(transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]}), relay.mean(y, axis=[2, 3]))
    # Data, two weights, and the factors of the channels.
    assert got["layout_transform"] == 4
    body = run(transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]}), relay.mean(y, axis=[2, 3]))
    convs = [e for e in relay.analysis.post_order(body) if isinstance(e, relay.Call) and e.op.name == "nn.conv2d"]
    assert [(c.attrs.data_layout, c.attrs.kernel_layout) for c in convs] == [("NHWC", "HWIO"), ("NHWC", "HWOI")]


def test_results_keep_their_layout() -> None:
    x = relay.var("x", shape=(1, 4, 8, 8))
    y = relay.nn.conv2d(x, values(6, 4, 3, 3))
    got = run(transform.ConvertLayout({"nn.conv2d": ["NHWC", "OHWI"]}), y)
    assert got.op.name == "layout_transform"
    assert (got.attrs.src_layout, got.attrs.dst_layout) == ("NHWC", "NCHW")
    assert got.args[0].attrs.kernel_layout == "OHWI"


def test_tuples_and_splits_follow() -> None:
    x = relay.var("x", shape=(1, 4, 8, 8))
    y = relay.nn.conv2d(x, values(6, 4, 3, 3))
    parts = relay.split(y, 2, axis=1)
    convert = transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})
    assert checked(convert, parts[0] + parts[1], parts[1])["split"] == 1
    # The tuple itself has the parts as they were.
    body = run(convert, parts.tuple_value)
    assert [f.op.name for f in body.fields] == ["layout_transform", "layout_transform"]


def test_layers_can_be_skipped() -> None:
    x = relay.var("x", shape=(1, 4, 8, 8))
    y = relay.nn.conv2d(relay.nn.conv2d(x, values(4, 4, 3, 3)), values(4, 4, 3, 3))
    with transform.LayoutConfig(skip_layers=[0]):
        body = run(transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]}), y)
    convs = [e for e in relay.analysis.post_order(body) if isinstance(e, relay.Call) and e.op.name == "nn.conv2d"]
    assert [c.attrs.data_layout for c in convs] == ["NCHW", "NHWC"]


def test_wishes_that_cannot_be() -> None:
    with pytest.raises(TVMError, match=r"ConvertLayout: tanh has no layout to choose; those that have: nn.conv1d"):
        transform.ConvertLayout({"tanh": ["NHWC"]})
    with pytest.raises(TypeError, match="ConvertLayout takes layouts by operator"):
        transform.ConvertLayout("NHWC")  # type: ignore[arg-type]
    x = relay.var("x", shape=(1, 4, 8, 8))
    with pytest.raises(TVMError, match="nn.conv2d has the layout NCHW, which cannot become NCDHW"):
        run(transform.ConvertLayout({"nn.conv2d": ["NCDHW", "default"]}), relay.nn.conv2d(x, values(4, 4, 3, 3)))


def test_programs_leave_operators_as_they_are() -> None:
    x = relay.var("x", shape=(1, 4, 8, 8))
    relay.op.register_convert_op_layout("nn.lrn", lambda attrs, inputs, types, wanted: None)
    try:
        assert_structural_equal(run(transform.ConvertLayout({"nn.lrn": ["NHWC"]}), relay.nn.lrn(x)), relay.nn.lrn(x))
    finally:
        relay.op.find_card("nn.lrn").op.set_attr("FTVMConvertOpLayout", None)


def test_programs_convert_operators_of_their_own() -> None:
    x = relay.var("x", shape=(1, 4, 8, 8))
    relay.op.register_convert_op_layout(
        "nn.lrn", lambda attrs, inputs, types, wanted: relay.nn.relu(inputs[0]), level=11
    )
    try:
        assert_structural_equal(run(transform.ConvertLayout({"nn.lrn": ["NHWC"]}), relay.nn.lrn(x)), relay.nn.relu(x))
    finally:
        relay.op.find_card("nn.lrn").op.set_attr("FTVMConvertOpLayout", None)


# --- precision


def test_heavy_operators_compute_on_narrow_floats() -> None:
    x = relay.var("x", shape=(2, 8))
    y = relay.nn.softmax(relay.nn.relu(relay.nn.dense(x, values(6, 8)) + values(6)))
    body = run(transform.ToMixedPrecision("float16"), y)
    dtypes = {
        e.op.name: str(e.checked_type.dtype) for e in relay.analysis.post_order(body) if isinstance(e, relay.Call)
    }
    assert dtypes["nn.dense"] == "float32"  # it accumulates in float32 ...
    assert dtypes["add"] == dtypes["nn.relu"] == "float16"  # ... and what follows is narrow,
    assert dtypes["nn.softmax"] == "float32"  # but not what needs the range
    data = np.random.default_rng(0).standard_normal((2, 8)).astype("float32")
    before = evaluate(IRModule.from_expr(y), [data])
    after = evaluate(IRModule.from_expr(relay.Function([x], body)), [data])
    np.testing.assert_allclose(after[0], before[0], rtol=2e-2, atol=2e-3)


def test_results_keep_their_type_on_request() -> None:
    x = relay.var("x", shape=(2, 8))
    y = relay.nn.relu(relay.nn.dense(x, values(6, 8)))
    assert str(run(transform.ToMixedPrecision(), y).checked_type.dtype) == "float16"
    with PassContext(config={"relay.ToMixedPrecision.keep_orig_output_dtype": True}):
        got = transform.ToMixedPrecision()(IRModule.from_expr(y))["main"]
    assert str(got.body.checked_type.dtype) == "float32"


@pytest.mark.parametrize("seed", range(400, 406))
def test_mixed_precision_stays_near(seed: int) -> None:
    g = Generator(seed, 10)
    mod, inputs = g.module(), g.inputs()
    config = {"relay.ToMixedPrecision.keep_orig_output_dtype": True}
    with PassContext(instruments=[PassVerifier()], config=config):
        after = transform.ToMixedPrecision("float16", 2)(mod)
    for got, want in zip(evaluate(after, inputs), evaluate(mod, inputs), strict=True):
        assert got.dtype == want.dtype
        scale = max(1.0, float(np.abs(want).max()))
        np.testing.assert_allclose(got / scale, want / scale, atol=5e-2)


def test_operators_of_no_category() -> None:
    x = relay.var("x", shape=(2, 8))
    y = relay.sort(relay.nn.dense(x, values(6, 8)))
    text = "operators of no category are kept in their types: sort; say one with relay.op.register_mixed_precision_conversion"
    with pytest.raises(TVMError, match=text):
        run(transform.ToMixedPrecision(missing_op_mode=0), y)
    with pytest.warns(UserWarning, match=text):
        run(transform.ToMixedPrecision(missing_op_mode=1), y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(transform.ToMixedPrecision(missing_op_mode=2), y)
    with pytest.raises(ValueError, match="missing_op_mode must be 0"):
        transform.ToMixedPrecision(missing_op_mode=3)


def test_if_and_let_keep_their_types() -> None:
    x, p, v = relay.var("x", shape=(2, 8)), relay.var("p", "bool"), relay.var("v", shape=(2, 6))
    dense = relay.nn.dense(x, values(6, 8))
    body = relay.Let(v, relay.nn.relu(dense), relay.If(p, relay.tanh(v), v))
    mod = IRModule.from_expr(relay.Function([x, p], body))
    with PassContext(instruments=[PassVerifier()]):
        after = transform.ToMixedPrecision()(mod)
    assert list_op_freqs(after)["cast"] >= 2


def test_recast() -> None:
    x = relay.var("x", shape=(1, 4, 8, 8))
    y = relay.nn.conv2d(relay.nn.relu(relay.nn.conv2d(x, values(4, 4, 3, 3))), values(4, 4, 3, 3))
    got = transform.recast(relay.Function([x], y), "float16", "float32", skip_layers=[-1])
    convs = [e for e in relay.analysis.post_order(got) if isinstance(e, relay.Call) and e.op.name == "nn.conv2d"]
    assert [str(c.args[0].checked_type.dtype) for c in convs] == ["float16", "float32"]
    assert str(got.body.checked_type.dtype) == "float32"


def test_another_batch() -> None:
    x = relay.var("x", shape=(1, 4, 8, 8))
    mod = IRModule.from_expr(relay.nn.relu(relay.nn.conv2d(x, values(4, 4, 3, 3))))
    after = transform.InferType()(transform.ChangeBatch({x: 0}, 16)(mod))
    assert after["main"].body.checked_type.concrete_shape == (16, 4, 6, 6)
    with pytest.raises(TVMError, match="%x has no axis 7"):
        transform.ChangeBatch({x: 7})(mod)


# --- small rewrites


def test_casts_go_to_their_users() -> None:
    x = relay.var("x", shape=(4,), dtype="int8")
    wide = relay.cast(x, "float32")
    body = run(transform.CanonicalizeCast(), relay.tanh(wide), relay.exp(wide))
    assert body.fields[0].args[0] is not body.fields[1].args[0]
    assert checked(transform.CanonicalizeCast(), relay.tanh(wide), relay.exp(wide))["cast"] == 2
    narrow = relay.cast(relay.var("y", shape=(4,)), "int8")
    got = run(transform.CanonicalizeCast(), narrow + narrow, relay.negative(narrow))
    assert list_op_freqs(IRModule.from_expr(got))["cast"] == 1


def test_dilated_convolutions_are_found_again() -> None:
    x = relay.var("x", shape=(1, 9, 9, 4))
    w = values(3, 3, 4, 5)
    spread = relay.nn.space_to_batch_nd(x, [2, 2], [[2, 3], [2, 3]])
    conv = relay.nn.conv2d(spread, w, data_layout="NHWC", kernel_layout="HWIO")
    y = relay.nn.batch_to_space_nd(conv, [2, 2], [[0, 1], [0, 1]])
    want = relay.nn.conv2d(x, w, padding=(2, 2, 2, 2), dilation=(2, 2), data_layout="NHWC", kernel_layout="HWIO")
    assert_structural_equal(run(transform.FlattenAtrousConv(), y), want)
    assert checked(transform.FlattenAtrousConv(), y) == {"nn.conv2d": 1}


def test_padding_becomes_that_of_the_operator() -> None:
    x = relay.var("x", shape=(1, 4, 8, 8))
    wide = ((0, 0), (0, 0), (1, 2), (0, 1))
    fold = transform.FoldExplicitPadding()
    conv = relay.nn.conv2d(relay.nn.pad(x, wide, 0.0), values(4, 4, 3, 3), padding=(1, 1))
    assert_structural_equal(run(fold, conv), relay.nn.conv2d(x, conv.args[1], padding=(2, 1, 3, 2)))
    pool = relay.nn.max_pool2d(relay.nn.pad(x, wide, float("-inf")), (2, 2))
    assert_structural_equal(run(fold, pool), relay.nn.max_pool2d(x, (2, 2), padding=(1, 0, 2, 1)))
    assert checked(fold, relay.nn.avg_pool2d(relay.nn.pad(x, wide, 0.0), (2, 2))) == {"nn.avg_pool2d": 1}
    for kept in (
        relay.nn.max_pool2d(relay.nn.pad(x, wide, 0.0), (2, 2)),
        relay.nn.conv2d(relay.nn.pad(x, wide, 1.0), values(4, 4, 3, 3)),
        relay.nn.avg_pool2d(relay.nn.pad(x, wide, 0.0), (2, 2), padding=(1, 1)),
    ):
        assert checked(fold, kept)["nn.pad"] == 1


def test_division_by_constants() -> None:
    x = relay.var("x", shape=(4,))
    got = run(transform.DivToMul(), x / relay.const(np.array([2, 4, 8, 0.5], "float32")))
    assert_structural_equal(got, x * relay.const(np.array([0.5, 0.25, 0.125, 2], "float32")))
    zero = x / relay.const(np.zeros(4, "float32"))
    assert_structural_equal(run(transform.DivToMul(), zero), zero)


def test_transposed_weights_are_given_transposed() -> None:
    x, w = relay.var("x", shape=(2, 8)), relay.var("w", shape=(8, 6))
    mod = IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, relay.transpose(w, [1, 0]))))
    after = transform.SimplifyFCTranspose(["w"])(mod)["main"]
    assert [p.name_hint for p in after.params] == ["x", "w.T"]
    assert after.params[1].checked_type.concrete_shape == (6, 8)
    assert_structural_equal(after.body, relay.nn.dense(after.params[0], after.params[1]), map_free_vars=True)


def test_layouts_after_layouts() -> None:
    x = relay.var("x", shape=(1, 16, 4, 4))
    once = relay.layout_transform(relay.layout_transform(x, "NCHW", "NHWC"), "NHWC", "NCHW8c")
    assert_structural_equal(run(transform.SimplifyExprPostAlterOp(), once), relay.layout_transform(x, "NCHW", "NCHW8c"))
    back = relay.layout_transform(relay.layout_transform(x, "NCHW", "NHWC"), "NHWC", "NCHW")
    assert run(transform.SimplifyExprPostAlterOp(), back) is x


def test_adjoints_begin_with_what_is_added() -> None:
    x = relay.var("x", shape=(2, 4))
    zeros, ones = relay.zeros_like(x), relay.ones((2, 4), "float32")
    assert run(transform.LazyGradientInit(), (zeros + x * ones) - relay.zeros((4,), "float32")) is x
    assert checked(transform.LazyGradientInit(), relay.reshape(zeros * x, (8,))) == {"zeros": 1}
    wider = relay.var("y", shape=(4,)) + zeros
    assert checked(transform.LazyGradientInit(), wider)["add"] == 1
    loss = relay.Function([x], relay.sum(relay.tanh(x) * relay.tanh(x)))
    mod = transform.InferType()(
        IRModule.from_expr(
            transform.gradient(transform.InferType()(IRModule.from_expr(loss))["main"], mode="first_order")
        )
    )
    after = transform.LazyGradientInit()(mod)
    data = [np.random.default_rng(0).standard_normal((2, 4)).astype("float32")]
    flat = [
        relay.Function(m["main"].params, relay.TupleGetItem(relay.TupleGetItem(m["main"].body, 1), 0))
        for m in (mod, after)
    ]
    assert_same(evaluate(IRModule.from_expr(flat[1]), data), evaluate(IRModule.from_expr(flat[0]), data))


def test_fast_forms() -> None:
    x = relay.var("x", shape=(2, 4))
    got = checked(transform.FastMath(), relay.nn.softmax(relay.exp(relay.tanh(relay.erf(x))), axis=0))
    assert got == {"fast_erf": 1, "fast_tanh": 1, "fast_exp": 1, "nn.fast_softmax": 1}
    with PassContext(opt_level=3):
        assert "exp" in list_op_freqs(Sequential([transform.FastMath()])(IRModule.from_expr(relay.exp(x))))


def test_many_operands_are_split() -> None:
    parts = [relay.var(f"x{i}", shape=(2, 2)) for i in range(7)]
    got = checked(transform.SplitArgs(3), relay.concatenate(parts, axis=0))
    assert got == {"concatenate": 3, "annotation.stop_fusion": 3}
    fused = transform.FuseOps()(transform.SplitArgs(3)(IRModule.from_expr(relay.concatenate(parts, axis=0))))
    kernels = [
        e
        for e in relay.analysis.post_order(fused["main"])
        if isinstance(e, relay.Call) and isinstance(e.op, relay.Function)
    ]
    assert max([len(k.args) for k in kernels]) <= 3
    assert checked(transform.SplitArgs(0), relay.concatenate(parts, axis=0)) == {"concatenate": 1}


def test_legal_forms_are_a_programs_own() -> None:
    x = relay.var("x", shape=(4,))
    seen: list[int] = []

    @relay.op.register_legalize("nn.leaky_relu", level=11)
    def legal(attrs: Any, inputs: Any, types: Any) -> Any:
        seen.append(len(types))
        return relay.maximum(inputs[0], inputs[0] * relay.const(attrs.alpha))

    relay.op.register_legalize("tanh", lambda attrs, inputs, types: relay.tanh(inputs[0]), level=11)
    try:
        body = run(transform.Legalize(), relay.tanh(relay.nn.leaky_relu(x, 0.25)))
    finally:
        for name in ("nn.leaky_relu", "tanh"):
            relay.op.find_card(name).op.set_attr("FTVMLegalize", None)
    assert_structural_equal(body, relay.tanh(relay.maximum(x, x * relay.const(0.25))))
    assert seen == [2]


def test_layouts_of_a_programs_own() -> None:
    x = relay.var("x", shape=(1, 4, 8, 8))

    @relay.op.register_alter_op_layout("nn.relu", level=11)
    def alter(attrs: Any, inputs: Any, types: Any, out_type: Any) -> Any:
        return relay.maximum(inputs[0], relay.const(0.0))

    try:
        assert run(transform.AlterOpLayout(), relay.nn.relu(x)).op.name == "maximum"
    finally:
        relay.op.find_card("nn.relu").op.set_attr("FTVMAlterOpLayout", None)


def test_constructors_and_names_become_functions() -> None:
    mod = relay.fromtext("""#[version = "0.0.5"]
    type Box[A] { Full(A), Empty }
    def @double(%x: Tensor[(), float32]) -> Tensor[(), float32] { add(%x, %x) }
    def @main(%x: Tensor[(), float32]) {
      (Full, @double)
    }
    """)
    assert isinstance(mod, IRModule)
    plain = transform.EtaExpand()(mod)["main"].body
    assert not isinstance(plain.fields[0], relay.Function)
    both = transform.EtaExpand(expand_constructor=True, expand_global_var=True)(mod)["main"].body
    assert [isinstance(f, relay.Function) and isinstance(f.body, relay.Call) for f in both.fields] == [True, True]
    assert both.fields[0].type_params[0] not in mod.type_definitions[mod.get_global_type_var("Box")].type_vars


def test_fused_functions_come_apart() -> None:
    x = relay.var("x", shape=(4,))
    mod = transform.InferType()(IRModule.from_expr(relay.exp(relay.tanh(x)) + x))
    assert_structural_equal(transform.DefuseOps()(transform.FuseOps()(mod)), mod)


def test_kernels_get_labels() -> None:
    x = relay.var("x", shape=(4,))
    mod = IRModule.from_expr(relay.Tuple([relay.sort(relay.sort(x)), relay.tanh(x)]))
    fused = transform.LabelOps()(transform.FuseOps()(mod))["main"]
    labels = [
        e.op.attrs["hash"]
        for e in relay.analysis.post_order(fused)
        if isinstance(e, relay.Call) and isinstance(e.op, relay.Function)
    ]
    assert len(labels) == 3 and len(set(labels)) == 2


def test_used_memory() -> None:
    x = relay.var("x", shape=(16,))
    mod = transform.FuseOps()(IRModule.from_expr(relay.sort(relay.concatenate([relay.sort(x), x], axis=0))))
    after = transform.AnnotateUsedMemory()(transform.ToANormalForm()(mod))["main"]
    used = []
    body = after.body
    while isinstance(body, relay.Let):
        used.append(int(body.value.op.attrs["used_memory"][0]))
        body = body.body
    # x and its sort; those and both together; and both together and sorted.
    assert used == [128, 256, 256]
    with pytest.raises(TVMError, match="AnnotateUsedMemory counts bytes of fixed sizes only"):
        transform.AnnotateUsedMemory()(
            transform.ToANormalForm()(IRModule.from_expr(relay.exp(relay.var("x", shape=(relay.Any(),)))))
        )


def test_indices_and_dominators() -> None:
    x = relay.var("x", shape=(4,))
    a = relay.tanh(x)
    body = transform.CapturePostDfsIndexInSpans()(IRModule.from_expr(relay.exp(a) + relay.log(a)))["main"].body
    names = {e.op.name: e.span.source_name.name for e in relay.analysis.post_order(body) if isinstance(e, relay.Call)}
    assert names == {"tanh": "index:1:4", "exp": "index:2:4", "log": "index:3:4", "add": "index:4:5"}


def test_blocks_share_by_let() -> None:
    x, p = relay.var("x", shape=(4,)), relay.var("p", "bool")
    shared = relay.tanh(x)
    mod = IRModule.from_expr(relay.Function([x, p], relay.If(p, relay.exp(shared), shared + relay.log(shared))))
    assert not relay.analysis.check_basic_block_normal_form(mod["main"])
    after = transform.ToBasicBlockNormalForm()(mod)["main"]
    assert relay.analysis.check_basic_block_normal_form(after)
    assert isinstance(after.body, relay.Let) and isinstance(after.body.body, relay.If)
    assert relay.analysis.well_formed(after)
    data = [np.ones(4, "float32"), np.array(False)]
    assert_same(evaluate(IRModule.from_expr(after), data), evaluate(mod, data))


def test_what_needs_a_let_stays_below_it() -> None:
    x, p, v = relay.var("x", shape=(4,)), relay.var("p", "bool"), relay.var("v")
    shared = relay.tanh(v)
    body = relay.Let(v, relay.exp(x), relay.If(p, relay.exp(shared), shared))
    after = transform.ToBasicBlockNormalForm()(IRModule.from_expr(relay.Function([x, p], body)))
    assert relay.analysis.well_formed(after, report=True)
    assert relay.analysis.check_basic_block_normal_form(after["main"])


@pytest.mark.parametrize("auto_pad", [False, True])
def test_sizes_are_dispatched(auto_pad: bool) -> None:
    x = relay.var("x", shape=(relay.Any(), 8))
    w = values(6, 8)
    mod = IRModule.from_expr(relay.Function([x], relay.nn.relu(relay.nn.dense(x, w))))
    after = transform.FlexibleShapeDispatch([2, 4], auto_pad=auto_pad)(mod)
    assert {g.name_hint for g in after.functions} == {"main", "main_2", "main_4", "main_dynamic"}
    assert after["main_4"].body.checked_type.concrete_shape == (4, 6)
    for n in (1, 2, 3, 4, 7):
        data = np.random.default_rng(n).standard_normal((n, 8)).astype("float32")
        assert_same(evaluate(after, [data]), [np.maximum(data @ w.value.T, 0)])


@pytest.mark.parametrize("seed", range(320, 326))
def test_layouts_there_and_back(seed: int) -> None:
    g = Generator(seed, 16)
    mod, inputs = g.module(), g.inputs()
    there, back = (
        transform.ConvertLayout(NHWC),
        transform.ConvertLayout({"nn.conv2d": ["NCHW", "default"], "nn.max_pool2d": ["NCHW"]}),
    )
    with PassContext(opt_level=4, instruments=[PassVerifier()]):
        after = Sequential([there, back, transform.SimplifyExprPostAlterOp(), transform.FoldConstant()])(mod)
    assert_same(evaluate(after, inputs), evaluate(mod, inputs))
    assert list_op_freqs(after).get("layout_transform", 0) == 0


ANY_ORDER: dict[str, Callable[[], transform.Pass]] = {
    **{name: made for name, made in PASSES.items() if name not in ("LabelOps", "DefuseOps")},
    **{
        name: getattr(transform, name)
        for name in (
            "AlterOpLayout", "AnnotateSpans", "CanonicalizeOps", "DeadCodeElimination", "DynamicToStatic", "EliminateCommonSubexpr",
            "EtaExpand", "FoldConstant", "FoldScaleAxis", "Inline", "LambdaLift", "PackDense", "PartialEvaluate", "SimplifyExpr",
            "SimplifyInference", "ToANormalForm", "ToGraphNormalForm",
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("seed", range(600, 630))
def test_passes_in_any_order(seed: int) -> None:
    g = Generator(seed, 12)
    mod, inputs = g.module(), g.inputs()
    names = g.rng.choice(list(ANY_ORDER), int(g.rng.integers(2, 8)))
    tail = [transform.FuseOps(), transform.LabelOps(), transform.ToANormalForm()][: int(g.rng.integers(0, 4))]
    with PassContext(opt_level=4, instruments=[PassVerifier()]):
        after = Sequential([*[ANY_ORDER[str(n)]() for n in names], *tail])(mod)
    assert_same(evaluate(after, inputs), evaluate(mod, inputs))
