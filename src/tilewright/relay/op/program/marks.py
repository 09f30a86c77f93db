"""Operators that answer what they are given, for passes to see: where fusion ends, what may be computed again, what is packed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, ClassVar

from tilewright import te
from tilewright.ir import Type
from tilewright.relay.expr import Expr
from tilewright.relay.op.card import ELEMWISE, OPAQUE, OpCard
from tilewright.runtime.packed_func import global_func


class Mark(OpCard):
    """The value itself, which passes see a mark in."""

    samples = [(((2, 3),), {})]

    def infer(self, data: Type) -> Type:
        return data

    def compute(self, data: te.Tensor) -> te.Tensor:
        return te.compute(data.shape, lambda *i: data(*i), name=self.type_key.rpartition(".")[2], tag="injective")  # type: ignore[no-any-return]

    def ref(self, data: Any) -> Any:
        return data

    def grad(self, data: Expr, result: Expr, dy: Expr) -> Sequence[Expr | None]:
        return [dy]


class stop_fusion(Mark, key="annotation.stop_fusion"):
    """The value itself; what is before and what is after are computed by different kernels."""

    fuse = OPAQUE


class cast_hint(Mark, key="annotation.cast_hint"):
    """The value itself, which is meant to be stored as `dtype`."""

    fuse = ELEMWISE
    dtype: str
    samples: ClassVar[Any] = [(((2, 3),), {"dtype": "int8"})]


class checkpoint(Mark, key="annotation.checkpoint"):
    """The value itself, which need not be kept for gradients: what it is computed from is enough to compute it again."""

    fuse = ELEMWISE


class debug(Mark, key="debug"):
    """The value itself. Where the interpreter evaluates the call, the global function "relay.debug" is called with the value, which starts
    Python's debugger (see relay.debug); compiled code only passes the value on."""

    fuse = OPAQUE
    pure = False
    # What runs samples would stop.
    samples: ClassVar[Any] = ()

    def ref(self, data: Any) -> Any:
        import_module("tilewright.relay.debug")
        global_func("relay.debug")(data)
        return data


class bitpack_start(Mark, key="annotation.bitpack_start"):
    """The value itself: the first of the part of a graph that is to run on packed data."""

    fuse = ELEMWISE


class bitpack_end(Mark, key="annotation.bitpack_end"):
    """The value itself: the last of the part of a graph that is to run on packed data."""

    fuse = ELEMWISE
