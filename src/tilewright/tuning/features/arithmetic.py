"""How many operations of each kind an expression is, and which elements it loads; kept for each expression, as nodes do not change."""

from __future__ import annotations

from tilewright.ir import DataType, PrimExpr
from tilewright.node import Visitor, on
from tilewright.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BufferLoad,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
)
from tilewright.tir.op import _MATH, ACTIVATIONS

_OF_NUMBERS = ("mad", "addsub", "mul", "divmod", "cmp", "mathfunc", "otherfunc")
KINDS = (*[f"float_{k}" for k in _OF_NUMBERS], *[f"int_{k}" for k in _OF_NUMBERS], "bool_op", "select_op")
"""Kinds of operations: a multiply-add (an addition of a product) is one operation; a minimum or a maximum is a comparison."""

Counts = tuple[float, ...]

_BINARY: dict[type, str] = {
    Add: "addsub",
    Sub: "addsub",
    Mul: "mul",
    Div: "divmod",
    Mod: "divmod",
    FloorDiv: "divmod",
    FloorMod: "divmod",
    Min: "cmp",
    Max: "cmp",
    EQ: "cmp",
    NE: "cmp",
    LT: "cmp",
    LE: "cmp",
    GT: "cmp",
    GE: "cmp",
}
_MATHEMATICAL = frozenset([f"tir.{name}" for name in (*_MATH.split(), *ACTIVATIONS)])
_FREE = frozenset({"tir.likely", "tir.reinterpret", "tir.type_annotation", "tir.address_of", "tir.tvm_access_ptr"})
_PLACE = {kind: i for i, kind in enumerate(KINDS)}
MOST_KEPT = 4096


class _Operations(Visitor):
    """Indices of loads are not looked at: address arithmetic is not what a program computes."""

    def __init__(self) -> None:
        self.counts = [0.0] * len(KINDS)
        self.loads: list[BufferLoad] = []

    def count(self, kind: str, dtype: DataType, lanes: int) -> None:
        self.counts[_PLACE[f"{'float' if dtype.is_float else 'int'}_{kind}"]] += lanes

    @on(BufferLoad)
    def _load(self, e: BufferLoad) -> None:
        self.loads.append(e)

    @on(Add, Sub)
    def _sum(self, e: Add | Sub) -> None:
        product = e.b if type(e.b) is Mul else e.a if type(e.a) is Mul else None
        self.count("addsub" if product is None else "mad", e.dtype, e.dtype.lanes)
        for operand in (e.a, e.b):
            if operand is product:
                self.visit_children(operand)
            else:
                self.visit(operand)

    @on(Mul)
    def _product(self, e: Mul) -> None:
        self.count("mul", e.dtype, e.dtype.lanes)
        self.visit_children(e)

    @on(Div, Mod, FloorDiv, FloorMod)
    def _quotient(self, e: Div) -> None:
        self.count("divmod", e.dtype, e.dtype.lanes)
        self.visit_children(e)

    @on(Min, Max, EQ, NE, LT, LE, GT, GE)
    def _comparison(self, e: Min) -> None:
        self.count("cmp", e.a.dtype, e.dtype.lanes)
        self.visit_children(e)

    @on(And, Or, Not)
    def _logical(self, e: And) -> None:
        self.counts[_PLACE["bool_op"]] += e.dtype.lanes
        self.visit_children(e)

    @on(Select)
    def _select(self, e: Select) -> None:
        self.counts[_PLACE["select_op"]] += e.dtype.lanes
        self.visit_children(e)

    @on(Call)
    def _call(self, e: Call) -> None:
        name = getattr(e.op, "name", "")
        if name == "tir.if_then_else":
            self.counts[_PLACE["select_op"]] += e.dtype.lanes
        elif name == "tir.fma":
            self.count("mad", e.dtype, e.dtype.lanes)
        elif name not in _FREE:
            self.count("mathfunc" if name in _MATHEMATICAL else "otherfunc", e.dtype, e.dtype.lanes)
        self.visit_children(e)


_kept: dict[int, tuple[PrimExpr, Counts, tuple[BufferLoad, ...]]] = {}


def operations(e: PrimExpr) -> tuple[Counts, tuple[BufferLoad, ...]]:
    """The operations of an expression by kind (each lane of a vector counts), and its loads."""
    found = _kept.get(id(e))
    if found is None:
        walk = _Operations()
        walk.visit(e)
        if len(_kept) >= MOST_KEPT:
            _kept.clear()
        found = _kept[id(e)] = e, tuple(walk.counts), tuple(walk.loads)
    return found[1], found[2]
