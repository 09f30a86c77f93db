"""Parts that all importers share. `classic` has the classic names for users' converters."""

from __future__ import annotations

from tilewright.support import lazy

_CLASSIC = (
    *("AttrCvt", "ExprTable", "Renamer", "RequiredAttr", "StrAttrsDict", "autopad", "ensure_scalar_shape"),
    *("fold_constant", "get_name", "get_relay_op", "infer_channels", "infer_shape", "infer_type", "infer_value"),
    *("infer_value_simulated", "new_var", "set_span", "shape_of", "to_int_list", "try_infer_value"),
    *("try_resolve_item", "unbind"),
)
_CELLS = ("gru_cell", "lstm_cell", "rnn_cell", "try_resolve_var_to_const")
lazy.declare(__name__, {name: f"{__name__}.classic:{name}" for name in _CLASSIC})
lazy.declare(__name__, {name: f"{__name__}.cells:{name}" for name in _CELLS})
lazy.declare_modules(__name__)
__getattr__, __dir__ = lazy.late(__name__)
