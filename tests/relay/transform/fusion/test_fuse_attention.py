"""Attention as one operator: which programs it is found in, that it computes the same, and that scores are never in memory as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, tir
from tilewright.contrib import graph_executor
from tilewright.relay import transform
from tilewright.relay.functor import post_order
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.target import Target

SMALL = "llvm -l2-cache-bytes=4096"
"""A machine whose second cache scores of small tests fill."""


def operators(mod: Any) -> list[str]:
    return [e.op.name for e in post_order(mod["main"].body) if isinstance(e, relay.Call) and hasattr(e.op, "name")]


def fused(body: relay.Expr, target: str = SMALL) -> Any:
    with Target(target):
        return transform.FuseAttention()(transform.InferType()(tvm.IRModule.from_expr(body)))


def attention(
    heads: tuple[int, ...], n: int, m: int, d: int, e: int, *, scale: float | None = 0.5, mask: tuple[int, ...] | None = None,
    transposed: bool = True, zero_rows: bool = False, divided: bool = False,
) -> relay.Expr:  # fmt: skip
    """Over variables q, k, v and mask."""
    q, v = relay.var("q", shape=(*heads, n, d)), relay.var("v", shape=(*heads, m, e))
    k = relay.var("k", shape=(*heads, m, d) if transposed else (*heads, d, m))
    s = relay.nn.batch_matmul(q, k, transpose_b=transposed)
    if scale is not None:
        s = s / relay.const(1 / scale) if divided else s * relay.const(scale)
    if mask is not None:
        s = s + relay.var("mask", shape=mask)
    p = relay.nn.softmax(s)
    if zero_rows:
        p = relay.where(relay.isnan(p), relay.const(0.0), p)
    return relay.nn.batch_matmul(p, v, transpose_b=False)


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"scale": None},
        {"divided": True},
        {"mask": (1, 1, 1, 50)},
        {"mask": (2, 1, 40, 50), "zero_rows": True},
        {"mask": (40, 50), "transposed": False},
        {"zero_rows": True},
    ],
)
def test_forms(form: dict[str, Any]) -> None:
    body = attention((2, 3), 40, 50, 8, 12, **form)
    found = operators(fused(body))
    assert found == ["nn.contrib_attention"], found
    assert "nn.contrib_attention" not in operators(fused(body, "llvm -l2-cache-bytes=1048576"))
    assert "nn.contrib_attention" not in operators(transform.FuseAttention()(tvm.IRModule.from_expr(body)))


def test_what_is_read_elsewhere_stays() -> None:
    """Weights or scores that something else reads, a softmax along another axis, a mask that makes the scores larger, scores that are
    divided by zero."""
    q, k, v = (relay.var(name, shape=(2, 40, 40)) for name in "qkv")
    s = relay.nn.batch_matmul(q, k)
    p = relay.nn.softmax(s)
    by = lambda weights: relay.nn.batch_matmul(weights, v, transpose_b=False)  # noqa: E731
    for body in (
        relay.Tuple([by(p), p]),
        relay.Tuple([by(p), s]),
        by(relay.nn.softmax(s, axis=1)),
        by(relay.nn.softmax(relay.squeeze(s + relay.var("mask", shape=(1, 2, 40, 40)), [0]))),
        by(relay.nn.softmax(relay.tanh(s))),
        by(relay.nn.softmax(s / relay.const(0.0))),
        by(relay.where(relay.isnan(p), relay.const(1.0), p)),
        relay.nn.batch_matmul(p, v),
    ):
        assert "nn.contrib_attention" not in operators(fused(body))


@pytest.mark.parametrize("form", ["hidden", "shown", "nan"])
def test_rows_that_a_condition_leaves_without_weights(form: str) -> None:
    """ONNX's form (the mask tells rows without keys) and PyTorch's: such rows give 0, also where scores are NaN. It stays in others."""
    q, k, v = (relay.var(name, shape=(2, 3, n, 8)) for name, n in (("q", 40), ("k", 50), ("v", 50)))
    mask = relay.var("mask", shape=(2, 1, 40, 50))
    p = relay.nn.softmax(relay.nn.batch_matmul(q * relay.const(0.5), k) + mask)
    if form == "nan":
        p = relay.where(relay.isnan(p), relay.const(0.0), p)
    rows, low, zero = relay.max(mask, axis=[-1], keepdims=True), relay.const(np.float32("-inf")), relay.const(0.0)
    shares = (
        relay.where(relay.greater(rows, low), p, zero)
        if form == "shown"
        else relay.where(relay.equal(rows, low), zero, p)
    )
    body = relay.nn.batch_matmul(shares, v, transpose_b=False)
    assert operators(fused(body)).count("nn.contrib_attention") == 1
    given = inputs(body, 0)
    given["mask"][0, 0, 7:9] = -np.inf
    given["q"][0, :, 8:10, 3] = np.nan
    scores = (0.5 * given["q"]) @ given["k"].swapaxes(-1, -2) + given["mask"]
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights = weights / weights.sum(-1, keepdims=True)
    weights[0, :, 7:9] = 0
    assert np.isnan(weights[0, :, 9]).all()
    wanted = np.nan_to_num(weights) @ given["v"] if form == "nan" else weights @ given["v"]
    np.testing.assert_allclose(run(body, given, SMALL), wanted, rtol=1e-4, atol=1e-5)


def test_conditions_on_single_weights_stay() -> None:
    q, v = relay.var("q", shape=(2, 40, 8)), relay.var("v", shape=(2, 50, 8))
    p = relay.nn.softmax(relay.nn.batch_matmul(q, v))
    for shape in ((2, 40, 50), (50,)):
        dropped = relay.where(relay.var("dropped", shape=shape, dtype="bool"), relay.const(0.0), p)
        assert "nn.contrib_attention" not in operators(fused(relay.nn.batch_matmul(dropped, v, transpose_b=False)))


def inputs(body: relay.Expr, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {v.name_hint: [int(n) for n in v.type_annotation.shape] for v in relay.analysis.free_vars(body)}  # type: ignore[attr-defined]
    given = {name: rng.standard_normal(shape).astype("float32") for name, shape in shapes.items()}
    if "mask" in given:
        given["mask"] = np.where(rng.random(shapes["mask"]) < 0.3, np.float32("-inf"), np.float32(0))
        given["mask"][..., 0] = 0
    return given


def run(body: relay.Expr, given: dict[str, np.ndarray], target: str) -> np.ndarray:
    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(tvm.IRModule.from_expr(body), target=target)
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    for name, value in given.items():
        module.set_input(name, value)
    module.run()
    return module.get_output(0).numpy()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("seed", "cpu"),
    [
        pytest.param(seed, cpu, marks=[pytest.mark.slow] if cpu and seed > 1 else [])
        for seed in range(6)
        for cpu in ("", " -mcpu=haswell", " -mcpu=x86-64", " -num-cores=1")
    ],
)
def test_random_sizes(seed: int, cpu: str) -> None:
    """As the operators that it stands for, by the references of these; with what follows it in its kernel."""
    rng = np.random.default_rng(seed)
    n, m = (int(x) for x in rng.integers(32, 90, 2))
    d, e = (int(x) for x in rng.integers(1, 50, 2))
    mask = [None, (2, 1, 1, m), (n, m), (1, 1, n, m), (2, 3, n, m), None][seed]
    body = attention((2, 3), n, m, d, e, mask=mask, transposed=seed % 2 == 0, zero_rows=seed % 3 == 0)
    if seed % 2:
        body = relay.nn.relu(body + relay.var("more", shape=(2, 3, n, e)))
    given = inputs(body, seed)
    wanted = relay.create_executor("debug", mod=tvm.IRModule.from_expr(body)).evaluate()(**given)
    assert "nn.contrib_attention" in operators(fused(body))
    np.testing.assert_allclose(run(body, given, SMALL + cpu), wanted.numpy(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("axis", range(3))
def test_a_dynamic_mask_that_is_one_row(axis: int) -> None:
    shape: list[Any] = [2, 40, 50]
    given = inputs(attention((2,), 40, 50, 8, 5, mask=(*shape[:axis], 1, *shape[axis + 1 :])), 2)
    shape[axis] = relay.Any()
    body = attention((2,), 40, 50, 8, 5, mask=tuple(shape))
    assert "nn.contrib_attention" in operators(fused(body))
    scores = 0.5 * given["q"].astype("float64") @ given["k"].swapaxes(1, 2) + given["mask"]
    weights = np.exp(scores)
    wanted = weights @ given["v"] / weights.sum(-1, keepdims=True)
    variables = relay.analysis.free_vars(body)
    mod = tvm.IRModule.from_expr(relay.Function(variables, body))
    with tvm.transform.PassContext(opt_level=3):
        machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, SMALL), tvm.cpu())
    found = machine.run(**{name: tvm.nd.array(value) for name, value in given.items()})
    np.testing.assert_allclose(found.numpy(), wanted, rtol=2e-5, atol=2e-6)


def test_queries_of_one_element() -> None:
    """Products of nothing but one step each."""
    body = attention((2,), 33, 40, 1, 5)
    given = inputs(body, 3)
    weights = np.exp(0.5 * given["q"].astype("float64") @ given["k"].swapaxes(1, 2))
    wanted = weights @ given["v"] / weights.sum(-1, keepdims=True)
    assert "nn.contrib_attention" in operators(fused(body))
    np.testing.assert_allclose(run(body, given, SMALL), wanted, rtol=2e-5)


def test_a_single_query() -> None:
    q, v = relay.var("q", shape=(3, 1, 4)), relay.var("v", shape=(3, 41, 4))
    body = relay.op.lookup("nn.contrib_attention")(q, v, v)
    given = inputs(body, 3)
    weights = np.exp(given["q"].astype("float64") @ given["v"].swapaxes(1, 2))
    wanted = weights @ given["v"] / weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(run(body, given, SMALL), wanted, rtol=2e-5)


def test_float64() -> None:
    """As numpy computes it, in more bits than float32 has."""
    rng = np.random.default_rng(0)
    given = {
        name: rng.standard_normal(shape) for name, shape in {"q": (2, 37, 5), "k": (2, 41, 5), "v": (2, 41, 7)}.items()
    }
    q, k, v = (relay.var(name, shape=value.shape, dtype="float64") for name, value in given.items())
    body = relay.op.lookup("nn.contrib_attention")(q, k, v, scale=0.5)
    weights = np.exp(0.5 * np.einsum("bnd,bmd->bnm", given["q"], given["k"]))
    wanted = weights @ given["v"] / weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(run(body, given, SMALL), wanted, rtol=1e-12)


def test_rows_without_keys() -> None:
    """NaN, or zeros where the program makes zeros of it; other rows are not touched, nor is NaN of values hidden."""
    for zero_rows in (False, True):
        body = attention((1,), 33, 40, 4, 5, mask=(33, 40), zero_rows=zero_rows)
        given = inputs(body, 1)
        given["mask"][7] = -np.inf
        given["v"][0, 3, 2] = np.nan
        found = run(body, given, SMALL)
        same = run(body, given, "llvm")
        assert np.isnan(found[0, 7, 0]) == (not zero_rows) and np.isnan(found[0, 8, 2])
        np.testing.assert_allclose(found, same, rtol=2e-5, atol=2e-6)


def test_scores_are_never_whole() -> None:
    """What the kernel keeps is a small part of them."""
    heads, n = 2, 1024
    with Target("llvm -l2-cache-bytes=1048576") as target, KernelPlan(target):
        q = tvm.te.placeholder((heads, n, 16))
        func = tvm.te.create_prim_func([q, tvm.topi.nn.attention(q, q, q)])
        (flat,) = tvm.lower(schedule_kernel(func, target)).functions.values()
    held: list[int] = []

    def look(s: Any) -> None:
        if isinstance(s, tir.Allocate):
            held.append(int(np.prod([int(x) for x in s.extents])))

    tir.stmt_functor.post_order_visit(flat.body, look)
    assert held and max(held) <= n * n // 8


def test_refusals() -> None:
    q, k, half = (
        relay.var("q", shape=(2, 8, 4)),
        relay.var("k", shape=(2, 9, 5)),
        relay.var("h", shape=(2, 9, 4), dtype="float16"),
    )
    op = relay.op.lookup("nn.contrib_attention")
    for operands, message in (
        ((q, k, k), "keys as long as queries"),
        ((q, half, half), "must be matrices of floats of one type"),
        ((q, q, q, relay.var("m", shape=(1, 2, 8, 8))), "the mask must broadcast to the scores"),
    ):
        with pytest.raises(tvm.TVMError, match=message):
            transform.InferType()(tvm.IRModule.from_expr(op(*operands)))


def on_gpu(body: relay.Expr) -> Any:
    """The attention of a program for a GPU with matrix units, and the program before."""
    mod = transform.FoldConstant()(transform.InferType()(tvm.IRModule.from_expr(body)))
    with Target("cuda -arch=sm_80"):
        after = transform.FuseAttention()(mod)
    found = [
        e for e in post_order(after["main"].body) if isinstance(e, relay.Call) and e.op.name == "nn.contrib_attention"
    ]
    return found, after, mod


@pytest.mark.parametrize("hidden", ["where", "added", "scattered"])
@pytest.mark.parametrize("group", [1, 2])
def test_halves_masks_and_shared_heads(hidden: str, group: int) -> None:
    """float16 with sums in float32, a causal mask in both forms, heads of keys that are repeated."""
    n, m, d, heads = 3, 20, 16, 4
    q = relay.var("q", shape=(1, heads, n, d), dtype="float16")
    k, v = [relay.var(x, shape=(1, heads // group, m, d), dtype="float16") for x in "kv"]
    kept = [relay.repeat(x, group, axis=1) if group > 1 else x for x in (k, v)]
    a, b, c = [relay.reshape(x, (heads, -1, d)) for x in (q, *kept)]
    scores = relay.nn.batch_matmul(a, b, out_dtype="float32") * relay.const(np.float32(0.3))
    seen = np.tri(n, m, 17, dtype=bool)
    if hidden == "scattered":
        seen = np.arange(n * m).reshape(n, m) % 3 != 0
    if hidden == "where":
        scores = relay.where(relay.const(seen[None]), scores, relay.const(np.float32(-1e30)))
    else:
        scores = scores + relay.const(np.where(seen, 0.0, -np.inf).astype("float32"))
    shares = relay.cast(relay.nn.softmax(scores), "float16")
    body = relay.nn.batch_matmul(shares, c, transpose_b=False, out_dtype="float32")
    (call,), after, before = on_gpu(body)
    assert (call.attrs.causal, call.attrs.past) == ((False, 0) if hidden == "scattered" else (True, 17))
    assert len(call.args) == (4 if hidden == "scattered" else 3)
    assert [int(e) for e in call.args[1].checked_type.shape] == [heads // group, m, d]
    random = np.random.default_rng(0)
    inputs = {
        p.name_hint: random.standard_normal([int(e) for e in p.checked_type.shape]).astype("float16")
        for p in before["main"].params
    }
    found = []
    for mod in (after, before):
        module = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
        module.run(**inputs)
        found.append(module.get_output(0).numpy())
    assert found[0].dtype == found[1].dtype == np.float32
    np.testing.assert_allclose(found[0], found[1], rtol=2e-3, atol=2e-3)


def test_what_stays_apart_on_gpus() -> None:
    """A row without keys has equal weights where its scores are all one number, not none; and few keys are no tile."""
    q, k = (relay.var(x, shape=(2, 4, 16), dtype="float16") for x in "qk")
    v = relay.var("v", shape=(2, 4, 16), dtype="float16")

    def program(hidden: Any) -> relay.Expr:
        scores = relay.nn.batch_matmul(q, k, out_dtype="float32")
        if hidden is not None:
            scores = relay.where(relay.const(hidden), scores, relay.const(np.float32(-1e30)))
        return relay.nn.batch_matmul(relay.cast(relay.nn.softmax(scores), "float16"), v, transpose_b=False)

    assert not on_gpu(program(np.zeros((1, 4, 4), bool)))[0]
    assert not on_gpu(program(None))[0]
