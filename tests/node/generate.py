"""Random instances of any registered node type, made from nothing but its field declarations."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np

from tilewright import te, tir
from tilewright.ir import DataType, PointerType, PrimType, Range
from tilewright.node import Node, node_types
from tilewright.node.base import _BASES, SKIP
from tilewright.support.errors import TVMError

DTYPES = ("int32", "int32", "float32", "bool", "int64")
# What a base type falls back to when the instance is deep enough.
SHALLOW = {
    "PrimExpr": ("IntImm", "FloatImm", "tir.Var"),
    "BaseExpr": ("GlobalVar", "IntImm", "tir.Var"),
    "RelayExpr": ("relay.Var", "relay.Constant", "GlobalVar"),
    "Stmt": ("tir.Evaluate",),
    "Type": ("PrimType", "VoidType"),
    "BaseFunc": ("tir.PrimFunc",),
    "Operation": ("te.PlaceholderOp",),
    "Attrs": ("DictAttrs",),
}
REFUSALS = (TypeError, ValueError, TVMError, IndexError, AttributeError, AssertionError, ZeroDivisionError)


def samples() -> list[Node]:
    """Parts that random fields hardly ever make: pointers, conditions, layouts, tensors."""
    x = te.placeholder((2, 3), name="x")
    pointer = tir.Var("p", PointerType(PrimType("float32")))
    lhs, rhs = tir.Var("a", "float32"), tir.Var("b", "float32")
    zero, one = tir.const(0, "int32"), tir.const(1.0, "float32")
    reducer = tir.CommReducer((lhs,), (rhs,), (lhs + rhs,), (tir.const(0.0, "float32"),))
    axis = tir.IterVar(Range(0, 4), tir.Var("k", "int32"), tir.IterVar.CommReduce)
    nothing, buffer = tir.Evaluate(0), tir.decl_buffer((2, 3), name="B")
    return [
        tir.exp(one),
        tir.call_extern("int32", "f", zero),
        reducer,
        tir.Reduce(reducer, (one,), (axis,), tir.const(True), 0, ()),
        tir.ProducerStore(x, one, (zero, zero)),
        tir.ProducerRealize(x, (Range(0, 2), Range(0, 3)), tir.const(True), nothing),
        tir.Allocate(pointer, "float32", (4,), tir.const(True), nothing),
        tir.AllocateConst(pointer, "float32", (2,), np.zeros(2, "float32"), nothing),
        pointer,
        tir.Var("q", PointerType(PrimType("int32"), "shared")),
        buffer,
        tir.BufferLoad(buffer, (zero, zero)),
        tir.BufferStore(buffer, one, (zero, zero)),
        tir.Select(tir.const(True), one, one),
        tir.const(True),
        tir.layout("NCHW16c"),
        tir.bijective_layout("NCHW", "NHWC"),
        x,
        te.compute((2,), lambda i: x[i, 0], name="y"),
        nothing,
    ]


class NoInstance(Exception):
    """No random field values were accepted."""


class Generator:
    """Draws values by annotation; constructors that refuse a combination get another one. What was made is used again in other
    places, so that the parts of nodes that ask for much of them (a pointer of the right type) are soon at hand."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.made: list[Node] = samples()
        self._of: dict[type, list[Node]] = {}

    def instance(self, cls: type[Node], depth: int = 2) -> Node:
        """A node of a type. Raises NoInstance when no fields were accepted."""
        for _ in range(150 if depth >= 2 else 3):
            try:
                return cls.restore(self.field_values(cls, depth))
            except (*REFUSALS, NoInstance):
                continue
        alike = [v for v in self.of(cls) if type(v) is cls]
        if alike:
            return self.rng.choice(alike)
        raise NoInstance(f"no random fields made a {cls.type_key}")

    def field_values(self, cls: type[Node], depth: int) -> list[Any]:
        values = [None if f.kind == SKIP else self.value(f.annotation, depth - 1) for f in cls._fields]
        if cls.type_key == "tir.PrimFunc":
            # Only parameters are bound to buffers.
            values[3] = dict(zip(values[0], values[3].values(), strict=False))
        return values

    def value(self, annotation: str, depth: int) -> Any:
        rng = self.rng
        if " | " in annotation:
            return self.value(rng.choice(_split(annotation, " | ")), depth)
        if annotation.startswith("tuple["):
            items = _split(annotation[6:-1], ", ")
            if items[-1] == "...":
                return tuple([self.value(items[0], depth) for _ in range(rng.choice((0, 1, 1, 2, 2, 3)))])
            return tuple([self.value(i, depth) for i in items])
        if annotation.startswith("Mapping["):
            key, item = _split(annotation[8:-1], ", ")
            return {self.value(key, depth): self.value(item, depth) for _ in range(rng.choice((0, 1, 2)))}
        atom = self.atom(annotation, depth)
        return self.node(annotation, depth) if atom is _NODE else atom

    def atom(self, annotation: str, depth: int) -> Any:
        rng = self.rng
        if annotation == "None":
            return None
        if annotation == "int":
            return rng.randrange(0, 5)
        if annotation == "bool":
            return rng.random() < 0.5
        if annotation == "float":
            return rng.choice((0.0, -0.0, 1.5, float("inf"), float("nan"), rng.random()))
        if annotation == "str":
            return rng.choice(("a", "b", "global", 'q"uote\n', "é", "", "NHWC"))
        if annotation == "DataType":
            return DataType(rng.choice(DTYPES))
        if annotation == "ConstArray":
            return np.asarray(rng.choice((1.0, float("nan"), 3.0)), dtype=rng.choice(("float32", "float64")))
        if annotation == "Any":
            return self.value(
                rng.choice(("int", "str", "float", "PrimExpr", "tuple[int, ...]", "Mapping[str, str]")), depth
            )
        return _NODE

    def of(self, base: type) -> list[Node]:
        """What was made of a type or of those below it."""
        found = self._of.get(base)
        if found is None:
            found = self._of[base] = [v for v in self.made if isinstance(v, base)]
        return found

    def keep(self, made: Node) -> None:
        self.made.append(made)
        for base, found in self._of.items():
            if isinstance(made, base):
                found.append(made)

    def node(self, annotation: str, depth: int) -> Node:
        base = _BASES.get(annotation) or _by_name().get(annotation)
        if base is None:
            raise NoInstance(f"the generator knows no values of {annotation}")
        shared = self.of(base)
        if shared and self.rng.random() < 0.5:
            return self.rng.choice(shared)
        concrete = _below(base)
        if base.__name__ == "RelayExpr":
            concrete = [t for t in concrete if not t.type_key.startswith("tir.")]
        if depth <= 0:
            simple = [t for t in concrete if t.type_key in SHALLOW.get(base.__name__, ())]
            concrete = simple or concrete
        try:
            made = self.instance(self.rng.choice(concrete), depth)
        except NoInstance:
            if not shared:
                raise
            return self.rng.choice(shared)
        self.keep(made)
        return made


@cache
def _below(base: type) -> list[type[Node]]:
    return [t for t in node_types().values() if issubclass(t, base)]


_NODE = object()
_names: dict[str, type] = {}


def _by_name() -> dict[str, type]:
    """Node classes and their bases by class name."""
    if not _names:
        for cls in node_types().values():
            for base in cls.__mro__:
                if issubclass(base, Node):
                    _names.setdefault(base.__name__, base)
    return _names


def _split(text: str, separator: str) -> list[str]:
    """Splits at separators that stand outside brackets."""
    parts, depth, start, i = [], 0, 0, 0
    while i < len(text):
        depth += {"[": 1, "]": -1}.get(text[i], 0)
        if depth == 0 and text.startswith(separator, i):
            parts.append(text[start:i])
            start = i = i + len(separator)
        else:
            i += 1
    return [*parts, text[start:]]


def clone(value: Any, memo: dict[int, Any] | None = None) -> Any:
    """A copy that shares no node with the original but interned ones; what was shared inside stays shared."""
    memo = {} if memo is None else memo
    if isinstance(value, Node):
        if id(value) not in memo:
            fields = [
                getattr(value, f.name) if f.kind == SKIP else clone(getattr(value, f.name), memo) for f in value._fields
            ]
            memo[id(value)] = type(value).restore(fields)
        return memo[id(value)]
    if isinstance(value, (tuple, list)):
        return tuple([clone(v, memo) for v in value])
    if isinstance(value, dict):
        return {clone(k, memo): clone(v, memo) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return value.copy()
    return value
