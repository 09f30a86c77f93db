"""Calls of host functions from converters: what no kernel can do runs in Python, in the midst of compiled code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.builder import Builder
from tilewright.relay.frontend.common.strings import CARRIER, StringTensor, string_table
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.op.program.host import config_text, host_function
from tilewright.support.errors import TVMError
from tilewright.tir import Any as AnyDim

Function = Callable[..., Any]
_waiting = threading.local()
"""The result of a host function of data-dependent shape, computed when its shape was asked for and kept for the call that returns it."""


def string_host(name: str, sized: bool = False) -> Callable[[Function], Function]:
    """Register f(config, *arrays) -> array for `hosted`: strings come and go as arrays of str. sized: another function tells its shape."""

    def register(f: Function) -> Function:
        def whole(config: Any, *arrays: np.ndarray) -> np.ndarray:
            held = set(config.get("strings", ()))
            given = [string_table.decode(a) if k in held else a for k, a in enumerate(arrays)]
            try:
                made = np.asarray(f(config, *given))
            except (ValueError, IndexError, np.linalg.LinAlgError) as error:
                title = name.partition(".")[2]
                raise TVMError(f"{title} {config.get('node', '')!r}: {error}") from None
            return string_table.encode(made) if made.dtype.kind in "OUS" else made

        def elements(config: Any, *arrays: np.ndarray) -> np.ndarray:
            found = getattr(_waiting, "found", None)
            if found is not None and found[:2] == (name, config) and _equal(found[2], arrays):
                _waiting.found = None
                return found[3]  # type: ignore[no-any-return]
            return whole(config, *arrays)

        def shape(config: Any, *arrays: np.ndarray) -> np.ndarray:
            made = whole(config, *arrays)
            _waiting.found = name, config, [a.copy() for a in arrays], made
            return np.array(made.shape, np.int64)

        for one, title in ((elements, name), (shape, f"{name}.shape")) if sized else ((whole, name),):
            one.__module__ = f.__module__
            host_function(title)(one)
        return f

    return register


def _equal(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> bool:
    return len(a) == len(b) and all([x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(a, b, strict=True)])


def hosted(
    c: Builder,
    function: str,
    inputs: Sequence[Value],
    shape: Sequence[Any] | Value,
    dtype: str,
    pure: bool = True,
    **config: Any,
) -> Value:
    """The tensor that a host function makes of values. shape: extents, or a tensor of them. dtype: "string" for strings."""
    held = [k for k, x in enumerate(inputs) if isinstance(x, StringTensor)]
    attrs: dict[str, Any] = {
        "function": function,
        "dtype": CARRIER if dtype == "string" else dtype,
        "config": config_text({**config, "node": c.name, **({"strings": held} if held else {})}),
    }
    known = None
    if not isinstance(shape, Value):
        known = list(shape)
    elif shape.array is not None and shape.array.dtype != object:
        known = [int(d) for d in shape.array]
    if known is not None and not any([isinstance(d, AnyDim) or c.sizes.is_measured(d) for d in known]):
        made = c.call("host.call" if pure else "host.draw", list(inputs), shape=tuple(known), **attrs)
    else:
        sizes = (
            shape if isinstance(shape, Value) else c.concatenate([c.reshape(c.size(d), [1]) for d in known or ()], 0)
        )
        made = c.call("dyn.host.call", list(inputs), c.cast(sizes, "int64"), **attrs)
    return StringTensor(made.expr) if dtype == "string" else made


def hosted_like(c: Builder, function: str, inputs: Sequence[Value], like: Value, dtype: str, **config: Any) -> Value:
    """`hosted`, the result being of the shape of a value."""
    if any([isinstance(d, AnyDim) for d in like.shape]):
        sizes = c.call("shape_of", like, dtype="int64")
        return hosted(c, function, inputs, Value(sizes.expr), dtype, **config)
    return hosted(c, function, inputs, like.shape, dtype, **config)


def hosted_sized(c: Builder, function: str, inputs: Sequence[Value], rank: int, dtype: str, **config: Any) -> Value:
    """`hosted`, where the shape is known from the data only: the host function `<function>.shape` computes it."""
    shape = hosted(c, f"{function}.shape", inputs, (rank,), "int64", **config)
    return hosted(c, function, inputs, shape, dtype, **config)
