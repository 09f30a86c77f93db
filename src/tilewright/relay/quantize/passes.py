"""The steps of `quantize` as passes of their own, with the classic names: partition, annotate, calibrate, realize.

    mod = prerequisite_optimize(mod, params)
    with qconfig(calibrate_mode="max"):
        mod = Sequential([annotate(), calibrate(dataset), realize()])(mod)

gives what `quantize(mod, params, dataset)` gives, but for the last digits of ranges, which are measured with rounded weights. Between
the steps the program is one of float32, in which what will be integers is rounded: `qnn.dequantize(qnn.quantize(x, scale, 0), scale, 0)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set

import numpy as np

from tilewright.ir import IRModule
from tilewright.ir.transform import Pass, PassContext, PassInfo
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Constant, Expr, Function, Var
from tilewright.relay.functor import ExprMutator, post_order
from tilewright.relay.op.arithmetic import elemwise
from tilewright.relay.quantize.config import QConfig, current_qconfig
from tilewright.relay.quantize.ranges import Sample, ranges
from tilewright.relay.quantize.rewrite import Annotator, integer_form, layers, scale_of
from tilewright.relay.rewriting import card_of, is_op
from tilewright.relay.typing.infer_type import infer_module


def _pass(name: str, change: Callable[[Function], Function]) -> Pass:
    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        new = change(mod["main"]).replace(ret_type=None)
        return infer_module(mod.with_functions({**mod.functions, mod.get_global_var("main"): new}))

    return Pass(PassInfo(0, name), run)


def partition() -> Pass:
    """Marks where the parts of a program that will be integers begin: what a chosen layer reads, and is not an input, becomes
    `annotation.stop_fusion(annotation.cast_hint(x, dtype_input))`. A part is computed by kernels of its own then, and what
    `annotate` rounds is what the part stores."""

    def change(main: Function) -> Function:
        config = current_qconfig()
        points = {c.args[0] for c in layers(main, config) if not isinstance(c.args[0], Var)}
        return main.replace(body=_Mark(points, config.dtype_input).visit(main.body))

    return _pass("QuantizePartition", change)


class _Mark(ExprMutator):
    """Puts marks on values, for all of their readers."""

    def __init__(self, points: Set[Expr], dtype: str) -> None:
        super().__init__()
        self.points, self.dtype = points, dtype
        self.marked: dict[Expr, Expr] = {}

    def visit(self, expr: Expr) -> Expr:
        new = super().visit(expr)
        if expr not in self.points:
            return new
        if expr not in self.marked:
            hinted = constructor("annotation.cast_hint")(new, self.dtype)
            self.marked[expr] = constructor("annotation.stop_fusion")(hinted)
        return self.marked[expr]


def annotate() -> Pass:
    """Rounds what the layers read that the current `qconfig` chooses: weights by their scale, activations by `global_scale`, until
    `calibrate` gives them scales of their own."""

    def change(main: Function) -> Function:
        config = current_qconfig()
        chosen = layers(main, config)
        scale = scale_of(config.global_scale, config.nbit_input)
        points = {c.args[0]: scale for c in chosen}
        return main.replace(body=Annotator(chosen, points, config).visit(main.body))

    return _pass("QuantizeAnnotate", change)


def calibrate(dataset: Iterable[Sample] | None = None) -> Pass:
    """Gives the activations that `annotate` rounded scales by the current `qconfig`'s calibrate_mode, from runs of the program, not
    rounded, over samples: mappings from the names of inputs to arrays. ValueError where the mode needs samples and there are none."""
    samples = None if dataset is None else list(dataset)

    def change(main: Function) -> Function:
        config = current_qconfig()
        rounded = {e: value for e in post_order(main.body) if (value := activation(e)) is not None}
        plain = _Plain()
        body = plain.visit(main.body)
        points = list(dict.fromkeys([plain.visit(value) for value in rounded.values()]))
        found = ranges(main.replace(body=body, ret_type=None), points, samples, config)
        scales = {p: scale_of(r, config.nbit_input) for p, r in zip(points, found, strict=True)}
        by_call = {e: scales[plain.visit(value)] for e, value in rounded.items()}
        return main.replace(body=_Rescale(by_call, config).visit(main.body))

    return _pass("QuantizeCalibrate", change)


def realize() -> Pass:
    """Carries what lies between roundings over to integers, with the current `qconfig`'s rounding."""

    def run(mod: IRModule, ctx: PassContext) -> IRModule:
        return integer_form(mod, current_qconfig())

    return Pass(PassInfo(0, "QuantizeRealize"), run)


def activation(e: Expr) -> Expr | None:
    """The value to round, for the dequantize at the end of a rounded activation; else None."""
    if not is_op(e, "qnn.dequantize") or not is_op(e.args[0], "qnn.quantize"):
        return None
    return e.args[0].args[0]


class _Plain(ExprMutator):
    """Takes rounded activations back; weights stay as they are."""

    def visit_call(self, call: Call) -> Expr:
        inner = activation(call)
        if inner is None:
            return super().visit_call(call)
        value = self.visit(inner)
        # With fewer than 8 bits the range is cut off before.
        return value.args[0] if is_op(value, "clip") and is_op(inner, "clip") and cut_off(call) else value


def cut_off(call: Call) -> bool:
    """Whether the clip before a rounded activation is part of the rounding: it ends where the scale's integers do."""
    clip, scale = activation(call), call.args[1]
    if not is_op(clip, "clip") or not isinstance(scale, Constant):
        return False
    card = card_of(clip, elemwise.clip)
    steps = card.a_max / float(scale.value)
    return abs(steps - round(steps)) < 1e-3 and round(steps) + 1 in (2, 4, 8, 16, 32, 64) and card.a_min == -card.a_max


class _Rescale(ExprMutator):
    """Rounded activations with other scales."""

    def __init__(self, scales: Mapping[Expr, np.ndarray], config: QConfig) -> None:
        super().__init__()
        self.scales, self.config = scales, config

    def visit_call(self, call: Call) -> Expr:
        scale, value = self.scales.get(call), activation(call)
        if scale is None or value is None:
            return super().visit_call(call)
        inner = self.visit(value)
        if is_op(inner, "clip") and cut_off(call):
            inner = inner.args[0]
        return Annotator([], {}, self.config).rounding(inner, scale)


__all__ = ["annotate", "calibrate", "partition", "realize"]
