"""Calls of host functions from converters: what no kernel can do runs in Python, in the midst of compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.texts import CARRIER, strings
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.tensorflow.value import NodeCall, Sizes, Text
from tilewright.relay.op.host import config_text, host_function
from tilewright.support.errors import TVMError
from tilewright.tir import Any as AnyDim

Function = Callable[..., Any]


def tf_host(name: str, sized: bool = False) -> Callable[[Function], Function]:
    """Register f(config, *arrays) -> array for `hosted`: texts come and go as arrays of str. sized: another function tells its shape."""

    def register(f: Function) -> Function:
        def whole(config: Any, *arrays: np.ndarray) -> np.ndarray:
            held = set(config.get("texts", ()))
            given = [strings.decode(a) if k in held else a for k, a in enumerate(arrays)]
            try:
                made = np.asarray(f(config, *given))
            except (ValueError, IndexError, np.linalg.LinAlgError) as error:
                raise TVMError(f"{name.removeprefix('tf.')} {config.get('node', '')!r}: {error}") from None
            return strings.encode(made) if made.dtype.kind in "OUS" else made

        whole.__module__ = f.__module__
        host_function(name)(whole)
        if sized:

            def shape(config: Any, *arrays: np.ndarray) -> np.ndarray:
                return np.array(whole(config, *arrays).shape, np.int64)

            shape.__module__ = f.__module__
            host_function(f"{name}.shape")(shape)
        return f

    return register


def hosted(
    c: NodeCall,
    function: str,
    inputs: Sequence[Value],
    shape: Sequence[Any] | Value,
    dtype: str,
    pure: bool = True,
    **config: Any,
) -> Value:
    """The tensor that a host function makes of values. shape: extents, or a tensor of them. dtype: "string" for texts."""
    held = [k for k, x in enumerate(inputs) if isinstance(x, Text)]
    attrs: dict[str, Any] = {
        "function": function,
        "dtype": CARRIER if dtype == "string" else dtype,
        "config": config_text({**config, "node": c.name, **({"texts": held} if held else {})}),
    }
    known = None
    if not isinstance(shape, Value):
        known = list(shape)
    elif shape.array is not None and not isinstance(shape, Sizes):
        known = [int(d) for d in shape.array]
    if known is not None and not any([isinstance(d, AnyDim) or c.sizes.is_measured(d) for d in known]):
        made = c.call("host.call" if pure else "host.draw", list(inputs), shape=tuple(known), **attrs)
    else:
        sizes = (
            shape if isinstance(shape, Value) else c.concatenate([c.reshape(c.size(d), [1]) for d in known or ()], 0)
        )
        made = c.call("dyn.host.call", list(inputs), c.cast(sizes, "int64"), **attrs)
    return Text(made.expr) if dtype == "string" else made


def hosted_like(c: NodeCall, function: str, inputs: Sequence[Value], like: Value, dtype: str, **config: Any) -> Value:
    """`hosted`, the result being of the shape of a value."""
    if any([isinstance(d, AnyDim) for d in like.shape]):
        sizes = c.call("shape_of", like, dtype="int64")
        return hosted(c, function, inputs, Value(sizes.expr), dtype, **config)
    return hosted(c, function, inputs, like.shape, dtype, **config)


def hosted_sized(c: NodeCall, function: str, inputs: Sequence[Value], rank: int, dtype: str, **config: Any) -> Value:
    """`hosted`, where the shape is known from the data only: the host function `<function>.shape` computes it."""
    shape = hosted(c, f"{function}.shape", inputs, (rank,), "int64", **config)
    return hosted(c, function, inputs, shape, dtype, **config)
