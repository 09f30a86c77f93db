"""Quantised neural networks: operators on integers that stand for real numbers, and their passes (classic `relay.qnn`)."""

import sys

from tilewright.relay.op import qnn as op
from tilewright.relay.op import register_qnn_canonicalize, register_qnn_legalize
from tilewright.relay.op.quantization.requantize_config import (
    RequantizeConfig,
    current_requantize_config,
    requantize_config,
)
from tilewright.relay.qnn import transform
from tilewright.relay.qnn.packed import contrib_dense_pack
from tilewright.support import lazy

vars(op).update(
    RequantizeConfig=RequantizeConfig,
    contrib_dense_pack=contrib_dense_pack,
    current_requantize_config=current_requantize_config,
    register_qnn_canonicalize=register_qnn_canonicalize,
    register_qnn_legalize=register_qnn_legalize,
    requantize_config=requantize_config,
)
sys.modules[f"{__name__}.op"] = op
_PARTS = {
    "canonicalizations": ("create_integer_lookup_op", "create_integer_lookup_table", "run_const_expr"),
    "layout_conversions": ("convert_qnn_avg_pool2d", "convert_qnn_conv2d", "convert_qnn_conv2d_transpose"),
    "legalizations": (
        "IN_CHANNEL_VECTOR_LENGTH", "OUT_CHANNEL_VECTOR_LENGTH", "get_scalar_from_constant", "hardswish_func", "helper_align_up",
        "helper_change_dtypes_to_be_same", "helper_change_dtypes_to_int8", "helper_change_dtypes_to_uint8",
        "helper_change_dtypes_to_uint8_int8", "helper_no_fast_int8_hw_legalization", "is_fast_int8_on_intel", "legalize_qnn_conv2d",
        "legalize_qnn_conv2d_transpose", "legalize_qnn_dense", "qnn_conv2d_legalize", "qnn_conv2d_transpose_legalize",
        "qnn_dense_legalize", "register_qnn_unary_op_legalize",
    ),
}  # fmt: skip
lazy.faces(
    f"{__name__}.op",
    {
        "qnn": (),
        "op": ("register_qnn_legalize", "register_qnn_canonicalize"),
        **{module: [f"{__name__}.{module}:{name}" for name in names] for module, names in _PARTS.items()},
    },
)
vars(op).update({module: sys.modules[f"{__name__}.op.{module}"] for module in _PARTS})

__all__ = ["op", "transform"]


# Constructors stand here as well: qnn.conv2d, qnn.quantize, ...
lazy.declare(__name__, {"strategy": f"{__name__}.strategy"})
__getattr__, __dir__ = lazy.late(__name__, otherwise=lambda name: getattr(op, name))
