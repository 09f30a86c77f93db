"""The begin and end of a region for an external code generator, and calls of compiled functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright import te
from tilewright.ir import FuncType, TupleType, Type
from tilewright.relay.cards.card import OPAQUE, OpCard, need
from tilewright.relay.expr import Expr


class RegionMark(OpCard):
    """Base of marks, which return their argument."""

    compiler: str
    expand_in = "CanonicalizeOps"
    pure = False  # keeps passes from folding it; in compiled programs a remaining mark has no effect

    def infer(self, data: Type) -> Type:
        return data

    def ref(self, data: np.ndarray) -> np.ndarray:
        return data

    def compute(self, data: te.Tensor) -> te.Tensor:
        return te.compute(data.shape, lambda *i: data(*i), name="border", tag="injective")

    def expand(self, data: Expr) -> Expr:
        return data


class compiler_begin(RegionMark, key="annotation.compiler_begin"):
    """`data`, as an input of a region for the external code generator `compiler`."""

    samples = [(((2, 3),), {"compiler": "ccompiler"})]


class compiler_end(RegionMark, key="annotation.compiler_end"):
    """`data`, as an output of a region for the external code generator `compiler`."""

    samples = [(((2, 3),), {"compiler": "ccompiler"})]


class call_lowered(OpCard, key="call_lowered"):
    """The result of a function whose code exists already and which has the attribute Extern. func: its global variable. inputs: the
    tuple of its arguments."""

    fuse = OPAQUE

    def infer(self, func: Type, inputs: Type) -> Type:
        need(isinstance(func, FuncType), "the first argument must be a function", f"it is {func}", 0)
        need(isinstance(inputs, TupleType), "the arguments must be a tuple", f"they are {inputs}", 1)
        assert isinstance(func, FuncType) and isinstance(inputs, TupleType)
        given, taken = len(inputs.fields), len(func.arg_types)
        need(given == taken, f"the function takes {taken} arguments", f"the tuple holds {given}", 1)
        for i, (a, b) in enumerate(zip(inputs.fields, func.arg_types, strict=True)):
            need(a == b, f"argument {i} must be {b}", f"it is {a}", 1)
        return func.ret_type

    def ref(self, func: Any, inputs: Any) -> Any:
        return func(*inputs)
