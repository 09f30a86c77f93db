"""A small convolutional network, for quick tests."""

from __future__ import annotations

from tilewright.relay import op
from tilewright.relay.analysis import free_vars
from tilewright.relay.expr import Function, var
from tilewright.relay.testing import layers
from tilewright.relay.testing.init import Workload, create_workload


def get_net(
    input_shape: tuple[int, ...] = (1, 3, 24, 12), dtype: str = "float32", wtype: str | None = None
) -> Function:
    """Two convolutions with normalisation between them, reduced in stages."""
    weights = wtype or dtype
    data = var("data", shape=input_shape, dtype=dtype)
    weight = var("dense_weight", shape=(2, (input_shape[2] - 4) * (input_shape[3] - 4) * 16 // 16), dtype=weights)
    x = layers.conv2d(data=data, channels=16, kernel_size=(3, 3), name="conv1")
    x = layers.batch_norm_infer(data=x, name="bn1")
    x = layers.conv2d(data=op.nn.relu(x), channels=1, kernel_size=(3, 3), name="conv2")
    x = op.nn.dense(op.nn.batch_flatten(x), weight)
    return Function(free_vars(x), x)


def get_workload(
    input_shape: tuple[int, ...] = (1, 3, 24, 12), dtype: str = "float32", wtype: str | None = None
) -> Workload:
    """(module, weights)."""
    return create_workload(get_net(input_shape, dtype, wtype))
