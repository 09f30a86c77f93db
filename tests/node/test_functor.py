"""Visitors and mutators: what is unchanged stays the same object, and every override is used."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from tilewright import tir
from tilewright.ir import IntImm, TupleType
from tilewright.node import Mutator, Visitor, first_mismatch, on, structural_equal, structural_hash
from tilewright.support.errors import DepthError
from tilewright.tir import Add, Evaluate, Var


def program() -> tuple[Var, tir.Stmt]:
    i, j = Var("i", "int32"), Var("j", "int32")
    inner = tir.SeqStmt((Evaluate(i + j), Evaluate(tir.call_intrin("int32", "tir.likely", j * 2))))
    return i, tir.For(j, 0, 8, tir.ForKind.SERIAL, inner, None, {"k": i, "n": 3})


class Same(Mutator):
    pass


class Replace(Mutator):
    def __init__(self, old: Var, new: Any) -> None:
        self.old, self.new = old, new

    @on(Var)
    def _var(self, v: Var) -> Any:
        return self.new if v is self.old else v


def test_unchanged_is_the_same_object() -> None:
    _, body = program()
    assert Same().visit(body) is body


def test_only_what_changes_is_rebuilt() -> None:
    i, body = program()
    new = Replace(i, IntImm("int32", 5)).visit(body)
    assert new is not body and new.loop_var is body.loop_var  # type: ignore[attr-defined]
    assert new.body.seq[1] is body.body.seq[1]  # type: ignore[attr-defined]
    assert int(new.body.seq[0].value.a) == 5
    assert int(new.annotations["k"]) == 5 and new.annotations["n"] == 3


class Count(Visitor):
    """Overrides `visit`, through which every child must then go."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def visit(self, node: Any) -> Any:
        self.seen.append(type(node).__name__)
        return super().visit(node)


class Trace(Same):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def visit(self, node: Any) -> Any:
        self.seen.append(type(node).__name__)
        return super().visit(node)


def test_an_overridden_visit_sees_every_child() -> None:
    _, body = program()
    count, trace = Count(), Trace()
    count.visit(body)
    assert trace.visit(body) is body
    for seen in (count.seen, trace.seen):
        assert [seen.count(n) for n in ("For", "SeqStmt", "Evaluate", "Add", "Call", "Mul")] == [1, 1, 2, 1, 1, 1]


class Adds(Visitor):
    def __init__(self) -> None:
        self.adds = 0

    @on(Add)
    def _add(self, e: Add) -> None:
        self.adds += 1
        self.visit_children(e)


class TwiceAsMany(Adds):
    def _add(self, e: Add) -> None:
        self.adds += 1
        super()._add(e)


def test_a_subclass_overrides_a_handler() -> None:
    _, body = program()
    one, two = Adds(), TwiceAsMany()
    one.visit(body)
    two.visit(body)
    assert (one.adds, two.adds) == (1, 2)


def test_what_is_nested_too_deeply_is_said_so() -> None:
    """Walks over the content of nodes go far deeper than Python's own limit, and end with an error of their own."""

    def nested(depth: int) -> Any:
        t: Any = TupleType(())
        for _ in range(depth):
            t = TupleType((t,))
        return t

    deep = nested(100_000)
    assert structural_equal(nested(10_000), nested(10_000)) and first_mismatch(deep, deep) is None
    for walk in (structural_equal, lambda a, b: structural_hash(a)):
        with pytest.raises(DepthError, match=r"nested deeper than the compiler follows \(200000 calls of its own\)"):
            walk(deep, nested(100_000))
    assert sys.getrecursionlimit() < 100_000
