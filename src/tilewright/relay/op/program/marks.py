"""Operators that return their argument and mark it for passes: where fusion ends, what may be computed again, what is packed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import count
from typing import Any, ClassVar

import numpy as np

from tilewright import te
from tilewright.ir import Type
from tilewright.relay.cards.card import ELEMWISE, OPAQUE, OpCard, Sample
from tilewright.relay.expr import Call, Expr
from tilewright.runtime import register_func
from tilewright.runtime.packed_func import global_func

_FUNCTIONS = count()
"""Numbers of functions that programs give `debug`."""


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
    """expr. The interpreter calls a function with it: `debug_func`, or the global function "relay.debug", which starts Python's debugger
    (see relay.debug). Compiled code only returns expr."""

    fuse = OPAQUE
    pure = False
    debug_func: str = ""
    # Running samples would stop in the debugger.
    samples = ()

    @classmethod
    def make(cls, expr: Expr, debug_func: Callable[..., Any] | str | None = None) -> Call:
        if debug_func is None or isinstance(debug_func, str):
            return cls.construct(expr, debug_func=debug_func or "")
        name = f"relay.debug_{next(_FUNCTIONS)}"
        register_func(name, debug_func)
        return cls.construct(expr, debug_func=name)

    def infer(self, expr: Type) -> Type:
        return expr

    def ref(self, expr: np.ndarray) -> np.ndarray:
        import_module("tilewright.relay.debug")
        global_func(self.debug_func or "relay.debug")(expr)
        return expr


class bitpack_start(Mark, key="annotation.bitpack_start"):
    """data, as the beginning of the part of a graph that runs on packed data."""

    fuse = ELEMWISE


class bitpack_end(Mark, key="annotation.bitpack_end"):
    """data, as the end of the part of a graph that runs on packed data."""

    fuse = ELEMWISE
