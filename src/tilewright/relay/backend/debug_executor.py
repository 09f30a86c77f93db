"""The debug executor: runs relay on NumPy in the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.ir import GlobalVar, IntImm, IRModule, TensorType
from tilewright.ir.transform import PassContext
from tilewright.node import deep_recursion
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.backend.program_executor import Call, ProgramExecutor
from tilewright.relay.evaluation.interpreter import ConstructorValue, RefValue, Value, as_value, brief, run_function
from tilewright.relay.expr import Function, Var
from tilewright.relay.typing.infer_type import infer_module
from tilewright.runtime import array
from tilewright.target.virtual_device import Targets


class DebugExecutor(ProgramExecutor):
    """`relay.create_executor("debug", mod)`: runs the whole language on NumPy. `evaluate()` returns a function from arrays to
    NDArrays."""

    def __init__(self, mod: IRModule | None = None, device: Any = None, target: Targets = None) -> None:
        typed = infer_module(IRModule() if mod is None else mod)
        if PassContext.current().config.get("relay.check_bounds", False):
            from tilewright.relay.transform.dynamic.check_bounds import CheckBounds

            typed = CheckBounds()(typed)
        super().__init__(typed, device, target)

    def make(self, gvar: GlobalVar | None, func: Function) -> Call:
        def run(args: Sequence[Any]) -> Any:
            values = [fitting(p, v) for p, v in zip(func.params, args, strict=True)]
            with deep_recursion():
                return _ndarray(run_function(func, values, self.mod))

        if gvar is None:
            # Typed as a part of the module, whose functions and data types it may use.
            infer_module(self.mod.with_functions({**self.mod.functions, GlobalVar("evaluated"): func}))
        return run


def fitting(p: Var, value: Any) -> Any:
    """An argument that fits a parameter. A Python number is converted to the parameter's dtype. Raises TypeError or ValueError for
    a tensor of another type."""
    t = p.type_annotation
    if not isinstance(t, TensorType) or isinstance(value, (ConstructorValue, RefValue)) or callable(value):
        return value
    if isinstance(value, (bool, int, float)):
        return np.asarray(value, numpy_dtype(t.dtype))
    found = as_value(value)
    if not isinstance(found, np.ndarray) or found.dtype.kind in "OSUMm":
        raise TypeError(f"the argument {p.name_hint} must be {t!r}, but is {type(value).__name__}: {brief(value)}")
    fits = found.ndim == len(t.shape) and all(
        [not isinstance(d, IntImm) or d.value == n for d, n in zip(t.shape, found.shape, strict=True)]
    )
    if not fits or found.dtype.name != t.dtype:
        error = TypeError if fits else ValueError
        raise error(f"the argument {p.name_hint} must be {t!r}, but is {found.shape} {found.dtype.name}")
    return found


def _ndarray(value: Value) -> Any:
    if isinstance(value, tuple):
        return [_ndarray(v) for v in value]
    if isinstance(value, ConstructorValue):
        fields = [_ndarray(v) for v in value.fields]
        return ConstructorValue(value.tag, fields, value.constructor) if fields else value
    return array(value) if isinstance(value, (np.ndarray, np.generic)) else value
