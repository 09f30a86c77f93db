"""IRModule: functions by name, changes in place and changed copies."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tilewright as tvm
from tilewright import tir
from tilewright.ir import GlobalVar, IRModule


def func(value: int = 0, **attrs: object) -> tir.PrimFunc:
    return tir.PrimFunc([], tir.Evaluate(tir.call_extern("int32", "f", value)), attrs=attrs)


def test_functions_by_name() -> None:
    first, second = func(1), func(2)
    mod = IRModule({"a": first, GlobalVar("b"): second})
    assert mod["a"] is first
    assert mod[GlobalVar("b")] is second
    assert "a" in mod
    assert "c" not in mod
    assert [g.name_hint for g in mod.get_global_vars()] == ["a", "b"]
    assert mod.functions_items()[1][1] is second
    with pytest.raises(ValueError, match=r"the module has no function 'c'; it has \['a', 'b'\]"):
        _ = mod["c"]


def test_from_expr_takes_the_global_symbol() -> None:
    assert "main" in IRModule.from_expr(func())
    assert "kernel" in IRModule.from_expr(func(global_symbol="kernel"))


def test_changes_in_place_do_not_reach_copies() -> None:
    mod = IRModule({"a": func(1)})
    copy, clone = mod.shallow_copy(), mod.clone()
    new = func(3)
    mod["a"] = new
    mod.update_func(GlobalVar("b"), new)
    mod.update({"c": new})
    mod.update(IRModule({"d": new}))
    assert [g.name_hint for g in mod.functions] == ["a", "b", "c", "d"]
    assert len(copy.functions) == len(clone.functions) == 1
    assert copy["a"] is not new


def test_equality_is_of_content() -> None:
    assert IRModule({"a": func(1)}) == IRModule({"a": func(1)})
    assert IRModule({"a": func(1)}) != IRModule({"a": func(2)})
    assert IRModule({"a": func(1), "b": func(2)}) == IRModule({"b": func(2), "a": func(1)})
    tvm.ir.assert_structural_equal(IRModule({"a": func(1)}), IRModule({"a": func(1)}))


def test_attributes_give_new_modules() -> None:
    mod = IRModule({"a": func(1)})
    with_attr = mod.with_attr("kind", "demo")
    assert with_attr.get_attr("kind") == "demo"
    assert mod.get_attr("kind") is None
    assert with_attr.without_attr("kind") == mod


def test_with_functions_keeps_the_module_when_nothing_changed() -> None:
    mod = IRModule({"a": func(1)})
    assert mod.with_functions(dict(mod.functions)) is mod
    assert mod.with_functions({GlobalVar("a"): func(1)}) is not mod


def test_what_a_module_does_not_hold() -> None:
    with pytest.raises(TypeError, match="IRModule holds functions or expressions, but was given int: 3"):
        IRModule({})["a"] = 3  # type: ignore[assignment]


def test_attributes_of_functions() -> None:
    f = func(1).with_attr("global_symbol", "k").with_attr({"tir.noalias": True, "n": 4})
    assert dict(f.attrs) == {"global_symbol": "k", "tir.noalias": True, "n": 4}
    assert dict(f.without_attr("n").attrs) == {"global_symbol": "k", "tir.noalias": True}
    assert f.without_attr("absent") is f
    assert f.with_attrs({"n": 5}).attrs["n"] == 5


def test_the_standard_library_is_there_without_an_import_of_relay() -> None:
    program = (
        "import tilewright as tvm; mod = tvm.IRModule(); mod.import_from_std('prelude.rly'); print('map' in str(mod))"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "True\n"
    )
