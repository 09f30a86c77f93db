"""Counts of the arithmetic operations of a program, call by call, without compiling it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilewright.ir import IRModule, Op, TensorType
from tilewright.node import deep_recursion, structural_hash
from tilewright.relay import qnn
from tilewright.relay.analysis.programs import multiply_accumulates
from tilewright.relay.backend.kernels.tensor_facts import compute_ops, flops_of
from tilewright.relay.backend.kernels.tensor_graph import TensorGraph, is_static, tensor_types
from tilewright.relay.cards.card import OpCard
from tilewright.relay.expr import Call, Constant, Expr, Function, Var
from tilewright.relay.functor import post_order
from tilewright.relay.texts import span_text, type_text
from tilewright.support.errors import TVMError


class CallWork:
    """One call of an operator. operator: its name; node: the name of the model's node, or ""; flops: its operations, or None for dynamic
    dimensions and operators without a formula."""

    __slots__ = ("flops", "node", "operator")

    def __init__(self, operator: str, node: str, flops: int | None) -> None:
        self.operator, self.node, self.flops = operator, node, flops


def work_of(mod: IRModule) -> list[CallWork]:
    """The operations of each call of an operator in a typed module. Bodies of loops and branches are counted once.

    Convolutions and products count twice their multiply-accumulates, in any number type. Other operators count the floating-point
    operations of their computes: one for each sum, product, quotient, minimum, maximum and function, and one for each element of a
    reduction. Operators that only move data count 0. Quantised operators count like the float operators that they stand for.
    """
    mod = qnn.transform.CanonicalizeOps()(qnn.transform.Legalize()(mod))
    known: dict[Any, int | None] = {}
    with deep_recursion():
        return [CallWork(call.operator.name, span_text(call.span), _counted(call, known)) for call in _calls(mod)]


def _calls(mod: IRModule) -> Iterator[Call]:
    for f in mod.functions.values():
        if isinstance(f, Function):
            yield from [e for e in post_order(f) if isinstance(e, Call) and isinstance(e.op, Op)]


def _counted(call: Call, known: dict[Any, int | None]) -> int | None:
    """`flops`, cached for equal calls."""
    types = [type_text(a.checked_type) for a in call.args]
    key = (call.operator.name, structural_hash(call.attrs), *types)
    if key not in known:
        known[key] = flops(call)
    return known[key]


def flops(call: Call) -> int | None:
    """The operations of one typed call of an operator; None for dynamic dimensions and operators without a formula."""
    card = call.attrs
    if not isinstance(card, OpCard):
        return None
    types = [t for e in (call, *call.args) for t in _tensors(e)]
    if not types or not all(map(is_static, types)):
        return None
    products = multiply_accumulates(call)
    if products:
        return 2 * products
    params = [Var(f"p{i}", a.checked_type) for i, a in enumerate(call.args)]
    single = [isinstance(a, Constant) and not a.value.ndim for a in call.args]
    args = [a if alone else p for a, p, alone in zip(call.args, params, single, strict=True)]
    try:
        graph = TensorGraph(
            Function([p for p, alone in zip(params, single, strict=True) if not alone], _typed(call, args))
        )
        return flops_of(compute_ops(graph.outputs))
    except TVMError:
        return None


def _typed(call: Call, args: list[Expr]) -> Call:
    """The call with other operands of the same types."""
    from tilewright.relay.typing.infer_type import infer_types

    made = Call(call.op, tuple(args), call.attrs, call.given_types)
    infer_types(made)
    return made


def _tensors(e: Expr) -> list[TensorType]:
    try:
        return tensor_types(e.checked_type)
    except TVMError:
        return []
