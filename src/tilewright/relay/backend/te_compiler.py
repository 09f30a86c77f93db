"""Compiler of primitive functions to kernels: the computes of the operators become one TE graph, and this a PrimFunc."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tilewright import te, tir
from tilewright.codegen.backend import IS_SCHEDULED, NO_RULES, back_end_of
from tilewright.ir import IRModule, Op
from tilewright.node import deep_recursion, structural_digest, structural_hash
from tilewright.relay.backend.byoc.external import external_tensors, is_external, symbol_of
from tilewright.relay.backend.kernels.database_schedules import database_in_use, scheduled_by
from tilewright.relay.backend.kernels.kernel import Kernel as Kernel
from tilewright.relay.backend.kernels.lowered_functions import (
    CachedFunc,
    CCacheKey,
    CCacheValue,
    LoweredOutput,
    get_shape,
    get_valid_implementations,
    lower_call,
    lower_function,
    select_implementation,
    typed_function,
)
from tilewright.relay.backend.kernels.machine_code import scheduled
from tilewright.relay.backend.kernels.overlaps import overlapping_inputs
from tilewright.relay.backend.kernels.recorded import asks_records, recorded
from tilewright.relay.backend.kernels.tensor_facts import (
    KernelFacts,
    bytes_read,
    compute_ops,
    flops_of,
    in_place_inputs,
    multiply_adds_of,
    products_of,
)
from tilewright.relay.backend.kernels.tensor_graph import TensorGraph, placeholder_of, static_bytes, tensor_types
from tilewright.relay.backend.keys import compiler_digest, options_key, target_key
from tilewright.relay.backend.program_plan import kept_plans
from tilewright.relay.cards.card import OpCard
from tilewright.relay.expr import Call, Expr, Function, Var
from tilewright.relay.functor import post_order
from tilewright.relay.op.program.packed_layouts import auto_scheduler_layout_transform
from tilewright.relay.rewriting import card_of
from tilewright.scheduling.kernel_plan import KernelPlan
from tilewright.support import cache as disk
from tilewright.target import Target
from tilewright.tir.function import IN_PLACE
from tilewright.topi.planner import Planner
from tilewright.tuning.record import Record

__all__ = [
    "CCacheKey",
    "CCacheValue",
    "CachedFunc",
    "Kernel",
    "LoweredOutput",
    "TECompiler",
    "TensorGraph",
    "get",
    "get_shape",
    "get_valid_implementations",
    "lower_call",
    "lower_to_primfunc",
    "select_implementation",
]

NAME_LIMIT = 80


def source_of(func: Function) -> str:
    """The names of the model's nodes in a primitive function."""
    from tilewright.relay.texts import span_text

    names: dict[str, None] = {}
    for node in post_order(func.body):
        text = span_text(getattr(node, "span", None))
        if text:
            names[text] = None
    return ", ".join(names)


def is_told_by_relay(func: Function) -> bool:
    """Whether a kernel depends only on its relay program and this compiler: none of its operators has a compute, a strategy or a card that
    a program registered."""
    for node in post_order(func.body):
        if isinstance(node, Call):
            op = node.op
            if type(op) is not Op or not type(card_of(node)).__module__.startswith("tilewright."):
                return False
            if op.get_attr("FTVMCompute") is not None or op.get_attr("FTVMStrategy") is not None:
                return False
    return True


def kernel_name(cards: Sequence[OpCard]) -> str:
    """The name of the kernel of operators. Where weights were packed for a record, it is the same as without."""
    named = [c for c in cards if not isinstance(c, auto_scheduler_layout_transform)] or cards
    base = "_".join([type(c).type_key.replace(".", "_") for c in named]) or "copy"
    if len(base) > NAME_LIMIT:
        base = f"{base[:NAME_LIMIT]}_{structural_hash(tuple(named)) & 0xFFFF:04x}"
    # With a prefix, since kernels are C symbols, and `tanh` and `exp` are functions of the C library.
    return f"fused_{base}"


def _prim_func(
    graph: TensorGraph,
    name: str,
    shared: Sequence[int],
    sizes: Sequence[tir.Var],
    schedule: te.Schedule | None = None,
    args: Sequence[te.Tensor] = (),
) -> tir.PrimFunc:
    """The PrimFunc of a primitive function's tensors. It is unscheduled, unless the program gave a schedule. args: the parameters, if they
    are not those of the graph. shared: inputs whose memory the output may use."""
    attrs: dict[str, Any] = {"global_symbol": name, "tir.noalias": True}
    if schedule is not None:
        prim, attrs[IS_SCHEDULED] = schedule.to_prim_func(list(args) or [*graph.inputs, *graph.outputs]), True
    else:
        # Sizes have 64 bits. With indices of two widths, analysis would not see which are equal.
        prim = te.create_prim_func([*graph.inputs, *graph.outputs, *sizes], "int64" if sizes else None)
    if shared:
        # An output that uses an input's storage is an alias of it.
        attrs[IN_PLACE] = (*shared, len(graph.inputs))
    return prim.with_attr(attrs)


def composed(func: Function, name: str, shared: Sequence[int], target: Target, plan: KernelPlan | None) -> tir.PrimFunc:
    """The PrimFunc of a primitive function whose facts are known."""
    with deep_recursion(), target, plan or Planner():
        graph = TensorGraph(func)
        return _prim_func(graph, name, shared, (), graph.schedule_given(target))


class TECompiler:
    """Compiles primitive functions. Structurally equal ones are compiled once."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.kernels: dict[int, Kernel] = {}
        self.names: dict[str, int] = {}
        self.lowered: dict[CCacheKey, CCacheValue] = {}
        self.kept = kept_plans()

    def kernel(self, func: Function, sizes: Sequence[tir.Var] = ()) -> Kernel:
        """The kernel of a primitive function, unscheduled. sizes: the variables in its shapes."""
        key = structural_hash(func, map_free_vars=bool(sizes))
        found = self.kernels.get(key)
        if found is None:
            make = self._call_of if is_external(func) else self._make
            found = self.kernels[key] = make(func, sizes)
        return found

    def clear(self) -> None:
        """Empties the cache."""
        self.kernels.clear()
        self.names.clear()
        self.lowered.clear()

    def get_current_ccache_key(self, source_func: Function, target: Target | str | None = None) -> CCacheKey:
        """The cache key of a function for this compiler's target, or for `target`."""
        return CCacheKey(source_func, self.target if target is None else target)

    def lower(
        self, source_func: Function | CCacheKey, target: Target | str | None = None, mod_name: str = "default"
    ) -> CachedFunc:
        """The lowered form of a function of operators. Equal functions are lowered once. mod_name: accepted and ignored."""
        del mod_name
        key = source_func
        if not isinstance(key, CCacheKey):
            key = self.get_current_ccache_key(key, target)
        value = self.lowered.get(key)
        if value is None:
            maker = self if key.target is self.target else TECompiler(key.target)
            made = lower_function(typed_function(key.source_func), maker, key.target)
            value = self.lowered[key] = CCacheValue(made)
        value.use_count += 1
        return value.cached_func

    def jit(self, source_func: Function | CCacheKey, target: Target | str | None = None) -> Any:
        """The native code of a function of operators: `f(inputs..., outputs...)` on arrays."""
        from tilewright.driver import build

        made = self.lower(source_func, target)
        name = made.prim_fn_var.name_hint
        return build(
            IRModule({made.prim_fn_var: scheduled(made.prim_func, made.target, made.plan)}), target=made.target
        )[name]

    def items(self) -> list[tuple[CCacheKey, CCacheValue]]:
        """The lowered functions, with their keys."""
        return list(self.lowered.items())

    def _call_of(self, func: Function, sizes: Sequence[tir.Var]) -> Kernel:
        """A kernel that calls the external code of a function."""
        inputs = [
            placeholder_of(t, f"p{i}")
            for i, t in enumerate([t for p in func.params for t in tensor_types(p.checked_type)])
        ]
        results = tensor_types(func.body.checked_type)
        inputs, outputs = external_tensors(symbol_of(func), inputs, results)
        name = self._unique(f"call_{symbol_of(func)}")
        prim = te.create_prim_func([*inputs, *outputs, *sizes], "int64" if sizes else None)
        facts = KernelFacts(traffic=_argument_bytes(func, sizes))
        return Kernel(name, prim.with_attr("global_symbol", name), facts, source_of(func))

    def _make(self, func: Function, sizes: Sequence[tir.Var]) -> Kernel:
        with deep_recursion():
            cards = [card_of(n) for n in post_order(func.body) if isinstance(n, Call)]
            name = self._name(cards)
            found = self._found(func, name) if not sizes else None
            if found is not None:
                return found
            told = not sizes and isinstance(self.target, Target) and is_told_by_relay(func)
            digest = structural_digest(func) if told else None
            key = self._facts_key(digest) if digest is not None else ""
            stored = disk.get(key) if key else None
            plan, record = self._plan(digest, cards), self._record(digest)
            if stored is not None:
                facts = KernelFacts(*json.loads(stored))
                compose = lambda: composed(func, name, facts.shared, self.target, plan)  # noqa: E731
                return Kernel(name, compose, facts, source_of(func), digest, func, plan, record)
            with plan or Planner():
                graph = TensorGraph(func)
            ops = compute_ops(graph.outputs)
            in_place = in_place_inputs(graph.inputs, graph.outputs, ops)
            own = None if sizes else graph.schedule_given(self.target)
            # After the operators, since those without a kernel report that, and why, even if sizes are unknown.
            traffic = _argument_bytes(func, sizes)
            if traffic:
                traffic[: len(graph.inputs)] = bytes_read(graph.inputs, graph.outputs, ops)
            # Rules for pairs schedule line after line; those of others, and schedules that programs give, may not.
            ordered = own is None and traffic and isinstance(self.target, Target) and self.target.cpu.pairs
            overlaps = overlapping_inputs(graph.inputs, graph.outputs, ops) if ordered else ()
            facts = KernelFacts(flops_of(ops), products_of(ops), traffic, in_place, multiply_adds_of(ops), overlaps)
            prim = _prim_func(graph, name, facts.shared, sizes, own)
            if key:
                disk.put(key, json.dumps(facts).encode())
            return Kernel(name, prim, facts, source_of(func), digest, func, plan, record)

    def _found(self, func: Function, name: str) -> Kernel | None:
        """A kernel as a database of meta_schedule or the records of auto_scheduler in use schedule it; None where none is in use, or has no
        record of it."""
        database = database_in_use()
        if database is None and not asks_records() or not isinstance(self.target, Target):
            return None
        with self.target, Planner():
            graph = TensorGraph(func)
        prim = None
        if database is not None and is_told_by_relay(func):
            prim = scheduled_by(database, _prim_func(graph, name, (), ()), name, self.target)
        found = recorded(graph, func, name, self.target) if prim is None else None
        if found is not None:
            prim = _prim_func(graph, name, (), (), *found)
        if prim is None:
            return None
        ops, traffic = compute_ops(graph.outputs), _argument_bytes(func, ())
        traffic[: len(graph.inputs)] = bytes_read(graph.inputs, graph.outputs, ops)
        # No output takes the storage of an input: a schedule may read elements again after it wrote others.
        facts = KernelFacts(flops_of(ops), products_of(ops), traffic)
        return Kernel(name, prim, facts, source_of(func), None, func)

    def _plan(self, digest: bytes | None, cards: Sequence[OpCard]) -> KernelPlan | None:
        """A new plan with the decisions that the kernel's operators hold, or those in the file of the option `relay.plans`; None if the
        target's back end takes no schedules."""
        if back_end_of(self.target).rules == NO_RULES:
            return None
        given = {k: v for c in cards if (text := getattr(c, "decisions", "")) for k, v in json.loads(text).items()}
        if digest is not None and self.kept is not None:
            given |= self.kept.find(digest.hex(), self.target.text_for_all)
        return KernelPlan(self.target, given)

    def _record(self, digest: bytes | None) -> Record | None:
        """The record that the decisions of `_plan` come from."""
        if digest is None or self.kept is None or back_end_of(self.target).rules == NO_RULES:
            return None
        return self.kept.record(digest.hex(), self.target.text_for_all)

    def _facts_key(self, digest: bytes) -> str:
        return disk.key("facts", compiler_digest(), target_key(self.target), options_key(), digest)

    def _name(self, cards: Sequence[OpCard]) -> str:
        return self._unique(kernel_name(cards))

    def _unique(self, base: str) -> str:
        count = self.names.get(base, 0)
        self.names[base] = count + 1
        return f"{base}_{count}" if count else base


def _argument_bytes(func: Function, sizes: Sequence[tir.Var]) -> list[int]:
    """The bytes of a kernel's inputs and outputs; empty if it has `sizes`. Raises TVMError for other dynamic dimensions."""
    if sizes:
        return []
    return [static_bytes(t) for e in (*func.params, func.body) for t in tensor_types(e.checked_type)]


def get() -> TECompiler:
    """A compiler for the current target. Classic programs clear its cache; builds have compilers of their own."""
    return TECompiler(Target.current(True) or Target("llvm"))


def lower_to_primfunc(relay_func: Function, target: Target | str) -> tir.PrimFunc:
    """The unscheduled PrimFunc of a relay function."""
    chosen = Target(target) if isinstance(target, str) else target
    with deep_recursion(), chosen:
        return TECompiler(chosen).kernel(typed_function(relay_func)).func.with_attr("target", chosen)


def is_view(func: Function) -> bool:
    """Whether a primitive function only changes the shape. It needs no kernel, since the result is the input's memory."""
    return not is_external(func) and func.body is not (node := without_reshapes(func.body)) and isinstance(node, Var)


def without_reshapes(e: Expr) -> Expr:
    """The expression without the reshapes around it."""
    while isinstance(e, Call) and type(e.op) is Op and e.op.name in ("reshape", "squeeze", "expand_dims"):
        e = e.args[0]
    return e
