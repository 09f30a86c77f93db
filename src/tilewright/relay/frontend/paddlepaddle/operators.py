"""Converters of arithmetic, layers and reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.common import activations
from tilewright.relay.frontend.common.builder import same_padding
from tilewright.relay.frontend.common.products import product
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.paddlepaddle.node import ProgramOp, paddle_op
from tilewright.support.errors import OpNotImplemented

UNARY = {
    "relu": "nn.relu", "sigmoid": "sigmoid", "tanh": "tanh", "exp": "exp", "log": "log", "log2": "log2", "log10": "log10", "sqrt": "sqrt",
    "rsqrt": "rsqrt", "abs": "abs", "floor": "floor", "ceil": "ceil", "sin": "sin", "cos": "cos", "tan": "tan",
    "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh", "erf": "erf", "sign": "sign",
    "logical_not": "logical_not", "isnan_v2": "isnan", "isinf_v2": "isinf", "isfinite_v2": "isfinite",
}  # fmt: skip
BINARY = {
    "elementwise_add": "add", "elementwise_sub": "subtract", "elementwise_mul": "multiply", "elementwise_div": "divide",
    "elementwise_pow": "power", "elementwise_max": "maximum", "elementwise_min": "minimum", "elementwise_mod": "floor_mod",
    "elementwise_floordiv": "floor_divide", "equal": "equal", "not_equal": "not_equal", "less_than": "less", "less_equal": "less_equal",
    "greater_than": "greater", "greater_equal": "greater_equal", "logical_and": "logical_and", "logical_or": "logical_or",
    "logical_xor": "logical_xor",
}  # fmt: skip


@paddle_op(*UNARY)
def _unary(c: ProgramOp) -> Value:
    return c.call(UNARY[c.kind], c.one())


@paddle_op("round")
def _round(c: ProgramOp) -> Value:
    # Halves go away from zero. The part after the point is exact, while x + 0.5 may be rounded itself.
    x = c.one()
    whole = c.call("trunc", x)
    beyond = c.call("greater_equal", c.call("abs", c.call("subtract", x, whole)), 0.5)
    return c.call("where", beyond, c.call("add", whole, c.call("sign", x)), whole)


@paddle_op(*BINARY)
def _binary(c: ProgramOp) -> Value:
    a, b = c.one(), c.one("Y")
    axis = c.whole("axis", -1)
    if axis >= 0 and b.ndim < a.ndim and axis + b.ndim < a.ndim:
        # The axes of the second begin at this axis of the first.
        b = c.reshape(b, [*b.shape, *[1] * (a.ndim - axis - b.ndim)])
    return c.call(BINARY[c.kind], a, b)


@paddle_op("square")
def _square(c: ProgramOp) -> Value:
    return c.call("multiply", c.one(), c.one())


@paddle_op("reciprocal")
def _reciprocal(c: ProgramOp) -> Value:
    return c.call("divide", c.number(1, c.one().dtype), c.one())


@paddle_op("pow")
def _pow(c: ProgramOp) -> Value:
    factor = c.maybe("FactorTensor")
    return c.call("power", c.one(), factor if factor is not None else c.real("factor", 1.0))


@paddle_op("scale")
def _scale(c: ProgramOp) -> Value:
    x, given = c.one(), c.maybe("ScaleTensor")
    scale: Any = given if given is not None else c.real("scale", 1.0)
    shift = c.real("bias")
    if x.dtype.startswith("int") and not isinstance(scale, Value):
        scale, shift = int(scale), int(shift)
    if not c.flag("bias_after_scale", True):
        return c.call("multiply", c.call("add", x, shift), scale)
    out = x if not isinstance(scale, Value) and scale == 1 else c.call("multiply", x, scale)
    return c.call("add", out, shift) if shift else out


@paddle_op("clip")
def _clip(c: ProgramOp) -> Value:
    ends = [c.maybe("Min"), c.maybe("Max")]
    out = c.call("maximum", c.one(), ends[0] if ends[0] is not None else c.real("min"))
    return c.call("minimum", out, ends[1] if ends[1] is not None else c.real("max"))


@paddle_op("relu6")
def _relu6(c: ProgramOp) -> Value:
    return c.call("clip", c.one(), a_min=0.0, a_max=c.real("threshold", 6.0))


@paddle_op("leaky_relu")
def _leaky(c: ProgramOp) -> Value:
    return c.call("nn.leaky_relu", c.one(), alpha=c.real("alpha", 0.02))


@paddle_op("prelu")
def _prelu(c: ProgramOp) -> Value:
    x, slope = c.one(), c.one("Alpha")
    mode = c.text("mode", "all")
    if mode == "channel":
        axis = x.ndim - 1 if c.text("data_format", "NCHW") == "NHWC" else 1
        return c.call("nn.prelu", x, c.reshape(slope, [-1]), axis=axis)
    return c.call("where", c.call("greater", x, 0.0), x, c.call("multiply", x, slope))


@paddle_op("elu")
def _elu(c: ProgramOp) -> Value:
    return activations.elu(c, c.one(), c.real("alpha", 1.0))


@paddle_op("selu")
def _selu(c: ProgramOp) -> Value:
    alpha, scale = c.real("alpha", activations.SELU_ALPHA), c.real("scale", activations.SELU_SCALE)
    return activations.selu(c, c.one(), alpha, scale)


@paddle_op("gelu")
def _gelu(c: ProgramOp) -> Value:
    return activations.gelu(c, c.one(), c.flag("approximate"))


@paddle_op("silu", "swish")
def _silu(c: ProgramOp) -> Value:
    x, beta = c.one(), c.real("beta", 1.0)
    return c.call("multiply", x, c.call("sigmoid", x if beta == 1 else c.call("multiply", x, beta)))


@paddle_op("hard_swish")
def _hard_swish(c: ProgramOp) -> Value:
    x = c.one()
    gate = c.call("clip", c.call("add", x, c.real("offset", 3.0)), a_min=0.0, a_max=c.real("threshold", 6.0))
    return c.call("divide", c.call("multiply", x, gate), c.real("scale", 6.0))


@paddle_op("hard_sigmoid")
def _hard_sigmoid(c: ProgramOp) -> Value:
    line = c.call("add", c.call("multiply", c.one(), c.real("slope", 0.2)), c.real("offset", 0.5))
    return c.call("clip", line, a_min=0.0, a_max=1.0)


@paddle_op("softplus")
def _softplus(c: ProgramOp) -> Value:
    beta = c.real("beta", 1.0)
    return c.call("divide", activations.softplus(c, c.call("multiply", c.one(), beta)), beta)


@paddle_op("mish")
def _mish(c: ProgramOp) -> Value:
    return activations.mish(c, c.one())


@paddle_op("softmax", "log_softmax")
def _softmax(c: ProgramOp) -> Value:
    x = c.one()
    return c.call(
        "nn.softmax" if c.kind == "softmax" else "nn.log_softmax", x, axis=c.axis(c.whole("axis", -1), x.ndim)
    )


@paddle_op("dropout")
def _dropout(c: ProgramOp) -> Value:
    x, share = c.one(), c.real("dropout_prob", 0.5)
    if c.text("dropout_implementation", "downgrade_in_infer") == "downgrade_in_infer":
        return c.call("multiply", x, 1 - share)
    return x


@paddle_op("sum")
def _sum(c: ProgramOp) -> Value:
    total, *rest = c.inputs["X"]
    for x in rest:
        total = c.call("add", total, x)
    return total


# ---- products


@paddle_op("matmul_v2", "matmul")
def _matmul(c: ProgramOp) -> Value:
    a, b = c.one(), c.one("Y")
    turned = (
        [c.flag("trans_x"), c.flag("trans_y")]
        if c.kind == "matmul_v2"
        else [c.flag("transpose_X"), c.flag("transpose_Y")]
    )
    out = product(c, a, b, *turned)
    scale = c.real("alpha", 1.0)
    return out if scale == 1 else c.call("multiply", out, scale)


@paddle_op("mul")
def _mul(c: ProgramOp) -> Value:
    x, y, split = c.one(), c.one("Y"), c.whole("x_num_col_dims", 1)
    inner = int(np.prod(c.static(x.shape[split:], "the extents that it sums over")))
    out = c.call("nn.matmul", c.reshape(x, [-1, inner]), c.reshape(y, [inner, -1]))
    return c.reshape(out, [*x.shape[:split], *y.shape[c.whole("y_num_col_dims", 1) :]])


@paddle_op("bmm")
def _bmm(c: ProgramOp) -> Value:
    return c.call("nn.batch_matmul", c.one(), c.one("Y"), transpose_b=False)


# ---- layers


def window_padding(
    c: ProgramOp, x: Value, kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int], start: int
) -> list[int]:
    """Padding before each spatial axis, then after each."""
    axes = len(kernel)
    kind = c.text("padding_algorithm", "EXPLICIT")
    if kind == "VALID":
        return [0] * (2 * axes)
    if kind == "SAME":
        extents = c.static(x.shape[start : start + axes], "the extents of padded axes")
        pairs = [same_padding(*given) for given in zip(extents, kernel, strides, dilation, strict=True)]
        return [*[p[0] for p in pairs], *[p[1] for p in pairs]]
    pads = c.ints("paddings")
    return pads * 2 if len(pads) == axes else [*pads[::2], *pads[1::2]]


def is_last(c: ProgramOp) -> bool:
    """Whether channels are the last axis."""
    return c.text("data_format", c.text("data_layout", "NCHW")).endswith("C")


@paddle_op("conv2d", "depthwise_conv2d", "conv3d")
def _conv(c: ProgramOp) -> Value:
    x, weight = c.one("Input"), c.one("Filter")
    axes, last = x.ndim - 2, is_last(c)
    space = "HW" if axes == 2 else "DHW"
    kernel = c.static(weight.shape[2:], "the size of its kernel")
    (filters,) = c.static([weight.shape[0]], "the number of its filters")
    strides = c.ints("strides")
    # PaddlePaddle ignores dilations where it computes the padding for extents that stay.
    same = c.text("padding_algorithm", "EXPLICIT") == "SAME"
    dilation = [1] * axes if same else c.ints("dilations", [1] * axes)
    pads = window_padding(c, x, kernel, strides, dilation, 1 if last else 2)
    out = c.call(
        f"nn.conv{axes}d", x, weight, strides=tuple(strides), padding=tuple(pads),
        dilation=tuple(dilation), groups=c.whole("groups", 1), channels=filters, kernel_size=tuple(kernel),
        data_layout=f"N{space}C" if last else f"NC{space}", kernel_layout=f"OI{space}",
    )  # fmt: skip
    bias = c.maybe("Bias")
    return out if bias is None else c.call("nn.bias_add", out, bias, axis=out.ndim - 1 if last else 1)


@paddle_op("conv2d_transpose", "depthwise_conv2d_transpose")
def _deconv(c: ProgramOp) -> Value:
    x, weight = c.one("Input"), c.one("Filter")
    if is_last(c) or any(d > 1 for d in c.ints("dilations", [1, 1])):
        raise OpNotImplemented("it has channels last, or dilations")
    kernel, strides, groups = (
        c.static(weight.shape[2:], "the size of its kernel"),
        c.ints("strides"),
        c.whole("groups", 1),
    )
    (depth,) = c.static([weight.shape[1]], "the number of its filters")
    pads, added, size = (
        window_padding(c, x, kernel, strides, [1, 1], 2),
        c.ints("output_padding", []) or [0, 0],
        c.ints("output_size", []),
    )
    if size:
        extents = c.static(x.shape[2:], "the extents of its input")
        own = [
            (e - 1) * s + k - pads[i] - pads[i + 2]
            for i, (e, s, k) in enumerate(zip(extents, strides, kernel, strict=True))
        ]
        added = [g - o for g, o in zip(size, own, strict=True)]
    return c.call(
        "nn.conv2d_transpose", x, weight, strides=tuple(strides), padding=tuple(pads), groups=groups, channels=depth * groups,
        kernel_size=tuple(kernel), output_padding=tuple(added),
    )  # fmt: skip


@paddle_op("max_pool2d_with_index")
def _pool_with_places(c: ProgramOp) -> Mapping[str, Value]:
    """The places of the largest elements are not made: what reads them is an error."""
    return {"Out": _pool(c)}


@paddle_op("pool2d")
def _pool(c: ProgramOp) -> Value:
    x, last = c.one(), is_last(c)
    kind = c.text("pooling_type", "max")
    start = 1 if last else 2
    kernel = c.ints("ksize")
    if c.flag("adaptive"):
        if last:
            raise c.refuse("data_format", "NHWC", "NCHW")
        return c.call(f"nn.adaptive_{kind}_pool2d", x, output_size=tuple(kernel))
    if c.flag("global_pooling"):
        return c.reduce("max" if kind == "max" else "mean", x, [start, start + 1], keepdims=True)
    strides = c.ints("strides")
    attrs: dict[str, Any] = {} if kind == "max" else {"count_include_pad": not c.flag("exclusive", True)}
    return c.call(
        f"nn.{kind}_pool2d", x, pool_size=tuple(kernel), strides=tuple(strides), ceil_mode=c.flag("ceil_mode"),
        padding=tuple(window_padding(c, x, kernel, strides, [1, 1], start)), layout="NHWC" if last else "NCHW", **attrs,
    )  # fmt: skip


@paddle_op("batch_norm", "sync_batch_norm")
def _batch_norm(c: ProgramOp) -> Mapping[str, Value]:
    x = c.one()
    given = [c.one(k) for k in ("Scale", "Bias", "Mean", "Variance")]
    axis = x.ndim - 1 if is_last(c) else 1
    return {"Y": c.calls("nn.batch_norm", x, *given, axis=axis, epsilon=c.real("epsilon", 1e-5))[0]}


@paddle_op("layer_norm")
def _layer_norm(c: ProgramOp) -> Mapping[str, Value]:
    x, start = c.one(), c.whole("begin_norm_axis", 1)
    axes = list(range(start, x.ndim))
    moved = c.call("subtract", x, c.reduce("mean", x, axes, True))
    power = c.reduce("mean", c.call("multiply", moved, moved), axes, True)
    out = c.call("multiply", moved, c.call("rsqrt", c.call("add", power, c.real("epsilon", 1e-5))))
    for key, name in (("multiply", "Scale"), ("add", "Bias")):
        v = c.maybe(name)
        out = out if v is None else c.call(key, out, c.reshape(v, x.shape[start:]))
    return {"Y": out}


@paddle_op("instance_norm", "group_norm")
def _group_norm(c: ProgramOp) -> Mapping[str, Value]:
    x = c.one()
    (channels,) = c.static([x.shape[1]], "the number of its channels")
    given = [c.maybe(k) for k in ("Scale", "Bias")]
    scale, bias = (
        v if v is not None else Value(array=np.full(channels, d, x.dtype)) for v, d in zip(given, (1, 0), strict=True)
    )
    if c.kind == "instance_norm":
        return {"Y": c.call("nn.instance_norm", x, scale, bias, axis=1, epsilon=c.real("epsilon", 1e-5))}
    return {
        "Y": c.call(
            "nn.group_norm", x, scale, bias, num_groups=c.whole("groups", 1), axis=1, epsilon=c.real("epsilon", 1e-5)
        )
    }


@paddle_op("nearest_interp_v2", "bilinear_interp_v2")
def _interpolate(c: ProgramOp) -> Value:
    x = c.one()
    if is_last(c):
        raise c.refuse("data_layout", "NHWC", "NCHW")
    extents = c.static(x.shape[2:], "the rows and columns of its input")
    size = c.numbers("", "OutSize", "SizeTensor")
    scales = [float(s) for s in np.atleast_1d(c.attrs.get("scale", []))]
    if not size and scales:
        scales = scales * 2 if len(scales) == 1 else scales
        size = [int(e * s) for e, s in zip(extents, scales, strict=True)]
    size = size or [c.whole("out_h"), c.whole("out_w")]
    aligned = c.flag("align_corners")
    if c.kind.startswith("bilinear"):
        how = "align_corners" if aligned else "half_pixel" if c.whole("align_mode", 1) == 0 else "asymmetric"
        return c.call(
            "image.resize2d", x, size=tuple(size), layout="NCHW", method="linear", coordinate_transformation_mode=how
        )
    how, rounding = ("align_corners", "round_prefer_ceil") if aligned else ("asymmetric", "floor")
    return c.call(
        "image.resize2d", x, size=tuple(size), layout="NCHW", method="nearest_neighbor", coordinate_transformation_mode=how,
        rounding_method=rounding,
    )  # fmt: skip


# ---- reductions


REDUCTIONS = {
    "reduce_sum": "sum", "reduce_mean": "mean", "reduce_max": "max", "reduce_min": "min", "reduce_prod": "prod", "reduce_all": "all",
    "reduce_any": "any",
}  # fmt: skip


@paddle_op(*REDUCTIONS)
def _reduce(c: ProgramOp) -> Value:
    x = c.one()
    axes = None if c.flag("reduce_all") else c.ints("dim", [0])
    return c.reduce(REDUCTIONS[c.kind], x, axes or None, keepdims=c.flag("keep_dim"))


@paddle_op("p_norm")
def _norm(c: ProgramOp) -> Value:
    x, order = c.one(), c.real("porder", 2.0)
    axes = list(range(x.ndim)) if c.flag("asvector") else [c.whole("axis", -1)]
    size = c.call("abs", x)
    if np.isinf(order):
        return c.reduce("max" if order > 0 else "min", size, axes, c.flag("keepdim"))
    total = c.reduce("sum", size if order == 1 else c.call("power", size, order), axes, c.flag("keepdim"))
    return total if order == 1 else c.call("power", total, 1 / order)


@paddle_op("arg_max", "arg_min")
def _arg(c: ProgramOp) -> Value:
    x = c.reshape(c.one(), [-1]) if c.flag("flatten") else c.one()
    found = c.call(c.kind.replace("_", ""), x, axis=(c.axis(c.whole("axis", -1), x.ndim),), keepdims=c.flag("keepdims"))
    return c.cast(found, c.dtype("dtype", "int64"))


@paddle_op("top_k_v2")
def _topk(c: ProgramOp) -> Mapping[str, Value]:
    x = c.one()
    k = c.numbers("k", "K")[0]
    attrs = {
        "k": k,
        "axis": c.axis(c.whole("axis", -1), x.ndim),
        "is_ascend": not c.flag("largest", True),
        "dtype": "int64",
    }
    values, places = c.calls("topk", x, ret_type="both", **attrs)
    return {"Out": values, "Indices": places}


@paddle_op("argsort")
def _argsort(c: ProgramOp) -> Mapping[str, Value]:
    x = c.one()
    attrs = {"axis": c.axis(c.whole("axis", -1), x.ndim), "is_ascend": not c.flag("descending")}
    return {"Out": c.call("sort", x, **attrs), "Indices": c.call("argsort", x, dtype="int64", **attrs)}


@paddle_op("cumsum")
def _cumsum(c: ProgramOp) -> Value:
    if c.flag("exclusive") or c.flag("reverse"):
        raise OpNotImplemented("it is exclusive or reversed")
    x = c.one()
    return c.call(
        "cumsum",
        c.reshape(x, [-1]) if c.flag("flatten") else x,
        axis=0 if c.flag("flatten") else c.axis(c.whole("axis", -1), x.ndim),
    )
