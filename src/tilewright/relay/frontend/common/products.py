"""Matrix products of tensors as NumPy has them."""

from __future__ import annotations

from tilewright.relay.cards.relations import broadcast_shapes
from tilewright.relay.frontend.common.builder import Builder
from tilewright.relay.frontend.common.value import Value


def product(c: Builder, a: Value, b: Value, turn_a: bool = False, turn_b: bool = False) -> Value:
    """A matrix product as in NumPy: vectors have an axis added and removed, axes before the last two broadcast.

    turn_a, turn_b: transpose the last two axes of a tensor that is no vector.
    """
    first, second = a.ndim == 1, b.ndim == 1
    a = c.call("expand_dims", a, axis=0) if first else a
    b = c.call("expand_dims", b, axis=0 if turn_b else 1) if second else b
    if first:
        turn_a = False
    if a.ndim == b.ndim == 2:
        out = c.call("nn.matmul", a, b, transpose_a=turn_a, transpose_b=turn_b)
    elif b.ndim == 2 and not turn_a:
        rows = c.reshape(a, [-1, a.shape[-1]])
        out = c.call("nn.matmul", rows, b, transpose_a=False, transpose_b=turn_b)
        out = c.reshape(out, [*a.shape[:-1], out.shape[-1]])
    else:
        front = list(broadcast_shapes(a.shape[:-2], b.shape[:-2]))
        left, right = (c.broadcast(x, [*front, *x.shape[-2:]]) for x in (a, b))
        if len(front) > 1:
            left, right = (c.reshape(x, [-1, *x.shape[-2:]]) for x in (left, right))
        out = c.call("nn.batch_matmul", left, right, transpose_a=turn_a, transpose_b=turn_b)
        out = c.reshape(out, [*front, *out.shape[-2:]])
    gone = [*([out.ndim - 2] if first else []), *([out.ndim - 1] if second else [])]
    return c.call("squeeze", out, axis=tuple(gone)) if gone else out
