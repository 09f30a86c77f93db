"""ProductsOfWindows: converts convolutions of one channel along a line of dynamic extent (filters of spectrograms) to matrix products.

Such windows are long and overlap. There are no channels for vectors, and the filters need not fill whole blocks. Copies of the
windows are the rows of a product with the filters, which is packed and runs in whole tiles whatever the extent. The copy costs little
if there are many filters. Convolutions of known sizes have other forms (`topi/nn/plain_conv.py`).
"""

from __future__ import annotations

from math import prod

from tilewright.ir import DataType
from tilewright.ir.transform import Pass
from tilewright.relay.cards.card import constructor
from tilewright.relay.cards.relations import dims
from tilewright.relay.expr import Call, Expr
from tilewright.relay.op.convolution.attributes import Convolution
from tilewright.relay.rewriting import card_of, is_op, rewrite_calls, static_shape, tensor_of, typed_pass
from tilewright.scheduling.graph_plan import portable_plan


def as_product(call: Call) -> Expr | None:
    """A convolution along a line as a product; None for other convolutions."""
    if not is_op(call, "nn.conv1d", "nn.conv2d"):
        return None
    card = card_of(call)
    assert isinstance(card, Convolution)
    data, weight = tensor_of(call.args[0]), static_shape(call.args[1])
    plain, kernel = card.plain
    if card.layouts() != (plain, kernel, plain) or weight is None:
        return None
    kinds = {str(t.dtype) for t in (data, tensor_of(call.args[1]), tensor_of(call))}
    if len(kinds) > 1 or not DataType(kinds.pop()).is_float or static_shape(call.args[0]) is not None:
        return None
    filters, channels, *window = weight
    n, extents = len(window), dims(data)
    line = channels == 1 and extents[1:-1] == [1] * n and prod(window[:-1]) == 1
    strides, dilation, before, after = card.windows()
    if not line or set(dilation) != {1} or any([*before[:-1], *after[:-1]]):
        return None
    if not portable_plan().forms.copies_windows(window[-1], filters):
        return None
    source: Expr = call.args[0]
    if before[-1] or after[-1]:
        source = constructor("nn.pad")(source, pad_width=((0, 0),) * (n + 1) + ((before[-1], after[-1]),))
    rows = constructor("sliding_window")(source, axis=n + 1, window_shape=(window[-1],), strides=(strides[-1],))
    product = constructor("nn.dense")(rows, constructor("reshape")(call.args[1], (filters, window[-1])), span=call.span)
    # Converts (N, 1, 1, places, filters) to (N, filters, 1, places).
    places = constructor("squeeze")(product, axis=(1,))
    return constructor("transpose")(places, axes=(0, n + 1, *range(1, n + 1)))


def ProductsOfWindows() -> Pass:
    """Replace convolutions of one channel along a line of dynamic extent by products of their windows with the filters."""
    return typed_pass("ProductsOfWindows", 1, lambda f, mod: rewrite_calls(f, as_product))


__all__ = ["ProductsOfWindows", "as_product"]
