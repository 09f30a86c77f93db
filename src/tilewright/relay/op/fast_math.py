"""Forms of exp, tanh, erf and softmax that may be less exact, and the operator at which fusion ends.

The vector forms that code generation has of these functions are as fast as the classic approximations and exact to the last digits, so
the fast operators compute with those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te
from tilewright.ir import Type
from tilewright.relay.expr import Expr
from tilewright.relay.op.card import OPAQUE, OpCard
from tilewright.relay.op.elemwise import erf, exp, tanh
from tilewright.relay.op.neural import softmax


class fast_exp(exp, key="fast_exp"):  # type: ignore[valid-type, misc, call-arg]
    """e to the data, where the last digits do not matter."""


class fast_tanh(tanh, key="fast_tanh"):  # type: ignore[valid-type, misc, call-arg]
    """tanh(data), where the last digits do not matter."""


class fast_erf(erf, key="fast_erf"):  # type: ignore[valid-type, misc, call-arg]
    """The error function, where the last digits do not matter."""


class fast_softmax(softmax, key="nn.fast_softmax"):
    """exp(data) normalised along `axis`, where the last digits do not matter."""


class stop_fusion(OpCard, key="annotation.stop_fusion"):
    """The value itself; what is before and what is after are computed by different kernels."""

    fuse = OPAQUE
    samples = [(((2, 3),), {})]

    def infer(self, data: Type) -> Type:
        return data

    def compute(self, data: te.Tensor) -> te.Tensor:
        return te.compute(data.shape, lambda *i: data(*i), name="stop_fusion", tag="injective")  # type: ignore[no-any-return]

    def ref(self, data: Any) -> Any:
        return data

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [dy]
