"""Names of generated code, as programs for it make them."""

from __future__ import annotations

import pytest

from tilewright import TVMError
from tilewright.relay.backend import name_transforms as names
from tilewright.relay.backend.utils import mangle_module_name


def test_styles_of_c() -> None:
    for name, function, variable, constant in (
        ("TVM_Woof", "TVMWoof", "tvm_woof", "TVM_WOOF"),
        ("TVM_woof", "TVMWoof", "tvm_woof", "TVM_WOOF"),
        ("TVM_woof_Moo", "TVMWoofMoo", "tvm_woof_moo", "TVM_WOOF_MOO"),
        ("TVMGen_woof_moo", "TVMGenWoofMoo", "tvmgen_woof_moo", "TVMGEN_WOOF_MOO"),
    ):
        assert names.to_c_function_style(name) == function
        assert names.to_c_variable_style(name) == variable
        assert names.to_c_constant_style(name) == constant
    for change, what in (
        (names.to_c_function_style, "Function"),
        (names.to_c_variable_style, "Variable"),
        (names.to_c_constant_style, "Constant"),
    ):
        with pytest.raises(TVMError, match="Name is empty"):
            change("")
        with pytest.raises(TVMError, match=f"{what} not TVM prefixed: 'woof'"):
            change("woof")


def test_prefixes() -> None:
    for prefix, made in (("TVM", names.prefix_name), ("TVMGen", names.prefix_generated_name)):
        assert made("Woof") == f"{prefix}_Woof" and made(["woof", "moo"]) == f"{prefix}_woof_moo"
        for given, message in (
            ("", "Name is empty"),
            ([], "Name segments empty"),
            (["a", ""], "Name segment is empty"),
        ):
            with pytest.raises(TVMError, match=message):
                made(given)


def test_names_of_modules() -> None:
    assert [names.sanitize_name(n) for n in ("+_+ ", "input+", "a.b-c", "x1")] == ["____", "input_", "a_b_c", "x1"]
    with pytest.raises(TVMError, match="Name is empty"):
        names.sanitize_name("")
    assert [mangle_module_name(n) for n in ("default", "", None)] == ["tvmgen_default", "tvmgen", "tvmgen"]
    with pytest.raises(ValueError, match="contains invalid characters"):
        mangle_module_name("modèle")
