"""Where the region of another compiler begins and ends; what external code generators get is between the two."""

from __future__ import annotations

from typing import Any

from tilewright import te
from tilewright.ir import Type
from tilewright.relay.expr import Expr
from tilewright.relay.op.card import OpCard


class _Border(OpCard):
    """The value itself."""

    compiler: str
    expand_in = "CanonicalizeOps"
    pure = False  # so that no pass folds it away; what is left when a program is compiled means nothing

    def infer(self, data: Type) -> Type:
        return data

    def ref(self, data: Any) -> Any:
        return data

    def compute(self, data: te.Tensor) -> te.Tensor:
        return te.compute(data.shape, lambda *i: data(*i), name="border", tag="injective")  # type: ignore[no-any-return]

    def expand(self, data: Expr) -> Expr:
        return data


class compiler_begin(_Border, key="annotation.compiler_begin"):
    """`data`, which a region of the compiler named `compiler` takes in."""

    samples = [(((2, 3),), {"compiler": "ccompiler"})]


class compiler_end(_Border, key="annotation.compiler_end"):
    """`data`, which a region of the compiler named `compiler` gives out."""

    samples = [(((2, 3),), {"compiler": "ccompiler"})]
