"""Constants, ranges, operators and types."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from tilewright import ir, tir
from tilewright.ir import (
    FloatImm,
    FuncType,
    GlobalVar,
    IncompleteType,
    IntImm,
    Op,
    PointerType,
    PrimType,
    Range,
    TensorType,
    TupleType,
    TypeVar,
    as_prim_expr,
)
from tilewright.node import load_json, save_json, structural_equal


def test_small_integers_are_shared() -> None:
    assert IntImm("int32", 7) is IntImm("int32", 7)
    assert IntImm("int32", -16) is IntImm("int32", -16)
    assert IntImm("int32", 7) is not IntImm("int64", 7)
    assert IntImm("int32", 70000) is not IntImm("int32", 70000)
    assert load_json(save_json(IntImm("int32", 7))) is IntImm("int32", 7)
    assert pickle.loads(pickle.dumps(IntImm("int64", 3))) is IntImm("int64", 3)


def test_integers_are_numbers() -> None:
    five = IntImm("int32", 5)
    assert int(five) == 5
    assert list(range(10))[five] == 4 + 1
    assert five
    assert not IntImm("int32", 0)
    assert five == 5
    assert five != 6
    assert {five: "a"}[IntImm("int32", 5)] == "a"


@pytest.mark.parametrize(
    ("dtype", "value", "limits"),
    [
        ("int8", 128, "-128..127"),
        ("int8", -129, "-128..127"),
        ("uint8", 256, "0..255"),
        ("uint8", -1, "0..255"),
        ("int32", 1 << 31, "-2147483648..2147483647"),
    ],
)
def test_integers_out_of_range(dtype: str, value: int, limits: str) -> None:
    with pytest.raises(ValueError, match=f"{value} does not fit in {dtype}: the range is {limits}"):
        IntImm(dtype, value)


def test_constants_of_wrong_types() -> None:
    with pytest.raises(TypeError, match=r"IntImm.dtype must be a scalar integer type, but is float32"):
        IntImm("float32", 1)
    with pytest.raises(TypeError, match=r"IntImm.value must be an int, but was given float: 1.5"):
        IntImm("int32", 1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"FloatImm.dtype must be a scalar floating point type, but is int32"):
        FloatImm("int32", 1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (True, "bool"),
        (3, "int32"),
        (1 << 40, "int64"),
        (0.5, "float32"),
        (np.int8(3), "int32"),
        (np.float64(1), "float32"),
        (np.True_, "bool"),
    ],
)
def test_numbers_as_expressions(value: object, dtype: str) -> None:
    assert as_prim_expr(value).dtype == dtype


def test_what_is_no_expression() -> None:
    with pytest.raises(TypeError, match=r"loop extent must be an expression or a number, but was given list: \[1\]"):
        as_prim_expr([1], "loop extent")


def test_ranges() -> None:
    n = tir.Var("n", "int64")
    assert structural_equal(Range(8), Range(0, 8))
    assert structural_equal(Range(2, 10), Range.from_min_extent(2, 8))
    assert Range(n).min.dtype == "int64"
    assert Range(0, n).min.dtype == "int64" and Range(n, 9).extent.dtype == "int64"
    assert Range(0, n).extent is n
    assert Range.from_min_extent(0, n).min.dtype == "int64" and Range.from_min_extent(n, 9).extent.dtype == "int64"
    loop = tir.For(tir.Var("i"), 0, 4, tir.ForKind.SERIAL, tir.Evaluate(0))
    axis = tir.IterVar((0, 4), "i", tir.IterVar.DataPar)
    assert structural_equal(axis.dom, Range(loop.extent))
    with pytest.raises(TypeError, match=r"must be a Range or a \(begin, end\) pair, but was given 4"):
        tir.BufferRegion(tir.decl_buffer((4,)), [4])


def test_operators_are_one_object_a_name() -> None:
    exp = Op.get("tir.exp")
    assert exp is Op("tir.exp")
    assert load_json(save_json(exp)) is exp
    assert "tir.exp" in Op.list_op_names()
    exp.set_attr("of the test", 3)
    assert exp.get_attr("of the test") == 3
    assert exp.get_attr("another") is None
    with pytest.raises(AttributeError, match=r"no operator is named 'tir.expp'; near it: tir.exp"):
        Op.get("tir.expp")


def test_types_are_equal_by_content() -> None:
    assert TensorType((1, 2), "float32") == TensorType([1, 2])
    assert TensorType((1, 2)) != TensorType((1, 3))
    assert TensorType((1,)) != PrimType("float32")
    assert hash(TupleType([PrimType("int32")])) == hash(TupleType([PrimType("int32")]))
    assert PointerType(PrimType("int8")) != PointerType(PrimType("int8"), "shared")
    assert TypeVar("a") != TypeVar("a")
    assert IncompleteType() != IncompleteType()
    a, b = TypeVar("a"), TypeVar("b")
    assert FuncType([a], a, [a]) == FuncType([b], b, [b])


def test_tensor_types_know_their_shapes() -> None:
    t = TensorType((2, 3))
    assert (t.ndim, t.concrete_shape, t.dtype) == (2, (2, 3), "float32")
    with pytest.raises(TypeError):
        _ = TensorType((tir.Var("n"), 3)).concrete_shape


def test_global_vars_are_names() -> None:
    assert GlobalVar("f") == GlobalVar("f")
    assert {GlobalVar("f"): 1}[GlobalVar("f")] == 1
    call = GlobalVar("f")(tir.Var("p", "handle"))
    assert isinstance(call, tir.Call)
    with pytest.raises(TypeError, match="no dialect calls f with arguments of types"):
        GlobalVar("f")(object())


def test_attrs_are_read_by_name() -> None:
    attrs = ir.DictAttrs({"axis": 1})
    assert attrs["axis"] == 1
    assert "axis" in attrs
    assert attrs.get("other", 5) == 5
    assert list(attrs) == attrs.keys() == ["axis"]
    assert attrs.get_int("axis") == 1
    assert attrs.get_str("axis") == "1"
