"""Numbers of attributes and annotations are Python's or nodes: they are equal, have one hash and one text. Attributes print by name."""

from __future__ import annotations

import pytest

import tilewright as tvm
from tilewright import tir
from tilewright.ir import IntImm, structural_equal, structural_hash


@pytest.mark.parametrize(("node", "plain"), [(IntImm("int32", 3), 3), (IntImm("bool", 1), True)])
def test_a_number_and_its_node_are_equal(node: IntImm, plain: object) -> None:
    loops = [
        tir.For(tir.Var("i", "int32"), 0, 4, 0, tir.Evaluate(0), annotations={"n": (value, "x")})
        for value in (node, plain)
    ]
    assert structural_equal(*loops) and structural_equal(*loops[::-1])
    assert structural_hash(loops[0]) == structural_hash(loops[1])


@pytest.mark.parametrize("other", [4, True, "3", IntImm("int64", 3), None])
def test_other_values_differ(other: object) -> None:
    assert not structural_equal(IntImm("int32", 3), other) and not structural_equal(other, IntImm("int32", 3))


def test_text() -> None:
    body = tir.For(tir.Var("i", "int32"), 0, 4, 0, tir.Evaluate(0), annotations={"z": IntImm("int32", 3), "a": 3})
    func = tir.PrimFunc([], body, attrs={"b": 1, "a": IntImm("int32", 1)})
    text = func.script()
    assert 'annotations={"a": 3, "z": 3}' in text and 'T.func_attr({"a": 1, "b": 1})' in text
    tvm.ir.assert_structural_equal(tvm.script.from_source(text).with_attrs({}), func)


def test_arguments_of_operators() -> None:
    assert "nn.conv2d" in tvm.relay.op.op.Op.list_op_names()
    conv = tvm.ir.Op.get("nn.conv2d")
    assert conv.num_inputs == 2 and [name for name, _, _ in conv.arguments] == ["data", "weight"]
    assert tvm.ir.Op.get("concatenate").num_inputs == 1 and tvm.ir.Op.get("tir.exp").num_inputs == -1
    tvm.ir.register_op_attr("nn.conv2d", "of the levels", "high", level=20)
    conv.set_attr("of the levels", "low")
    assert conv.get_attr("of the levels") == "high"
    conv.set_attr("of the levels", None)
    conv.set_attr("of the levels", "low")
    assert conv.get_attr("of the levels") == "low"
    conv.reset_attr("of the levels")
    assert not conv.has_attr("of the levels")
    with pytest.raises(tvm.TVMError, match="no operator is named 'no.such'"):
        tvm.ir.Op.get("no.such")
