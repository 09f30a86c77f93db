"""Classic interface of the compiler of primitive functions: the implementations of an operator, the choice of one, the tensors and
lowered code of a function, and a cache of lowered functions. Its names are in `relay.backend.te_compiler`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te, tir
from tilewright.arith import Analyzer
from tilewright.ir import GlobalVar, IntImm, IRModule, Op, PrimExpr, TupleType
from tilewright.node import deep_recursion, structural_equal, structural_hash
from tilewright.relay.backend.kernels.machine_code import lowered, scheduled
from tilewright.relay.backend.kernels.tensor_graph import TensorGraph
from tilewright.relay.cards.card import find_card
from tilewright.relay.expr import Call, Function
from tilewright.relay.op.op import OpImplementation, OpStrategy
from tilewright.relay.op.strategy import StrategyFunc
from tilewright.relay.rewriting import card_of
from tilewright.relay.typing.infer_type import infer_module
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import Any as AnyDim
from tilewright.topi.planner import Planner


class LoweredOutput:
    """The output tensors of a call of an operator, and the implementation that made them."""

    def __init__(self, outputs: Sequence[te.Tensor], implement: OpImplementation) -> None:
        self.outputs, self.implement = list(outputs), implement


class CCacheKey:
    """A cache key: a function, and the target for which it is lowered."""

    def __init__(self, source_func: Function, target: Target | str) -> None:
        self.source_func, self.target = source_func, Target(target) if isinstance(target, str) else target
        self._hash = hash((structural_hash(source_func), str(self.target)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CCacheKey)
            and str(self.target) == str(other.target)
            and structural_equal(self.source_func, other.source_func)
        )


class CachedFunc:
    """A lowered function.

    prim_fn_var: its name. inputs, outputs: its te tensors. prim_func: its unscheduled PrimFunc. funcs: the scheduled and lowered module
    for code generation. plan: the decisions about it.
    """

    def __init__(
        self,
        target: Target,
        prim_fn_var: GlobalVar,
        inputs: Sequence[te.Tensor],
        outputs: Sequence[te.Tensor],
        prim_func: tir.PrimFunc,
        funcs: IRModule,
        plan: KernelPlan | None = None,
    ) -> None:
        self.plan = plan
        self.target, self.prim_fn_var, self.prim_func, self.funcs = target, prim_fn_var, prim_func, funcs
        self.inputs, self.outputs = list(inputs), list(outputs)


class CCacheValue:
    """A cached function, and the number of its uses."""

    def __init__(self, cached_func: CachedFunc) -> None:
        self.cached_func, self.use_count = cached_func, 0


def get_shape(shape: Sequence[Any]) -> list[PrimExpr]:
    """A shape for te tensors. Numbers that fit become int32, and each `Any` becomes a new variable."""
    found: list[PrimExpr] = []
    for dim in shape:
        if isinstance(dim, AnyDim):
            found.append(te.size_var("any_dim"))
        elif isinstance(dim, (int, IntImm)):
            value = int(dim)
            found.append(IntImm("int32" if -(1 << 31) <= value < 1 << 31 else "int64", value))
        else:
            found.append(dim)
    return found


def typed_function(source_func: Any) -> Function:
    """A typed primitive function, made from an untyped one or from a call of an operator."""
    if not isinstance(source_func, Function):
        raise TVMError(f"the compiler lowers relay functions, but was given {type(source_func).__name__}")
    made = infer_module(IRModule.from_expr(source_func.with_attr("Primitive", 1)))["main"]
    assert isinstance(made, Function)
    return made


def strategy_of(op: Op, attrs: Any, inputs: Sequence[te.Tensor], out_type: Any, target: Target) -> OpStrategy:
    """The implementations of an operator: those that a program registered, or else that of its card."""
    known = op.get_attr("FTVMStrategy")
    if known is None:
        find_card(op.name)
        known = StrategyFunc(f"{op.name}_strategy", op)
    with target:
        made: OpStrategy = known(attrs, list(inputs), out_type, target)
    return made


def get_valid_implementations(
    op: Op, attrs: Any, inputs: Sequence[te.Tensor], out_type: Any, target: Target | str, use_autotvm: bool = True
) -> list[OpImplementation]:
    """The implementations whose conditions hold for these tensors. use_autotvm: accepted and ignored."""
    del use_autotvm
    chosen = Target(target) if isinstance(target, str) else target
    found: list[OpImplementation] = []
    for specialization in strategy_of(op, attrs, inputs, out_type, chosen).specializations:
        condition = specialization.condition
        clauses = [] if condition is None else list(getattr(condition, "clauses", [condition]))
        if all([bool(Analyzer().can_prove(c)) for c in clauses]):
            found += specialization.implementations
    return found


def select_implementation(
    op: Op, attrs: Any, inputs: Sequence[te.Tensor], out_type: Any, target: Target | str, use_autotvm: bool = True
) -> tuple[OpImplementation, list[te.Tensor]]:
    """The valid implementation of the highest level, and its tensors. Raises TVMError if none is valid."""
    chosen = Target(target) if isinstance(target, str) else target
    ways = get_valid_implementations(op, attrs, inputs, out_type, chosen, use_autotvm)
    if not ways:
        raise TVMError(
            f"no implementation of {op.name} is valid for these shapes; give its strategy one without a condition"
        )
    best = max(ways, key=lambda way: way.plevel)
    with chosen:
        return best, list(best.compute(attrs, list(inputs), out_type))


def lower_call(call: Call, inputs: Sequence[te.Tensor], target: Target | str, otype: Any = None) -> LoweredOutput:
    """The tensors of a call of an operator on `inputs`. otype: the type of its result, for an untyped call."""
    if type(call.op) is not Op:
        raise TVMError(f"lower_call takes calls of operators, but this calls a {type(call.op).__name__}")
    wanted: Any = otype if otype is not None else call.checked_type
    fields: Any = wanted.fields if isinstance(wanted, TupleType) else [wanted]
    shaped = tuple([f.replace(shape=tuple(get_shape(f.shape))) for f in fields])
    wanted = TupleType(shaped) if isinstance(wanted, TupleType) else shaped[0]
    best, outputs = select_implementation(call.op, card_of(call), inputs, wanted, target)
    return LoweredOutput(outputs, best)


def lower_function(func: Function, compiler: Any, target: Target) -> CachedFunc:
    """The tensors and the lowered module of a typed primitive function."""
    with deep_recursion(), target:
        kernel = compiler.kernel(func)
        with kernel.plan.again() if kernel.plan is not None else Planner():
            graph = TensorGraph(func)
        funcs = lowered(scheduled(kernel.func, target, kernel.plan), target)
    return CachedFunc(target, GlobalVar(kernel.name), graph.inputs, graph.outputs, kernel.func, funcs, kernel.plan)
