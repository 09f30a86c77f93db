"""Whole models in small sizes, by name: what networks of each family consist of, with random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright import relay
from tilewright.ir import IRModule
from tilewright.relay.parameters import bind_params
from tilewright.relay.testing import resnet


class Layers:
    """Layers with weights of their own. seed: of the weights."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)

    def weight(self, *shape: int, scale: float | None = None) -> Any:
        """Normal numbers; such that sums of products have about the size of their terms, if no scale is given."""
        spread = (float(np.prod(shape[1:])) or 1.0) ** -0.5 if scale is None else scale
        return relay.const((spread * self.random.standard_normal(shape)).astype("float32"))

    def dense(self, x: Any, inputs: int, outputs: int) -> Any:
        return relay.nn.bias_add(relay.nn.dense(x, self.weight(outputs, inputs)), self.weight(outputs, scale=0.1), -1)

    def conv(self, x: Any, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> Any:
        made = relay.nn.conv2d(
            x, self.weight(outputs, inputs // groups, kernel, kernel), (stride, stride), (kernel // 2,) * 4,
            groups=groups, channels=outputs, kernel_size=(kernel, kernel),
        )  # fmt: skip
        return relay.nn.bias_add(made, self.weight(outputs, scale=0.1), 1)

    def layer_norm(self, x: Any, width: int) -> Any:
        return relay.nn.layer_norm(x, self.weight(width, scale=1.0), self.weight(width, scale=0.1), -1)

    def group_norm(self, x: Any, channels: int, groups: int = 4) -> Any:
        return relay.nn.group_norm(x, self.weight(channels, scale=1.0), self.weight(channels, scale=0.1), groups)

    def heads(self, x: Any, rows: int, heads: int, width: int) -> Any:
        """(rows, heads * width) as (heads, rows, width)."""
        return relay.transpose(relay.reshape(x, (rows, heads, width)), (1, 0, 2))

    def attention(self, x: Any, rows: int, width: int, heads: int, context: Any = None, context_rows: int = 0) -> Any:
        """Rows that attend to each other, or to those of a context."""
        seen, count, size = (x, rows, width // heads) if context is None else (context, context_rows, width // heads)
        q = self.heads(self.dense(x, width, width), rows, heads, size)
        k, v = (self.heads(self.dense(seen, width, width), count, heads, size) for _ in range(2))
        return self.dense(attended(q, k, v, rows, width), width, width)

    def mlp(self, x: Any, width: int) -> Any:
        return self.dense(gelu(self.dense(x, width, 4 * width)), 4 * width, width)


def gelu(x: Any) -> Any:
    return x * relay.const(0.5) * (relay.const(1.0) + relay.erf(x * relay.const(float(0.5**0.5))))


def silu(x: Any) -> Any:
    return x * relay.sigmoid(x)


def attended(q: Any, k: Any, v: Any, rows: int, width: int) -> Any:
    """(heads, rows, size) of queries by keys and values, as (rows, width)."""
    scores = relay.nn.softmax(relay.nn.batch_matmul(q, k), -1)
    found = relay.nn.batch_matmul(scores, v, transpose_b=False)
    return relay.reshape(relay.transpose(found, (1, 0, 2)), (rows, width))


def resnet18() -> IRModule:
    mod, params = resnet.get_workload(batch_size=1, num_classes=10, num_layers=18, image_shape=(3, 64, 64))
    return bound(mod, params)


def resnet50() -> IRModule:
    mod, params = resnet.get_workload(batch_size=1, num_classes=10, num_layers=50, image_shape=(3, 64, 64))
    return bound(mod, params)


def bound(mod: IRModule, params: Any) -> IRModule:
    """A model whose weights are constants."""
    return bind_params(mod, params)


def mobilenet_v2() -> IRModule:
    """Inverted residuals: products to more channels, depthwise convolutions, products to fewer."""
    n, x = Layers(), relay.var("x", shape=(1, 3, 32, 32))

    def clipped(e: Any) -> Any:
        return relay.clip(e, 0.0, 6.0)

    body, channels = clipped(n.conv(x, 3, 16, stride=2)), 16
    for outputs, stride, times in ((16, 1, 2), (24, 2, 4), (24, 1, 4), (32, 2, 4)):
        wide = clipped(n.conv(body, channels, times * channels, 1))
        wide = clipped(n.conv(wide, times * channels, times * channels, 3, stride, times * channels))
        narrow = n.conv(wide, times * channels, outputs, 1)
        body = narrow + body if stride == 1 and outputs == channels else narrow
        channels = outputs
    pooled = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(clipped(n.conv(body, channels, 64, 1))))
    return IRModule.from_expr(relay.Function([x], relay.nn.softmax(n.dense(pooled, 64, 10))))


def bert() -> IRModule:
    """Numbers of words and a mask; two layers."""
    rows, width, heads, words = 24, 32, 4, 50
    n, ids, mask = Layers(), relay.var("ids", shape=(rows,), dtype="int32"), relay.var("mask", shape=(1, 1, rows))
    x = n.layer_norm(relay.take(n.weight(words, width, scale=1.0), ids, 0) + n.weight(rows, width, scale=1.0), width)
    for _ in range(2):
        q, k, v = (n.heads(n.dense(x, width, width), rows, heads, width // heads) for _ in range(3))
        hidden = (relay.const(1.0) - mask) * relay.const(-10000.0)
        shares = relay.nn.softmax(relay.nn.batch_matmul(q, k) * relay.const((width / heads) ** -0.5) + hidden, -1)
        found = relay.transpose(relay.nn.batch_matmul(shares, v, transpose_b=False), (1, 0, 2))
        x = n.layer_norm(x + n.dense(relay.reshape(found, (rows, width)), width, width), width)
        x = n.layer_norm(x + n.mlp(x, width), width)
    return IRModule.from_expr(relay.Function([ids, mask], x))


def vit() -> IRModule:
    """Patches of an image, a row for the class; one layer."""
    side, patch, width, heads = 32, 8, 32, 4
    rows = (side // patch) ** 2 + 1
    n, image = Layers(), relay.var("x", shape=(1, 3, side, side))
    patches = relay.nn.conv2d(
        image, n.weight(width, 3, patch, patch), (patch, patch), channels=width, kernel_size=(patch, patch)
    )
    x = relay.concatenate([n.weight(1, width), relay.transpose(relay.reshape(patches, (width, rows - 1)), (1, 0))], 0)
    x = x + n.weight(rows, width, scale=1.0)
    x = x + n.attention(n.layer_norm(x, width), rows, width, heads)
    x = x + n.mlp(n.layer_norm(x, width), width)
    first = relay.strided_slice(n.layer_norm(x, width), [0, 0], [1, width])
    return IRModule.from_expr(relay.Function([image], n.dense(first, width, 10)))


def gpt2_decode() -> IRModule:
    """One token by what the layers keep of those before it; their new keys and values, and the logits."""
    past, width, heads, words = 40, 32, 4, 64
    size = width // heads
    n, token = Layers(), relay.var("token", shape=(1,), dtype="int32")
    kept = [relay.var(f"{what}{k}", shape=(heads, past, size)) for k in range(2) for what in ("keys", "values")]
    table = n.weight(words, width, scale=1.0)
    x, grown = relay.take(table, token, 0), []
    for k in range(2):
        made = relay.split(n.dense(n.layer_norm(x, width), width, 3 * width), 3, 1)
        q, key, value = (n.heads(made[i], 1, heads, size) for i in range(3))
        keys = relay.concatenate([kept[2 * k], key], 1)
        values = relay.concatenate([kept[2 * k + 1], value], 1)
        grown += [keys, values]
        x = x + n.dense(attended(q, keys, values, 1, width), width, width)
        x = x + n.mlp(n.layer_norm(x, width), width)
    logits = relay.nn.dense(n.layer_norm(x, width), table)
    return IRModule.from_expr(relay.Function([token, *kept], relay.Tuple([logits, *grown])))


def unet(channels: int = 16, side: int = 16, rows: int = 6, heads: int = 2) -> IRModule:
    """A residual block with the time's shift, attention among pixels and to a text of so many rows, half the resolution and back."""
    n = Layers()
    x, time = relay.var("x", shape=(1, 4, side, side)), relay.var("time", shape=(1, 32))
    text = relay.var("text", shape=(rows, channels))

    def residual(e: Any, inputs: int) -> Any:
        inner = n.conv(silu(n.group_norm(e, inputs)), inputs, channels)
        inner = inner + relay.reshape(n.dense(silu(time), 32, channels), (1, channels, 1, 1))
        inner = n.conv(silu(n.group_norm(inner, channels)), channels, channels)
        return inner + (e if inputs == channels else n.conv(e, inputs, channels, 1))

    begin = n.conv(x, 4, channels)
    down = n.conv(residual(begin, channels), channels, channels, 3, 2)
    pixels = (side // 2) ** 2
    flat = relay.transpose(relay.reshape(n.group_norm(down, channels), (channels, pixels)), (1, 0))
    flat = flat + n.attention(n.layer_norm(flat, channels), pixels, channels, heads)
    flat = flat + n.attention(n.layer_norm(flat, channels), pixels, channels, heads, text, rows)
    middle = down + relay.reshape(relay.transpose(flat, (1, 0)), (1, channels, side // 2, side // 2))
    up = n.conv(relay.nn.upsampling(middle, 2, 2), channels, channels)
    end = residual(relay.concatenate([up, begin], 1), 2 * channels)
    return IRModule.from_expr(relay.Function([x, time, text], n.conv(silu(n.group_norm(end, channels)), channels, 4)))


MODELS: dict[str, Callable[[], IRModule]] = {
    f.__name__: f for f in (resnet18, resnet50, mobilenet_v2, bert, vit, gpt2_decode, unet)
}


def batch_of_rows() -> IRModule:
    """A network of dense layers for any number of rows."""
    n, x = Layers(), relay.var("x", relay.TensorType((relay.Any(), 32), "float32"))
    hidden = n.layer_norm(gelu(n.dense(x, 32, 64)), 64)
    shares = relay.nn.softmax(n.dense(hidden, 64, 10))
    return IRModule.from_expr(relay.Function([x], relay.concatenate([shares, shares], 1)))


def batch_of_images() -> IRModule:
    """A convolution, a depthwise one and pooling for any number of images."""
    n, x = Layers(), relay.var("x", relay.TensorType((relay.Any(), 3, 16, 16), "float32"))
    pooled = relay.nn.max_pool2d(relay.nn.relu(n.conv(n.conv(x, 3, 16), 16, 16, groups=16)), (2, 2), (2, 2))
    flat = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(pooled))
    return IRModule.from_expr(relay.Function([x], n.dense(flat, 16, 5)))


def sequences() -> IRModule:
    """Attention among any number of rows."""
    x = relay.var("x", relay.TensorType((4, relay.Any(), 8), "float32"))
    shares = relay.nn.softmax(relay.nn.batch_matmul(x, x))
    return IRModule.from_expr(relay.Function([x], relay.nn.batch_matmul(shares, x, transpose_b=False)))


def sorted_rows() -> IRModule:
    """Rows in order, of which none knows its length."""
    x = relay.var("x", relay.TensorType((2, relay.Any()), "float32"))
    return IRModule.from_expr(relay.Function([x], relay.sort(x, 1)))


DYNAMIC: dict[str, tuple[Callable[[], IRModule], list[tuple[int, ...]]]] = {
    "batch_of_rows": (batch_of_rows, [(1, 32), (7, 32), (33, 32)]),
    "batch_of_images": (batch_of_images, [(1, 3, 16, 16), (3, 3, 16, 16)]),
    "sequences": (sequences, [(4, 1, 8), (4, 37, 8)]),
    "sorted_rows": (sorted_rows, [(2, 1), (2, 40), (2, 1000)]),
}
"""Models of unknown sizes, and shapes of their input."""


def inputs(mod: IRModule, seed: int = 0) -> dict[str, Any]:
    """Random values of a model's inputs; whole numbers are below 50, masks hide every seventh place."""
    random = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for v in mod["main"].params:
        shape, dtype = [int(d) for d in v.type_annotation.shape], str(v.type_annotation.dtype)
        if v.name_hint == "mask":
            found[v.name_hint] = (np.arange(np.prod(shape)) % 7 > 0).astype(dtype).reshape(shape)
        elif dtype == "int32":
            found[v.name_hint] = random.integers(0, 50, shape).astype(dtype)
        else:
            found[v.name_hint] = random.standard_normal(shape).astype(dtype)
    return found
