"""The strategies of operators under their classic names: `conv2d_strategy(attrs, inputs, out_type, target)` answers the ways to
compute a convolution, of which there is one until a program registers others:

    @relay.op.strategy.dense_strategy.register("cpu")
    def mine(attrs, inputs, out_type, target):
        strategy = relay.op.OpStrategy()
        strategy.add_implementation(wrap_compute_dense(my_dense), wrap_topi_schedule(my_schedule), name="mine")
        return strategy

Builds ask a strategy once a program has registered something with it. Kernels are scheduled by the rules of the target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.ir import Op
from tilewright.relay.op.card import cards
from tilewright.relay.op.op import OpImplementation, OpSpecialization, OpStrategy, register_op_attr
from tilewright.target import GenericFunc, Target

__all__ = [
    "OpImplementation",
    "OpSpecialization",
    "OpStrategy",
    "naive_schedule",
    "wrap_compute_batch_matmul",
    "wrap_compute_conv2d",
    "wrap_compute_dense",
    "wrap_compute_matmul",
    "wrap_compute_softmax",
    "wrap_topi_schedule",
]

Compute = Callable[[Any, Sequence[Any], Any], list[Any]]


class StrategyFunc(GenericFunc):
    """The strategy of one operator, with versions by target key."""

    def __init__(self, name: str, op: Op) -> None:
        super().__init__(name)
        self.op = op
        self.set_default(self.by_card)

    def by_card(self, attrs: Any, inputs: Sequence[Any], out_type: Any, target: Any) -> OpStrategy:
        """The one way that the operator's card gives."""
        strategy = OpStrategy()
        strategy.add_implementation(
            lambda a, given, t: _listed(a.compute(*given)), naive_schedule, f"{self.op.name}.card"
        )
        return strategy

    def register(self, func: Any, key_list: Sequence[str] | str | None = None, allow_override: bool = True) -> Any:
        """The version for targets of these keys, which builds ask from now on."""
        made = super().register(func, key_list, allow_override)
        if callable(func):
            register_op_attr(self.op.name, "FTVMStrategy", self)
        return made


def _listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, (list, tuple)) else [made]


def _operators() -> dict[str, str]:
    """Operators by the names that their strategies have."""
    return {f"{key.rpartition('.')[2].removeprefix('contrib_')}_strategy": key for key in reversed(list(cards()))}


def __getattr__(name: str) -> StrategyFunc:
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
    """The schedule without any scheduling."""
    from tilewright import te

    with Target(target) if isinstance(target, str) else target:
        return te.create_schedule([t.op for t in _listed(outs)])


def wrap_topi_schedule(topi_schedule: Callable[[Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """A schedule function of a strategy from one that takes the results alone."""

    def wrapped(attrs: Any, outs: Any, target: Any) -> Any:
        with Target(target) if isinstance(target, str) else target:
            return topi_schedule(outs)

    return wrapped


def wrap_compute_conv2d(
    topi_compute: Callable[..., Any],
    *,
    need_data_layout: bool = False,
    need_kernel_layout: bool = False,
    need_out_layout: bool = False,
    has_groups: bool = False,
) -> Compute:
    """From `f(data, weight, strides, padding, dilation[, groups][, data_layout][, kernel_layout][, out_layout], out_dtype)`."""

    def compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
        layout = attrs.data_layout
        given = [*inputs, tuple(attrs.strides), tuple(attrs.padding), tuple(attrs.dilation)]
        given += [attrs.groups] if has_groups else []
        given += [layout] if need_data_layout else []
        given += [attrs.kernel_layout] if need_kernel_layout else []
        given += [attrs.out_layout or layout] if need_out_layout else []
        return _listed(topi_compute(*given, _out_dtype(attrs, inputs)))

    return compute


def wrap_compute_dense(topi_compute: Callable[..., Any]) -> Compute:
    """From `f(data, weight, bias, out_dtype)`."""
    return lambda attrs, inputs, out_type: _listed(topi_compute(*inputs[:2], None, _out_dtype(attrs, inputs)))


def wrap_compute_matmul(topi_compute: Callable[..., Any]) -> Compute:
    """From `f(a, b, bias, out_dtype, transpose_a, transpose_b)`."""

    def compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
        dtype = _out_dtype(attrs, inputs)
        return _listed(topi_compute(*inputs[:2], None, dtype, attrs.transpose_a, attrs.transpose_b))

    return compute


def wrap_compute_batch_matmul(topi_compute: Callable[..., Any], *, need_out_dtype: bool = False) -> Compute:
    """From `f(a, b, shape of the result[, out_dtype, transpose_a, transpose_b])`."""

    def compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
        more = [_out_dtype(attrs, inputs), attrs.transpose_a, attrs.transpose_b] if need_out_dtype else []
        return _listed(topi_compute(*inputs[:2], out_type.shape, *more))

    return compute


def wrap_compute_softmax(topi_compute: Callable[..., Any]) -> Compute:
    """From `f(data, axis)`."""
    return lambda attrs, inputs, out_type: _listed(topi_compute(inputs[0], attrs.axis))


def _out_dtype(attrs: Any, inputs: Sequence[Any]) -> str:
    return str(attrs.out_dtype or inputs[0].dtype)
