"""Strategies of quantised operators under their classic names; `relay.op.strategy` tells what strategies are.

A build replaces quantised operators by plain ones. One that does not, with `PassContext(disabled_pass=["qnn.CanonicalizeOps"])`, takes
kernels from these strategies: what a program has registered, or the compute of the operator's card.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.ir import Op
from tilewright.relay.op.strategy import TARGETS, StrategyFunc, wrap_topi_schedule
from tilewright.relay.op.strategy_computes import attributes_after_tensors, wrap_topi_compute
from tilewright.relay.op.strategy_computes import wrap_compute_concat as wrap_topi_concatenate
from tilewright.support import lazy

OPERATORS = {
    f"qnn_{name}_strategy": f"qnn.{name}"
    for name in (
        "add", "avg_pool2d", "batch_matmul", "concatenate", "conv2d", "dense", "dequantize", "mul", "quantize", "requantize", "subtract",
        "tanh",
    )
} | {"qnn_dense_pack_strategy": "qnn.dense"}  # fmt: skip
"""Strategy -> its operator. Weights of packed products are laid out plainly before."""

wrap_compute_quantize = attributes_after_tensors("wrap_compute_quantize", "axis out_dtype")
wrap_compute_dequantize = attributes_after_tensors("wrap_compute_dequantize", "axis")
wrap_compute_qnn_avg_pool2d = attributes_after_tensors(
    "wrap_compute_qnn_avg_pool2d", "pool_size strides padding dilation ceil_mode count_include_pad layout"
)
wrap_topi_qnn_conv2d = attributes_after_tensors("wrap_topi_qnn_conv2d", "strides padding dilation out_dtype")
wrap_topi_qnn_dense = attributes_after_tensors("wrap_topi_qnn_dense", "out_dtype")
wrap_topi_qnn_batch_matmul = attributes_after_tensors("wrap_topi_qnn_batch_matmul", "out_dtype")

__all__ = [
    "wrap_compute_dequantize",
    "wrap_compute_qnn_avg_pool2d",
    "wrap_compute_quantize",
    "wrap_topi_compute",
    "wrap_topi_concatenate",
    "wrap_topi_qnn_batch_matmul",
    "wrap_topi_qnn_conv2d",
    "wrap_topi_qnn_dense",
    "wrap_topi_schedule",
]


def _strategy(name: str) -> Callable[..., Any]:
    """A strategy, or what modules of targets call their variant of one."""
    plain = next((name.removesuffix(ending) for ending in TARGETS if name.endswith(ending)), name)
    if plain not in OPERATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if plain not in globals():
        globals()[plain] = StrategyFunc(plain, Op.get(OPERATORS[plain]))
    made: Callable[..., Any] = globals()[plain]
    return made


_MODULES = ("arm_cpu", "generic")
lazy.faces(__name__, dict.fromkeys(_MODULES, ()))
__getattr__, _names = lazy.late(__name__, otherwise=_strategy)


def __dir__() -> list[str]:
    return sorted({*_names(), *OPERATORS})
