"""The strategies of operators under their classic names. `conv2d_strategy(attrs, inputs, out_type, target)` returns the
implementations of a convolution: a single one, until a program registers others:

    @relay.op.strategy.dense_strategy.register("cpu")
    def mine(attrs, inputs, out_type, target):
        strategy = relay.op.OpStrategy()
        strategy.add_implementation(wrap_compute_dense(my_dense), wrap_topi_schedule(my_schedule), name="mine")
        return strategy

A build uses a strategy only if a program has registered something with it. A schedule that changes stages is used. If it changes none
(`naive_schedule`, and with it all `schedule_*`), the rules of the target schedule the kernel.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.ir import Op
from tilewright.relay.cards.card import cards
from tilewright.relay.op.op import OpImplementation, OpSpecialization, OpStrategy, register_op_attr
from tilewright.relay.op.strategy_computes import (
    WRAPPERS,
    get_auto_scheduler_rewritten_layout,
    get_meta_schedule_original_shape,
    listed,
)
from tilewright.support import lazy
from tilewright.target import GenericFunc, Target
from tilewright.tir.data_layout import layout as as_layout

logger = logging.getLogger("strategy")

SCHEDULES = (
    "adaptive_pool", "argsort", "bitpack", "bitserial_dense", "conv2d_gemm_weight_transform", "conv2d_winograd_nnpack_weight_transform",
    "conv2d_winograd_weight_transform", "conv3d_winograd_weight_transform", "dense", "pool_grad", "roi_pool", "sparse_transpose",
    "transpose", "concatenate", "injective", "lrn", "pad", "pool", "reduce", "softmax", "sparse_dense",
)  # fmt: skip
"""Names of classic schedules. The rules of the target schedule kernels, so each of them is the naive schedule."""

TARGETS = ("_arm_cpu", "_cuda", "_cpu")
"""Endings of variants by target."""

__all__ = [
    "OpImplementation",
    "OpSpecialization",
    "OpStrategy",
    "get_auto_scheduler_rewritten_layout",
    "get_conv2d_in_channels",
    "get_conv2d_out_channels",
    "get_meta_schedule_original_shape",
    "is_depthwise_conv2d",
    "logger",
    "naive_schedule",
    "wrap_topi_schedule",
    *[f"schedule_{name}" for name in SCHEDULES],
    *WRAPPERS,
]


class StrategyFunc(GenericFunc):
    """The strategy of one operator, with variants by target key."""

    def __init__(self, name: str, op: Op) -> None:
        super().__init__(name)
        self.op = op
        self.set_default(self.by_card)

    def by_card(self, attrs: Any, inputs: Sequence[Any], out_type: Any, target: Any) -> OpStrategy:
        """The single implementation that the operator's card defines."""
        strategy = OpStrategy()
        strategy.add_implementation(
            lambda a, given, t: listed(a.compute(*given)), naive_schedule, f"{self.op.name}.card"
        )
        return strategy

    def __call__(self, attrs: Any, inputs: Sequence[Any], out_type: Any, target: Any) -> OpStrategy:
        """The implementations for a target, which is the current one's variant."""
        made: OpStrategy = super().__call__(attrs, inputs, out_type, target)
        return made

    def register(self, func: Any, key_list: Sequence[str] | str | None = None, allow_override: bool = True) -> Any:
        """Sets the variant for targets with these keys."""
        made = super().register(func, key_list, allow_override)
        if callable(func):
            register_op_attr(self.op.name, "FTVMStrategy", self)
        return made


_OTHER_NAMES = {
    "all_class_nms_strategy": "vision.all_class_non_max_suppression",
    "group_conv1d_strategy": "nn.conv1d",
    "nms_strategy": "vision.non_max_suppression",
    "regular_nms_strategy": "vision.regular_non_max_suppression",
    "sparse_dense_padded_strategy": "nn.sparse_dense",
}


def _operators() -> dict[str, str]:
    """Strategy name -> its operator."""
    return _OTHER_NAMES | {
        f"{key.rpartition('.')[2].removeprefix('contrib_')}_strategy": key for key in reversed(list(cards()))
    }


def __getattr__(name: str) -> Any:
    """A strategy; or what classic modules of targets call their variant of one, or of a schedule, which know all targets here."""
    for ending in TARGETS:
        if name.endswith(ending) and not name.startswith("__"):
            return getattr(sys.modules[__name__], name.removesuffix(ending))
    if name.startswith("__") or not name.endswith("_strategy"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    key = _operators().get(name)
    if key is None:
        raise AttributeError(
            f"relay has no operator {name.removesuffix('_strategy')!r} that {name!r} could be the strategy of"
        )
    made = globals()[name] = StrategyFunc(name, Op.get(key))
    return made


def __dir__() -> list[str]:
    return sorted({*globals(), *_operators()})


def naive_schedule(attrs: Any, outs: Any, target: Any) -> Any:
    """A schedule that changes nothing."""
    from tilewright import te

    with Target(target) if isinstance(target, str) else target:
        return te.create_schedule([t.op for t in listed(outs)])


def copy_if_identical(tensor_a: Any, tensor_b: Any) -> Any:
    """A copy of tensor_b where both are the same tensor, else tensor_b."""
    from tilewright import te

    return te.compute(tensor_b.shape, lambda *i: tensor_b(*i)) if tensor_a is tensor_b else tensor_b


def wrap_topi_schedule(topi_schedule: Callable[[Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """A schedule function for a strategy, from a function that takes only the results."""

    def wrapped(attrs: Any, outs: Any, target: Any) -> Any:
        with Target(target) if isinstance(target, str) else target:
            return topi_schedule(outs)

    return wrapped


globals().update(WRAPPERS)
globals().update({f"schedule_{name}": naive_schedule for name in SCHEDULES})


def _extent(shape: Sequence[Any], text: str, axis: str) -> int:
    """The extent of an axis in a layout, including its blocks."""
    found = as_layout(text)
    outer, inner = found.index_of(axis), found.index_of(axis.lower())
    return int(shape[outer]) * (int(shape[inner]) if inner >= 0 else 1)


def get_conv2d_in_channels(data_shape: Sequence[Any], data_layout: str) -> int:
    """The channels of a convolution's data."""
    return _extent(data_shape, data_layout, "C")


def get_conv2d_out_channels(kernel_shape: Sequence[Any], kernel_layout: str) -> int:
    """The output channels of a convolution's weights."""
    return _extent(kernel_shape, kernel_layout, "O")


def is_depthwise_conv2d(
    data_shape: Sequence[Any], data_layout: str, kernel_shape: Sequence[Any], kernel_layout: str, groups: int
) -> bool:
    """Whether a convolution computes each channel from only the input channel of the same number."""
    channels = get_conv2d_in_channels(data_shape, data_layout)
    return channels == get_conv2d_out_channels(kernel_shape, kernel_layout) == groups


# Classic programs also import from `strategy.generic`, and from modules of targets.
_MODULES = ("arm_cpu", "cuda", "generic", "x86")
lazy.faces(__name__, dict.fromkeys(_MODULES, ()))
globals().update({name: sys.modules[f"{__name__}.{name}"] for name in _MODULES})
