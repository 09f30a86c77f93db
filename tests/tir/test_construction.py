"""Nodes of the wrong type, lanes or arity are refused where they are made, and the message says what was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilewright import tir
from tilewright.ir import Range
from tilewright.tir import Ramp, Var

I, J, X, B = Var("i", "int32"), Var("j", "int32"), Var("x", "float32"), Var("b", "bool")
L, P = Var("l", "int64"), Var("p", "handle")
A = tir.decl_buffer((8, 8), name="A")
V = tir.decl_buffer((8,), name="V")
TRUE, NOTHING = tir.const(True, "bool"), tir.Evaluate(0)
AXIS = tir.IterVar((0, 8), "k", tir.IterVar.CommReduce)
SPATIAL = tir.IterVar((0, 8), "s", tir.IterVar.DataPar)
PLUS = tir.CommReducer([X], [Y := Var("y", "float32")], [X + Y], [tir.const(0.0, "float32")])

REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: tir.Add(P, P), "Add takes numbers, but was given handles"),
    (lambda: tir.LT(P, P), "LT takes numbers, but was given handles"),
    (lambda: tir.Select(Var("m", "boolx4"), X, X), r"as many lanes as they\), but was given boolx4, float32, float32"),
    (lambda: Ramp(X, X, 4), "Ramp takes integers, but was given float32"),
    (lambda: Ramp(I, L, 4), "Ramp takes base and stride of one type, but was given int32, int64"),
    (lambda: Ramp(I, 1, 0), "Ramp.lanes must be at least 1, but was given 0"),
    (lambda: Ramp(I, 1, J), "Ramp.lanes must be a constant int"),
    (lambda: tir.Broadcast(P, 4), "Broadcast takes a number, but was given a handle"),
    (lambda: tir.Shuffle([], [0]), "Shuffle takes at least one vector and one index, but was given 0 and 1"),
    (lambda: tir.Shuffle([I, X], [0]), "Shuffle takes vectors of one element type, but was given int32, float32"),
    (lambda: tir.Shuffle([Ramp(I, 1, 4)], [4]), "Shuffle picks from 4 lanes, but was given the index 4"),
    (lambda: tir.Call("float32", "exp", [X, X]), "tir.exp takes 1 argument, but was given 2"),
    (lambda: tir.Call("float32", "if_then_else", [B, X]), "tir.if_then_else takes 3 arguments, but was given 2"),
    (lambda: tir.Let(I, X, I), "the value of i must be int32, but was given float32"),
    (lambda: tir.LetStmt(I, X, NOTHING), r'the value of i must be int32, but was given float32.*\.astype\("int32"\)'),
    (lambda: tir.BufferLoad(A, [I]), "buffer A has 2 dimensions, but is indexed with 1"),
    (lambda: tir.BufferLoad(A, [I, X]), "an index of buffer A must be an integer, but is float32"),
    (lambda: tir.BufferLoad(A, [Ramp(I, 1, 4), J]), "only the last index of buffer A may be a vector"),
    (lambda: tir.BufferLoad(V, [I], Var("m", "boolx4")), "the predicate of a load of buffer V must be a scalar bool"),
    (lambda: tir.BufferStore(V, I, [J]), "a store to buffer V takes float32, but was given int32"),
    (lambda: tir.BufferStore(V, 1.0, [X]), "an index of buffer V must be an integer, but is float32"),
    (lambda: tir.CommReducer([X], [], [X], [X]), "as many rhs, results and identities as lhs"),
    (lambda: tir.CommReducer([X], [Y], [X + Y], [tir.const(0, "int32")]), "CommReducer combines values of one type"),
    (lambda: tir.Reduce(PLUS, [X], [AXIS], TRUE, 1), r"Reduce.value_index must lie in 0..0, but was given 1"),
    (lambda: tir.Reduce(PLUS, [X, X], [AXIS], TRUE, 0), "a source for each of the 1 values combined, but was given 2"),
    (lambda: tir.Reduce(PLUS, [I], [AXIS], TRUE, 0), "the source of Reduce must be float32, but was given int32"),
    (lambda: tir.Reduce(PLUS, [X], [SPATIAL], TRUE, 0), r"Reduce takes reduction axes \(te.reduce_axis\), but s is"),
    (lambda: tir.Reduce(PLUS, [X], [AXIS], I, 0), "the condition of Reduce must be a scalar bool, but was given int32"),
    (lambda: tir.IterVar((0, 8), "k", 11), "IterVar.iter_type must be one of"),
    (lambda: tir.IterVar((0, 8), X, 0), "the variable of axis x must be scalar integers, but one is float32"),
    (lambda: tir.For(X, X, X, 0, NOTHING), "loop x: its variable, min and extent must be integers of one type"),
    (lambda: tir.For(I, 0, L, 0, NOTHING), "must be integers of one type, but are int32, int32 and int64"),
    (lambda: tir.For(I, 0, 8, 7, NOTHING), "loop i: kind must be one of ForKind.SERIAL .. 4, but was given 7"),
    (lambda: tir.For(I, 0, 8, 4, NOTHING), "loop i is bound to a thread axis, so it needs a thread_binding"),
    (lambda: tir.While(I, NOTHING), "the condition of a while loop must be a scalar bool, but was given int32"),
    (lambda: tir.IfThenElse(X, NOTHING), "the condition of an if must be a scalar bool, but was given float32"),
    (lambda: tir.AssertStmt(I, "text", NOTHING), "the condition of an assertion must be a scalar bool"),
    (lambda: tir.Allocate(I, "float32", [8], TRUE, NOTHING), "the storage of i must be a handle, but is int32"),
    (
        lambda: tir.Allocate(P, "float32", [X], TRUE, NOTHING),
        "the extents of p must be scalar integers, but one is float32",
    ),
    (lambda: tir.Allocate(P, "float32", [8], I, NOTHING), "the condition of the allocation of p must be a scalar bool"),
    (lambda: tir.SeqStmt([]), "SeqStmt takes at least one statement, but was given none"),
    (
        lambda: tir.BufferRegion(A, [Range(0, 8)]),
        "a region of buffer A takes 2 ranges, one for each dimension, but was given 1",
    ),
    (lambda: tir.BufferRealize(A, [Range(0, 8)], TRUE, NOTHING), "a region of buffer A takes 2 ranges"),
    (lambda: tir.Prefetch(A, [Range(0, 8)]), "a region of buffer A takes 2 ranges"),
    (
        lambda: tir.MatchBufferRegion(tir.decl_buffer((8,), "int32", "M"), tir.BufferRegion(V, [Range(0, 8)])),
        "match_buffer: M is int32, but V, which it matches, is float32",
    ),
    (
        lambda: tir.MatchBufferRegion(tir.decl_buffer((4,), name="M"), tir.BufferRegion(V, [Range(0, 8)])),
        "dimension 0 of M has 4 elements, but the region of V that it matches 8",
    ),
    (
        lambda: tir.MatchBufferRegion(tir.decl_buffer((8,), name="M"), tir.BufferRegion(A, [Range(0, 8), Range(0, 8)])),
        "M leaves out dimension 0 of the region of A, which must have one element, but has 8",
    ),
    (
        lambda: tir.MatchBufferRegion(
            tir.decl_buffer((8,), name="M", scope="local"), tir.BufferRegion(V, [Range(0, 8)])
        ),
        "M is in scope 'local', but V, which it matches, in 'global'",
    ),
    (
        lambda: tir.BlockRealize([], TRUE, tir.Block([SPATIAL], [], [], "b", NOTHING)),
        "block b has 1 iteration variables, but is realized with 0 values",
    ),
    (
        lambda: tir.BlockRealize([X], TRUE, tir.Block([SPATIAL], [], [], "b", NOTHING)),
        "the values of block b must be scalar integers, but one is float32",
    ),
    (
        lambda: tir.BlockRealize([I], J, tir.Block([SPATIAL], [], [], "b", NOTHING)),
        "the predicate of block b must be a scalar bool, but was given int32",
    ),
    (lambda: tir.decl_buffer((8,), name="S", data=I), "buffer S: data must be a handle, but is int32"),
    (lambda: tir.decl_buffer((8, 8), name="S", strides=[1]), "buffer S has 2 dimensions, but 1 strides"),
    (lambda: tir.PrimFunc([I, I], NOTHING), "PrimFunc: i is a parameter twice"),
    (lambda: tir.PrimFunc([], NOTHING, None, {P: A}), "buffer A is bound to p, which is not a parameter"),
    (lambda: tir.PrimFunc([I], NOTHING, None, {I: A}), "parameter i, which must be a handle, but is int32"),
    (lambda: tir.PrimFunc([1], NOTHING), "PrimFunc.params must be a Var, but was given int: 1"),
]


@pytest.mark.parametrize(("build", "text"), REFUSED, ids=[text[:40] for _, text in REFUSED])
def test_refused(build: Callable[[], Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        build()


def test_layouts() -> None:
    nchw16c = tir.layout("NCHW16c")
    assert len(nchw16c) == 5 and nchw16c[4] == "c" and nchw16c.factor_of("C") == 16 and nchw16c.index_of("W") == 3
    assert "c" in nchw16c and "D" not in nchw16c and nchw16c.index_of("D") == -1
    way = tir.bijective_layout("NCHW", "NCHW16c")
    assert [int(x) for x in way.forward_shape([1, 32, 7, 7])] == [1, 2, 7, 7, 16]
    assert [int(x) for x in way.backward_shape([1, 2, 7, 7, 16])] == [1, 32, 7, 7]
    assert [int(x) for x in way.forward_index([0, 18, 6, 6])] == [0, 1, 6, 6, 2]
    assert [int(x) for x in way.backward_index([0, 1, 6, 6, 2])] == [0, 18, 6, 6]
    both = tir.bijective_layout("NCHW4c", "NCHW8c")
    assert [int(x) for x in both.forward_index([0, 3, 0, 0, 1])] == [0, 1, 0, 0, 5]
    with pytest.raises(ValueError, match="layout 'NCHW16' :?|axes are capital letters"):
        tir.layout("NCHW16")
    with pytest.raises(ValueError, match="names the axis N twice"):
        tir.layout("NCN")
    with pytest.raises(ValueError, match="has inner parts of the axis C, but not the axis itself"):
        tir.layout("NHW4c")
    with pytest.raises(ValueError, match="differ in the axes C"):
        tir.bijective_layout("NCHW", "NHW")
    with pytest.raises(ValueError, match="axis C has 30 elements, which 16 does not divide"):
        way.forward_shape([1, 30, 7, 7])
