"""Tools for tests and examples of relay programs: small models with weights, layers, and checks of gradients and types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.ir import IRModule, TensorType, TupleType, Type
from tilewright.ir.transform import Sequential
from tilewright.node.field_values import numpy_dtype
from tilewright.relay import transform
from tilewright.relay.backend import create_executor
from tilewright.relay.expr import Call, Expr, Function
from tilewright.relay.functor import post_order
from tilewright.relay.prelude.standard_library import Prelude
from tilewright.relay.testing import (
    dcgan,
    densenet,
    dqn,
    inception_v3,
    init,
    layers,
    lstm,
    mlp,
    mobilenet,
    nat,
    py_converter,
    resnet,
    resnet_3d,
    squeezenet,
    synthetic,
    temp_op_attr,
    tf,
    tflite,
    vgg,
    yolo_detection,
)
from tilewright.relay.testing.init import create_workload
from tilewright.relay.testing.nat import add_nat_definitions, count, make_nat_expr, make_nat_value
from tilewright.relay.testing.py_converter import run_as_python, to_python
from tilewright.relay.testing.temp_op_attr import TempOpAttr
from tilewright.relay.transform.functional.gradient import gradient
from tilewright.runtime import NDArray
from tilewright.support import lazy

__all__ = [
    "Prelude",
    "TempOpAttr",
    "add_nat_definitions",
    "check_grad",
    "count",
    "count_ops",
    "create_workload",
    "dcgan",
    "densenet",
    "dqn",
    "enabled_targets",
    "gradient",
    "inception_v3",
    "init",
    "layers",
    "lstm",
    "make_nat_expr",
    "make_nat_value",
    "mlp",
    "mobilenet",
    "nat",
    "py_converter",
    "rand",
    "resnet",
    "resnet_3d",
    "run_as_python",
    "run_infer_type",
    "run_opt_pass",
    "squeezenet",
    "synthetic",
    "temp_op_attr",
    "to_python",
    "vgg",
    "yolo_detection",
]

# Tools of the layer above.
__getattr__, __dir__ = lazy.late(__name__)


def run_opt_pass(expr: Expr, opt_pass: Any, import_prelude: bool = False) -> Any:
    """The expression after a pass (or a list of them): the function for a function, the body for anything else."""
    mod = IRModule.from_expr(expr if isinstance(expr, Function) else Function((), expr))
    if import_prelude:
        Prelude(mod)
    passes = opt_pass if isinstance(opt_pass, (list, tuple)) else [opt_pass]
    entry: Function = Sequential(list(passes))(transform.InferType()(mod))["main"]
    return entry if isinstance(expr, Function) else entry.body


def run_infer_type(expr: Expr) -> Any:
    """The expression with its types inferred."""
    return run_opt_pass(expr, transform.InferType())


def rand(dtype: str, *shape: int) -> NDArray:
    """Random numbers of [0, 1) as a tensor."""
    from tilewright.runtime import array

    return array(np.random.rand(*shape).astype(numpy_dtype(dtype)))


def count_ops(expr: Expr) -> Counter[Expr]:
    """How often an expression calls each operator, function and constructor."""
    return Counter([e.op for e in post_order(expr) if isinstance(e, Call)])


def _random(t: Type, scale: float, mean: float) -> np.ndarray:
    if not isinstance(t, TensorType):
        raise TypeError(f"check_grad takes functions of tensors, but one parameter is {t}")
    return mean + (np.random.randn(*t.concrete_shape) * scale).astype(numpy_dtype(t.dtype))


def check_grad(
    func: Function,
    inputs: Sequence[np.ndarray] | None = None,
    test_inputs: Sequence[np.ndarray] | None = None,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    scale: float | None = None,
    mean: float = 0,
    mode: str = "higher_order",
    target_devices: Any = None,
    executor_kind: str = "debug",
) -> None:
    """Compares the gradient of a function with central differences, at random inputs unless some are given. `test_inputs` are those whose
    adjoints are looked at (all where none are given). Raises AssertionError where they differ."""
    typed = run_infer_type(func)
    if inputs is None:
        chosen = 10 * eps if scale is None else scale
        inputs = [_random(p.checked_type, chosen, mean) for p in typed.params]
    values = [np.array(v.numpy() if hasattr(v, "numpy") else v) for v in inputs]
    looked_at = values if test_inputs is None else [np.asarray(v) for v in test_inputs]
    result = typed.ret_type
    if isinstance(result, TupleType):
        raise TypeError("check_grad takes functions of one result")
    forward = create_executor(executor_kind, IRModule.from_expr(typed)).evaluate()
    backward = create_executor(executor_kind, IRModule.from_expr(gradient(typed, mode=mode))).evaluate()
    _, adjoints = backward(*values)
    for k, value in enumerate(values):
        if not any(v is value or (test_inputs is not None and np.array_equal(v, value)) for v in looked_at):
            continue
        wanted = np.zeros(value.shape, value.dtype)
        for index in np.ndindex(*value.shape):
            sums = []
            for sign in (1, -1):
                moved = [v.copy() for v in values]
                moved[k][index] += sign * eps
                sums.append(np.sum(forward(*moved).numpy().astype("float64")))
            wanted[index] = (sums[0] - sums[1]) / (2 * eps)
        np.testing.assert_allclose(adjoints[k].numpy(), wanted, atol=atol, rtol=rtol)
