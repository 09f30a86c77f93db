"""Operators that return their argument and mark it for passes: where fusion ends, what may be computed again, what is packed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import ClassVar

import numpy as np

from tilewright import te
from tilewright.ir import Type
from tilewright.relay.cards.card import ELEMWISE, OPAQUE, OpCard, Sample
from tilewright.relay.expr import Expr
from tilewright.runtime.packed_func import global_func


class Mark(OpCard):
    """Base of operators that return their argument, which passes read as marks."""

    samples: ClassVar[Sequence[Sample]] = [(((2, 3),), {})]

    def infer(self, data: Type) -> Type:
        return data

    def compute(self, data: te.Tensor) -> te.Tensor:
        return te.compute(data.shape, lambda *i: data(*i), name=self.type_key.rpartition(".")[2], tag="injective")

    def ref(self, data: np.ndarray) -> np.ndarray:
        return data

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [dy]


class stop_fusion(Mark, key="annotation.stop_fusion"):
    """data. Its producers and its consumers are not fused into one kernel."""

    fuse = OPAQUE


class cast_hint(Mark, key="annotation.cast_hint"):
    """data, as a hint that it should be stored as `dtype`."""

    fuse = ELEMWISE
    dtype: str
    samples = [(((2, 3),), {"dtype": "int8"})]


class checkpoint(Mark, key="annotation.checkpoint"):
    """data, which gradients may compute again from its inputs instead of keeping it."""

    fuse = ELEMWISE


class debug(Mark, key="debug"):
    """data. The interpreter calls the global function "relay.debug" with it, which starts Python's debugger (see relay.debug).
    Compiled code only returns data."""

    fuse = OPAQUE
    pure = False
    # Running samples would stop in the debugger.
    samples = ()

    def ref(self, data: np.ndarray) -> np.ndarray:
        import_module("tilewright.relay.debug")
        global_func("relay.debug")(data)
        return data


class bitpack_start(Mark, key="annotation.bitpack_start"):
    """data, as the beginning of the part of a graph that runs on packed data."""

    fuse = ELEMWISE


class bitpack_end(Mark, key="annotation.bitpack_end"):
    """data, as the end of the part of a graph that runs on packed data."""

    fuse = ELEMWISE
