"""AutoSchedulerLayoutRewrite: weights in the layouts that records of auto_scheduler want."""

from __future__ import annotations

from tilewright.codegen.backend import CPU_RULES, back_end_of
from tilewright.ir import IRModule, TensorType
from tilewright.ir.transform import Pass
from tilewright.node import deep_recursion, structural_hash
from tilewright.relay.backend.kernels.recorded import asks_records, constant_inputs
from tilewright.relay.backend.kernels.tensor_graph import TensorGraph
from tilewright.relay.backend.te_compiler import kernel_name
from tilewright.relay.cards.card import constructor
from tilewright.relay.expr import Call, Constant, Expr, Function, Var, const
from tilewright.relay.functor import ExprMutator, post_order
from tilewright.relay.rewriting import card_of, tensor_of, typed_pass
from tilewright.relay.typing.infer_type import infer_module
from tilewright.target import Target
from tilewright.topi.planner import Planner
from tilewright.tuning.packing import packed, text_of

NAME = "AutoSchedulerLayoutRewrite"


def AutoSchedulerLayoutRewrite(target: Target) -> Pass:
    """Packs weights that are constants as the loops of records want them, in builds with the option "relay.backend.use_auto_scheduler".

    For each call of a primitive function that the current DispatchContext has a program of: the dimensions of a weight become parts of the
    loops that read it, in their order, so that what is read one after the other lies side by side. The constant is packed here. Weights
    that several computes read, or that are read at something else than parts of loops, stay as they are. It comes after `FuseOps`.
    `PassContext(disabled_pass=["AutoSchedulerLayoutRewrite"])` leaves all weights as they are.
    """

    def run(func: Function, mod: IRModule) -> Function:
        if not asks_records() or back_end_of(target).rules != CPU_RULES:
            return func
        with deep_recursion(), target:
            return _Packed(target).rewritten_function(func)

    return typed_pass(NAME, 3, run, ("primitive_functions",))


class _Packed(ExprMutator):
    """Rewrites calls of primitive functions."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target

    def visit_function(self, fn: Function) -> Expr:
        return fn if fn.is_primitive else super().visit_function(fn)

    def visit_call(self, call: Call) -> Expr:
        made = super().visit_call(call)
        if not isinstance(call.op, Function) or not isinstance(made, Call) or not is_scheduled(call.op):
            return made
        return self._packed(call.op, made)

    def _packed(self, func: Function, call: Call) -> Expr:
        from tilewright.auto_scheduler.relay_integration import wanted_packings

        constants = constant_places(call)
        if not constants:
            return call
        with Planner():
            graph = TensorGraph(func)
        name = kernel_name([card_of(n) for n in post_order(func.body) if isinstance(n, Call)])
        places = constant_inputs(graph, func, constants)
        wanted = {p.argument: p for p in wanted_packings(name, graph.inputs, graph.outputs, places)}
        if not wanted:
            return call
        params, args = list(func.params), list(call.args)
        changed: dict[Var, Expr] = {}
        for place in sorted(constants):
            packing = wanted.get(graph.inputs.index(graph.values[func.params[place]]))
            if packing is None:
                continue
            weight, old = args[place], params[place]
            assert isinstance(weight, Constant)
            values = packed(weight.value, packing.old, packing.new)
            args[place] = const(values)
            params[place] = Var(old.name_hint, TensorType(values.shape, tensor_of(old).dtype))
            changed[old] = constructor("auto_scheduler_layout_transform")(
                params[place], src_layout=text_of(packing.new), dst_layout=text_of(packing.old)
            )
        body = _Bound(changed).visit(func.body)
        return call.replace(op=func.replace(params=tuple(params), body=body), args=tuple(args))


class _Bound(ExprMutator):
    """Puts expressions in the places of variables."""

    def __init__(self, values: dict[Var, Expr]) -> None:
        super().__init__()
        self.values = values

    def visit_var(self, var: Var) -> Expr:
        return self.values.get(var, var)


def is_scheduled(func: Function) -> bool:
    """Whether a primitive function is compiled here, to a kernel."""
    return func.is_primitive and "Compiler" not in func.attrs and not func.attrs.get("Extern", 0)


def constant_places(call: Call) -> set[int]:
    """The places of the arguments of a call that are constants with axes."""
    return {i for i, arg in enumerate(call.args) if isinstance(arg, Constant) and arg.data.ndim}


def constants_of(mod: IRModule) -> dict[int, set[int]]:
    """By the hash of a primitive function: the places of the parameters that are constants in all its calls."""
    found: dict[int, set[int]] = {}
    for func in infer_module(mod).functions.values():
        if not isinstance(func, Function) or func.is_primitive:
            continue
        for node in post_order(func.body):
            if isinstance(node, Call) and isinstance(node.op, Function) and is_scheduled(node.op):
                key, places = structural_hash(node.op), constant_places(node)
                found[key] = found[key] & places if key in found else places
    return found
