"""Converters of ai.onnx.preview.training: steps of optimizers, and gradients."""

from __future__ import annotations

from typing import Any

from tilewright.ir import IRModule
from tilewright.relay.expr import Function, TupleGetItem, Var
from tilewright.relay.frontend.onnx.value import OnnxNode, Value, onnx_op
from tilewright.relay.functor import substitute
from tilewright.relay.transform.functional.gradient import gradient
from tilewright.relay.typing.infer_type import infer_module

DOMAIN = "ai.onnx.preview.training"


class Arithmetic:
    """Element-wise arithmetic on values and numbers."""

    def __init__(self, node: OnnxNode, like: Value) -> None:
        self.node, self.like = node, like

    def __call__(self, key: str, *args: object) -> Value:
        made = [self.node.scalar(a, self.like) if isinstance(a, (int, float)) else a for a in args]
        return self.node.value(key, *made)

    def regularized(self, x: Value, g: Value) -> Value:
        """The gradient with that of the regularizer, the squared norm."""
        norm = float(self.node.get("norm_coefficient", 0.0))
        return self("add", self("multiply", x, norm), g) if norm else g


def _groups(inputs: tuple[Value, ...], states: int) -> list[list[Value]]:
    """(tensor, gradient, states) of each optimized tensor."""
    count = len(inputs) // (2 + states)
    return [[inputs[k * count + i] for k in range(2 + states)] for i in range(count)]


def _results(made: list[list[Value]]) -> list[Value]:
    return [v for column in zip(*made, strict=True) for v in column]


@onnx_op("Adagrad", domain=DOMAIN)
def _adagrad(node: OnnxNode, rate: Value, step: Value, *inputs: Value) -> list[Value]:
    made = []
    for x, g, h in _groups(inputs, 1):
        f = Arithmetic(node, x)
        decay = f("add", f("multiply", node.cast(step, x.dtype), float(node.get("decay_factor", 0.0))), 1.0)
        r = f("divide", node.cast(rate, x.dtype), decay)
        grown = f.regularized(x, g)
        total = f("add", h, f("multiply", grown, grown))
        divisor = f("add", f("sqrt", total), float(node.get("epsilon", 1e-6)))
        made.append([f("subtract", x, f("divide", f("multiply", r, grown), divisor)), total])
    return _results(made)


@onnx_op("Adam", domain=DOMAIN)
def _adam(node: OnnxNode, rate: Value, step: Value, *inputs: Value) -> list[Value]:
    alpha, beta = float(node.get("alpha", 0.9)), float(node.get("beta", 0.999))
    made = []
    for x, g, v, h in _groups(inputs, 2):
        f = Arithmetic(node, x)
        t, r = node.cast(step, x.dtype), node.cast(rate, x.dtype)
        grown = f.regularized(x, g)
        mean = f("add", f("multiply", v, alpha), f("multiply", grown, 1 - alpha))
        square = f("add", f("multiply", h, beta), f("multiply", f("multiply", grown, grown), 1 - beta))
        root = f("add", f("sqrt", square), float(node.get("epsilon", 1e-6)))
        ratio = f(
            "divide",
            f("sqrt", f("subtract", 1.0, f("power", beta, t))),
            f("subtract", 1.0, f("power", alpha, t)),
        )
        adjusted = f("where", node.call("greater", t, node.scalar(0, x)), f("multiply", r, ratio), r)
        new = f("subtract", x, f("divide", f("multiply", adjusted, mean), root))
        made.append([f("multiply", new, 1 - float(node.get("norm_coefficient_post", 0.0))), mean, square])
    return _results(made)


@onnx_op("Momentum", domain=DOMAIN)
def _momentum(node: OnnxNode, rate: Value, step: Value, *inputs: Value) -> list[Value]:
    alpha, beta = float(node.get("alpha")), float(node.get("beta"))
    made = []
    for x, g, v in _groups(inputs, 1):
        f = Arithmetic(node, x)
        r = node.cast(rate, x.dtype)
        first = node.call("greater", node.cast(step, "int64"), node.scalar(0, "int64"))
        share = f("where", first, beta, 1.0)
        grown = f.regularized(x, g)
        speed = f("add", f("multiply", v, alpha), f("multiply", share, grown))
        way = f("add", grown, f("multiply", speed, alpha)) if node.get("mode") == "nesterov" else speed
        made.append([f("subtract", x, f("multiply", r, way)), speed])
    return _results(made)


@onnx_op("Gradient", domain=DOMAIN)
def _gradient(node: OnnxNode, *inputs: Value) -> list[Value]:
    # The differentiated tensors become variables of a function, and its gradient is called with them.
    wanted = node.importer.find(node.get("y"), "Gradient")
    names = node.get("xs")
    xs = inputs[: len(names)]
    variables = [Var(n, x.type) for n, x in zip(names, xs, strict=True)]
    body = substitute(wanted.expr, {x.expr: v for x, v in zip(xs, variables, strict=True)})
    outer = [i for i in node.importer.inputs.variables if i not in [x.expr for x in xs]]
    function = Function([*variables, *outer], body)
    derived: Any = gradient(infer_module(IRModule.from_expr(function))["main"], mode="first_order")
    arguments = [*[x.expr for x in xs], *outer]
    found = substitute(derived.body, dict(zip(derived.params, arguments, strict=True)))
    return [Value(TupleGetItem(TupleGetItem(found, 1), i)) for i in range(len(xs))]
