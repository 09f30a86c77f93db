"""exp, tanh, erf and softmax that may be less exact.

The vector forms of these functions are as fast as the classic approximations and exact to the last digits, so the fast operators
use them.
"""

from __future__ import annotations

from tilewright.relay.op.arithmetic.elemwise import erf, exp, tanh
from tilewright.relay.op.layers.neural import softmax


class fast_exp(exp, key="fast_exp"):  # type: ignore[valid-type, misc, call-arg]
    """exp(data), where the last digits do not matter."""


class fast_tanh(tanh, key="fast_tanh"):  # type: ignore[valid-type, misc, call-arg]
    """tanh(data), where the last digits do not matter."""


class fast_erf(erf, key="fast_erf"):  # type: ignore[valid-type, misc, call-arg]
    """The error function, where the last digits do not matter."""


class fast_softmax(softmax, key="nn.fast_softmax"):
    """exp(data) normalised along `axis`, where the last digits do not matter."""
