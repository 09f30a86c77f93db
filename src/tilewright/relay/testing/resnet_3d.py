"""Residual networks over frames, height and width."""

from __future__ import annotations

from typing import Any

from tilewright.relay.expr import Function
from tilewright.relay.testing import resnet
from tilewright.relay.testing.init import Workload, create_workload


def get_net(
    batch_size: int,
    num_classes: int,
    num_layers: int = 18,
    image_shape: tuple[int, ...] = (3, 16, 112, 112),
    layout: str = "NCDHW",
    dtype: str = "float32",
    **kwargs: Any,
) -> Function:
    """A network of `num_layers`; `image_shape` has channels, frames, rows and columns."""
    return resnet.get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    num_layers: int = 18,
    image_shape: tuple[int, ...] = (3, 16, 112, 112),
    layout: str = "NCDHW",
    dtype: str = "float32",
    **kwargs: Any,
) -> Workload:
    """(module, weights)."""
    return create_workload(get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype))
