"""exp, tanh, erf and softmax that may be less exact.

The vector forms of these functions are as fast as the classic approximations and exact to the last digits, so the fast operators
use them.
"""

from __future__ import annotations

from tilewright.relay.op.arithmetic.elemwise import Unary, erf, exp, tanh, unary
from tilewright.relay.op.layers.normalisation import softmax


def _fast(card: type[Unary], doc: str) -> type[Unary]:
    key = card.computed_by
    return unary(f"fast_{key}", card.np_form, doc, slope=card.slope, by=key, reals=True)


fast_exp = _fast(exp, "exp(data), where the last digits do not matter.")
fast_tanh = _fast(tanh, "tanh(data), where the last digits do not matter.")
fast_erf = _fast(erf, "The error function, where the last digits do not matter.")


class fast_softmax(softmax, key="nn.fast_softmax"):
    """exp(data) normalised along `axis`, where the last digits do not matter."""
