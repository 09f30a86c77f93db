"""Patterns of the Arm Compute Library, for a code generator "arm_compute_lib" that a program registers."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from tilewright.ir import IRModule, TensorType
from tilewright.relay.dataflow_pattern import DFPattern, is_constant, is_op, wildcard
from tilewright.relay.expr import Call, Expr
from tilewright.relay.op.contrib.partitioning import Check, anchor, biased, of_dtypes, partition, rank, take
from tilewright.relay.op.contrib.register import Table, get_pattern_table, register_pattern_table
from tilewright.relay.op.convolution import conv
from tilewright.relay.op.layers import pool
from tilewright.relay.op.movement import reshaping
from tilewright.relay.op.quantization import quantized_products
from tilewright.relay.parameters import Params
from tilewright.relay.rewriting import card_of, tensor_of, tuple_type_of

_floats, _bytes = of_dtypes("float32"), of_dtypes("uint8", "int8", "int32", "float32")


def is_arm_compute_runtime_enabled() -> bool:
    """Whether this build can run partitions for the library: only if a program registers `relay.ext.arm_compute_lib`."""
    from tilewright.runtime import get_global_func

    return get_global_func("relay.ext.arm_compute_lib", allow_missing=True) is not None


def _conv2d(e: Expr) -> bool:
    """Accepts NHWC convolutions without dilation, in one group, or depthwise with one kernel for each channel."""
    call = anchor(e, "nn.conv2d")
    attrs = card_of(call, conv.conv2d)
    if attrs.data_layout != "NHWC" or set(attrs.dilation) != {1} or not _floats(call):
        return False
    channels = tensor_of(call.args[0]).concrete_shape[3]
    return attrs.groups == 1 or (attrs.groups == channels and attrs.kernel_layout == "HWOI")


def _qnn_conv2d(e: Expr) -> bool:
    attrs = card_of(anchor(e, "qnn.conv2d"), quantized_products.conv2d)
    return attrs.data_layout == "NHWC" and set(attrs.dilation) == {1} and attrs.groups == 1


@register_pattern_table("arm_compute_lib")
def arm_compute_lib_pattern_table() -> Table:
    """Patterns: convolutions and dense layers with padding, bias and ReLU, of floats and 8-bit integers; pooling of 8-bit integers;
    L2 pooling."""

    def padded(data: DFPattern) -> DFPattern:
        return is_op("nn.pad")(data, wildcard()) | data

    def rectified(e: DFPattern) -> DFPattern:
        return is_op("nn.relu")(e) | e

    def quantized(op: str, data: DFPattern) -> DFPattern:
        call = is_op(op)(data, *[is_constant() for _ in range(5)])
        return is_op("qnn.requantize")(
            rectified(biased(call) | call), wildcard(), wildcard(), is_constant(), is_constant()
        )

    conv = is_op("nn.conv2d")(padded(wildcard()), is_constant())
    dense = is_op("nn.dense")(wildcard(), is_constant())
    mean = is_op("sqrt")(is_op("nn.avg_pool2d")(is_op("power")(wildcard(), is_constant())))
    return [
        ("arm_compute_lib.conv2d", rectified(biased(conv) | conv), _conv2d),
        ("arm_compute_lib.qnn_conv2d", quantized("qnn.conv2d", padded(wildcard())), _qnn_conv2d),
        ("arm_compute_lib.dense", biased(dense) | dense, lambda e: _floats(anchor(e, "nn.dense"))),
        ("arm_compute_lib.qnn_dense", quantized("qnn.dense", wildcard())),
        ("arm_compute_lib.l2_pool2d", mean, lambda e: card_of(anchor(e, "nn.avg_pool2d"), pool.Pool).layout == "NHWC"),
    ]


def _pool(call: Call) -> bool:
    attrs = card_of(call)
    return attrs["layout"] == "NHWC" and _floats(call) and not getattr(attrs, "ceil_mode", False)


def _concatenate(call: Call) -> bool:
    """Accepts concatenations of tensors with at most four axes, except along the fourth axis from the end."""
    few = all([isinstance(t, TensorType) and 0 < len(t.shape) <= 4 for t in tuple_type_of(call.args[0]).fields])
    return few and card_of(call, reshaping.concatenate).axis >= -4


def partition_for_arm_compute_lib(
    mod: IRModule,
    params: Params | None = None,
    disabled_ops: Sequence[str] = ("concatenate",),
    **opts: Any,
) -> IRModule:
    """Moves the operators that the library supports into functions for `relay.ext.arm_compute_lib`.

    disabled_ops: operators and patterns (without the compiler's prefix) that this compiler keeps. opts: options of other
    partitioners, which have no effect.
    """
    from tilewright.relay import transform

    name = "arm_compute_lib"
    kept = [entry for entry in get_pattern_table(name) or () if entry[0].removeprefix(f"{name}.") not in disabled_ops]
    token = _disabled.set(frozenset(disabled_ops))
    try:
        return partition(mod, name, params, [transform.SimplifyInference(), transform.FoldConstant()], kept)
    finally:
        _disabled.reset(token)


_disabled: ContextVar[frozenset[str]] = ContextVar("disabled", default=frozenset())


def _enabled(op: str, check: Check) -> Check:
    return lambda call: op not in _disabled.get() and check(call)


SINGLE: dict[str, Check] = {
    "nn.max_pool2d": _pool,
    "nn.avg_pool2d": lambda call: _pool(call) and not card_of(call, pool.avg_pool2d).count_include_pad,
    "nn.global_max_pool2d": _pool,
    "nn.global_avg_pool2d": _pool,
    "reshape": _bytes,
    "maximum": lambda call: _floats(call) and rank(call.args[0]) == rank(call.args[1]),
    "add": lambda call: _floats(call) and rank(call.args[0]) == rank(call.args[1]),
    "concatenate": _concatenate,
}
take("arm_compute_lib", {op: _enabled(op, check) for op, check in SINGLE.items()})
