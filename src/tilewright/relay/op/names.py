"""Public names that are no operator of their own: other names of operators, and functions that make several calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.relay.op import randomness, reduce, sparse
from tilewright.relay.op.card import constructor

ALIASES = {
    "reverse_reshape": "contrib_reverse_reshape",
    "nn.contrib_conv2d_nchwc": "nn.contrib_conv2d_NCHWc",
    "nn.contrib_depthwise_conv2d_nchwc": "nn.contrib_depthwise_conv2d_NCHWc",
}
"""Classic names of constructors whose operators are called otherwise."""


def dropout_raw(data: Any, rate: float = 0.5) -> Any:
    """The call of nn.dropout itself."""
    return constructor("nn.dropout")(data, rate)


def const(value: Any, dtype: str | None = None) -> Any:
    """A constant, as relay.const makes it."""
    from tilewright.relay.expr import const as made

    return made(value, dtype)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "mean_variance": reduce.mean_variance,
    "mean_std": reduce.mean_std,
    "segment_sum": sparse.segment_sum,
    "random.threefry_key": randomness.threefry_key,
    "nn.dropout_raw": dropout_raw,
    "nn.const": const,
}
"""Functions by their public names."""
