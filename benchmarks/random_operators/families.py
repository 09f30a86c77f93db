"""Families of random cases for `random_shapes`: how each draws one, those that compute here."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from benchmarks.random_operators.cases import Case, Conv, Gemm, Values, log_uniform
from benchmarks.random_operators.draws import (
    LEAST_ELEMENTS,
    MOST_ELEMENTS,
    Rng,
    extent,
    ints,
    joined,
    node,
    number,
    out_call,
    pick,
    plain_call,
    shape,
)
from benchmarks.random_operators.moves import concat, cumsum, gather, one_hot, order, resize, scatter, transpose


def batch_matmul(rng: Rng) -> Case:
    """A batch of products; B is a constant or computed, of as many axes, of fewer, or broadcast."""
    import torch

    while True:
        lead = tuple([log_uniform(rng, 64) for _ in range(int(rng.integers(1, 3)))])
        m, n, k = (extent(rng) for _ in range(3))
        other = pick(rng, lead, lead, lead, (), (1,) * len(lead))
        constant = rng.random() < 0.4
        sizes = [prod(lead) * m * k, prod(other) * k * n, prod(lead) * m * n]
        if 1e4 <= 2 * prod(lead) * m * n * k <= 4e8 and max(sizes) <= MOST_ELEMENTS:
            break
    turned = rng.random() < 0.25
    w = {"w": Values((*other, n, k) if turned and other else (*other, k, n))}
    nodes = [node("MatMul", "x w")]
    if turned and other:
        axes = [*range(len(other)), len(other) + 1, len(other)]
        nodes = [node("Transpose", "w", "t", perm=axes), node("MatMul", "x t")]

    def call(given: dict[str, Any], out: Any) -> Callable[[], Any]:
        x, b = given["x"], given["w"].mT if turned and other else given["w"]
        return lambda: torch.matmul(x, b, out=out)

    name = f"{joined(lead)} of {m}x{n}x{k}, B {joined(other)}{' turned' * (turned and bool(other))}"
    held: tuple[dict[str, Any], dict[str, Any]] = ({}, w) if constant else (w, {})
    return Case(
        f"batch_matmul, {'constant' if constant else 'variable'}", name, nodes, {"x": Values((*lead, m, k)), **held[0]}, call,
        held[1], flops=2 * prod(lead) * m * n * k,
    )  # fmt: skip


def pool(rng: Rng) -> Case:
    """Largest or mean of windows over one to three axes, or of everything."""
    import torch
    import torch.nn.functional as F

    axes = int(rng.choice([1, 2, 3], p=[0.2, 0.65, 0.15]))
    while True:
        side = extent(rng, (1024, 224, 48)[axes - 1])
        image = tuple([side if rng.random() < 0.7 else extent(rng, (1024, 224, 48)[axes - 1]) for _ in range(axes)])
        data = (pick(rng, 1, 1, 1, 2, 4), extent(rng), *image)
        kernel = tuple([int(rng.choice([2, 3, 4, 5, 7, 9, 13], p=[0.25, 0.4, 0.05, 0.1, 0.1, 0.05, 0.05]))] * axes)
        if rng.random() < 0.15:
            kernel = tuple([int(rng.integers(1, 6)) for _ in range(axes)])
        pads = [pick(rng, 0, k // 2) for k in kernel]
        # torch's mean over three axes takes no kernels that are larger than the image without its padding.
        least = [e + 2 * p if axes < 3 else e for e, p in zip(image, pads, strict=True)]
        if LEAST_ELEMENTS <= prod(data) <= MOST_ELEMENTS and all(e >= k for e, k in zip(least, kernel, strict=True)):
            break
    largest = rng.random() < 0.5
    if rng.random() < 0.15:
        reduce = torch.amax if largest else torch.mean
        kind = "GlobalMaxPool" if largest else "GlobalAveragePool"
        dims = tuple(range(2, 2 + axes))
        return Case(
            "pool, global", f"{kind} {joined(data)}", [node(kind)], {"x": Values(data)}, out_call(reduce, dims, True)
        )
    stride, up = pick(rng, 1, 2, 2, kernel[0], 3), bool(rng.random() < 0.15)
    attributes = {"kernel_shape": kernel, "strides": [stride] * axes, "pads": [*pads, *pads], "ceil_mode": int(up)}
    name = f"{joined(data)} k{joined(kernel)} s{stride} p{joined(pads)}{' ceil' * up}"
    if largest:
        function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[axes - 1]
        call = plain_call(lambda x: function(x, kernel, stride, pads, 1, up))
        return Case("pool, max", name, [node("MaxPool", **attributes)], {"x": Values(data)}, call)
    counted = bool(rng.random() < 0.5)
    function = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[axes - 1]
    call = plain_call(lambda x: function(x, kernel, stride, pads, up, counted))
    nodes = [node("AveragePool", **attributes, count_include_pad=int(counted))]
    return Case("pool, mean", f"{name}{' counted' * counted}", nodes, {"x": Values(data)}, call)


def softmax(rng: Rng) -> Case:
    import torch

    data = shape(rng, 1, 4)
    axis = len(data) - 1 if rng.random() < 0.6 else int(rng.integers(len(data)))
    log = rng.random() < 0.2
    f = torch.log_softmax if log else torch.softmax
    kind = "softmax, last" if axis == len(data) - 1 else "softmax, other axis"
    name = f"{'log ' * log}{joined(data)} axis {axis}"
    return Case(
        kind, name, [node("LogSoftmax" if log else "Softmax", axis=axis)], {"x": Values(data)}, out_call(f, axis)
    )


def norm(rng: Rng) -> Case:
    import torch.nn.functional as F

    kind = pick(rng, "layer", "rms", "instance", "group")
    if kind in ("layer", "rms"):
        data = shape(rng, 2, 4, batch=True)
        axis = len(data) - (2 if rng.random() < 0.2 and len(data) > 2 else 1)
        size = data[axis:]
        constants: dict[str, Any] = {"w": Values(size), "b": Values(size)}
        if kind == "layer":
            call = plain_call(lambda x, w, b: F.layer_norm(x, size, w, b), "x", "w", "b")
            nodes = [node("LayerNormalization", "x w b", axis=axis)]
        else:
            call = plain_call(lambda x, w: F.rms_norm(x, size, w, 1e-5), "x", "w")
            nodes = [node("RMSNormalization", "x w", axis=axis, epsilon=1e-5)]
            del constants["b"]
        return Case(f"norm, {kind}", f"{joined(data)} from axis {axis}", nodes, {"x": Values(data)}, call, constants)
    while True:
        data = shape(rng, 3, 5, batch=True)
        if prod(data[2:]) > 1:
            break
    constants = {"w": Values(data[1:2]), "b": Values(data[1:2])}
    if kind == "instance":
        call = plain_call(lambda x, w, b: F.instance_norm(x, weight=w, bias=b), "x", "w", "b")
        return Case(
            "norm, instance",
            joined(data),
            [node("InstanceNormalization", "x w b")],
            {"x": Values(data)},
            call,
            constants,
        )
    groups = pick(rng, *[g for g in range(1, 65) if data[1] % g == 0])
    call = plain_call(lambda x, w, b: F.group_norm(x, groups, w, b), "x", "w", "b")
    nodes = [node("GroupNormalization", "x w b", num_groups=groups)]
    return Case("norm, group", f"{joined(data)} in {groups}", nodes, {"x": Values(data)}, call, constants)


def attention(rng: Rng) -> Case:
    """As exporters write it, or as ONNX's own operator; whole, causal, with a mask; few queries among them."""
    import torch.nn.functional as F

    while True:
        batch, heads, width = (
            pick(rng, 1, 1, 2, 4),
            int(rng.integers(1, 25)),
            pick(rng, 32, 40, 48, 64, 80, 96, 128, extent(rng, 160)),
        )
        keys = extent(rng, 2048)
        queries = keys if rng.random() < 0.6 else (pick(rng, 1, 2, 7) if rng.random() < 0.5 else extent(rng, 1024))
        if (
            1e5 <= 4 * batch * heads * queries * keys * width <= 1.2e9
            and batch * heads * keys * max(queries, width) <= 4 * MOST_ELEMENTS
        ):
            break
    form = pick(rng, "whole", "mask", "causal") if queries == keys else pick(rng, "whole", "mask")
    whole = rng.random() < 0.5
    shapes = [(batch, heads, rows, width) for rows in (queries, keys, keys)]
    inputs = {n: Values(s) for n, s in zip(("x", "k", "v"), shapes, strict=True)}
    constants: dict[str, Any] = {}
    if form == "mask":
        inputs["m"] = Values((batch, 1, queries, keys))
    if whole:
        nodes = [node("Attention", f"x k v{' m' * (form == 'mask')}", is_causal=int(form == "causal"))]
    else:
        nodes = [node("Transpose", "k", "t", perm=[0, 1, 3, 2]), node("MatMul", "x t", "s"), node("Mul", "s c", "s1")]
        constants["c"] = number(width**-0.5)
        if form == "causal":
            constants["m"] = np.triu(np.full((1, 1, queries, keys), -1e9, np.float32), 1)
        nodes += [node("Add", "s1 m", "s2")] if form != "whole" else []
        nodes += [node("Softmax", "s2" if form != "whole" else "s1", "p", axis=-1), node("MatMul", "p v")]
    if form == "mask":
        call = plain_call(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), "x", "k", "v", "m")
    else:
        causal = form == "causal"
        call = plain_call(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), "x", "k", "v")
    few = ", few queries" if queries * 8 <= keys else ""
    name = f"{batch}x{heads} of {queries} to {keys} x {width}, {form}{', one operator' * whole}"
    return Case(
        f"attention{few}", name, nodes, inputs, call, constants, flops=4 * batch * heads * queries * keys * width
    )


def activation(rng: Rng) -> Case:
    import torch
    import torch.nn.functional as F

    kinds: dict[str, tuple[str, dict[str, Any], Callable[..., Any], bool]] = {
        "gelu": ("Gelu", {}, F.gelu, False),
        "gelu tanh": ("Gelu", {"approximate": "tanh"}, lambda x: F.gelu(x, approximate="tanh"), False),
        "silu": ("", {}, F.silu, False),
        "mish": ("Mish", {}, F.mish, False),
        "hard_swish": ("HardSwish", {}, F.hardswish, False),
        "hard_sigmoid": ("HardSigmoid", {"alpha": 1 / 6}, F.hardsigmoid, False),
        "softplus": ("Softplus", {}, F.softplus, False),
        "softsign": ("Softsign", {}, F.softsign, False),
        "elu": ("Elu", {}, F.elu, False),
        "selu": ("Selu", {}, F.selu, False),
        "celu": ("Celu", {}, F.celu, False),
        "relu": ("Relu", {}, F.relu, False),
        "leaky_relu": ("LeakyRelu", {"alpha": 0.01}, F.leaky_relu, False),
        "sigmoid": ("Sigmoid", {}, torch.sigmoid, True),
        "tanh": ("Tanh", {}, torch.tanh, True),
        "exp": ("Exp", {}, torch.exp, True),
        "log": ("Log", {}, torch.log, True),
        "erf": ("Erf", {}, torch.erf, True),
        "sin": ("Sin", {}, torch.sin, True),
        "cos": ("Cos", {}, torch.cos, True),
        "tan": ("Tan", {}, torch.tan, True),
        "atan": ("Atan", {}, torch.atan, True),
        "asin": ("Asin", {}, torch.asin, True),
        "sinh": ("Sinh", {}, torch.sinh, True),
        "sqrt": ("Sqrt", {}, torch.sqrt, True),
        "reciprocal": ("Reciprocal", {}, torch.reciprocal, True),
        "abs": ("Abs", {}, torch.abs, True),
        "floor": ("Floor", {}, torch.floor, True),
        "round": ("Round", {}, torch.round, True),
        "sign": ("Sign", {}, torch.sign, True),
    }
    kind = pick(rng, *kinds)
    onnx_name, attributes, f, writes = kinds[kind]
    data = shape(rng, 1, 4, batch=True)
    nodes = [node(onnx_name, **attributes)] if onnx_name else [node("Sigmoid", "x", "s"), node("Mul", "x s")]
    positive = kind in ("log", "sqrt", "asin", "reciprocal")
    held = Values(data, low=1e-3, high=1.0) if positive else Values(data)
    cost = (
        "cheap"
        if kind
        in (
            "relu",
            "leaky_relu",
            "abs",
            "floor",
            "round",
            "sign",
            "sqrt",
            "reciprocal",
            "hard_swish",
            "hard_sigmoid",
            "softsign",
        )
        else "costly"
    )
    return Case(
        f"activation, {cost}", f"{kind} {joined(data)}", nodes, {"x": held}, (out_call if writes else plain_call)(f)
    )


def reduction(rng: Rng) -> Case:
    """Over any set of axes."""
    import torch

    data = shape(rng, 1, 5)
    count = int(rng.integers(1, len(data) + 1))
    axes = tuple(sorted(map(int, rng.choice(len(data), count, replace=False))))
    keep = bool(rng.random() < 0.5)
    kinds: dict[str, tuple[Callable[..., Any], bool]] = {
        "Sum": (torch.sum, True), "Mean": (torch.mean, True), "Max": (torch.amax, True), "Min": (torch.amin, True),
        "LogSumExp": (torch.logsumexp, True), "L2": (torch.linalg.vector_norm, False),
        "L1": (torch.linalg.vector_norm, False),
        "SumSquare": (torch.sum, False), "Prod": (torch.prod, False),
    }  # fmt: skip
    kind = pick(rng, "Sum", "Sum", "Mean", "Mean", *kinds)
    f, writes = kinds[kind]
    held = Values(data)
    call: Any = out_call(f, axes, keep)
    if kind in ("L1", "L2"):
        call = out_call(f, int(kind[1]), axes, keep)
    elif kind == "SumSquare":
        call = plain_call(lambda x: (x * x).sum(axes, keepdim=keep))
    elif kind == "Prod":
        axes = axes[:1]
        held = Values(data, low=0.99, high=1.01)
        call = plain_call(lambda x: x.prod(axes[0], keepdim=keep))
    place = "all" if len(axes) == len(data) else "last" if axes == tuple(range(len(data) - len(axes), len(data))) else (
        "first" if axes == tuple(range(len(axes))) else "middle")  # fmt: skip
    nodes = [node(f"Reduce{kind}", "x axes", keepdims=int(keep))]
    name = f"{kind} {joined(data)} axes {','.join(map(str, axes))}{' kept' * keep}"
    # Sums of normal numbers may be near zero, all of them.
    return Case(f"reduction, {place}", name, nodes, {"x": held}, call, {"axes": ints(*axes)}, tolerance=1e-3)


def argument(rng: Rng) -> Case:
    import torch

    data = shape(rng, 1, 4)
    axis = len(data) - 1 if rng.random() < 0.5 else int(rng.integers(len(data)))
    keep, largest = bool(rng.random() < 0.3), bool(rng.random() < 0.7)
    call = out_call(torch.argmax if largest else torch.argmin, axis, keep)
    nodes = [node("ArgMax" if largest else "ArgMin", axis=axis, keepdims=int(keep))]
    kind = "argmax, last" if axis == len(data) - 1 else "argmax, other axis"
    return Case(
        kind, f"{'max' if largest else 'min'} {joined(data)} axis {axis}", nodes, {"x": Values(data)}, call, tolerance=0
    )


def elementwise(rng: Rng) -> Case:
    """Two tensors, one of which may be broadcast along some axes."""
    import torch

    kinds: dict[str, tuple[str, Callable[..., Any]]] = {
        "add": ("Add", torch.add), "sub": ("Sub", torch.sub), "mul": ("Mul", torch.mul), "div": ("Div", torch.div),
        "max": ("Max", torch.maximum), "pow": ("Pow", torch.pow), "less": ("Less", torch.lt),
        "where": ("Where", torch.where),
    }  # fmt: skip
    kind = pick(rng, "add", "mul", *kinds)
    data = shape(rng, 1, 5)
    other = [1 if rng.random() < 0.4 else e for e in data]
    other = other[int(rng.integers(len(other) + 1)) :] if rng.random() < 0.3 else other
    mine = [1 if rng.random() < 0.15 and len(other) == len(data) else e for e in data]
    name, f = kinds[kind]
    shapes = [tuple(mine), tuple(other)]
    if rng.random() < 0.2:
        shapes.reverse()
    x, w = [Values(s, low=0.1, high=2.0) if kind == "pow" else Values(s) for s in shapes]
    inputs = {"x": x, "w": w}

    def call(given: dict[str, Any], out: Any) -> Callable[[], Any]:
        a, b = given["x"], given["w"]
        if kind == "where":
            c = given["c"]
            return lambda: torch.where(c, a, b, out=out)
        return lambda: f(a, b, out=out)

    if kind == "where":
        inputs["c"] = Values(pick(rng, *shapes), "bool", 0, 2)
    kind_of = "elementwise, same" if shapes[0] == shapes[1] else "elementwise, broadcast"
    nodes = [node(name, "c x w" if kind == "where" else "x w")]
    return Case(kind_of, f"{kind} {joined(shapes[0])} and {joined(shapes[1])}", nodes, inputs, call)


def of_bytes(rng: Rng) -> Case:
    """Convolutions and products of unsigned data by signed weights, requantised."""
    import torch

    def quantised(given: dict[str, Any], scale: float) -> Any:
        x = given["x"]
        return torch._make_per_tensor_quantized_tensor(x, scale, 128)

    constants: dict[str, Any] = {
        "zx": np.array(128, np.uint8),
        "zw": np.array(0, np.int8),
        "zy": np.array(128, np.uint8),
    }
    constants |= {"sx": number(0.02)}
    if rng.random() < 0.4:
        while True:
            m, n, k = (extent(rng) for _ in range(3))
            if m * n * k >= 4096:
                break
        constants |= {"w": Values((k, n), "int8", -127, 128), "sw": number(0.01), "sy": number(0.02 * 73 * k**0.5)}
        nodes = [node("QLinearMatMul", "x sx zx w sw zw sy zy")]

        def call(given: dict[str, Any], _: Any) -> Callable[[], Any]:
            x = quantised(given, 0.02)
            w = torch._make_per_tensor_quantized_tensor(given["w"].t().contiguous(), 0.01, 0)
            packed, sy = torch.ops.quantized.linear_prepack(w, None), float(given["sy"])
            return lambda: torch.ops.quantized.linear(x, packed, sy, 128).int_repr()

        inputs = {"x": Values((m, k), "uint8", 0, 256)}
        return Case(
            "bytes, product", f"{m}x{n}x{k}", nodes, inputs, call, constants, flops=2 * m * n * k, tolerance=0.01
        )
    while True:
        c = Conv.draw(rng)
        if not c.transposed and c.constant and max(c.padding) * 2 <= max(c.kernel) * c.dilation:
            break
    reach = prod(c.weight_shape[1:])
    constants |= {"w": Values(c.weight_shape, "int8", -127, 128), "sw": Values((c.channels,), low=0.005, high=0.01)}
    constants |= {"zw": np.zeros(c.channels, np.int8), "sy": number(0.02 * 73 * reach**0.5)}
    n = len(c.image)
    nodes = [
        node("QLinearConv", "x sx zx w sw zw sy zy", kernel_shape=c.kernel, strides=[c.stride] * n, pads=c.padding * 2,
             dilations=[c.dilation] * n, group=c.groups)
    ]  # fmt: skip

    def call(given: dict[str, Any], _: Any) -> Callable[[], Any]:
        x = quantised(given, 0.02)
        w = torch._make_per_channel_quantized_tensor(
            given["w"], given["sw"].double(), torch.zeros(c.channels, dtype=torch.long), 0
        )
        sy = float(given["sy"])
        packed = torch.ops.quantized.conv2d_prepack(
            w, None, [c.stride] * 2, list(c.padding), [c.dilation] * 2, c.groups
        )
        return lambda: torch.ops.quantized.conv2d(x, packed, sy, 128).int_repr()

    inputs = {"x": Values(c.data_shape, "uint8", 0, 256)}
    return Case(f"bytes, {c.kind}", c.name, nodes, inputs, call, constants, flops=c.flops, tolerance=0.01)


def of_bfloat16(rng: Rng) -> Case:
    """Products and convolutions whose tensors are all bfloat16."""
    from dataclasses import replace

    while True:
        found: Gemm | Conv = Gemm.draw(rng) if rng.random() < 0.5 else Conv.draw(rng)
        if found.flops >= 1 << 13 and found.constant:
            break
    case = found.case()

    def halves(held: dict[str, Any]) -> dict[str, Any]:
        return {n: replace(v, dtype="bfloat16") for n, v in held.items()}

    kind = "bfloat16, gemm" if isinstance(found, Gemm) else f"bfloat16, {case.kind}"
    return replace(case, kind=kind, inputs=halves(case.inputs), constants=halves(case.constants), tolerance=0.02)


FAMILIES: dict[str, Callable[[Rng], Case]] = {
    "gemm": lambda rng: Gemm.draw(rng).case(),
    "conv": lambda rng: Conv.draw(rng).case(),
    "conv1d": lambda rng: Conv.draw(rng, 1, 4096).case(),
    "conv3d": lambda rng: Conv.draw(rng, 3, 48).case(),
    "large_conv": lambda rng: Conv.draw(rng, kernels="large").case(),
    "first_conv": lambda rng: Conv.draw(rng, extent=512, kernels="first").case(),
    "batch_matmul": batch_matmul,
    "pool": pool,
    "softmax": softmax,
    "norm": norm,
    "attention": attention,
    "activation": activation,
    "reduction": reduction,
    "argmax": argument,
    "gather": gather,
    "transpose": transpose,
    "concat": concat,
    "resize": resize,
    "cumsum": cumsum,
    "order": order,
    "scatter": scatter,
    "one_hot": one_hot,
    "elementwise": elementwise,
    "bytes": of_bytes,
    "bfloat16": of_bfloat16,
}


def draw(family: str, seed: int, index: int) -> Case:
    """The case with this number; it does not depend on how many others are drawn."""
    return FAMILIES[family](np.random.default_rng([seed, index, list(FAMILIES).index(family)]))
