"""Each layer of Core ML's neural networks against NumPy and PyTorch, in models as coremltools writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from tilewright import relay
from tilewright.formats.coreml_messages import message
from tilewright.relay.frontend.coreml import supported_layers
from tilewright.support.errors import ModelError, OpNotImplemented

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)


def random(*shape: int) -> Array:
    return RNG.normal(size=shape).astype("float32")


X, A, B = random(2, 4, 6, 8), random(3, 5), random(3, 5)


def fill(params: Any, values: dict[str, Any]) -> None:
    """Sets the fields of a message: numbers, lists, arrays of weights, and messages as dictionaries."""
    for name, value in values.items():
        field = getattr(params, name)
        if isinstance(value, np.ndarray):
            field.floatValue.extend(value.reshape(-1).tolist())
        elif isinstance(value, dict):
            field.SetInParent()
            fill(field, value)
        elif isinstance(value, (list, tuple)) and value and isinstance(value[0], dict):
            for item in value:
                fill(field.add(), item)
        elif isinstance(value, (list, tuple)):
            field.extend(value)
        else:
            setattr(params, name, value)


def model(kind: str, shapes: Sequence[Sequence[int]], results: int, exact: bool = True, **params: Any) -> Any:
    """A model of one layer."""
    made = message("Model")(specificationVersion=4 if exact else 1)
    network = made.neuralNetwork
    network.arrayInputShapeMapping = int(exact)
    for k, shape in enumerate(shapes):
        feature = made.description.input.add(name=f"x{k}")
        feature.type.multiArrayType.shape.extend(shape)
        feature.type.multiArrayType.dataType = 65568
    layer = network.layers.add(
        name="layer", input=[f"x{k}" for k in range(len(shapes))], output=[f"y{k}" for k in range(results)]
    )
    getattr(layer, kind).SetInParent()
    fill(getattr(layer, kind), params)
    for k in range(results):
        made.description.output.add(name=f"y{k}")
    return made


def run(made: Any, inputs: Sequence[Array], shape: Any = None) -> list[Array]:
    mod, params = relay.frontend.from_coreml(made, shape)
    found = relay.create_executor("graph", mod).evaluate()(*inputs, **params)
    return [v.numpy() for v in (found if not hasattr(found, "numpy") else [found])]


def check(kind: str, inputs: list[Array], wanted: Array | list[Array], **params: Any) -> None:
    """A layer on inputs whose ranks the model declares."""
    wanted = wanted if isinstance(wanted, list) else [wanted]
    got = run(model(kind, [v.shape for v in inputs], len(wanted), **params), inputs)
    for mine, theirs in zip(got, wanted, strict=True):
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-5)


def torched(f: Any, *arrays: Array, **more: Any) -> Array:
    found: Array = f(*[torch.from_numpy(np.ascontiguousarray(v)) for v in arrays], **more).numpy()
    return found


def borders(top: int, left: int, bottom: int, right: int) -> dict[str, Any]:
    return {
        "borderAmounts": [{"startEdgeSize": top, "endEdgeSize": bottom}, {"startEdgeSize": left, "endEdgeSize": right}]
    }


P = abs(A) + 1.1
UNARY: dict[str, Callable[[Array], Any]] = {
    "ceil": np.ceil, "floor": np.floor, "sign": np.sign, "round": np.round, "exp2": np.exp2, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "erf": lambda x: torched(torch.erf, x), "copy": lambda x: x,
    "logicalNot": lambda x: (x == 0).astype("float32"), "gelu": lambda x: torched(functional.gelu, x),
}  # fmt: skip


@pytest.mark.parametrize("kind", UNARY)
def test_unary(kind: str) -> None:
    x = P if kind == "acosh" else A / 5 if kind in ("asin", "acos", "atanh") else A
    check(kind, [x], UNARY[kind](x))


def test_unary_functions() -> None:
    functions: list[Callable[[Array], Any]] = [
        np.sqrt, lambda x: 1 / np.sqrt(x + 1e-3), lambda x: 1 / (x + 1e-3), lambda x: x**1.5, np.exp, np.log, np.abs,
        lambda x: np.maximum(x, 1.5),
    ]  # fmt: skip
    for k, f in enumerate(functions):
        check("unary", [P], f(P * 0.5 + 0.25), type=k, alpha=1.5, epsilon=1e-3, scale=0.5, shift=0.25)
    check("clip", [A], np.clip(A, -0.5, 0.3), minVal=-0.5, maxVal=0.3)
    check("gelu", [A], torched(functional.gelu, A, approximate="tanh"), mode=1)
    check("gelu", [A], A / (1 + np.exp(-1.702 * A)), mode=2)


def test_binary() -> None:
    b = np.sort(P)[:1]
    table: dict[str, Callable[[Any, Any], Any]] = {
        "modBroadcastable": np.mod, "minBroadcastable": np.minimum, "maxBroadcastable": np.maximum, "addBroadcastable": np.add,
        "powBroadcastable": np.power, "divideBroadcastable": np.divide, "floorDivBroadcastable": np.floor_divide,
        "multiplyBroadcastable": np.multiply, "subtractBroadcastable": np.subtract, "logicalOr": np.logical_or,
        "logicalXor": np.logical_xor, "logicalAnd": np.logical_and,
    }  # fmt: skip
    for kind, f in table.items():
        check(kind, [P, b], f(P, b).astype("float32"))
    compared: dict[str, Callable[[Any, Any], Any]] = {
        "equal": np.equal, "notEqual": np.not_equal, "lessThan": np.less, "lessEqual": np.less_equal, "greaterThan": np.greater,
        "greaterEqual": np.greater_equal,
    }  # fmt: skip
    for kind, f in compared.items():
        check(kind, [P, np.sort(P)], f(P, np.sort(P)).astype("float32"))
        value = float(P[0, 0])
        check(kind, [P], f(P, P[0, 0]).astype("float32"), alpha=value)
    check("whereBroadcastable", [(A > 0).astype("float32"), A, B], np.where(A > 0, A, B))
    for kind, wanted in {
        "add": A + B + A,
        "multiply": A * B * A,
        "average": (A + B + A) / 3,
        "max": np.maximum(A, B),
        "min": np.minimum(A, B),
    }.items():
        check(kind, [A, B, A], wanted)
    check("add", [A], A + 2.5, alpha=2.5)
    check("multiply", [A], A * 2.5, alpha=2.5)


def test_activations() -> None:
    slopes, factors = random(4), abs(random(4))
    functions: dict[str, tuple[dict[str, Any], Array]] = {
        "linear": ({"alpha": 2.0, "beta": 0.5}, X * 2 + 0.5),
        "ReLU": ({}, np.maximum(X, 0)),
        "leakyReLU": ({"alpha": 0.3}, np.where(X > 0, X, 0.3 * X)),
        "thresholdedReLU": ({"alpha": 0.5}, np.where(X >= 0.5, X, 0)),
        "PReLU": ({"alpha": slopes}, torched(torch.prelu, X, slopes)),
        "tanh": ({}, np.tanh(X)),
        "scaledTanh": ({"alpha": 1.7, "beta": 0.6}, 1.7 * np.tanh(0.6 * X)),
        "sigmoid": ({}, 1 / (1 + np.exp(-X))),
        "sigmoidHard": ({"alpha": 0.2, "beta": 0.5}, np.clip(0.2 * X + 0.5, 0, 1)),
        "ELU": ({"alpha": 0.7}, torched(functional.elu, X, alpha=0.7)),
        "softsign": ({}, X / (1 + abs(X))),
        "softplus": ({}, np.log1p(np.exp(X))),
        "parametricSoftplus": (
            {"alpha": slopes, "beta": factors},
            slopes[:, None, None] * np.log1p(np.exp(factors[:, None, None] * X)),
        ),
    }
    for name, (params, wanted) in functions.items():
        check("activation", [X], wanted, **{name: params})
    check("softmax", [X], torched(functional.softmax, X, dim=1))
    check("softmaxND", [X], torched(functional.softmax, X, dim=2), axis=-2)


def test_convolutions() -> None:
    w, b = random(6, 4, 3, 3), random(6)
    given = {"outputChannels": 6, "kernelChannels": 4, "kernelSize": [3, 3], "hasBias": True, "weights": w, "bias": b}
    check("convolution", [X], torched(functional.conv2d, X, w, b), valid={}, **given)
    check(
        "convolution",
        [X],
        torched(functional.conv2d, X, w, b, padding=(1, 2), stride=2),
        stride=[2, 2],
        valid={"paddingAmounts": borders(1, 2, 1, 2)},
        **given,
    )
    check("convolution", [X], torched(functional.conv2d, X, w, b, padding="same"), same={}, **given)
    for mode, side in ((0, (0, 1, 0, 1)), (1, (1, 0, 1, 0))):
        padded = functional.pad(torch.from_numpy(X), side)
        wanted = functional.conv2d(padded, *[torch.from_numpy(v) for v in (w, b)], stride=2).numpy()
        check("convolution", [X], wanted, stride=[2, 2], same={"asymmetryMode": mode}, **given)
    narrow = {
        **given,
        "kernelChannels": 2,
        "nGroups": 2,
        "weights": w[:, :2].copy(),
        "hasBias": False,
        "dilationFactor": [2, 1],
    }
    check("convolution", [X], torched(functional.conv2d, X, w[:, :2], groups=2, dilation=(2, 1)), valid={}, **narrow)
    five = X.reshape(1, 2, 4, 6, 8)
    check("convolution", [five], torched(functional.conv2d, X, w, b)[None], valid={}, **given)
    w, b = random(4, 3, 3, 3), random(3)
    given = {**given, "outputChannels": 3, "weights": w, "bias": b, "isDeconvolution": True, "stride": [2, 2]}
    check(
        "convolution",
        [X],
        torched(functional.conv_transpose2d, X, w, b, stride=2, padding=1),
        valid={"paddingAmounts": borders(1, 1, 1, 1)},
        **given,
    )
    whole = torched(functional.conv_transpose2d, X, w, b, stride=2)
    check("convolution", [X], whole[:, :, :12, :16].copy(), same={}, **given)
    check("convolution", [X], whole[:, :, :12, :16].copy(), outputShape=[12, 16], **given)


def test_pooling() -> None:
    given = {"kernelSize": [3, 3], "stride": [2, 2]}
    most, mean = functional.max_pool2d, functional.avg_pool2d
    check(
        "pooling",
        [X],
        torched(most, X, kernel_size=3, stride=2, padding=1),
        valid={"paddingAmounts": borders(1, 1, 1, 1)},
        **given,
    )
    check(
        "pooling",
        [X],
        torched(mean, X, kernel_size=3, stride=2, padding=1),
        type=1,
        valid={"paddingAmounts": borders(1, 1, 1, 1)},
        **given,
    )
    inside = torched(mean, X, kernel_size=3, stride=2, padding=1, count_include_pad=False)
    check(
        "pooling",
        [X],
        inside,
        type=1,
        avgPoolExcludePadding=True,
        valid={"paddingAmounts": borders(1, 1, 1, 1)},
        **given,
    )
    check("pooling", [X], torched(most, X, kernel_size=3, stride=2, ceil_mode=True), includeLastPixel={}, **given)
    check(
        "pooling",
        [X],
        torched(functional.lp_pool2d, abs(X), norm_type=2, kernel_size=3, stride=2),
        type=2,
        valid={},
        **given,
    )
    check("pooling", [X], X.max((2, 3), keepdims=True), globalPooling=True)
    check("pooling", [X], X.mean((2, 3), keepdims=True), globalPooling=True, type=1)
    check("pooling", [X], np.sqrt((X * X).sum((2, 3), keepdims=True)), globalPooling=True, type=2)


def test_products() -> None:
    w, b = random(7, 5), random(7)
    given = {"inputChannels": 5, "outputChannels": 7, "hasBias": True, "weights": w, "bias": b}
    check("innerProduct", [A], A @ w.T + b, **given)
    check("innerProduct", [A[:, :, None, None]], (A @ w.T + b)[:, :, None, None], **given)
    three = random(2, 3, 5)
    check("innerProduct", [three], three @ w.T + b, **given)
    check("innerProduct", [A[0]], A[0] @ w.T + b, **given)
    left, right = random(2, 3, 4, 5), random(3, 5, 6)
    check("batchedMatmul", [left, right], left @ right)
    check("batchedMatmul", [A, B], A @ B.T, transposeB=True)
    weight = {
        "weightMatrixFirstDimension": 5,
        "weightMatrixSecondDimension": 7,
        "weights": w,
        "hasBias": True,
        "bias": b,
    }
    check("batchedMatmul", [three], three @ w.T + b, **weight)
    table, bias = random(6, 9), random(6)
    places = np.array([[2], [8], [0]], "float32")
    wanted = table.T[[2, 8, 0]] + bias
    check("embeddingND", [places], wanted, vocabSize=9, embeddingSize=6, hasBias=True, weights=table, bias=bias)
    check(
        "embedding",
        [places[:, :, None, None]],
        wanted[:, :, None, None],
        inputDim=9,
        outputChannels=6,
        hasBias=True,
        weights=table,
        bias=bias,
    )
    u, v = random(2, 4, 1, 1), random(2, 4, 1, 1)
    total = (u * v).sum(1, keepdims=True)
    check("dot", [u, v], total)
    sizes = np.sqrt((u * u).sum(1, keepdims=True)) * np.sqrt((v * v).sum(1, keepdims=True))
    check("dot", [u, v], total / sizes, cosineSimilarity=True)


def test_normalisation() -> None:
    gamma, beta, mean, variance = random(4), random(4), random(4), abs(random(4))
    given = {"channels": 4, "gamma": gamma, "beta": beta, "epsilon": 1e-3}
    wanted = torched(functional.batch_norm, X, mean, variance, gamma, beta, eps=1e-3)
    check("batchnorm", [X], wanted, mean=mean, variance=variance, **given)
    check("batchnorm", [X[0]], wanted[0], mean=mean, variance=variance, **given)
    wanted = torched(lambda x, g, b: functional.instance_norm(x, weight=g, bias=b, eps=1e-3), X, gamma, beta)
    check("batchnorm", [X], wanted, computeMeanVar=True, instanceNormalization=True, **given)
    g, b = random(6, 8), random(6, 8)
    wanted = torched(lambda x, g, b: functional.layer_norm(x, (6, 8), g, b), X, g, b)
    check("layerNormalization", [X], wanted, normalizedShape=[6, 8], gamma=g, beta=b)
    for across, axes in ((False, (2, 3)), (True, (1, 2, 3))):
        moved = X - X.mean(axes, keepdims=True)
        check("mvn", [X], moved, acrossChannels=across)
        power = (moved * moved).mean(axes, keepdims=True)
        check("mvn", [X], moved / np.sqrt(power + 1e-4), acrossChannels=across, normalizeVariance=True, epsilon=1e-4)
    check("l2normalize", [X], X / np.sqrt((X * X).sum((1, 2, 3), keepdims=True) + 1e-6))
    check(
        "lrn",
        [X],
        torched(functional.local_response_norm, X, size=3, alpha=0.5, beta=0.75, k=2.0),
        localSize=3,
        alpha=0.5,
        beta=0.75,
        k=2.0,
    )
    one, many = random(1), random(4)
    check(
        "scale", [X], X * many[:, None, None] + one, shapeScale=[4], scale=many, hasBias=True, shapeBias=[1], bias=one
    )
    plane = random(1, 6, 8)
    check("scale", [X], X * plane, shapeScale=[1, 6, 8], scale=plane)
    check("bias", [X], X + many[:, None, None], shape=[4], bias=many)


def test_reductions() -> None:
    kinds: list[Callable[..., Any]] = [
        np.sum, np.mean, np.prod, lambda x, **k: np.log(x + 1e-3).sum(**k), lambda x, **k: (x * x).sum(**k), lambda x, **k: abs(x).sum(**k),
        lambda x, **k: np.sqrt((x * x).sum(**k)), np.max, np.min,
    ]  # fmt: skip
    x = abs(X) + 0.5
    for mode, f in enumerate(kinds):
        for k, axes in enumerate([(1, 2, 3), (2, 3), 1, 2, 3]):
            check("reduce", [x], f(x, axis=axes, keepdims=True), mode=mode, axis=k, epsilon=1e-3)
    check("reduce", [X], X.argmax(1)[:, None].astype("float32"), mode=9, axis=2)
    named: dict[str, Callable[..., Any]] = {
        "L1": kinds[5], "L2": kinds[6], "Max": np.max, "Min": np.min, "Sum": np.sum, "Prod": np.prod, "Mean": np.mean,
        "LogSum": lambda x, **k: np.log(x.sum(**k)), "SumSquare": kinds[4], "LogSumExp": lambda x, **k: np.log(np.exp(x).sum(**k)),
    }  # fmt: skip
    for name, f in named.items():
        check(f"reduce{name}", [x], f(x, axis=(1, 3)), axes=[1, -1])
        check(f"reduce{name}", [x], f(x, axis=2, keepdims=True), axes=[2], keepDims=True)
    check("argMax", [A], A.argmax(1).astype("float32"), axis=-1, removeDim=True)
    check("argMin", [A], A.argmin(0)[None].astype("float32"), axis=0)
    best = torch.topk(torch.from_numpy(A), 2, largest=False)
    check("topK", [A], [best.values.numpy(), best.indices.numpy().astype("float32")], axis=1, K=2, useBottomK=True)


def test_images() -> None:
    check(
        "padding",
        [X],
        np.pad(X, [(0, 0), (0, 0), (1, 2), (3, 0)], constant_values=5),
        paddingAmounts=borders(1, 3, 2, 0),
        constant={"value": 5.0},
    )
    check(
        "padding",
        [X],
        np.pad(X, [(0, 0), (0, 0), (1, 2), (3, 0)], mode="reflect"),
        paddingAmounts=borders(1, 3, 2, 0),
        reflection={},
    )
    check(
        "padding",
        [X],
        np.pad(X, [(0, 0), (0, 0), (1, 2), (3, 0)], mode="edge"),
        paddingAmounts=borders(1, 3, 2, 0),
        replication={},
    )
    check("crop", [X], X[:, :, 1:-2, 3:], cropAmounts=borders(1, 3, 2, 0))
    check("crop", [X, random(2, 4, 3, 4)], X[:, :, 1:4, 2:6], offset=[1, 2])
    check("upsample", [X], X.repeat(2, 2).repeat(3, 3), scalingFactor=[2, 3])
    aligned = functional.interpolate(torch.from_numpy(X), (9, 11), mode="bilinear", align_corners=True).numpy()
    check("resizeBilinear", [X], aligned, targetSize=[9, 11])
    rows = np.minimum(np.arange(12) * 0.5, 5)
    low = np.floor(rows).astype(int)
    part = (rows - low)[:, None]
    wanted = X[:, :, low] * (1 - part) + X[:, :, np.minimum(low + 1, 5)] * part
    check("upsample", [X], wanted, scalingFactor=[2, 1], mode=1)
    check("resizeBilinear", [X], wanted, targetSize=[12, 8], mode={"samplingMethod": 2})
    blocks = X.reshape(2, 4, 3, 2, 4, 2).transpose(0, 3, 5, 1, 2, 4).reshape(2, 16, 3, 4)
    check("reorganizeData", [X], blocks, blockSize=2)
    back = X.reshape(2, 2, 2, 1, 6, 8).transpose(0, 3, 4, 1, 5, 2).reshape(2, 1, 12, 16)
    check("reorganizeData", [X], back, mode=1, blockSize=2)


def test_upsampling_at_fractions() -> None:
    x = torch.from_numpy(X)
    for mode, aligned in ((1, True), (2, False)):
        for factors in ([2, 3], [1.5, 1.25]):
            wanted = functional.interpolate(
                x, scale_factor=factors, mode="bilinear", align_corners=aligned, recompute_scale_factor=True
            ).numpy()
            given = {"fractionalScalingFactor" if isinstance(factors[0], float) else "scalingFactor": factors}
            check("upsample", [X], wanted, mode=1, linearUpsampleMode=mode, **given)
    with pytest.raises(OpNotImplemented, match="its linearUpsampleMode is 3; supported: DEFAULT"):
        check("upsample", [X], X, mode=1, linearUpsampleMode=3)
    with pytest.raises(ModelError, match=r"its fractionalScalingFactor is \[2.0\]"):
        check("upsample", [X], X, mode=1, fractionalScalingFactor=[2.0])


def test_parameters_that_are_not_known() -> None:
    made = model("softmaxND", [(2, 3)], 1, axis=1)
    made.neuralNetwork.layers[0].softmaxND.MergeFromString(bytes([0x78, 0x01]))
    with pytest.raises(OpNotImplemented, match=r"softmaxND 'layer': it has parameters .* \(fields of the numbers 15\)"):
        relay.frontend.from_coreml(made)
    with pytest.raises(OpNotImplemented, match="its type is 7; supported: 0"):
        check("pooling", [X], X, type=7)


def test_sizes_of_parts_fit() -> None:
    with pytest.raises(ModelError, match="it splits axis 0, of the extent 5, into parts of 4, 4"):
        check("splitND", [random(5)], [random(4), random(1)], axis=0, splitSizes=[4, 4])


def test_log_sum_exp_of_infinities() -> None:
    x = np.array([[-np.inf, -np.inf], [-np.inf, 1], [np.inf, -np.inf], [1e3, 1e3]], "float32")
    check("reduceLogSumExp", [x], torched(torch.logsumexp, x, dim=1), axes=[1], keepDims=False)


def test_movement() -> None:
    five = random(2, 3, 4, 5, 6)
    check("flatten", [X], X.reshape(2, -1, 1, 1))
    check("flatten", [X], X.transpose(0, 2, 3, 1).reshape(2, -1, 1, 1), mode=1)
    check("reshape", [X], X.reshape(2, 8, 4, 6), targetShape=[8, 4, 6])
    last = X.transpose(0, 2, 3, 1).reshape(2, 4, 6, 8).transpose(0, 3, 1, 2)
    check("reshape", [X], last, targetShape=[8, 4, 6], mode=1)
    check("permute", [X], X.transpose(0, 3, 1, 2), axis=[0, 3, 1, 2])
    check("permute", [five], five.transpose(4, 1, 2, 3, 0), axis=[3, 1, 2, 0])
    check("transpose", [five], five.transpose(4, 1, 2, 3, 0), axes=[4, 1, 2, 3, 0])
    check("concat", [X, X], np.concatenate([X, X], 1))
    check("concat", [five, five], np.concatenate([five, five], 0), sequenceConcat=True)
    check("concatND", [A, B], np.concatenate([A, B], 1), axis=-1)
    check("concatND", [A, B], np.stack([A, B], 1).reshape(6, 5), axis=0, interleave=True)
    check("split", [X], list(np.split(X, 2, 1)), nOutputs=2)
    check("splitND", [X], list(np.split(X, 4, 3)), axis=-1, numSplits=4)
    check("splitND", [X], [X[..., :3], X[..., 3:]], axis=3, splitSizes=[3, 5])
    check("sequenceRepeat", [five], np.tile(five, (3, 1, 1, 1, 1)), nRepetitions=3)
    check("tile", [A], np.tile(A, (2, 3)), reps=[2, 3])
    check("slice", [X], X[:, 1:-1], startIndex=1, endIndex=-1, stride=1, axis=0)
    check("slice", [X], X[..., 1:8:3], startIndex=1, endIndex=8, stride=3, axis=2)
    masks = {"beginMasks": [True, False, False, True], "endMasks": [True, False, True, True]}
    ids = {"beginIds": [0, 1, -1, 0], "endIds": [0, 3, 0, 0], "strides": [1, 1, -2, 1]}
    check("sliceStatic", [X], X[:, 1:3, -1::-2], **ids, **masks)
    check("sliceStatic", [A], A[1], beginIds=[1, 0], endIds=[2, 5], strides=[1, 1], beginMasks=[False, False], endMasks=[False, False],
          squeezeMasks=[True, False])  # fmt: skip
    check("stack", [A, B], np.stack([A, B], 1), axis=1)
    rows = np.array([2, -1, 0], "float32")
    check("gather", [A, rows], A[[2, -1, 0]], axis=0)
    places = np.array([[0, 4], [1, 1], [2, 0]], "float32")
    check("gatherAlongAxis", [A, places], np.take_along_axis(A, places.astype(int), 1), axis=1)
    check("reverse", [A], A[:, ::-1].copy(), reverseDim=[False, True])
    check("squeeze", [A[None, :, None]], A, axes=[0, -2])
    check("squeeze", [A[None, :, None]], A, squeezeAll=True)
    check("expandDims", [A], A[None, :, None], axes=[0, 2])
    check("flattenTo2D", [X], X.reshape(8, -1), axis=-2)
    check("reshapeStatic", [X], X.reshape(8, -1), targetShape=[8, -1])
    check("rankPreservingReshape", [X], X.reshape(2, 8, 3, 8), targetShape=[0, 8, -1, 8])
    check("reshapeLike", [A, random(5, 3)], A.reshape(5, 3))
    check("broadcastToStatic", [A[:1]], A[:1].repeat(4, 0), targetShape=[4, 5])
    check("broadcastToLike", [A[:1], B], A[:1].repeat(3, 0))
    check("loadConstantND", [], A, shape=[3, 5], data=A)
    check("loadConstant", [], X[:1], shape=[4, 6, 8], data=X[0])
    check("fillStatic", [], np.full((2, 3), 2.5, "float32"), value=2.5, targetShape=[2, 3])
    check("fillLike", [A], np.full((3, 5), 2.5, "float32"), value=2.5)
    check("getShape", [X], np.array(X.shape, "int32"))


def test_every_layer_is_tested() -> None:
    text = Path(__file__).read_text()
    spelled = {
        f"reduce{name}"
        for name in ("L1", "L2", "Max", "Min", "Sum", "Prod", "Mean", "LogSum", "SumSquare", "LogSumExp")
    }
    assert {n for n in supported_layers() if f'"{n}"' not in text} <= spelled


def test_an_image_classifier_before_version_4(tmp_path: Path) -> None:
    """Tensors have four axes, images a scale and a shift for each color; a dense layer gives (batch, classes)."""
    made = message("Model")(specificationVersion=1)
    network = made.neuralNetworkClassifier
    feature = made.description.input.add(name="image")
    feature.type.imageType.width, feature.type.imageType.height, feature.type.imageType.colorSpace = 8, 6, 30
    p = network.preprocessing.add(featureName="image")
    p.scaler.channelScale, p.scaler.blueBias, p.scaler.greenBias, p.scaler.redBias = 0.5, 1.0, 2.0, 3.0
    w, dense, bias = random(4, 3, 3, 3), random(5, 4), random(5)
    layers: list[tuple[str, dict[str, Any]]] = [
        ("convolution", {"outputChannels": 4, "kernelChannels": 3, "kernelSize": [3, 3], "weights": w, "same": {}}),
        ("activation", {"ReLU": {}}),
        ("pooling", {"globalPooling": True, "type": 1}),
        ("flatten", {}),
        ("innerProduct", {"inputChannels": 4, "outputChannels": 5, "hasBias": True, "weights": dense, "bias": bias}),
        ("softmax", {}),
    ]
    for k, (kind, params) in enumerate(layers):
        layer = network.layers.add(
            name=kind, input=[f"t{k - 1}" if k else "image"], output=[f"t{k}" if k < 5 else "probabilities"]
        )
        getattr(layer, kind).SetInParent()
        fill(getattr(layer, kind), params)
    for name in ("probabilities", "label"):
        made.description.output.add(name=name)
    path = tmp_path / "classifier.mlmodel"
    path.write_bytes(made.SerializeToString())
    x = random(1, 3, 6, 8)
    scaled = x * 0.5 + np.array([1, 2, 3], "float32").reshape(1, 3, 1, 1)
    out = torched(functional.conv2d, scaled, w, padding=1)
    wanted = torched(functional.softmax, np.maximum(out, 0).mean((2, 3)) @ dense.T + bias, dim=1)
    (got,) = run(path, [x])
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-5)
    (two,) = run(path, [np.concatenate([x, x])], {"image": (2, 3, 6, 8)})
    np.testing.assert_allclose(two, np.concatenate([wanted, wanted]), rtol=1e-3, atol=1e-5)


def test_arrays_before_version_4() -> None:
    w = random(7, 5)
    made = model("innerProduct", [(5,)], 1, exact=False, inputChannels=5, outputChannels=7, weights=w)
    np.testing.assert_allclose(run(made, [A[:1, :, None, None].reshape(1, 5)])[0], A[:1] @ w.T, rtol=1e-4, atol=1e-5)
    made = model("mvn", [(4, 6, 8)], 1, exact=False)
    np.testing.assert_allclose(run(made, [X[:1]])[0], X[:1] - X[:1].mean((2, 3), keepdims=True), rtol=1e-4, atol=1e-5)


def test_a_mean_image() -> None:
    made = model("copy", [(4, 6, 8)], 1, exact=False)
    mean = random(4, 6, 8)
    made.neuralNetwork.preprocessing.add(featureName="x0").meanImage.meanImage.extend(mean.reshape(-1).tolist())
    np.testing.assert_allclose(run(made, [X[:1]])[0], X[:1] - mean, rtol=1e-5, atol=1e-6)


def test_weights_of_few_bits() -> None:
    """float16; 4 bits with a scale and a shift for each row; 2 bits with a table."""
    w = random(6, 5)
    base: dict[str, Any] = {"inputChannels": 5, "outputChannels": 6}
    made = model("innerProduct", [A.shape], 1, **base)
    weights = made.neuralNetwork.layers[0].innerProduct.weights
    weights.float16Value = w.astype("float16").tobytes()
    np.testing.assert_allclose(run(made, [A])[0], A @ w.astype("float16").astype("float32").T, rtol=1e-4, atol=1e-5)
    codes = RNG.integers(0, 16, (6, 5))
    bits = np.unpackbits(codes.astype("uint8").reshape(-1, 1), axis=1)[:, 4:].reshape(-1)
    made = model("innerProduct", [A.shape], 1, **base)
    weights = made.neuralNetwork.layers[0].innerProduct.weights
    weights.rawValue, weights.quantization.numberOfBits = np.packbits(bits).tobytes(), 4
    scale, shift = abs(random(6)), random(6)
    weights.quantization.linearQuantization.scale.extend(scale.tolist())
    weights.quantization.linearQuantization.bias.extend(shift.tolist())
    np.testing.assert_allclose(
        run(made, [A])[0], A @ (codes * scale[:, None] + shift[:, None]).astype("float32").T, rtol=1e-4, atol=1e-4
    )
    codes, table = codes % 4, random(4)
    bits = np.unpackbits(codes.astype("uint8").reshape(-1, 1), axis=1)[:, 6:].reshape(-1)
    made = model("innerProduct", [A.shape], 1, **base)
    weights = made.neuralNetwork.layers[0].innerProduct.weights
    weights.rawValue, weights.quantization.numberOfBits = np.packbits(bits).tobytes(), 2
    weights.quantization.lookupTableQuantization.floatValue.extend(table.tolist())
    np.testing.assert_allclose(run(made, [A])[0], A @ table[codes].T, rtol=1e-4, atol=1e-5)


def test_messages(tmp_path: Path) -> None:
    made = model("copy", [(2, 3)], 1)
    made.neuralNetwork.layers[0].ClearField("copy")
    # A field that is not known: a recurrent layer, of the number 420.
    unknown = bytes([0xA2, 0x1A, 0x00])
    raw = message("Model")()
    raw.CopyFrom(made)
    raw.neuralNetwork.layers[0].MergeFromString(unknown)
    with pytest.raises(OpNotImplemented, match=r"layer of the number 420 \(1 layer: 'layer'\)"):
        relay.frontend.from_coreml(raw)
    with pytest.raises(OpNotImplemented, match="it is of the kind mlProgram; neural networks are supported"):
        relay.frontend.from_coreml(bytes([0xB2, 0x1F, 0x00]))
    with pytest.raises(ModelError, match="model is a list"):
        relay.frontend.from_coreml([])
    with pytest.raises(ModelError, match="No such file"):
        relay.frontend.from_coreml(tmp_path / "none.mlmodel")
    with pytest.raises(ModelError, match="it is no model of Core ML"):
        relay.frontend.from_coreml(b"\xff\xff\xff")
    with pytest.raises(ModelError, match=r"shape gives axis 1 of the input 'x0' the extent 4, but the model says 3"):
        relay.frontend.from_coreml(model("copy", [(2, 3)], 1), {"x0": (2, 4)})
    with pytest.raises(OpNotImplemented, match="batchnorm 'layer': it normalises by the mean of the batch"):
        ones = np.ones(4, "float32")
        relay.frontend.from_coreml(
            model("batchnorm", [X.shape], 1, channels=4, computeMeanVar=True, gamma=ones, beta=ones)
        )
