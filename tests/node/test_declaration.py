"""What a node's declaration gives: construction with conversion, replacement, and the guard that tests run under."""

from __future__ import annotations

import copy
import pickle

import pytest

from tilewright import tir
from tilewright.ir import IntImm
from tilewright.node import install_immutability_guard, structural_equal
from tilewright.support.errors import InternalError


def loop() -> tir.For:
    i = tir.Var("i")
    return tir.For(i, 0, 8, tir.ForKind.SERIAL, tir.Evaluate(i))


def test_assignment_after_construction_is_refused() -> None:
    with pytest.raises(InternalError, match="For.extent was assigned after construction; nodes are immutable"):
        loop().extent = IntImm("int32", 4)
    with pytest.raises(InternalError, match="the immutability guard comes too late"):
        install_immutability_guard()


def test_replace() -> None:
    node = loop()
    assert node.replace(extent=node.extent) is node
    shorter = node.replace(extent=4)
    assert int(shorter.extent) == 4
    assert shorter.body is node.body
    assert int(node.extent) == 8
    with pytest.raises(TypeError, match=r"For has no field \['length'\]"):
        node.replace(length=4)


def test_arguments_are_converted_or_refused() -> None:
    assert isinstance(loop().min, IntImm)
    assert tir.SeqStmt([tir.Evaluate(1), tir.Evaluate(2)]).seq.__class__ is tuple
    with pytest.raises(TypeError, match=r"For.loop_var must be a Var, but was given int: 3"):
        tir.For(3, 0, 8, tir.ForKind.SERIAL, tir.Evaluate(0))
    with pytest.raises(TypeError, match=r"Call.args takes a sequence, but was given the string 'abc'"):
        tir.Call("int32", "tir.exp", "abc")


def test_copies_and_pickles() -> None:
    node = loop()
    assert copy.copy(node) is node
    assert copy.deepcopy(node) is node
    back = pickle.loads(pickle.dumps(node))
    assert back is not node
    assert structural_equal(back, node)
