"""Converters of convolutions, pooling, normalisation and softmax."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tilewright.relay.cards.relations import is_any
from tilewright.relay.expr import Expr
from tilewright.relay.frontend.common.builder import MOST_PARTS, need_few, same_padding
from tilewright.relay.frontend.common.value import Value as CommonValue
from tilewright.relay.frontend.common.value import known_extents
from tilewright.relay.frontend.onnx import compatibility
from tilewright.relay.frontend.onnx.value import OnnxNode, Result, Tensor, Value, as_value, onnx_op
from tilewright.support.errors import DiagnosticError, OpNotImplemented


def explicit(node: OnnxNode, name: str, count: int, least: int = 0) -> list[int]:
    """The numbers of an attribute, one for each spatial axis (or each of its ends). Defaults to the least allowed ones."""
    numbers = list(node.get(name) or [least] * count)
    if len(numbers) != count or min(numbers, default=least) < least:
        raise node.refuse(name, numbers, f"{count} positive numbers" if least else f"{count} numbers from 0 on")
    return numbers


def no_pads_beside(node: OnnxNode, auto: str) -> None:
    """Raises DiagnosticError for pads together with `auto_pad`, which contradict each other."""
    if any(node.get("pads") or ()):
        raise DiagnosticError(f"it has pads {list(node.get('pads'))} beside auto_pad {auto}; it may have either")


def explicit_pads(
    node: OnnxNode, x: Value, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    """Padding (befores, afters) from `pads` or `auto_pad`."""
    auto = node.get("auto_pad", "NOTSET")
    n = len(kernel)
    if auto != "NOTSET":
        compatibility.AUTO_PAD.seen(f"{node.name} ({auto})")
        no_pads_beside(node, auto)
    if auto == "NOTSET":
        return explicit(node, "pads", 2 * n)
    if auto == "VALID":
        return [0] * (2 * n)
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        raise node.refuse("auto_pad", auto, "NOTSET, VALID, SAME_UPPER, SAME_LOWER")
    before, after = [], []
    # With stride 1 the padding does not depend on the extents.
    extents = [e if s > 1 else 1 for e, s in zip(x.shape[2:], strides, strict=True)]
    for extent, k, s, d in zip(extents, kernel, strides, dilations, strict=True):
        small, large = same_padding(extent, k, s, d)
        before.append(small if auto == "SAME_UPPER" else large)
        after.append(large if auto == "SAME_UPPER" else small)
    return before + after


def spatial(
    node: OnnxNode, x: Value, kernel: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(strides, dilations, padding) of a windowed operator."""
    n = len(kernel)
    strides, dilations = (tuple(explicit(node, name, n, 1)) for name in ("strides", "dilations"))
    if min(kernel, default=1) < 1:
        raise node.refuse("kernel_shape", list(kernel), f"{n} positive numbers")
    padding = tuple(explicit_pads(node, x, kernel, strides, dilations))
    if not all([isinstance(p, int) for p in padding]):
        node.static(x)
    return strides, dilations, padding


def open_padding(node: OnnxNode, x: Value, kernel: Sequence[int], fill: float) -> Value:
    """x padded by `auto_pad`, if its extents are dynamic; the operator itself then has no padding."""
    n = len(kernel)
    auto = node.get("auto_pad", "NOTSET")
    if auto not in ("SAME_UPPER", "SAME_LOWER") or all([isinstance(d, int) for d in x.shape[2:]]):
        return x
    strides, dilations = (explicit(node, name, n, 1) for name in ("strides", "dilations"))
    padding = explicit_pads(node, x, kernel, strides, dilations)
    node.attrs["auto_pad"] = "VALID"
    width = [(0, 0), (0, 0), *zip(padding[:n], padding[n:], strict=True)]
    return node.value("nn.pad", x, node.scalar(fill, x), pad_width=tuple(width))


def kernel_of(node: OnnxNode, w: Value) -> list[int]:
    """The extents of a convolution's kernel. Raises DiagnosticError if the attribute kernel_shape and the weights differ."""
    kernel = known_extents(w.shape[2:])
    said = node.get("kernel_shape")
    if said and list(said) != kernel:
        raise DiagnosticError(f"its attribute kernel_shape is {list(said)}, but its weights have the kernel {kernel}")
    return kernel


def convolution(node: OnnxNode, x: Value, w: Value, b: Value | None) -> Expr:
    """A convolution over one to three axes."""
    kernel = kernel_of(node, w)
    if len(kernel) not in (1, 2, 3):
        raise OpNotImplemented(f"its kernel has {len(kernel)} spatial axes; 1, 2 and 3 are supported")
    x = open_padding(node, x, kernel, 0)
    strides, dilations, padding = spatial(node, x, kernel)
    out = node.call(
        f"nn.conv{len(kernel)}d", x, w, strides=strides, padding=padding, dilation=dilations,
        groups=node.get("group", 1), channels=w.known_extent(0), kernel_size=tuple(kernel),
    )  # fmt: skip
    return out if b is None else node.call("nn.bias_add", out, b)


@onnx_op("Conv")
def _conv(node: OnnxNode, x: Value, w: Value, b: Value | None = None) -> Expr:
    return convolution(node, x, w, b)


@onnx_op("ConvTranspose")
def _conv_transpose(node: OnnxNode, x: Value, w: Value, b: Value | None = None) -> Expr:
    kernel = kernel_of(node, w)
    n = len(kernel)
    if n not in (1, 2, 3):
        raise OpNotImplemented(f"its kernel has {n} spatial axes; 1, 2 and 3 are supported")
    strides, dilations = (explicit(node, name, n, 1) for name in ("strides", "dilations"))
    extra = explicit(node, "output_padding", n)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    auto = node.get("auto_pad", "NOTSET")
    wanted = node.get("output_shape")
    if wanted or auto != "NOTSET":
        compatibility.AUTO_PAD.seen(f"{node.name} ({'output_shape' if wanted else auto})")
    if auto != "NOTSET":
        no_pads_beside(node, auto)
    if wanted or auto in ("SAME_UPPER", "SAME_LOWER"):
        # The padding of SAME does not depend on the extents: the result's extents are those of x times the strides.
        shape = node.static(x)[2:] if wanted else [1] * n
        sizes = list(wanted)[-n:] if wanted else strides
        # The odd element comes first, except with SAME_UPPER.
        upper = auto == "SAME_UPPER"
        before, after = [], []
        for k, size in enumerate(sizes):
            total = (shape[k] - 1) * strides[k] + extra[k] + reach[k] - size
            if total < 0:
                # An explicit shape may be larger than the kernel's result. SAME then keeps the kernel's result.
                extra[k], total = extra[k] - total if wanted else extra[k], 0
            less, more = total // 2, total - total // 2
            before.append(less if upper else more)
            after.append(more if upper else less)
        padding = before + after
    else:
        padding = explicit(node, "pads", 2 * n) if auto == "NOTSET" else [0] * (2 * n)
    groups = node.get("group", 1)
    out = node.call(
        f"nn.conv{n}d_transpose", x, w, strides=tuple(strides), padding=tuple(padding), dilation=tuple(dilations),
        groups=groups, channels=w.known_extent(1) * groups, kernel_size=tuple(kernel), output_padding=tuple(extra),
    )  # fmt: skip
    return out if b is None else node.call("nn.bias_add", out, b)


def windows(
    node: OnnxNode,
    x: Value,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: Sequence[int],
    fill: float,
) -> tuple[Any, list[int], list[tuple[int, ...]]]:
    """(the elements at each kernel offset, stacked at axis 0; the extents of the result; the kernel offsets)."""
    shape, n = node.static(x), len(kernel)
    out, width = [], [(0, 0)] * (len(shape) - n)
    for k in range(n):
        reach = (kernel[k] - 1) * dilations[k] + 1
        extent = shape[k - n] + padding[k] + padding[k + n]
        if reach > extent:
            raise DiagnosticError(f"its kernel reaches over {reach} elements, but padded axis {k + 2} has {extent}")
        count = (extent - reach) // strides[k] + 1
        if node.get("ceil_mode", 0):
            count = -(-(extent - reach) // strides[k]) + 1
            # A window must begin in the input, or in the padding before it.
            count -= (count - 1) * strides[k] >= shape[k - n] + padding[k]
        out.append(count)
        width.append((padding[k], max(padding[k + n], (count - 1) * strides[k] + reach - shape[k - n] - padding[k])))
    padded = node.call("nn.pad", x, node.scalar(fill, x), pad_width=tuple(width)) if any(map(any, width)) else x
    axes = tuple(range(len(shape) - n, len(shape)))
    need_few(math.prod(kernel), MOST_PARTS, "elements of a kernel")
    places = list(np.ndindex(*kernel))
    elements = []
    for place in places:
        begin = [p * d for p, d in zip(place, dilations, strict=True)]
        end = [b + (c - 1) * s + 1 for b, c, s in zip(begin, out, strides, strict=True)]
        elements.append(
            node.call("strided_slice", padded, begin=tuple(begin), end=tuple(end), strides=tuple(strides), axes=axes)
        )
    return node.call("stack", elements, axis=0), out, places


def max_pool_with_places(
    node: OnnxNode,
    x: Value,
    kernel: list[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: Sequence[int],
) -> list[Expr]:
    """The maxima, and their indices in the flattened data."""
    shape, n = node.static(x), len(kernel)
    low = float(np.finfo(x.dtype).min) if "float" in x.dtype else float(np.iinfo(x.dtype).min)
    stacked, out, places = windows(node, x, kernel, strides, dilations, padding, -np.inf if "float" in x.dtype else low)
    best = node.cast(node.call("argmax", stacked, axis=0), "int64")
    order = list(range(n))[::-1] if not node.get("storage_order", 0) else list(range(n))
    total, weight = None, 1
    for k in order:
        offsets = np.array([p[k] * dilations[k] - padding[k] for p in places], np.int64)
        first = (np.arange(out[k], dtype=np.int64) * strides[k]).reshape([-1 if j == k else 1 for j in range(n)])
        along = node.call("add", node.call("take", Value(array=offsets), best, axis=0), Value(array=first))
        term = node.call("multiply", along, node.scalar(weight, "int64"))
        total = term if total is None else node.call("add", total, term)
        weight *= shape[k - n]
    images = np.arange(int(np.prod(shape[:-n])), dtype=np.int64).reshape(*shape[:-n], *[1] * n) * weight
    return [node.call("max", stacked, axis=0), node.call("add", total, Value(array=images))]


def _pool(kind: str) -> Callable[..., Any]:
    def convert(node: OnnxNode, x: Value) -> Result:
        kernel = list(node.get("kernel_shape"))
        if len(kernel) not in (1, 2, 3):
            raise node.refuse("kernel_shape", kernel, "1, 2 or 3 spatial axes")
        if kind == "max" and not node.wants(1):
            x = open_padding(node, x, kernel, -np.inf if "float" in x.dtype else np.iinfo(x.dtype).min)
        strides, dilations, padding = spatial(node, x, kernel)
        # A window with only padding has no maximum and no mean. Other runtimes refuse it, too.
        if not (kind == "avg" and node.get("count_include_pad", 0)) and any(
            [p >= (k - 1) * d + 1 for p, k, d in zip(padding, kernel * 2, dilations * 2, strict=False)]
        ):
            raise node.refuse("pads", list(padding), "less than the kernel")
        if node.get("ceil_mode", 0):
            compatibility.CEIL_MODE.seen(node.name)
        if kind == "max" and node.wants(1):
            return max_pool_with_places(node, x, kernel, strides, dilations, padding)
        attrs: dict[str, Any] = {
            "pool_size": tuple(kernel), "strides": strides, "dilation": dilations, "padding": padding,
            "ceil_mode": bool(node.get("ceil_mode", 0)),
        }  # fmt: skip
        if kind == "avg":
            attrs["count_include_pad"] = bool(node.get("count_include_pad", 0))
        return node.call(f"nn.{kind}_pool{len(kernel)}d", x, **attrs)

    return convert


onnx_op("MaxPool")(_pool("max"))
onnx_op("AveragePool")(_pool("avg"))


def _global_pool(key: str, reduction: str) -> Callable[..., Any]:
    def convert(node: OnnxNode, x: Value) -> Expr:
        if x.ndim == 4:
            return node.call(key, x)
        return node.call(reduction, x, axis=tuple(range(2, x.ndim)), keepdims=True)

    return convert


onnx_op("GlobalAveragePool")(_global_pool("nn.global_avg_pool2d", "mean"))
onnx_op("GlobalMaxPool")(_global_pool("nn.global_max_pool2d", "max"))


@onnx_op("BatchNormalization")
def _batch_norm(node: OnnxNode, x: Value, scale: Value, bias: Value, mean: Value, var: Value) -> Result:
    epsilon = node.get("epsilon", 1e-5)
    if node.opset < 14:
        compatibility.OLD_NORM.seen(node.name)
    if not node.get("training_mode", 0):
        if any(map(node.wants, range(1, len(node.outputs)))):
            raise node.refuse("is_test", node.get("is_test", 0), "1 (inference): export the model in evaluation mode")
        if node.opset < 9 and not node.get("spatial", 1):
            # Before opset 9: separate parameters for each position of an image.
            rough = node.call("sqrt", node.call("add", var, node.scalar(epsilon, var)))
            apart = node.call("divide", node.call("subtract", x, mean), rough)
            return node.call("add", node.call("multiply", apart, scale), bias)
        return node.calls("nn.batch_norm", x, scale, bias, mean, var, axis=1, epsilon=epsilon)[0]
    # The statistics of this batch, and the updated running statistics.
    axes = tuple([k for k in range(x.ndim) if k != 1])
    now = node.value("mean", x, axis=axes, keepdims=True)
    apart = node.call("subtract", x, now)
    spread = node.value("mean", node.call("multiply", apart, apart), axis=axes, keepdims=True)
    current = [node.value("squeeze", v, axis=axes) for v in (now, spread)]
    share = float(node.get("momentum", 0.9))
    moved = []
    for old, new in zip((mean, var), current, strict=True):
        kept = node.call("multiply", old, node.scalar(share, old))
        fresh = node.call("multiply", node.cast(new, old.dtype), node.scalar(1 - share, old))
        moved.append(node.call("add", kept, fresh))
    out = node.calls("nn.batch_norm", x, scale, bias, *current, axis=1, epsilon=epsilon)[0]
    return [out, *moved]


@onnx_op("InstanceNormalization")
def _instance_norm(node: OnnxNode, x: Value, scale: Value, bias: Value) -> Expr:
    return node.call("nn.instance_norm", x, scale, bias, axis=1, epsilon=node.get("epsilon", 1e-5))


@onnx_op("GroupNormalization", since=18)
def _group_norm(node: OnnxNode, x: Value, scale: Value, bias: Value) -> Expr:
    groups = node.get("num_groups")
    channels = x.known_extent(1)
    if node.opset < 21 and scale.shape[0] != channels:
        # Before opset 21 scale and bias are per group.
        compatibility.GROUP_SCALES.seen(node.name)
        scale, bias = (Value(node.call("repeat", v, repeats=channels // groups, axis=0)) for v in (scale, bias))
    return node.call("nn.group_norm", x, scale, bias, num_groups=groups, axis=1, epsilon=node.get("epsilon", 1e-5))


@onnx_op("LayerNormalization")
def _layer_norm(node: OnnxNode, x: Value, scale: Value, bias: Value | None = None) -> Result:
    # ONNX defines it from opset 17 on, but ONNX Runtime's optimizer writes it into older models, too.
    axis, epsilon = node.get("axis", -1), node.get("epsilon", 1e-5)
    at = axis + x.ndim if axis < 0 else axis
    if at == x.ndim - 1 and scale.ndim == 1 and not node.wants(1) and not node.wants(2):
        beta = bias if bias is not None else Value(array=np.zeros(known_extents(scale.shape), scale.dtype))
        return node.call("nn.layer_norm", x, scale, beta, axis=-1, epsilon=epsilon)
    sizes = [*x.shape[at:]]
    alike = all([[*v.shape] == sizes for v in (scale, bias) if v is not None])
    if alike and all([isinstance(d, int) for d in sizes]) and not node.wants(1) and not node.wants(2):
        # The normalised axes as one.
        row = Value(node.call("reshape", x, newshape=(*[0] * at, prod(known_extents(sizes)))))
        gamma = Value(node.call("reshape", scale, newshape=(-1,)))
        beta = Value(array=np.zeros(known_extents(gamma.shape), scale.dtype))
        if bias is not None:
            beta = Value(node.call("reshape", bias, newshape=(-1,)))
        out = node.call("nn.layer_norm", row, gamma, beta, axis=-1, epsilon=epsilon)
        return node.call("reshape", out, newshape=(*[0] * at, *known_extents(sizes)))
    axes = tuple(range(at, x.ndim))
    mean = node.call("mean", x, axis=axes, keepdims=True)
    centred = node.call("subtract", x, mean)
    spread = node.call("mean", node.call("multiply", centred, centred), axis=axes, keepdims=True)
    deviation = node.call("sqrt", node.call("add", spread, node.scalar(epsilon, x)))
    out = node.call("multiply", node.call("divide", centred, deviation), scale)
    out = node.call("add", out, bias) if bias is not None else out
    return [out, mean, node.call("divide", node.scalar(1, x), deviation)]


@onnx_op("RMSNormalization", since=23)
def _rms_norm(node: OnnxNode, x: Value, scale: Value) -> Expr:
    axis = node.get("axis", -1)
    axes = tuple(range(axis + x.ndim if axis < 0 else axis, x.ndim))
    power = node.call("mean", node.call("multiply", x, x), axis=axes, keepdims=True)
    root = node.call("sqrt", node.call("add", power, node.scalar(node.get("epsilon", 1e-5), x)))
    return node.call("multiply", node.call("divide", x, root), scale)


@onnx_op("LpNormalization")
def _lp_norm(node: OnnxNode, x: Value) -> Expr:
    axis, p = node.get("axis", -1), node.get("p", 2)
    if p == 1:
        total = node.call("sum", node.call("abs", x), axis=(axis,), keepdims=True)
    elif p == 2:
        total = node.call("sqrt", node.call("sum", node.call("multiply", x, x), axis=(axis,), keepdims=True))
    else:
        raise node.refuse("p", p, "1, 2")
    # A vector of zeros stays unchanged.
    total = node.call("where", node.call("equal", total, node.scalar(0, x)), node.scalar(1, x), total)
    return node.call("divide", x, total)


@onnx_op("LRN")
def _lrn(node: OnnxNode, x: Value) -> Expr:
    return node.call(
        "nn.lrn",
        x,
        size=node.get("size"),
        axis=1,
        bias=node.get("bias", 1.0),
        alpha=node.get("alpha", 1e-4),
        beta=node.get("beta", 0.75),
    )


def _flat_softmax(key: str) -> Callable[..., Tensor]:
    def convert(node: OnnxNode, x: Value) -> Expr:
        # Before opset 13 all axes from `axis` on count as one.
        at = node.place(node.get("axis", 1), x.ndim)
        shape = x.shape
        if all(isinstance(d, int) and d == 1 for d in shape[at + 1 :]):
            return node.call(key, x, axis=at)
        if any(map(is_any, shape)):
            node.static(x)
        compatibility.FLAT_SOFTMAX.seen(node.name)
        front, back = [math.prod(part) for part in (shape[:at], shape[at:])]
        c = node.builder
        flat = node.call("reshape", x, newshape=(-1, back) if isinstance(back, int) else (front, -1))
        return c.reshape(Value(node.call(key, flat, axis=-1)), shape).expr

    return convert


def _softmax(key: str) -> Callable[..., Any]:
    def convert(node: OnnxNode, x: Value) -> Expr:
        return node.call(key, x, axis=node.get("axis", -1))

    return convert


for _onnx, _key in {"Softmax": "nn.softmax", "LogSoftmax": "nn.log_softmax"}.items():
    onnx_op(_onnx)(_flat_softmax(_key))
    onnx_op(_onnx, since=13)(_softmax(_key))


def _other_than_two(pads: int, axes: int) -> DiagnosticError:
    return DiagnosticError(f"it has {pads} pads, where each of its {axes} axes has two")


def _pad_with(node: OnnxNode, x: Value, pads: Sequence[int], value: Any, axes: Sequence[int] | None = None) -> Any:
    rank = x.ndim
    places = node.places(range(rank) if axes is None else axes, rank)
    if len(pads) != 2 * len(places):
        raise _other_than_two(len(pads), len(places))
    width: list[tuple[Any, Any]] = [(0, 0)] * rank
    for k, a in enumerate(places):
        width[a] = (pads[k], pads[k + len(places)])
    mode = node.get("mode", "constant")
    if mode not in ("constant", "edge", "reflect", "wrap"):
        raise node.refuse("mode", mode, "constant, edge, reflect, wrap")
    if not all([isinstance(v, int) for pair in width for v in pair]):
        return _pad_computed(node, x, width, value, mode)
    if not any(b or a for b, a in width):
        return x
    if any(b < 0 or a < 0 for b, a in width):
        # Negative padding removes elements, at most all of them.
        for d, (b, a) in zip(x.shape, width, strict=True):
            if isinstance(d, int) and d + min(b, 0) + min(a, 0) < 0:
                raise DiagnosticError(f"its pads {b} and {a} take away more than the {d} elements of an axis")
        cut = [(k, -min(b, 0), min(a, 0)) for k, (b, a) in enumerate(width) if b < 0 or a < 0]
        x = node.value(
            "strided_slice", x, begin=tuple([b for _, b, _ in cut]), end=tuple([a or 2**31 - 1 for *_, a in cut]),
            strides=(1,) * len(cut), axes=tuple([k for k, *_ in cut]),
        )  # fmt: skip
        width = [(max(b, 0), max(a, 0)) for b, a in width]
    if mode == "wrap":
        out: Any = x
        if not all([isinstance(d, int) or (b, a) == (0, 0) for d, (b, a) in zip(x.shape, width, strict=True)]):
            return _pad_computed(node, x, width, value, mode)
        for k, (b, a) in enumerate(width):
            if b or a:
                around = np.arange(-b, x.shape[k] + a) % x.shape[k]
                out = node.call("take", out, Value(array=around.astype(np.int32)), axis=k)
        return out
    fill = value if value is not None else node.scalar(0, x)
    return node.call("nn.pad", x, fill, pad_width=tuple(width), pad_mode=mode)


def _pad_computed(node: OnnxNode, x: Value, width: Sequence[tuple[Any, Any]], value: Tensor, mode: str) -> Expr:
    """Padding with some numbers known only at run time: for each axis, input indices for the result's elements."""
    c = node.builder
    out, outside = CommonValue(x.expr), None
    for k, pair in enumerate(width):
        if all([isinstance(v, int) and not v for v in pair]):
            continue
        before, after = [v if isinstance(v, CommonValue) else c.size(v) for v in pair]
        extent = c.extent(x, k)
        at = c.call("subtract", c.iota(c.call("add", c.call("add", before, extent), after)), before)
        last = c.call("subtract", extent, 1)
        inside = c.call("minimum", c.call("maximum", at, 0), last)
        if mode == "constant":
            beyond = c.call("not_equal", at, inside)
            behind = x.ndim - 1 - k
            beyond = c.call("expand_dims", beyond, axis=1, num_newaxis=behind) if behind else beyond
            outside = beyond if outside is None else c.call("logical_or", outside, beyond)
        elif mode == "reflect":
            inside = c.call("subtract", last, c.call("abs", c.call("subtract", last, c.call("abs", at))))
        elif mode == "wrap":
            inside = c.call("floor_mod", at, extent)
        out = c.call("take", out, inside, axis=k)
    if outside is None:
        return out.expr
    fill = c.number(0, x.dtype) if value is None else CommonValue(as_value(value).expr)
    return c.call("where", outside, fill, out).expr


@onnx_op("Pad")
def _pad_attributes(node: OnnxNode, x: Value) -> Any:
    return _pad_with(node, x, node.get("pads") or node.get("paddings"), node.scalar(node.get("value", 0.0), x))


@onnx_op("Pad", since=11)
def _pad(node: OnnxNode, x: Value, pads: Value, value: Value | None = None, axes: Value | None = None) -> Any:
    fill: Any = value
    if value is not None and value.array is not None:
        fill = node.scalar(value.array.reshape(-1)[0], x)
    elif value is not None and value.ndim:
        fill = node.call("squeeze", value)
    places = None if axes is None else node.ints(axes, "axes")
    count = 2 * (x.ndim if places is None else len(places))
    if isinstance(pads.shape[0], int) and pads.shape[0] != count:
        raise _other_than_two(pads.shape[0], count // 2)
    return _pad_with(node, x, node.builder.elements(pads, count), fill, places)
