"""Calls of host functions from converters, on values of any kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.relay.frontend.onnx.kinds import CARRIERS
from tilewright.relay.frontend.onnx.value import OnnxNode, Value
from tilewright.runtime.host_functions.registry import config_text


def hosted(
    node: OnnxNode,
    function: str,
    inputs: Sequence[Value],
    shape: Sequence[Any] | Value,
    element: str,
    config: Mapping[str, Any] | None = None,
    pure: bool = True,
) -> Value:
    """The tensor that a host function makes of values. shape: extents, or a value that holds them."""
    attrs: dict[str, Any] = {
        "function": function,
        "dtype": CARRIERS.get(element, element),
        "config": config_text(config or {}),
    }
    kind = element if element in CARRIERS else ""
    if isinstance(shape, Value):
        if shape.is_number and shape.array is not None:
            attrs["shape"] = tuple(int(d) for d in shape.array)
        else:
            return Value(node.call("dyn.host.call", list(inputs), shape, **attrs), kind=kind)
    else:
        attrs["shape"] = tuple(shape)
    return Value(node.call("host.call" if pure else "host.draw", list(inputs), **attrs), kind=kind)


def hosted_sized(
    node: OnnxNode,
    function: str,
    inputs: Sequence[Value],
    rank: int,
    element: str,
    config: Mapping[str, Any] | None = None,
) -> Value:
    """`hosted`, where the host function `<function>.shape` computes the shape."""
    shape = hosted(node, f"{function}.shape", inputs, (rank,), "int64", config)
    return hosted(node, function, inputs, shape, element, config)
