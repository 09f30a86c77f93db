"""Each operator of MXNet against NumPy and PyTorch, in symbols as MXNet writes them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.frontend.mxnet.symbols import Array, arrays_file, symbol
from tilewright import relay
from tilewright.formats.mxnet_arrays import load_arrays
from tilewright.relay.frontend.mxnet import supported_operators
from tilewright.relay.frontend.mxnet.arithmetic import FORMS, SCALARS
from tilewright.support.errors import ModelError, OpNotImplemented

RNG = np.random.default_rng(0)
COUNTED = ("add_n", "ElementWiseSum", "UpSampling", "Concat", "concat", "_rnn_param_concat", "stack")
"""Operators whose symbols say how many inputs they have."""


def random(*shape: int) -> Array:
    return RNG.normal(size=shape).astype("float32")


X, A, B = random(2, 4, 6, 8), random(3, 5), random(3, 5)


def check(
    kind: str, inputs: list[Array], wanted: Array | list[Array], weights: dict[str, Array] | None = None, **attrs: Any
) -> None:
    """An operator: the inputs are given to the program, weights have names."""
    wanted = wanted if isinstance(wanted, list) else [wanted]
    data = {f"x{k}": v for k, v in enumerate(inputs)}
    if kind in COUNTED:
        attrs["num_args"] = len(inputs) + len(weights or {})
    text = symbol(kind, [*data, *(weights or {})], len(wanted), **attrs)
    shapes, kinds = {k: v.shape for k, v in data.items()}, {k: v.dtype.name for k, v in data.items()}
    mod, params = relay.frontend.from_mxnet(text, shapes, kinds, weights)
    found = relay.create_executor("graph", mod).evaluate()(*inputs, **params)
    got = [v.numpy() for v in (found if not hasattr(found, "numpy") else [found])]
    for mine, theirs in zip(got, wanted, strict=True):
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-5)


def torched(f: Any, *arrays: Array, **more: Any) -> Array:
    found: Array = f(*[torch.from_numpy(np.ascontiguousarray(v)) for v in arrays], **more).numpy()
    return found


P = abs(A) + 1.1
UNARY: dict[str, Callable[[Array], Any]] = {
    "relu": lambda x: np.maximum(x, 0), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh, "exp": np.exp, "log": np.log,
    "log2": np.log2, "log10": np.log10, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "abs": np.abs, "negative": np.negative,
    "floor": np.floor, "ceil": np.ceil, "round": lambda x: np.copysign(np.floor(abs(x) + 0.5), x),
    "trunc": np.trunc, "fix": np.fix, "sign": np.sign, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "arcsin": np.arcsin, "arccos": np.arccos, "arctan": np.arctan, "arcsinh": np.arcsinh,
    "arccosh": np.arccosh, "arctanh": np.arctanh, "erf": lambda x: torched(torch.erf, x), "_copy": lambda x: x, "zeros_like": np.zeros_like,
    "ones_like": np.ones_like, "square": np.square, "reciprocal": lambda x: 1 / x, "cbrt": np.cbrt, "expm1": np.expm1, "log1p": np.log1p,
    "degrees": np.degrees, "radians": np.radians, "softsign": lambda x: x / (1 + abs(x)),
    "hard_sigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "BlockGrad": lambda x: x, "stop_gradient": lambda x: x, "MakeLoss": lambda x: x, "make_loss": lambda x: x, "identity": lambda x: x,
    "_identity_with_attr_like_rhs": lambda x: x, "Dropout": lambda x: x,
    "logical_not": lambda x: (x == 0).astype("float32"), "flatten": lambda x: x, "Flatten": lambda x: x,
    "_contrib_div_sqrt_dim": lambda x: x / np.sqrt(5),
}  # fmt: skip


@pytest.mark.parametrize("kind", UNARY)
def test_unary(kind: str) -> None:
    within = A / 5
    x = (
        P
        if kind in ("log", "log2", "log10", "sqrt", "rsqrt", "arccosh", "log1p")
        else within
        if kind.startswith("arc")
        else A
    )
    check(kind, [x], UNARY[kind](x))


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "mod": np.mod, "power": np.power, "maximum": np.maximum,
    "minimum": np.minimum, "equal": np.equal, "not_equal": np.not_equal, "greater": np.greater, "greater_equal": np.greater_equal,
    "lesser": np.less, "lesser_equal": np.less_equal, "logical_and": np.logical_and, "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}  # fmt: skip


@pytest.mark.parametrize("kind", FORMS)
def test_binary(kind: str) -> None:
    b = np.roll(P, 1, 0)[:1] if kind.startswith("broadcast") else np.sort(P)
    check(kind, [P, b], ARITHMETIC[FORMS[kind]](P, b).astype("float32"))


@pytest.mark.parametrize("kind", SCALARS)
def test_scalars(kind: str) -> None:
    name, swapped = SCALARS[kind]
    value = np.float32(P[1, 2])
    wanted = ARITHMETIC[name](value, P) if swapped else ARITHMETIC[name](P, value)
    check(kind, [P], wanted.astype("float32"), scalar=repr(float(value)))


def test_round_takes_halves_away_from_zero() -> None:
    below = np.nextafter(np.float32(0.5), np.float32(0))
    x = np.array([-2.5, -1.5, -0.5, -below, below, 0.5, 1.5, 2.5, 8388609, -np.inf], "float32")
    check("round", [x], np.array([-3, -2, -1, 0, 0, 1, 2, 3, 8388609, -np.inf], "float32"))
    check("round", [np.array([-3, 5], "int32")], np.array([-3, 5], "int32"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["log1p", "expm1"])
def test_digits_near_zero(kind: str, dtype: str) -> None:
    """From 1e-30 to 80, of both signs, within 3 units in the last place of NumPy's function in a longer type."""
    sizes = 10.0 ** np.linspace(-30, 1.9, 2001)
    x = np.concatenate([sizes, -sizes[sizes < (1 if kind == "log1p" else 80)], [0.0, -1.0, np.inf]]).astype(dtype)
    mod, _ = relay.frontend.from_mxnet(symbol(kind, ["x"]), {"x": x.shape}, dtype)
    got = relay.create_executor("graph", mod).evaluate()(x).numpy()
    with np.errstate(divide="ignore"):
        wanted = getattr(np, kind)(x.astype("longdouble"))
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(got[~finite], wanted[~finite].astype(dtype))
    units = np.spacing(abs(wanted[finite].astype(dtype)))
    assert (abs(got[finite].astype("longdouble") - wanted[finite]) <= 3 * units).all()


SMALL, HALF = np.full((2, 3), 100, "int8"), np.array([[300, 400]], "float16")


@pytest.mark.parametrize(
    "kind, x, wanted, attrs",
    [
        ("cumsum", SMALL, np.cumsum(SMALL, 1, "int32"), {"axis": 1, "dtype": "int32"}),
        ("cumsum", SMALL, np.cumsum(SMALL, dtype="int32"), {"dtype": "int32"}),
        ("sum", SMALL, SMALL.sum(1, "int32"), {"axis": 1, "dtype": "int32"}),
        ("norm", HALF, np.array([500], "float32"), {"axis": 1, "out_dtype": "float32"}),
        ("softmax", HALF / 100, torched(torch.softmax, HALF.astype("float32") / 100, dim=1), {"dtype": "float32"}),
        ("softmax", A, torched(torch.softmax, A, dim=1).astype("float16"), {"dtype": "float16"}),
        ("softmin", A, torched(torch.softmax, -A, dim=1).astype("float16"), {"dtype": "float16"}),
        ("log_softmax", A, torched(torch.log_softmax, A, dim=1).astype("float16"), {"dtype": "float16"}),
    ],
)
def test_types_of_results(kind: str, x: Array, wanted: Array, attrs: dict[str, Any]) -> None:
    mod, _ = relay.frontend.from_mxnet(symbol(kind, ["x"], **attrs), {"x": x.shape}, x.dtype.name)
    got = relay.create_executor("graph", mod).evaluate()(x).numpy()
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=2e-3 if wanted.dtype == "float16" else 1e-5)


def test_integers_stay_integers() -> None:
    x = np.arange(6, dtype="int32").reshape(2, 3)
    check("_plus_scalar", [x], x + 2, scalar="2.0")


def test_more_arithmetic() -> None:
    check("smooth_l1", [A], np.where(abs(A) < 0.25, 0.5 * 4 * A * A, abs(A) - 0.5 / 4), scalar=2.0)
    check("clip", [A], np.clip(A, -0.5, 0.3), a_min=-0.5, a_max=0.3)
    for kind in ("Cast", "cast"):
        check(kind, [A * 3], (A * 3).astype("int32"), dtype="int32")
    check("amp_cast", [A], A.astype("float16"), dtype="float16")
    check("amp_multicast", [A, B], [A, B], num_outputs=2)
    for kind in ("add_n", "ElementWiseSum"):
        check(kind, [A, B, A], A + B + A)
    check("where", [(A > 0).astype("float32"), A, B], np.where(A > 0, A, B))
    check("where", [np.array([1, 0, 1], "float32"), A, B], np.where(np.array([1, 0, 1])[:, None], A, B))


def test_reductions() -> None:
    kinds: dict[str, Callable[..., Any]] = {
        "sum": np.sum,
        "mean": np.mean,
        "max": np.max,
        "min": np.min,
        "prod": np.prod,
    }
    for kind, f in kinds.items():
        check(kind, [X / 2], f(X / 2, axis=(1, 3)), axis="(1, 3)")
        check(kind, [X / 2], f(X / 2, axis=(0, 2, 3), keepdims=True), axis=1, exclude=True, keepdims=True)
        check(kind, [A], np.array([f(A)]))
    kinds = {"sum_axis": np.sum, "max_axis": np.max, "min_axis": np.min}
    for kind, f in kinds.items():
        check(kind, [A], f(A, axis=1), axis=1)
    check("norm", [A], np.sqrt((A * A).sum(1)), axis=1)
    check("norm", [A], abs(A).sum(1, keepdims=True), axis=1, ord=1, keepdims=True)
    check("argmax", [A], A.argmax(1).astype("float32"), axis=1)
    check("argmin", [A], A.argmin(0).astype("float32")[None], axis=0, keepdims=True)
    check("argmax", [A], np.array([A.argmax()], "float32"))
    check("argmax_channel", [A], A.argmax(1).astype("float32"))
    check("sort", [A], -np.sort(-A, 0), axis=0, is_ascend=False)
    check("argsort", [A], A.argsort(1).astype("float32"))
    best = torch.topk(torch.from_numpy(A), 2)
    check("topk", [A], best.indices.numpy().astype("float32"), k=2)
    check("topk", [A], [best.values.numpy(), best.indices.numpy().astype("float32")], k=2, ret_typ="both")
    check(
        "topk",
        [A],
        torch.topk(torch.from_numpy(A), 2, largest=False).values.numpy(),
        k=2,
        ret_typ="value",
        is_ascend=True,
    )
    check("cumsum", [A], A.cumsum(1), axis=1)
    check("_np_cumsum", [A], A.reshape(-1).cumsum())


def test_products() -> None:
    check("dot", [A, B], A.T @ B, transpose_a=True)
    check("dot", [A, B], A @ B.T, transpose_b=True)
    left, right = random(4, 3, 5), random(4, 6, 5)
    for kind in ("batch_dot", "linalg_gemm2", "_linalg_gemm2"):
        check(kind, [left, right], left @ right.swapaxes(1, 2), transpose_b=True)
    # Attention over interleaved queries, keys and values.
    steps, batch, heads, depth = 4, 2, 3, 5
    packed = random(steps, batch, heads * 3 * depth)
    q, k, v = packed.reshape(steps, batch * heads, 3, depth).transpose(2, 1, 0, 3)
    scores = (q / np.sqrt(depth)).astype("float32") @ k.swapaxes(1, 2)
    check("_contrib_interleaved_matmul_selfatt_qk", [packed], scores, heads=heads)
    out = (scores @ v).transpose(1, 0, 2).reshape(steps, batch, heads * depth)
    check("_contrib_interleaved_matmul_selfatt_valatt", [packed, scores], out, heads=heads)


def test_dense() -> None:
    w, b = random(7, 5), random(7)
    check("FullyConnected", [A], A @ w.T + b, {"w": w, "b": b}, num_hidden=7)
    wide = random(7, 192)
    check("FullyConnected", [X], X.reshape(2, -1) @ wide.T, {"w": wide}, num_hidden=7, no_bias=True)
    rows = random(7, 8)
    check("FullyConnected", [X], X @ rows.T + b, {"w": rows, "b": b}, num_hidden=7, flatten=False)


@pytest.mark.parametrize("kind", ["Convolution", "Convolution_v1"])
def test_convolutions(kind: str) -> None:
    w, b = random(6, 4, 3, 3), random(6)
    check(
        kind,
        [X],
        torched(functional.conv2d, X, w, b, padding=1),
        {"w": w, "b": b},
        kernel="(3, 3)",
        pad="(1, 1)",
        num_filter=6,
    )
    wanted = torched(functional.conv2d, X, w[:, :2], stride=2, dilation=(1, 2), groups=2)
    check(kind, [X], wanted, {"w": w[:, :2].copy()}, kernel="(3, 3)", stride="(2, 2)", dilate="(1, 2)", num_group=2, num_filter=6,
          no_bias=True)  # fmt: skip
    if kind == "Convolution_v1":
        return  # it has two axes
    line, w = random(2, 4, 9), random(6, 4, 3)
    check(kind, [line], torched(functional.conv1d, line, w, b), {"w": w, "b": b}, kernel="(3,)", num_filter=6)
    cube, w = random(1, 2, 4, 5, 6), random(3, 2, 2, 2, 2)
    check(kind, [cube], torched(functional.conv3d, cube, w), {"w": w}, kernel="(2, 2, 2)", num_filter=3, no_bias=True)


def test_deconvolution() -> None:
    w, b = random(4, 3, 3, 3), random(3)
    wanted = torched(functional.conv_transpose2d, X, w, b, stride=2, padding=1, output_padding=1)
    attrs = {"kernel": "(3, 3)", "stride": "(2, 2)", "num_filter": 3, "no_bias": False}
    check("Deconvolution", [X], wanted, {"w": w, "b": b}, pad="(1, 1)", adj="(1, 1)", **attrs)
    check("Deconvolution", [X], wanted, {"w": w, "b": b}, target_shape="(12, 16)", **attrs)


def test_pooling() -> None:
    kind = "Pooling"
    most, mean = functional.max_pool2d, functional.avg_pool2d
    attrs: dict[str, Any] = {"kernel": "(3, 3)", "stride": "(2, 2)"}
    check(kind, [X], torched(most, X, kernel_size=3, stride=2, padding=1), pad="(1, 1)", **attrs)
    check(kind, [X], torched(most, X, kernel_size=3, stride=2, ceil_mode=True), pooling_convention="full", **attrs)
    check(
        kind, [X], torched(mean, X, kernel_size=3, stride=1, padding=1), kernel="(3, 3)", pad="(1, 1)", pool_type="avg"
    )
    inside = torched(mean, X, kernel_size=3, stride=1, padding=1, count_include_pad=False)
    check(kind, [X], inside, kernel="(3, 3)", pad="(1, 1)", pool_type="avg", count_include_pad=False)
    check(kind, [X], X.mean((2, 3), keepdims=True), kernel="(1, 1)", global_pool=True, pool_type="avg")
    check(kind, [X], X.max((2, 3), keepdims=True), kernel="(1, 1)", global_pool=True)


def test_normalisation() -> None:
    gamma, beta, mean, variance = random(4), random(4), random(4), abs(random(4))
    weights = {"gamma": gamma, "beta": beta, "mean": mean, "variance": variance}
    wanted = torched(functional.batch_norm, X, mean, variance, gamma, beta, eps=1e-3)
    for kind in ("BatchNorm", "BatchNorm_v1", "CuDNNBatchNorm", "_contrib_SyncBatchNorm"):
        check(kind, [X], wanted, weights, fix_gamma=False)
    check(
        "BatchNorm",
        [X],
        torched(functional.batch_norm, X, mean, variance, np.ones(4, "float32"), beta, eps=1e-5),
        weights,
        eps=1e-5,
    )
    wide = {"gamma": random(8), "beta": random(8)}
    check("LayerNorm", [X], torched(lambda x, g, b: functional.layer_norm(x, (8,), g, b), X, *wide.values()), wide)
    two = {"gamma": gamma, "beta": beta}
    wanted = torched(lambda x, g, b: functional.instance_norm(x, weight=g, bias=b, eps=1e-3), X, gamma, beta)
    check("InstanceNorm", [X], wanted, two)
    check(
        "GroupNorm", [X], torched(lambda x, g, b: functional.group_norm(x, 2, g, b), X, gamma, beta), two, num_groups=2
    )
    few = {"gamma": gamma[:2], "beta": beta[:2]}
    wide_ones = [few[k].repeat(2) for k in ("gamma", "beta")]
    check(
        "GroupNorm", [X], torched(lambda x, g, b: functional.group_norm(x, 2, g, b), X, *wide_ones), few, num_groups=2
    )
    for mode, axes in {"instance": (1, 2, 3), "channel": (1,), "spatial": (2, 3)}.items():
        check("L2Normalization", [X], X / np.sqrt((X * X).sum(axes, keepdims=True) + 1e-10), mode=mode)
    check(
        "LRN", [X], torched(functional.local_response_norm, X, size=3, alpha=0.5, beta=0.75, k=2.0), nsize=3, alpha=0.5
    )


def test_activations() -> None:
    for kind, f in {
        "relu": torch.relu,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "softrelu": functional.softplus,
        "softsign": functional.softsign,
    }.items():
        check("Activation", [A], torched(f, A), act_type=kind)
    check("LeakyReLU", [A], np.where(A > 0, A, 0.3 * A), slope=0.3)
    check("LeakyReLU", [A], torched(functional.elu, A, alpha=0.25), act_type="elu")
    check("LeakyReLU", [A], torched(functional.selu, A), act_type="selu")
    check("LeakyReLU", [A], torched(functional.gelu, A), act_type="gelu")
    check("LeakyReLU", [A], np.where(A > 0, A, (0.125 + 0.334) / 2 * A), act_type="rrelu")
    slopes = random(4)
    check("LeakyReLU", [X], torched(torch.prelu, X, slopes), {"gamma": slopes}, act_type="prelu")
    check("LeakyReLU", [X], torched(torch.prelu, X, slopes[:1]), {"gamma": slopes[:1]}, act_type="prelu")
    soft = functional.softmax
    check("softmax", [X], torched(soft, X / 2, dim=1), axis=1, temperature=2.0)
    check("softmin", [X], torched(functional.softmin, X, dim=3))
    check("log_softmax", [X], torched(functional.log_softmax, X, dim=2), axis=2)
    check("SoftmaxActivation", [X], torched(soft, X, dim=1), mode="channel")
    check("SoftmaxActivation", [A], torched(soft, A, dim=1))
    for kind in ("SoftmaxOutput", "Softmax"):
        # The label is no input of the program.
        for more in ("False", "True"):
            mod, _ = relay.frontend.from_mxnet(symbol(kind, ["data", "label"], multi_output=more), {"data": A.shape})
            got = relay.create_executor("graph", mod).evaluate()(A).numpy()
            np.testing.assert_allclose(got, torched(soft, A, dim=1), rtol=1e-4)
    for kind in ("LinearRegressionOutput", "MAERegressionOutput", "LogisticRegressionOutput", "SVMOutput"):
        check(kind, [A], 1 / (1 + np.exp(-A)) if kind.startswith("Logistic") else A)


def test_sizes_of_images() -> None:
    check("UpSampling", [X], X.repeat(3, 2).repeat(3, 3), scale=3, sample_type="nearest")
    kernel = random(4, 1, 4, 4)
    wanted = torched(functional.conv_transpose2d, X, kernel, stride=2, padding=1, groups=4)
    check("UpSampling", [X], wanted, {"w": kernel}, scale=2, sample_type="bilinear", num_filter=4)
    larger = functional.interpolate(torch.from_numpy(X), (9, 10), mode="bilinear", align_corners=True).numpy()
    check("_contrib_BilinearResize2D", [X], larger, height=9, width=10)
    halves = functional.interpolate(torch.from_numpy(X), (9, 12), mode="bilinear", align_corners=False).numpy()
    check("_contrib_BilinearResize2D", [X], halves, scale_height=1.5, scale_width=1.5, align_corners=False)
    check(
        "_contrib_AdaptiveAvgPooling2D",
        [X],
        torched(functional.adaptive_avg_pool2d, X, output_size=(3, 4)),
        output_size="(3, 4)",
    )


def packed(layers: nn.Module, count: int, sides: int) -> Array:
    """PyTorch's weights in the order of MXNet's file: all weights, then all biases."""
    names = [(k, f"_l{k}{s}") for k in range(count) for s in ("", "_reverse")[:sides]]
    parts = [getattr(layers, f"{what}{end}") for _, end in names for what in ("weight_ih", "weight_hh")]
    parts += [getattr(layers, f"{what}{end}") for _, end in names for what in ("bias_ih", "bias_hh")]
    return np.concatenate([p.detach().numpy().reshape(-1) for p in parts])


@pytest.mark.parametrize("kind, sides", [("lstm", 1), ("lstm", 2), ("gru", 2), ("rnn_tanh", 1), ("rnn_relu", 2)])
def test_recurrent(kind: str, sides: int) -> None:
    made = {"lstm": nn.LSTM, "gru": nn.GRU}.get(kind, nn.RNN)
    more = {"nonlinearity": kind[4:]} if kind.startswith("rnn") else {}
    layers = made(5, 6, 2, bidirectional=sides == 2, **more)
    x, h, s = random(4, 3, 5), random(2 * sides, 3, 6), random(2 * sides, 3, 6)
    given = [torch.from_numpy(v) for v in (x, h, s)]
    with torch.no_grad():
        out, last = layers(given[0], (given[1], given[2]) if kind == "lstm" else given[1])
    wanted = [out.numpy(), *[v.numpy() for v in (last if kind == "lstm" else [last])]]
    names = ["x", "w", "h", *(["s"] if kind == "lstm" else [])]
    text = symbol(
        "RNN", names, len(wanted), mode=kind, state_size=6, num_layers=2, bidirectional=sides == 2, state_outputs=True
    )
    mod, params = relay.frontend.from_mxnet(text, {"x": x.shape, "h": h.shape, **({"s": s.shape} if kind == "lstm" else {})},
                                            arg_params={"w": packed(layers, 2, sides)})  # fmt: skip
    got = relay.create_executor("graph", mod).evaluate()(x=x, h=h, **({"s": s} if kind == "lstm" else {}), **params)
    for mine, theirs in zip(got, wanted, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-3, atol=1e-4)


def test_movement() -> None:
    for kind in ("Reshape", "reshape"):
        check(kind, [X], X.reshape(2, 24, 8), shape="(0, -3, -2)")
        check(kind, [X], X.reshape(2, 2, 2, 6, 8), shape="(0, -4, 2, -1, -2)")
        check(kind, [X], X.reshape(8, 6, 8), shape="(-1, 0, 0)", reverse=True)
    check("reshape_like", [A, random(5, 3)], A.reshape(5, 3))
    for kind in ("Concat", "concat", "_rnn_param_concat"):
        check(kind, [A, B], np.concatenate([A, B], 0), dim=0)
    for kind in ("SliceChannel", "split"):
        check(kind, [X], list(np.split(X, 2, 1)), num_outputs=2)
        check(kind, [A], [A[:, k] for k in range(5)], num_outputs=5, squeeze_axis=True)
    check("_split_v2", [X], [X[..., :3], X[..., 3:]], axis=3, indices="(0, 3)")
    check("_split_v2", [X], list(np.split(X, 4, 3)), axis=3, sections=4, indices="()")
    for kind in ("slice", "crop"):
        check(kind, [X], X[:, 1:3, ::-2], begin="(None, 1, None)", end="(None, 3, None)", step="(None, 1, -2)")
    check("slice_axis", [X], X[:, :, 1:-2], axis=2, begin=1, end=-2)
    check("slice_axis", [X], X[..., 3:], axis=-1, begin=3, end="None")
    check("slice_like", [X, random(1, 2, 3, 4)], X[:, :, :3, :4], axes="(2, 3)")
    check("Crop", [X], X[:, :, 1:4, 2:7], offset="(1, 2)", h_w="(3, 5)", num_args=1)
    check("Crop", [X, random(1, 1, 4, 4)], X[:, :, 1:5, 2:6], center_crop=True, num_args=2)
    check("transpose", [X], X.transpose(0, 2, 1, 3), axes="(0, 2, 1, 3)")
    check("transpose", [A], A.T)
    for kind in ("SwapAxis", "swapaxes"):
        check(kind, [X], X.swapaxes(1, 3), dim1=1, dim2=3)
    check("expand_dims", [A], A[:, None], axis=1)
    check("squeeze", [A[:, None]], A)
    check("stack", [A, B], np.stack([A, B], 1), axis=1)
    check("tile", [A], np.tile(A, (2, 1, 3)), reps="(2, 1, 3)")
    check("repeat", [A], A.repeat(2, 1), repeats=2, axis=1)
    check("repeat", [A], A.reshape(-1).repeat(2), repeats=2)
    for kind in ("reverse", "flip"):
        check(kind, [A], A[::-1, ::-1].copy(), axis="(0, 1)")
    for kind in ("Pad", "pad"):
        check(
            kind,
            [X],
            np.pad(X, [(0, 0), (0, 0), (1, 2), (3, 1)], constant_values=5),
            pad_width="(0,0,0,0,1,2,3,1)",
            mode="constant",
            constant_value=5,
        )
        check(
            kind,
            [X],
            np.pad(X, [(0, 0), (0, 0), (1, 2), (3, 1)], mode="edge"),
            pad_width="(0,0,0,0,1,2,3,1)",
            mode="edge",
        )
    check("broadcast_to", [A[:1]], A[:1].repeat(3, 0), shape="(3, 0)")
    for kind in ("broadcast_axis", "broadcast_axes"):
        check(kind, [A[:, :1]], A[:, :1].repeat(4, 1), axis=1, size=4)
    check("broadcast_like", [A[:1], B], A[:1].repeat(3, 0))
    check("broadcast_like", [A[:1], random(7, 2)], A[:1].repeat(7, 0), lhs_axes="(0,)", rhs_axes="(0,)")
    blocks = X.reshape(2, 4, 3, 2, 4, 2).transpose(0, 3, 5, 1, 2, 4).reshape(2, 16, 3, 4)
    check("space_to_depth", [X], blocks, block_size=2)
    back = X.reshape(2, 2, 2, 1, 6, 8).transpose(0, 3, 4, 1, 5, 2).reshape(2, 1, 12, 16)
    check("depth_to_space", [X], back, block_size=2)


def test_picking() -> None:
    rows = np.array([[2, 0], [1, 1]], "float32")
    places = rows.astype(int)
    check("take", [A, rows], A[places])
    check("take", [A, rows + 3], A[:, (places + 3) % 5], axis=1, mode="wrap")
    check("Embedding", [rows, A], A[places], input_dim=3, output_dim=5)
    check("pick", [A, np.array([0, 4, 2], "float32")], A[np.arange(3), [0, 4, 2]], axis=1)
    check("pick", [A, np.array([0, 9, 2], "float32")], A[np.arange(3), [0, 4, 2]][:, None], axis=1, keepdims=True)
    check("gather_nd", [A, rows], A[places[0], places[1]])
    check(
        "one_hot",
        [rows],
        np.where(np.eye(4)[places] > 0, 2.0, -1.0).astype("float32"),
        depth=4,
        on_value=2.0,
        off_value=-1.0,
    )
    seq, lengths = random(4, 3, 2), np.array([2, 4, 1], "float32")
    valid = (np.arange(4)[:, None] < lengths)[..., None]
    check(
        "SequenceMask", [seq, lengths], np.where(valid, seq, 9.0).astype("float32"), use_sequence_length=True, value=9.0
    )
    turned = np.stack([np.concatenate([seq[: int(n), k][::-1], seq[int(n) :, k]]) for k, n in enumerate(lengths)], 1)
    check("SequenceReverse", [seq, lengths], turned, use_sequence_length=True)
    check("SequenceReverse", [seq], seq[::-1].copy())
    check(
        "SequenceLast",
        [seq, lengths],
        np.stack([seq[int(n) - 1, k] for k, n in enumerate(lengths)]),
        use_sequence_length=True,
    )
    check("SequenceLast", [seq], seq[-1])


def test_making() -> None:
    check("_zeros", [], np.zeros((2, 3), "float32"), shape="(2, 3)")
    check("_ones", [], np.ones((2, 3), "int32"), shape="(2, 3)", dtype="int32")
    check("_full", [], np.full((2, 3), 2.5, "float32"), shape="(2, 3)", value=2.5)
    check("_arange", [], np.array([2, 2, 5, 5, 8, 8], "float32"), start=2, stop=9, step=3, repeat=2)
    check("_contrib_arange_like", [X], np.arange(6, dtype="float32"), axis=2)
    check("shape_array", [X], np.array(X.shape))


@pytest.mark.parametrize("kind", ["_contrib_MultiBoxPrior", "MultiBoxPrior"])
def test_boxes(kind: str) -> None:
    sizes, ratios = (0.4, 0.2), (1.0, 2.0)
    mod, _ = relay.frontend.from_mxnet(symbol(kind, ["x"], sizes=sizes, ratios=ratios), {"x": (1, 1, 2, 4)})
    got = relay.create_executor("graph", mod).evaluate()(random(1, 1, 2, 4)).numpy().reshape(2, 4, 3, 4)
    # All sizes with the first ratio, then the first size with the others; widths in units of the rows.
    shapes = [(0.4 * 2 / 4, 0.4), (0.2 * 2 / 4, 0.2), (0.4 * 2 / 4 * np.sqrt(2), 0.4 / np.sqrt(2))]
    for i in range(2):
        for j in range(4):
            x, y = (j + 0.5) / 4, (i + 0.5) / 2
            wanted = [[x - w / 2, y - h / 2, x + w / 2, y + h / 2] for w, h in shapes]
            np.testing.assert_allclose(got[i, j], wanted, rtol=1e-5)
    boxes = np.array([[0, 0, 0, 3, 3], [1, 2, 1, 7, 5]], "float32")
    pooled = np.zeros((2, 4, 2, 2), "float32")
    for k, (n, x0, y0, x1, y1) in enumerate(boxes.astype(int)):
        part = X[n, :, y0 : y1 + 1, x0 : x1 + 1]
        for i in range(2):
            for j in range(2):
                rows, columns = (
                    (d * p // 2, -(-d * (p + 1) // 2)) for d, p in zip(part.shape[1:], (i, j), strict=True)
                )
                pooled[k, :, i, j] = part[:, slice(*rows), slice(*columns)].max((1, 2))
    check("ROIPooling", [X, boxes], pooled, pooled_size="(2, 2)", spatial_scale=1.0)
    # One sample in the middle of each bin of a box on whole pixels: the mean of four neighbours.
    box = np.array([[0, 1, 1, 5, 5]], "float32")
    middle = [2.0, 4.0]
    means = np.stack([np.stack([X[0, :, int(r), int(q)] for q in middle], -1) for r in middle], -2)[None]
    check("_contrib_ROIAlign", [X, box], means, pooled_size="(2, 2)", spatial_scale=1.0, sample_ratio=1)


def test_every_operator_is_tested() -> None:
    text = Path(__file__).read_text()
    assert {n for n in supported_operators() if f'"{n}"' not in text} <= {*FORMS, *SCALARS}


def test_a_network_in_files(tmp_path: Path) -> None:
    """A symbol with its label, and its weights in a file; attributes under their older names."""
    w, b = random(7, 192), random(7)
    nodes = [
        {"op": "null", "name": "data", "inputs": []},
        {"op": "null", "name": "fc_weight", "inputs": [], "attr": {"__lr_mult__": "2"}},
        {"op": "null", "name": "fc_bias", "inputs": []},
        {"op": "Flatten", "name": "flat", "inputs": [[0, 0]]},
        {"op": "FullyConnected", "name": "fc", "param": {"num_hidden": "7"}, "inputs": [[3, 0], [1, 0], [2, 0]]},
        {"op": "null", "name": "softmax_label", "inputs": []},
        {"op": "SoftmaxOutput", "name": "softmax", "param": {}, "inputs": [[4, 0], [5, 0]]},
    ]
    (tmp_path / "net-symbol.json").write_text(json.dumps({"nodes": nodes, "heads": [[6, 0]]}))
    (tmp_path / "net-0000.params").write_bytes(arrays_file({"arg:fc_weight": w, "arg:fc_bias": b}))
    mod, params = relay.frontend.from_mxnet(
        tmp_path / "net-symbol.json", {"data": X.shape}, arg_params=str(tmp_path / "net-0000.params")
    )
    assert sorted(params) == ["fc_bias", "fc_weight"] and [p.name_hint for p in mod["main"].params][0] == "data"
    out = torched(functional.softmax, X.reshape(2, -1) @ w.T + b, dim=1)
    np.testing.assert_allclose(relay.create_executor("graph", mod).evaluate()(X, **params).numpy(), out, rtol=1e-4)
    assert list(mod["main"].attrs["output_tensor_names"]) == ["softmax_output"]


@pytest.mark.parametrize("magic", [0, 0xF993FAC8, 0xF993FAC9, 0xF993FACA])
def test_files_of_arrays(magic: int, tmp_path: Path) -> None:
    arrays = {"arg:a": A, "aux:b": np.arange(4, dtype="int64"), "c": A.astype("float16")}
    path = tmp_path / "x.params"
    path.write_bytes(arrays_file(arrays, magic))
    found = load_arrays(path)
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
    path.write_bytes(arrays_file(arrays, magic)[:-30])
    with pytest.raises(ModelError, match="the file is cut off or damaged"):
        load_arrays(path)
    path.write_bytes(b"PK" * 20)
    with pytest.raises(ModelError, match="this is no file of MXNet's arrays"):
        load_arrays(path)


def test_messages(tmp_path: Path) -> None:
    shapes = {"x": (2, 3)}
    with pytest.raises(OpNotImplemented, match=r"Wobble \(1 node: 'node'\)"):
        relay.frontend.from_mxnet(symbol("Wobble", ["x"]), shapes)
    with pytest.raises(OpNotImplemented, match="Activation 'node': its act_type is 'relo'; supported: relu, sigmoid"):
        relay.frontend.from_mxnet(symbol("Activation", ["x"], act_type="relo"), shapes)
    with pytest.raises(ModelError, match="does not say the shape of its input 'x'"):
        relay.frontend.from_mxnet(symbol("relu", ["x"]))
    with pytest.raises(ModelError, match="shape names 'data', but the model's inputs are 'x'"):
        relay.frontend.from_mxnet(symbol("relu", ["x"]), {"data": (2, 3)})
    with pytest.raises(ModelError, match="symbol is a list"):
        relay.frontend.from_mxnet([])
    with pytest.raises(ModelError, match="No such file"):
        relay.frontend.from_mxnet(tmp_path / "none-symbol.json")
    with pytest.raises(ModelError, match="it has no list of nodes"):
        relay.frontend.from_mxnet("{}")
    with pytest.raises(ModelError, match="Convolution 'node' does not have|its attribute kernel is '3x3'"):
        relay.frontend.from_mxnet(
            symbol("Convolution", ["x", "w"], kernel="3x3", num_filter=1), {"x": (1, 1, 4, 4), "w": (1, 1, 3, 3)}
        )


@pytest.mark.parametrize(
    "kind, inputs, attrs, message",
    [
        ("clip", 1, {}, "it has no attribute a_min and no a_max"),
        ("clip", 1, {"a_min": 0}, "it has no attribute a_max"),
        ("Crop", 1, {"num_args": 1}, "it has no attribute h_w"),
        (
            "Crop",
            1,
            {"num_args": 1, "h_w": "(99, 99)"},
            r"its result, \(99, 99\) elements from \(0, 0\) on, does not lie in its",
        ),
        (
            "Crop",
            1,
            {"num_args": 1, "h_w": "(2, 2)", "offset": "(3, 0)"},
            r".* from \(3, 0\) on, does not lie in its input of \(4, 4\)",
        ),
        ("Crop", 1, {"num_args": 1, "h_w": "(5, 5)", "center_crop": True}, ".* does not lie in its input"),
        ("Convolution", 2, {"num_filter": 4}, "it has no attribute kernel"),
        ("Deconvolution", 2, {}, "it has no attribute kernel and no num_filter"),
        (
            "Convolution",
            2,
            {"kernel": "(1, 1, 1, 1)", "num_filter": 4},
            r"its kernel is \(1, 1, 1, 1\); supported: 1 to 3 extents",
        ),
        ("Pooling", 1, {}, "it has no attribute kernel"),
        ("FullyConnected", 2, {}, "it has no attribute num_hidden"),
        ("LeakyReLU", 1, {"act_type": "prelu"}, "it has no input gamma, which act_type=prelu needs"),
        (
            "SequenceMask",
            1,
            {"use_sequence_length": True},
            "it has no input sequence_length, which use_sequence_length needs",
        ),
        (
            "SequenceLast",
            1,
            {"use_sequence_length": True},
            "it has no input sequence_length, which use_sequence_length needs",
        ),
        ("SequenceReverse", 1, {"use_sequence_length": True}, "it has no input sequence_length"),
    ],
)
def test_missing_and_wrong_attributes(kind: str, inputs: int, attrs: dict[str, Any], message: str) -> None:
    names = [f"x{k}" for k in range(inputs)]
    with pytest.raises((ModelError, OpNotImplemented), match=f"{kind} 'node': {message}"):
        relay.frontend.from_mxnet(symbol(kind, names, **attrs), dict.fromkeys(names, (1, 1, 4, 4)))


@pytest.mark.parametrize(
    "kind, names, attrs, message",
    [
        ("gru", "xwhn", {"use_sequence_length": True}, "it takes the lengths of the sequences"),
        ("lstm", "xwhsn", {"use_sequence_length": True}, "it takes the lengths of the sequences"),
        ("lstm", "xwhs", {"lstm_state_clip_min": -1, "lstm_state_clip_max": 1}, "it bounds the states"),
        ("lstm", "xwh", {}, "it has no input state_cell, which mode=lstm needs"),
        ("gru", "xwh", {"state_size": None}, "it has no attribute state_size"),
    ],
)
def test_recurrent_forms_that_are_refused(kind: str, names: str, attrs: dict[str, Any], message: str) -> None:
    shapes = {"x": (4, 3, 5), "w": (400,), "h": (1, 3, 6), "s": (1, 3, 6), "n": (3,)}
    text = symbol("RNN", list(names), 2, **{"mode": kind, "state_size": 6, "num_layers": 1, **attrs})
    with pytest.raises((ModelError, OpNotImplemented), match=f"RNN 'node': {message}"):
        relay.frontend.from_mxnet(text, {k: shapes[k] for k in names})
