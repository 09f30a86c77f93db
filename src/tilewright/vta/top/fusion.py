"""Which pools follow a product within its kernel: where the model of the accelerator says that two kernels take longer.

The sums of a tile are on the chip when its pool is computed, so they are neither stored nor loaded again; where windows overlap, sums at
the edges of tiles are computed twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.relay.expr import Call, Expr
from tilewright.relay.rewriting import card_of, is_op, static_shape
from tilewright.support.errors import TVMError
from tilewright.vta.configuration import Configuration
from tilewright.vta.search import pools
from tilewright.vta.search.best import choose
from tilewright.vta.search.problem import Problem
from tilewright.vta.top.products import Product, product_of

PASSES = (2, 2, 2, 2, 2, 1, 2, 2, 2, 1)
"""Steps of the ALU of a requantisation with factors of each channel: a bias, two bounds, the factor in two limbs with their halves, shifts,
and the range of int8."""


def _product_before(e: Expr) -> Product | None:
    """The product from whose sums a value is computed, alone or with others; None where there is none."""
    while isinstance(e, Call):
        found = product_of(e)
        if found is not None:
            return found
        if not e.args or is_op(e, "nn.max_pool2d"):
            return None
        e = next((a for a in e.args if isinstance(a, Call)), e.args[0])
    return None


def problem_of(
    e: Call, config: Configuration, computed: Callable[[Product], Product] = lambda product: product
) -> Problem | None:
    """A pool of maxima with the convolution before it; None where its windows are not within the results, or there is no convolution of one
    group before it. computed: the product as which one is computed."""
    product = _product_before(e.args[0])
    card: Any = card_of(e)
    out, sums = static_shape(e), static_shape(e.args[0])
    if product is None or product.groups != 1 or out is None or sums is None or len(sums) != 4 or any(card.padding):
        return None
    window, moves = (tuple([int(n) for n in values]) * (3 - len(values)) for values in (card.pool_size, card.strides))
    if any(
        [(n - 1) * step + size > whole for n, step, size, whole in zip(out[2:], moves, window, sums[2:], strict=True)]
    ):
        return None
    product = computed(product)
    data = static_shape(product.data)
    if data is None or len(data) != 4 or data[0] % config.batch:
        return None
    (outputs, inputs, *kernel), (sy, sx) = product.weights.shape, product.strides
    return Problem(
        data[0] // config.batch, -(-outputs // config.block_out), -(-inputs // config.block_in), out[2], out[3], (kernel[0], kernel[1]),
        (sy, sx), (data[2], data[3]), product.padding[:2], (kernel[0], kernel[1]) == (1, 1) and (sy, sx) != (1, 1), passes=PASSES,
        copied=(False,) * sum(n == 2 for n in PASSES), extra=1, pool=(window[0], window[1]), pool_strides=(moves[0], moves[1]),
    )  # fmt: skip


def is_faster(e: Call, config: Configuration, computed: Callable[[Product], Product] = lambda product: product) -> bool:
    """Whether a pool of maxima is computed faster in the kernel of the convolution before it. computed: as in `problem_of`."""
    p = problem_of(e, config, computed)
    sums = static_shape(e.args[0])
    if p is None or sums is None:
        return False
    before = p._replace(rows=sums[2], columns=sums[3], pool=(1, 1), pool_strides=(1, 1))
    try:
        return choose(p, config).cycles < choose(before, config).cycles + pools.alone(p, config)
    except TVMError:
        return False


__all__ = ["is_faster", "problem_of"]
