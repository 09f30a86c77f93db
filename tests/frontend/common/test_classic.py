"""relay.frontend.common: what converters of a program's own call."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.relay.frontend import common
from tilewright.relay.frontend.common import (
    AttrCvt,
    ExprTable,
    Renamer,
    StrAttrsDict,
    autopad,
    ensure_scalar_shape,
    fold_constant,
    get_name,
    get_relay_op,
    infer_channels,
    infer_shape,
    infer_type,
    infer_value,
    infer_value_simulated,
    new_var,
    set_span,
    shape_of,
    to_int_list,
    try_infer_value,
    try_resolve_item,
    unbind,
)

X = relay.var("x", shape=(2, 3))
DYNAMIC = relay.var("o", shape=(relay.Any(), 3))


def test_types_and_shapes() -> None:
    y = relay.nn.relu(X)
    assert infer_type(y) is y and y.checked_type == relay.TensorType((2, 3))
    assert infer_shape(relay.concatenate([X, X], 0)) == (4, 3)
    assert infer_shape(relay.const(1.0)) == ()
    first, second = infer_shape(DYNAMIC)
    assert isinstance(first, relay.Any) and second == 3
    assert isinstance(infer_shape(relay.split(X, 3, 1)), relay.TupleType)
    weight = relay.var("w", shape=(8, 4, 3, 3))
    assert (infer_channels(weight), infer_channels(weight, transpose=True)) == (8, 4)
    mod = tvm.IRModule.from_expr(relay.Function([X], relay.sum(X)))
    assert infer_shape(mod.get_global_var("main")(X), mod) == ()


def test_values() -> None:
    data = np.arange(6, dtype="float32").reshape(2, 3)
    twice = relay.add(X, X)
    np.testing.assert_array_equal(infer_value(twice, {"x": data}).numpy(), data * 2)
    with pytest.raises(tvm.TVMError, match="the value depends on x, which params do not have"):
        infer_value(twice, {})
    assert infer_value_simulated(twice, {}).shape == (2, 3)
    assert try_infer_value(twice) == (twice, False)
    assert try_infer_value(twice, on_failure=lambda: "dynamic") == ("dynamic", False)
    found, known = try_infer_value(relay.const([1, 2]) + relay.const([3, 4]), on_success=to_int_list)
    assert (found, known) == ([4, 6], True)
    assert isinstance(fold_constant(relay.const(1.0) + relay.const(2.0)), relay.Constant)
    mod = tvm.IRModule.from_expr(relay.Function([X], relay.sum(X)))
    called = mod.get_global_var("main")(relay.const(data))
    assert float(infer_value(called, {}, mod).numpy()) == 15


def test_shapes_as_values() -> None:
    assert shape_of(X).data.numpy().tolist() == [2, 3]
    assert infer_type(shape_of(DYNAMIC)).checked_type == relay.TensorType((2,), "int64")
    assert infer_shape(ensure_scalar_shape(relay.const([[1.0]]))) == ()
    with pytest.raises(tvm.TVMError, match=r"a tensor of one element is expected, but its shape is \(2, 3\)"):
        ensure_scalar_shape(X)


def test_parts() -> None:
    rows = unbind(X)
    assert len(rows) == 2 and infer_shape(rows[1]) == (3,)
    assert try_resolve_item(relay.TupleGetItem(relay.Tuple([X, DYNAMIC]), 1)) is DYNAMIC
    assert try_resolve_item(X) is X
    with pytest.raises(tvm.TVMError, match="axis 2 is out of range"):
        unbind(X, 2)
    with pytest.raises(tvm.TVMError, match="the size of axis 0 is not known"):
        unbind(DYNAMIC)


@pytest.mark.parametrize(("mode", "widths"), [("SAME_UPPER", [1, 2]), ("SAME_LOWER", [2, 1])])
def test_autopad(mode: str, widths: list[int]) -> None:
    image = relay.var("i", shape=(1, 3, 6, 7))
    padded = autopad(image, [1, 2], [4, 3], mode=mode)
    assert [list(w) for w in padded.attrs.pad_width] == [[0, 0], [0, 0], widths, [1, 1]]
    assert infer_shape(relay.nn.max_pool2d(padded, (4, 3), (1, 2))) == (1, 3, 6, 4)


def test_names_and_spans() -> None:
    assert (get_name(X), get_name(relay.nn.relu(X))) == ("x", "")
    assert new_var("q", shape=(2,), dtype="int8").type_annotation == relay.TensorType((2,), "int8")
    inner = set_span(relay.nn.relu(X), "inner")
    outer = set_span(relay.tanh(relay.exp(inner)), "outer")
    spans = [e.span.source_name.name for e in (outer, outer.args[0], outer.args[0].args[0])]
    assert spans == ["outer", "outer", "inner"]
    assert outer.args[0].args[0].args[0] is X
    assert set_span(relay.const(1.0), b"node").span.source_name.name == "node"
    assert len(set_span(relay.split(X, 3, 1), "parts")) == 3


def test_operators() -> None:
    assert get_relay_op("relu")(X).op.name == "nn.relu" and get_relay_op("exp")(X).op.name == "exp"
    with pytest.raises(tvm.error.OpNotImplemented, match="relay has no operator 'rlu'"):
        get_relay_op("rlu")
    convert = AttrCvt(
        "leaky_relu", transforms={"slope": ("alpha", 0.25), "unused": "beta"}, ignores=["name"], excludes=["inplace"]
    )
    assert convert([X], {"name": "n"}).attrs.alpha == 0.25
    assert convert([X], {"slope": 0.5}).attrs.alpha == 0.5
    with pytest.raises(tvm.error.OpNotImplemented, match="leaky_relu: the attribute inplace is not supported"):
        convert([X], {"inplace": True})
    picky = AttrCvt("softmax", custom_check=(lambda attrs: "axis" in attrs, "axis is needed"))
    with pytest.raises(tvm.TVMError, match="Check failed: axis is needed"):
        picky([X], {})
    assert Renamer("softmax")([X], {"axis": 0, "tvm_custom": {}}).attrs.axis == 0


def test_tables() -> None:
    attrs = StrAttrsDict({"a": "(1, 2)", "b": "True", "c": "0.5", "d": "7"})
    assert attrs.get_int_tuple("a") == (1, 2) and attrs.get_int_list("a") == [1, 2]
    assert attrs.get_bool("b") is True and attrs.get_float("c") == 0.5 and attrs.get_int("d") == 7
    assert attrs.get_str("none", "default") == "default" and not attrs.has_attr("none")
    with pytest.raises(AttributeError, match=r"Required attribute none not found\."):
        attrs.get_int("none")
    table = ExprTable()
    made = table.new_const(np.ones((2, 2), "float32"))
    assert made.name_hint == "_param_1" and table.params["_param_1"].shape == (2, 2)
    table.set_expr("x", X)
    table.set_expr("x", DYNAMIC)
    assert table.get_expr("x") is X and table.has_expr("x") and not table.has_expr("y")


def test_all_names_are_there() -> None:
    assert all([getattr(common, n) is not None for n in common._CLASSIC])
