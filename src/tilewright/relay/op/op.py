"""Programs' own operators, and extensions of existing operators, under their classic names.

    op.register("my.scale", "x times two")
    my = op.get("my.scale")
    my.set_num_inputs(1)
    my.add_argument("data", "Tensor", "the input")
    my.add_type_rel("my.scale_rel", lambda types, attrs: types[0])
    op.register_pattern("my.scale", op.OpPattern.ELEMWISE)
    op.register_compute("my.scale", lambda attrs, inputs, out_type: [topi.multiply(inputs[0], 2.0)])
    relay.Call(my, [x])

A subclass of `OpCard` declares the same in one place. These functions are for programs that do not use cards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright import te, topi
from tilewright.codegen.backend import evaluate
from tilewright.ir import Op, TensorType, TupleType, Type
from tilewright.ir.op import register_op_attr
from tilewright.relay.cards.card import (
    BROADCAST,
    COMM_REDUCE,
    ELEMWISE,
    INJECTIVE,
    OPAQUE,
    OUT_ELEMWISE,
    TUPLE,
    CardMeta,
    OpCard,
    TypeRuleError,
    cards,
    find_card,
    need,
)
from tilewright.relay.cards.relations import broadcast
from tilewright.relay.expr import Call, Expr
from tilewright.relay.op.registry import (
    register_alter_op_layout,
    register_convert_op_layout,
    register_fake_quantization_to_integer,
    register_legalize,
    register_mixed_precision_conversion,
    register_optional_fake_quantization_to_integer,
    register_qnn_legalize,
)
from tilewright.support.errors import OpNotImplemented, TVMError
from tilewright.target import Target

__all__ = [
    "Op",
    "OpImplementation",
    "OpPattern",
    "OpSpecialization",
    "OpStrategy",
    "get",
    "register",
    "register_alter_op_layout",
    "register_broadcast_schedule",
    "register_compute",
    "register_convert_op_layout",
    "register_fake_quantization_to_integer",
    "register_external_compiler",
    "register_gradient",
    "register_infer_correct_layout",
    "register_injective_schedule",
    "register_legalize",
    "register_mixed_precision_conversion",
    "register_optional_fake_quantization_to_integer",
    "register_qnn_legalize",
    "register_op_attr",
    "register_pattern",
    "register_reduce_schedule",
    "register_schedule",
    "copy_shape_func",
    "register_shape_func",
    "register_stateful",
    "register_strategy",
]


class OpPattern:
    """The ways in which calls of an operator can be fused."""

    ELEMWISE, BROADCAST, INJECTIVE, COMM_REDUCE = ELEMWISE, BROADCAST, INJECTIVE, COMM_REDUCE
    OUT_ELEMWISE_FUSABLE, TUPLE, OPAQUE = OUT_ELEMWISE, TUPLE, OPAQUE


class OpImplementation:
    """One way to compute an operator: `fcompute(attrs, inputs, out_type)` returns te tensors. The implementation with the highest
    `plevel` is used. `fschedule(attrs, outs, target)` schedules a kernel whose anchor is the operator; if it changes no stage,
    the target's rules schedule the kernel."""

    def __init__(self, name: str, fcompute: Any, fschedule: Any = None, plevel: int = 10) -> None:
        self.name, self.fcompute, self.fschedule, self.plevel = name, fcompute, fschedule, plevel

    def compute(self, attrs: Any, inputs: Sequence[Any], out_type: Type) -> list[Any]:
        """The results as te tensors."""
        made = self.fcompute(attrs, inputs, out_type)
        return list(made) if isinstance(made, (list, tuple)) else [made]

    def schedule(self, attrs: Any, outs: Any, target: Any) -> Any:
        """The schedule that `fschedule` makes."""
        return self.fschedule(attrs, outs, target)


class OpSpecialization:
    """Implementations that apply under a condition (None: always)."""

    def __init__(self, condition: Any = None) -> None:
        self.condition = condition
        self.implementations: list[OpImplementation] = []


class OpStrategy:
    """The implementations of an operator for a target."""

    def __init__(self) -> None:
        self.specializations: list[OpSpecialization] = []

    def add_implementation(self, compute: Any, schedule: Any = None, name: str = "default", plevel: int = 10) -> None:
        """Adds an implementation with `compute(attrs, inputs, out_type)`."""
        if not self.specializations:
            self.specializations.append(OpSpecialization())
        self.specializations[0].implementations.append(OpImplementation(name, compute, schedule, plevel))

    def best(self) -> OpImplementation:
        """The implementation to use. Raises OpNotImplemented if there is none."""
        ways = [i for s in self.specializations if s.condition is None for i in s.implementations]
        if not ways:
            raise OpNotImplemented("the strategy has no implementation for this target")
        return max(ways, key=lambda i: i.plevel)


def get(op_name: str) -> Op:
    """The operator of a name. Raises AttributeError, with the nearest names, for an unknown name."""
    return Op.get(op_name)


class OwnCard(OpCard):
    """The card of an operator that `register` made. Its behaviour is looked up by the operator's name."""

    @classmethod
    def _said(cls, key: str, what: str) -> Any:
        found = cls.op.get_attr(key)
        if found is None:
            raise OpNotImplemented(f"{cls.type_key} has no {what}: {_HOW[key]}")
        return found

    def infer(self, *args: Type) -> Type:
        rule = self._said("TTypeRel", "type relation")
        wanted = self.op.get_attr("num_inputs")
        need(wanted in (None, len(args)), f"{self.type_key} takes {wanted} arguments", f"{len(args)} were given")
        if not callable(rule):
            need(
                rule in _RELATIONS,
                f"a type relation must be a function or one of {', '.join(_RELATIONS)}",
                f"it is {rule!r}",
            )
            rule = _RELATIONS[rule]
        found = rule(list(args), self)
        if not isinstance(found, Type):
            raise TypeRuleError(
                f"the type relation of {self.type_key} must return the type of the result", f"it returned {found!r}"
            )
        return found

    def compute(self, *args: Any) -> Any:
        found = registered_compute(self.op, self, args, self._out_type(args))
        if found is None:
            self._said("FTVMCompute", "compute")
            return None
        return found.results

    def _out_type(self, tensors: Sequence[Any]) -> Type:
        def type_of(x: Any) -> Type:
            if isinstance(x, (list, tuple)):
                return TupleType(tuple([type_of(t) for t in x]))
            return TensorType(tuple(x.shape), x.dtype)

        return self.infer(*[type_of(t) for t in tensors])

    def ref(self, *args: Any) -> Any:
        """Runs the compute in the interpreter."""
        arrays = [np.ascontiguousarray(a) for a in args]
        inputs = [te.placeholder(a.shape, a.dtype.name, f"p{i}") for i, a in enumerate(arrays)]
        made = self.compute(*inputs)
        results = list(made) if isinstance(made, (list, tuple)) else [made]
        out = [np.zeros([int(d) for d in t.shape], str(t.dtype)) for t in results]
        evaluate(te.create_prim_func([*inputs, *results]), [*[a.copy() for a in arrays], *out])
        return tuple(out) if len(out) > 1 else out[0]

    def grad(self, *args: Any) -> Sequence[Expr | None]:
        *inputs, result, dy = args
        found = self.op.get_attr("FPrimalGradient")
        if found is None:
            return super().grad(*args)
        del result
        grads: Sequence[Expr | None] = found(Call(self.op, tuple(inputs), self), dy)
        return grads


_RELATIONS: dict[str, Callable[[Any, Any], Type]] = {
    "Identity": lambda types, attrs: types[0],
    "Broadcast": lambda types, attrs: broadcast(types[0], types[1]),
}
_HOW = {
    "TTypeRel": "call add_type_rel on the operator",
    "FTVMCompute": "call register_compute or register_strategy",
}


class Registered(NamedTuple):
    """(the results of a call (te tensors) by a compute that a program registered; a function of (attributes, results of the
    kernel, target) that returns the kernel's te.Schedule, or None)."""

    results: Any
    schedule: Callable[[Any, Any, Target], Any] | None


def registered_compute(op: Op, attrs: Any, inputs: Sequence[Any], out_type: Type) -> Registered | None:
    """The results by the compute or the strategy that a program registered for an operator; None without one."""
    compute = op.get_attr("FTVMCompute")
    strategy = op.get_attr("FTVMStrategy")
    schedule = op.get_attr("FTVMSchedule")
    if compute is None and strategy is None:
        return None
    if strategy is not None:
        target = Target.current(True) or Target("llvm")
        with target:
            best = strategy(attrs, list(inputs), out_type, target).best()
            made, schedule = best.compute(attrs, list(inputs), out_type), best.fschedule
    else:
        found = compute(attrs, list(inputs), out_type)
        made = list(found) if isinstance(found, (list, tuple)) else [found]
    results = made if len(made) > 1 or isinstance(out_type, TupleType) else made[0]
    return Registered(results, schedule if callable(schedule) else None)


def register(op_name: str, describe: str = "") -> None:
    """Makes an operator with this name. Raises TVMError if relay has one."""
    if op_name in cards():
        raise TVMError(f"relay has an operator {op_name!r} already")
    body = {"__doc__": describe, "__annotations__": {}, "__module__": __name__}
    CardMeta(op_name.rpartition(".")[2], (OwnCard,), body, key=op_name)
    Op.get(op_name).set_attr("description", describe)


def register_pattern(op_name: str, pattern: int, level: int = 10) -> Any:
    """Sets how calls of an operator can be fused: a value of OpPattern."""
    find_card(op_name).fuse = pattern
    return register_op_attr(op_name, "TOpPattern", pattern, level)


def register_stateful(op_name: str, stateful: bool, level: int = 10) -> Any:
    """Sets whether an operator has state: then equal calls are not merged, and unused calls are not removed."""
    find_card(op_name).pure = not stateful
    return register_op_attr(op_name, "TOpIsStateful", stateful, level)


def register_compute(op_name: str, compute: Any = None, level: int = 10) -> Any:
    """Sets the compute of an operator: `compute(attrs, inputs, out_type)` returns a list of te tensors. A decorator if `compute` is
    not given."""
    return register_op_attr(op_name, "FTVMCompute", compute, level)


def register_strategy(op_name: str, fstrategy: Any = None, level: int = 10) -> Any:
    """Sets the strategy of an operator: `fstrategy(attrs, inputs, out_type, target)` returns an OpStrategy. A decorator if
    `fstrategy` is not given."""
    return register_op_attr(op_name, "FTVMStrategy", fstrategy, level)


def register_schedule(op_name: str, level: int = 10) -> Callable[[Any], Any]:
    """Decorates `schedule(attrs, outs, target)`, which schedules kernels whose anchor is the operator, if a compute is registered
    for it, too. If it changes no stage, the target's rules schedule the kernel."""
    return lambda fschedule: register_op_attr(op_name, "FTVMSchedule", fschedule, level)


def register_injective_schedule(op_name: str, level: int = 10) -> Any:
    """Schedules the operator like element-wise ones, which is the default for fused operators."""
    return register_op_attr(op_name, "FTVMSchedule", "injective", level)


def register_broadcast_schedule(op_name: str, level: int = 10) -> Any:
    """Schedules the operator like element-wise ones, which is the default for fused operators."""
    return register_op_attr(op_name, "FTVMSchedule", "injective", level)


def register_reduce_schedule(op_name: str, level: int = 10) -> Any:
    """Schedules the operator like reductions."""
    return register_op_attr(op_name, "FTVMSchedule", "reduce", level)


def register_gradient(op_name: str, fgradient: Any = None, level: int = 10) -> Any:
    """Sets the gradient of an operator: `fgradient(call, adjoint of its result)` returns a list with the adjoint of each argument.
    A decorator if `fgradient` is not given."""
    return register_op_attr(op_name, "FPrimalGradient", fgradient, level)


def copy_shape_func(attrs: Any, inputs: Sequence[Any], _: Any) -> list[Any]:
    """The shape of the result of an operator that copies: that of its argument."""
    return [topi.identity(inputs[0])]


def register_shape_func(op_name: str, data_dependent: Any, shape_func: Any = None, level: int = 10) -> Any:
    """Accepted for compatibility, and not used: sizes at run time come from the type relation, with symbolic dimensions."""
    register_op_attr(op_name, "TShapeDataDependent", data_dependent, level)
    return register_op_attr(op_name, "FShapeFunc", shape_func, level)


def register_infer_correct_layout(op_name: str, infer_layout: Any = None, level: int = 10) -> Any:
    """Sets the layouts of an operator for `ConvertLayout`: `f(attrs, new_in_layouts, old_in_layouts, old_in_types)` returns a
    `relay.transform.infer_layout_utils.InferCorrectLayoutOutput`. An unknown layout is "". If the layout of the first input or
    of the result is "", the call is not converted. A decorator if `infer_layout` is not given. Blocked layouts are chosen by the
    rule of the operator's card."""
    return register_op_attr(op_name, "FInferCorrectLayout", infer_layout, level)


def register_external_compiler(op_name: str, fexternal: Any = None, level: int = 10) -> Any:
    """Sets the compiler that takes calls of an operator: `fexternal(attrs, args, comp)` returns its name."""
    return register_op_attr(op_name, "FTVMExternalCompiler", fexternal, level)
