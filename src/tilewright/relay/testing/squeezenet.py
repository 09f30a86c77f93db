"""SqueezeNet (F. Iandola et al., 2016)."""

from __future__ import annotations

from tilewright.relay import op
from tilewright.relay.analysis import free_vars
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Expr, Function, var
from tilewright.relay.testing.init import Workload, create_workload


def _conv(net: Expr, channels: int, kernel: int, name: str, padding: int = 0, stride: int = 1) -> Expr:
    weight, bias = var(f"{name}_weight"), var(f"{name}_bias")
    x = op.nn.conv2d(
        net,
        weight,
        channels=channels,
        kernel_size=(kernel, kernel),
        padding=(padding, padding),
        strides=(stride, stride),
    )
    return constructor("nn.relu")(op.nn.bias_add(x, bias))


def _fire(net: Expr, squeeze: int, expand: int, name: str) -> Expr:
    net = _conv(net, squeeze, 1, f"{name}_conv1")
    parts = [_conv(net, expand, 1, f"{name}_left"), _conv(net, expand, 3, f"{name}_right", 1)]
    return constructor("concatenate")(parts, axis=1)


def get_net(batch_size: int, image_shape: tuple[int, ...], num_classes: int, version: str, dtype: str) -> Function:
    """Version "1.0" or "1.1"."""
    if version not in ("1.0", "1.1"):
        raise ValueError(f'unsupported SqueezeNet version {version!r}: "1.0" or "1.1" is expected')
    x: Expr = var("data", shape=(batch_size, *image_shape), dtype=dtype)

    def pooled(y: Expr) -> Expr:
        return constructor("nn.max_pool2d")(y, pool_size=(3, 3), strides=(2, 2))

    early = version == "1.1"
    x = pooled(_conv(x, 64, 3, "conv1", stride=2) if early else _conv(x, 96, 7, "conv1", stride=2))
    sizes = [(16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)]
    pools = (2, 4) if early else (3, 7)
    for i, (squeeze, expand) in enumerate(sizes, 1):
        x = _fire(x, squeeze, expand, f"fire{i}")
        if i in pools:
            x = pooled(x)
    x = _conv(op.nn.dropout(x, rate=0.5), num_classes, 1, "conv_final")
    x = op.nn.softmax(op.nn.batch_flatten(op.nn.global_avg_pool2d(x)))
    return Function(free_vars(x), x)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    version: str = "1.0",
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
) -> Workload:
    """(module, weights)."""
    return create_workload(get_net(batch_size, image_shape, num_classes, version, dtype))
