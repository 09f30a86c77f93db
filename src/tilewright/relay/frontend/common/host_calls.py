"""Calls of host functions from converters: compiled code calls Python for operators without kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.relay.cards.relations import Dim, broadcast_shapes
from tilewright.relay.frontend.common.builder import Builder
from tilewright.relay.frontend.common.value import StringTensor, Value
from tilewright.runtime.host_functions.registry import config_text
from tilewright.runtime.host_functions.strings import CARRIER
from tilewright.tir import Any as AnyDim


def host_call(
    c: Builder,
    function: str,
    inputs: Sequence[Value],
    shape: Sequence[Dim] | Value,
    dtype: str,
    pure: bool = True,
    **config: Any,
) -> Value:
    """The result of a host function of these values. shape: extents, or a tensor of them. dtype: "string" for strings."""
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


def host_call_like(c: Builder, function: str, inputs: Sequence[Value], like: Value, dtype: str, **config: Any) -> Value:
    """`host_call` with a result of the shape of a given value."""
    if any([isinstance(d, AnyDim) for d in like.shape]):
        sizes = c.call("shape_of", like, dtype="int64")
        return host_call(c, function, inputs, Value(sizes.expr), dtype, **config)
    return host_call(c, function, inputs, like.shape, dtype, **config)


def host_call_sized(c: Builder, function: str, inputs: Sequence[Value], rank: int, dtype: str, **config: Any) -> Value:
    """`host_call` with a shape that depends on the data: the host function `<function>.shape` computes it."""
    shape = host_call(c, f"{function}.shape", inputs, (rank,), "int64", **config)
    return host_call(c, function, inputs, shape, dtype, **config)


def linear_algebra(
    c: Builder, f: Callable[..., Any], matrices: Sequence[Value], shapes: Sequence[Sequence[Dim]], **config: Any
) -> list[Value]:
    """The results of a host function, with these shapes for one matrix. Axes before the last two are batch axes."""
    lead = max([m.shape[:-2] for m in matrices], key=len)
    dtype = matrices[0].dtype
    counts = [int(np.prod(c.static(s, "the extents of its matrix"))) for s in shapes]
    whole = c.call(
        "host.call", list(matrices), function=f"linalg.{f.__name__}", shape=(*lead, sum(counts)), dtype=dtype,
        config=config_text(config),
    )  # fmt: skip
    results, begin = [], 0
    for s, count in zip(shapes, counts, strict=True):
        part = whole
        if len(counts) > 1:
            part = c.call("strided_slice", whole, begin=(begin,), end=(begin + count,), strides=(1,), axes=(len(lead),))
        results.append(c.reshape(part, [*lead, *s]))
        begin += count
    return results


def special(c: Builder, name: str, *xs: Value) -> Value:
    """A special function of tensors, computed by element."""
    shape: Sequence[Dim] = ()
    for x in xs:
        shape = broadcast_shapes(shape, x.shape)
    made: Value = c.call("host.call", list(xs), function=f"special.{name}", shape=tuple(shape), dtype=xs[0].dtype)
    return made
