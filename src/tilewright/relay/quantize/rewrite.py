"""quantize: a trained float32 model as one on integers.

Activations that convolutions and products read are rounded to int8 where they are made, weights at once; what lies between is then
carried over to integers by FakeQuantizationToInteger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from tilewright.ir import IRModule, Op
from tilewright.ir.transform import Pass, PassContext, Sequential
from tilewright.relay import transform
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Constant, Expr, Function, const
from tilewright.relay.functor import ExprMutator, post_order
from tilewright.relay.parameters import Params, bind
from tilewright.relay.quantize.config import QConfig, current_qconfig, quantize_context
from tilewright.relay.quantize.ranges import Sample, ranges
from tilewright.relay.rewriting import card_of, constant_of, tensor_of
from tilewright.relay.typing.infer_type import infer_module

PRODUCTS = ("nn.conv2d", "nn.dense")


def prerequisite_optimize(mod: IRModule, params: Params | None = None) -> IRModule:
    """The module in the form that quantisation starts from: parameters bound, batch norms folded into weights."""
    if params:
        main = mod["main"]
        mod = mod.with_functions({g: bind(f, params) if f is main else f for g, f in mod.functions.items()})
    passes: list[Pass] = [
        transform.InferType(), transform.SimplifyInference(), transform.FoldConstant(), transform.FoldScaleAxis(),
        transform.SimplifyExpr(), transform.FoldConstant(),
    ]  # fmt: skip
    with PassContext(opt_level=3):
        return Sequential(passes)(mod)


def quantize(
    mod: IRModule | Function,
    params: Params | None = None,
    dataset: Iterable[Sample] | None = None,
) -> IRModule:
    """The module with its convolutions (and products, if so configured) on int8, as the current `qconfig` says.

    params: arrays by parameter name. dataset: samples, each a mapping from the names of inputs to arrays, from which ranges of
    activations are taken. ValueError where the configuration needs one and it is empty.
    """
    config = current_qconfig()
    mod = prerequisite_optimize(mod if isinstance(mod, IRModule) else IRModule.from_expr(mod), params)
    main = mod["main"]
    chosen = layers(main, config)
    points = list(dict.fromkeys([c.args[0] for c in chosen]))
    samples = None if dataset is None else list(dataset)
    scales = {
        e: scale_of(r, config.nbit_input) for e, r in zip(points, ranges(main, points, samples, config), strict=True)
    }
    main = main.replace(body=Annotator(chosen, scales, config).visit(main.body), ret_type=None)
    mod = mod.with_functions({**mod.functions, mod.get_global_var("main"): main})
    if config.do_simulation:
        return infer_module(mod)
    return integer_form(mod, config)


def integer_form(mod: IRModule, config: QConfig) -> IRModule:
    """The module with what lies between roundings on integers, in plain operators. What is requantised is computed in the compute_dtype of
    the current `requantize_config`."""
    mod = transform.FakeQuantizationToInteger(use_qat=True)(mod)
    from tilewright.relay.op.quantization.requantize_config import RequantizeConfig, requantize_config

    with requantize_config(config.rounding, RequantizeConfig.current().compute_dtype):
        from tilewright.relay.qnn.transform import CanonicalizeOps

        return Sequential([CanonicalizeOps(), transform.FoldConstant()])(mod)


def layers(f: Function, config: QConfig) -> list[Call]:
    """The calls that are to run on integers: convolutions and products of constant weights that are not left out."""
    found = []
    with config, quantize_context() as context:
        for e in post_order(f.body):
            if not isinstance(e, Call) or type(e.op) is not Op or e.op.name not in PRODUCTS or context.check_to_skip(e):
                continue
            if config.guard(e) and isinstance(e.args[1], Constant) and str(tensor_of(e).dtype) == "float32":
                found.append(e)
    return found


def scale_of(largest: np.ndarray | float, bits: int) -> np.ndarray:
    """The scale at which the largest magnitude is the greatest integer of so many bits."""
    return np.asarray(np.maximum(largest, 1e-30) / (2 ** (bits - 1) - 1), np.float32)


def weight_scale(w: np.ndarray, axis: int, config: QConfig) -> np.ndarray:
    """The scale of a layer's weights, one or one for each output channel."""
    if config.weight_scale == "channel":
        others = tuple([k for k in range(w.ndim) if k != axis])
        largest = np.abs(w).max(axis=others)
        return scale_of(np.where(largest > 0, largest, 1.0), config.nbit_weight)
    largest = np.abs(w).max(initial=0.0) or 1.0
    if config.weight_scale == "power2":
        return np.asarray(2.0 ** np.ceil(np.log2(largest)) / 2 ** (config.nbit_weight - 1), np.float32)
    return scale_of(largest, config.nbit_weight)


class Annotator(ExprMutator):
    """Rounds the activations at the points, for all of their readers, and the weights of the layers."""

    def __init__(self, chosen: list[Call], scales: Mapping[Expr, np.ndarray], config: QConfig) -> None:
        super().__init__()
        self.chosen, self.scales, self.config = set(chosen), scales, config
        self.rounded: dict[Expr, Expr] = {}

    def visit(self, expr: Expr) -> Expr:
        new = super().visit(expr)
        scale = self.scales.get(expr)
        if scale is None:
            return new
        if expr not in self.rounded:
            self.rounded[expr] = self.rounding(new, scale)
        return self.rounded[expr]

    def rounding(self, e: Expr, scale: np.ndarray) -> Expr:
        """An expression rounded to integers of a scale, and back."""
        limit = float(2 ** (self.config.nbit_input - 1) - 1) * float(scale)
        s, zero = const(scale), const(0, "int32")
        if self.config.nbit_input < 8:
            e = constructor("clip")(e, -limit, limit)
        return constructor("qnn.dequantize")(constructor("qnn.quantize")(e, s, zero), s, zero)

    def visit_call(self, call: Call) -> Expr:
        new = self.rewritten_call(call)
        w = constant_of(call.args[1]) if call in self.chosen else None
        if w is None:
            return new
        card = card_of(call)
        axis = card.kernel_layout.index("O") if hasattr(card, "kernel_layout") else 0
        scale = weight_scale(w, axis, self.config)
        top = 2 ** (self.config.nbit_weight - 1) - 1
        spread = scale if scale.ndim == 0 else scale.reshape([-1 if k == axis else 1 for k in range(w.ndim)])
        whole = np.clip(np.rint(w / spread), -top - 1, top).astype(np.int8)
        weights = constructor("qnn.dequantize")(const(whole), const(scale), const(0, "int32"), axis=axis)
        return Call(new.op, (new.args[0], weights, *new.args[2:]), new.attrs)
