"""The classic hooks of `topi.nn` by which programs rewrite calls of an operator for a target:

    @topi.nn.conv2d_legalize.register("cpu")
    def mine(attrs, inputs, types):
        return None                                   # the call stays as it is

The passes `Legalize` and `AlterOpLayout` call what was registered for a key of the current target.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.relay.expr import Expr, const
from tilewright.relay.op.adjoint import op as operator_named
from tilewright.relay.op.op import register_op_attr
from tilewright.target import GenericFunc

HOOKS: Mapping[str, Mapping[str, str]] = {
    "FTVMLegalize": {
        "batch_matmul_legalize": "nn.batch_matmul",
        "bias_add_legalize": "nn.bias_add",
        "bitserial_conv2d_legalize": "nn.bitserial_conv2d",
        "conv2d_legalize": "nn.conv2d",
        "conv2d_transpose_legalize": "nn.conv2d_transpose",
        "conv3d_transpose_legalize": "nn.conv3d_transpose",
        "dense_legalize": "nn.dense",
        "erf_legalize": "erf",
        "matmul_legalize": "nn.matmul",
        "take_legalize": "take",
    },
    "FTVMQnnLegalize": {
        "qnn_conv2d_legalize": "qnn.conv2d",
        "qnn_conv2d_transpose_legalize": "qnn.conv2d_transpose",
        "qnn_dense_legalize": "qnn.dense",
    },
    "FTVMAlterOpLayout": {
        "add_alter_layout": "add",
        "conv2d_alter_layout": "nn.conv2d",
        "conv2d_transpose_alter_layout": "nn.conv2d_transpose",
        "conv3d_alter_layout": "nn.conv3d",
        "dense_alter_layout": "nn.dense",
        "qnn_conv2d_alter_layout": "qnn.conv2d",
        "qnn_dense_alter_layout": "qnn.dense",
        "qnn_requantize_alter_layout": "qnn.requantize",
        "sparse_dense_alter_layout": "nn.sparse_dense",
    },
}
"""By the attribute that the pass reads: hooks, and their operators."""
ARGUMENTS = {
    **dict.fromkeys(("FTVMLegalize", "FTVMQnnLegalize"), "attrs inputs types"),
    "FTVMAlterOpLayout": "attrs inputs tinfos out_type",
}
UNREAD = {
    "bias_add_legalize": "_attrs _inputs _tinfos",
    **dict.fromkeys(
        (
            "add_alter_layout",
            "qnn_conv2d_alter_layout",
            "qnn_dense_alter_layout",
            "qnn_requantize_alter_layout",
            "sparse_dense_alter_layout",
        ),
        "_attrs _inputs _tinfos _out_type",
    ),
}
"""The arguments of hooks whose classic default reads none of them."""


class RewriteFunc(GenericFunc):
    """A hook of one operator, with variants by target key. Without a variant it returns None: the call stays as it is."""

    def __init__(self, name: str, op_name: str, attribute: str) -> None:
        super().__init__(name)
        self.op_name, self.attribute = op_name, attribute
        self.set_default(lambda *args: None)
        self.__doc__ = f"What programs make of calls of {op_name} for a target ({attribute})."
        words = UNREAD.get(name, ARGUMENTS[attribute])
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in words.split()]
        )

    def register(self, func: Any, key_list: Sequence[str] | str | None = None, allow_override: bool = True) -> Any:
        """Sets the variant for targets with these keys."""
        made = super().register(func, key_list, allow_override)
        if callable(func):
            register_op_attr(self.op_name, self.attribute, self)
        return made


FUNCTIONS = {name: RewriteFunc(name, op, attr) for attr, hooks in HOOKS.items() for name, op in hooks.items()}
globals().update(FUNCTIONS)


def int8_int8_legalize(
    inputs: Sequence[Expr], arg_types: Sequence[Any], op: Callable[..., Any], attrs: Any, need_expand: bool = False
) -> Expr | None:
    """A product of int8 by int8 as one of uint8 by int8, for processors whose instructions take these: `op(data + 128, weights)` less
    128 times the sums of the weights along their last axis. need_expand: the sums get an axis for the data's rows. None for other
    types."""
    data, weights = inputs[:2]
    if [str(t.dtype) for t in arg_types[:2]] != ["int8", "int8"]:
        return None
    cast, add, multiply = operator_named("cast"), operator_named("add"), operator_named("multiply")
    moved = cast(add(cast(data, "int32"), const(128)), "uint8")
    shift = multiply(operator_named("sum")(cast(weights, "int32"), axis=-1), const(128))
    if need_expand:
        shift = operator_named("expand_dims")(shift, axis=1)
    given = {f.name: getattr(attrs, f.name) for f in type(attrs)._fields if f.name != "span"}
    product = op(moved, weights, **{**given, "out_dtype": "int32"})
    found: Expr = operator_named("subtract")(product, shift)
    return found


def layout_transform(tensor: Expr, current_layout: str, desired_layout: str) -> Expr:
    """A tensor with its axes in the order of another layout, such as of "NCHW" as "CNHW"."""
    if sorted(current_layout) != sorted(desired_layout):
        raise ValueError(f"layout_transform: {current_layout} and {desired_layout} must have the same axes")
    return operator_named("transpose")(tensor, axes=[current_layout.index(c) for c in desired_layout])


__all__ = ["HOOKS", "RewriteFunc", "layout_transform", *FUNCTIONS]
