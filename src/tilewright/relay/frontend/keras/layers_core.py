"""Converters of layers that multiply, look up, reshape and merge, and of layers for training only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.keras.activations import activated
from tilewright.relay.frontend.keras.value import LayerCall, Nested, axes_of, extents, flat_values, keras_layer
from tilewright.support.errors import OpNotImplemented


@keras_layer(
    "Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "AlphaDropout", "GaussianDropout", "GaussianNoise",
    "ActivityRegularization", "Identity", "RandomFlip", "RandomRotation", "RandomTranslation", "RandomZoom", "RandomContrast",
    "RandomBrightness", "RandomHue", "RandomSaturation", "RandomSharpness", "RandomColorJitter", "RandomGrayscale",
    "RandomPosterization", "RandomShear", "RandomErasing", "RandomGaussianBlur", "RandomInvert", "RandomColorDegeneration",
    "RandomElasticTransform", "RandomPerspective", "RandAugment", "AugMix", "MixUp", "CutMix", "RandomApply", "RandomChoice",
)  # fmt: skip
def _nothing(c: LayerCall, x: Any, *rest: object, **kwargs: object) -> Nested:
    # These layers change their input in training only.
    return x


@keras_layer("InputLayer")
def _input(c: LayerCall, x: Any) -> Nested:
    return x


def dense(c: LayerCall, x: Value, kernel: Value, bias: Value | None = None) -> Value:
    """x (.., in) times kernel (in, out)."""
    flat = c.reshape(x, [1, *x.shape]) if x.ndim == 1 else x
    out = c.call("nn.dense", flat, c.call("transpose", kernel, axes=(1, 0)), units=kernel.known_extent(1))
    out = c.reshape(out, [kernel.shape[1]]) if x.ndim == 1 else out
    return out if bias is None else c.call("nn.bias_add", out, bias, axis=out.ndim - 1)


def kernel_and_bias(c: LayerCall, kernel: str = "kernel") -> tuple[Value, Value | None]:
    """The kernel, and the bias or None."""
    found = c.weights(kernel, *(["bias"] if c.get("use_bias", True) else []))
    return found[0], found[1] if len(found) > 1 else None


@keras_layer("Dense")
def _dense(c: LayerCall, x: Value) -> Value:
    if c.config.get("quantization_config") or "int8" in str(c.config.get("dtype")):
        raise c.refuse("dtype policy", "quantized", "floating-point weights")
    kernel, bias = kernel_and_bias(c)
    return activated(c, dense(c, x, kernel, bias))


@keras_layer("LayerScale")
def _layer_scale(c: LayerCall, x: Value) -> Value:
    # A layer of keras.applications' ConvNeXt. Its weight has no name.
    (scale,) = c.weights("variable")
    return c.call("multiply", x, scale)


def einsum(c: LayerCall, equation: str, *operands: Value) -> Value:
    """An einsum in which an ellipsis stands for leading axes."""
    equation = equation.replace(" ", "")
    if "..." in equation:
        inputs, _, result = equation.partition("->")
        free = [ch for ch in "ZYXWVUTSRQPONMLKJIHGFEDCBA" if ch not in equation]
        terms = inputs.split(",")
        rank = max([x.ndim - len(t.replace("...", "")) for t, x in zip(terms, operands, strict=True) if "..." in t])
        terms = [
            t.replace("...", "".join(free[rank - (x.ndim - len(t.replace("...", ""))) : rank]))
            for t, x in zip(terms, operands, strict=True)
        ]
        equation = ",".join(terms) + "->" + result.replace("...", "".join(free[:rank]))
    return c.call("einsum", list(operands), equation=equation)


@keras_layer("EinsumDense")
def _einsum_dense(c: LayerCall, x: Value) -> Value:
    found = c.weights("kernel", *(["bias"] if c.config.get("bias_axes") else []))
    out = einsum(c, str(c.config["equation"]), x, found[0])
    out = c.call("add", out, found[1]) if len(found) > 1 else out
    return activated(c, out)


@keras_layer("Embedding", "ReversibleEmbedding")
def _embedding(c: LayerCall, x: Value, reverse: bool = False) -> Value:
    (table,) = c.weights("embeddings")
    if reverse:
        if not c.get("tie_weights", True):
            (_, table) = c.weights("embeddings", "reverse_embeddings")
            return dense(c, x, table)
        return c.call("nn.dense", x, table)
    places = x if x.dtype in ("int32", "int64") else c.cast(x, "int32")
    out = c.call("take", table, places, axis=0, mode="bounded")
    if c.get("mask_zero", False):
        c.home.masks[id(out)] = c.call("not_equal", places, 0)
    return out


@keras_layer("Masking")
def _masking(c: LayerCall, x: Value) -> Value:
    kept = c.call("any", c.call("not_equal", x, float(c.get("mask_value", 0.0))), axis=(x.ndim - 1,), keepdims=True)
    out = c.call("multiply", x, c.cast(kept, x.dtype))
    c.home.masks[id(out)] = c.call("squeeze", kept, axis=(x.ndim - 1,))
    return out


# ---- shapes


@keras_layer("Flatten")
def _flatten(c: LayerCall, x: Value) -> Value:
    if x.ndim == 1:
        return c.call("expand_dims", x, axis=1)
    if c.get("data_format", "channels_last") == "channels_first" and x.ndim > 2:
        x = c.transpose(x, [0, *range(2, x.ndim), 1])
    return c.reshape(x, [x.shape[0], -1])


@keras_layer("Reshape")
def _reshape(c: LayerCall, x: Value) -> Value:
    return c.reshape(x, [x.shape[0], *[int(d) if d is not None else -1 for d in c.config["target_shape"]]])


@keras_layer("Permute")
def _permute(c: LayerCall, x: Value) -> Value:
    return c.transpose(x, [0, *c.config["dims"]])


@keras_layer("RepeatVector")
def _repeat_vector(c: LayerCall, x: Value) -> Value:
    return c.call("repeat", c.call("expand_dims", x, axis=1), repeats=int(c.config["n"]), axis=1)


def _pairs(value: Any, n: int) -> list[tuple[int, int]]:
    """(before, after) for each of n axes."""
    if not isinstance(value, Sequence):
        return [(int(value), int(value))] * n
    if n == 1:
        return [(int(value[0]), int(value[-1]))]
    return [(int(v[0]), int(v[1])) if isinstance(v, Sequence) else (int(v), int(v)) for v in value]


def spatial(c: LayerCall, x: Value, n: int) -> int:
    """The first of the n spatial axes."""
    return x.ndim - n if c.get("data_format", "channels_last") == "channels_first" else x.ndim - n - 1


@keras_layer("ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D")
def _zero_padding(c: LayerCall, x: Value) -> Value:
    n = axes_of(c.kind)
    first = spatial(c, x, n)
    width: list[tuple[int, int]] = [(0, 0)] * x.ndim
    width[first : first + n] = _pairs(c.get("padding", 1), n)
    return c.pad(x, width)


@keras_layer("Cropping1D", "Cropping2D", "Cropping3D")
def _cropping(c: LayerCall, x: Value) -> Value:
    n = axes_of(c.kind)
    first = spatial(c, x, n)
    for k, (before, after) in enumerate(_pairs(c.get("cropping", 0), n)):
        x = c.cut(x, first + k, before, x.shape[first + k] - after) if before or after else x
    return x


@keras_layer("UpSampling1D", "UpSampling2D", "UpSampling3D")
def _upsampling(c: LayerCall, x: Value) -> Value:
    from tilewright.relay.frontend.keras.layers_image import resized

    n = axes_of(c.kind)
    size = extents(c.get("size", 2), n)
    first = spatial(c, x, n)
    how = str(c.get("interpolation", "nearest"))
    if how == "nearest":
        for k, factor in enumerate(size):
            x = c.call("repeat", x, repeats=factor, axis=first + k) if factor != 1 else x
        return x
    target = [e * s for e, s in zip(x.shape[first : first + n], size, strict=True)]
    return resized(c, x, target, how, first == 2)


# ---- merging


def _merged(key: str) -> Callable[..., Value]:
    def convert(c: LayerCall, xs: Sequence[Value]) -> Value:
        parts = c.promote(*_aligned(c, xs))
        out = parts[0]
        for x in parts[1:]:
            out = c.call(key, out, x)
        if c.kind == "Average":
            out = c.call("divide", out, float(len(parts)))
        return out

    return convert


def _aligned(c: LayerCall, xs: Sequence[Value]) -> list[Value]:
    """Operands of one rank: lower ranks get axes of extent 1 after the batch."""
    rank = max([x.ndim for x in xs])
    return [x if x.ndim == rank else c.reshape(x, [x.shape[0], *[1] * (rank - x.ndim), *x.shape[1:]]) for x in xs]


for _name, _key in {
    "Add": "add", "Subtract": "subtract", "Multiply": "multiply", "Maximum": "maximum", "Minimum": "minimum", "Average": "add",
}.items():  # fmt: skip
    keras_layer(_name)(_merged(_key))


@keras_layer("Concatenate")
def _concatenate(c: LayerCall, xs: Sequence[Value]) -> Value:
    parts = c.promote(*xs)
    axis = c.axis(int(c.get("axis", -1)), parts[0].ndim)
    out = c.concatenate(parts, axis)
    masks = [c.mask(x) for x in xs]
    if any([m is not None for m in masks]):
        filled = [c.full(x.shape[:2], True, "bool") if m is None else m for x, m in zip(xs, masks, strict=True)]
        if axis == 1:
            c.home.masks[id(out)] = c.concatenate(filled, 1)
        else:
            both = filled[0]
            for m in filled[1:]:
                both = c.call("logical_and", both, m)
            c.home.masks[id(out)] = both
    return out


@keras_layer("Dot")
def _dot(c: LayerCall, xs: Sequence[Value]) -> Value:
    a, b = xs
    axes = c.config["axes"]
    i, j = (axes, axes) if isinstance(axes, int) else axes
    i, j = c.axis(i, a.ndim), c.axis(j, b.ndim)
    if c.get("normalize", False):
        a, b = l2_normalized(c, a, [i]), l2_normalized(c, b, [j])
    return batch_dot(c, a, b, i, j)


def l2_normalized(c: LayerCall, x: Value, axes: Sequence[int], epsilon: float = 1e-12) -> Value:
    """x divided by its length (L2 norm) along axes."""
    power = c.reduce("sum", c.call("multiply", x, x), axes, True)
    return c.call("multiply", x, c.call("rsqrt", c.call("maximum", power, epsilon)))


def batch_dot(c: LayerCall, a: Value, b: Value, i: int, j: int) -> Value:
    """Products over axis i of a and axis j of b, for each example of the batch."""
    letters = "bcdefghijklmnop"
    left = "".join(["a" if k == 0 else "z" if k == i else letters[k] for k in range(a.ndim)])
    right = "".join(["a" if k == 0 else "z" if k == j else letters[k].upper() for k in range(b.ndim)])
    result = "a" + left[1:].replace("z", "") + right[1:].replace("z", "")
    out = c.call("einsum", [a, b], equation=f"{left},{right}->{result}")
    return c.call("expand_dims", out, axis=1) if out.ndim == 1 else out


# ---- wrappers


@keras_layer("TimeDistributed")
def _time_distributed(c: LayerCall, x: Value, mask: Value | None = None) -> Value | list[Value]:
    layer = c.inner(c.config["layer"], "layer")
    batch, length = x.shape[:2]
    rows = c.reshape(x, [-1, *x.shape[2:]])
    made = c.run(layer, rows)

    def back(y: Value) -> Value:
        if isinstance(length, int):
            return c.reshape(y, [-1, length, *y.shape[1:]])
        return c.reshape(y, [batch, length, *y.shape[1:]])

    return back(made) if isinstance(made, Value) else [back(y) for y in flat_values(made)]


@keras_layer("SpectralNormalization")
def _spectral(c: LayerCall, x: Value) -> Nested:
    # Training normalises the weights in place, so inference uses them unchanged.
    return c.run(c.inner(c.config["layer"], "layer"), x)


@keras_layer("UnitNormalization")
def _unit(c: LayerCall, x: Value) -> Value:
    return l2_normalized(c, x, c.axes(c.get("axis", -1), x.ndim))


@keras_layer("CategoryEncoding")
def _category(c: LayerCall, x: Value, count_weights: Value | None = None) -> Value:
    depth, mode = int(c.config["num_tokens"]), c.get("output_mode", "multi_hot")
    places = c.cast(x, "int32")
    if mode == "one_hot":
        if places.ndim and isinstance(places.shape[-1], int) and places.shape[-1] == 1 and places.ndim > 1:
            places = c.call("squeeze", places, axis=(places.ndim - 1,))
        return one_hot(c, places, depth)
    hot = one_hot(c, places, depth)
    if mode == "count":
        hot = hot if count_weights is None else c.call("multiply", hot, c.call("expand_dims", count_weights, axis=-1))
        return c.reduce("sum", hot, [hot.ndim - 2])
    return c.reduce("max", hot, [hot.ndim - 2])


def one_hot(c: LayerCall, places: Value, depth: int, dtype: str = "float32", axis: int = -1) -> Value:
    """One-hot vectors of length `depth`, with 1 at the given indices."""
    values = [c.number(v, dtype) for v in (1, 0)]
    return c.call("one_hot", places, *values, depth=depth, axis=axis, dtype=dtype)


@keras_layer("Discretization")
def _discretization(c: LayerCall, x: Value) -> Value:
    boundaries = c.config.get("bin_boundaries")
    if not boundaries:
        raise OpNotImplemented(
            "its boundaries come from adapt(), and are not in its configuration. Give bin_boundaries"
        )
    table = Value(array=np.asarray(boundaries, np.float32))
    places = c.call("searchsorted", table, c.cast(x, "float32"), right=True, dtype="int32")
    mode = c.get("output_mode", "int")
    if mode == "int":
        return places
    hot = one_hot(c, places, len(boundaries) + 1)
    if mode == "one_hot":
        return hot
    return c.reduce("sum" if mode == "count" else "max", hot, [hot.ndim - 2])
