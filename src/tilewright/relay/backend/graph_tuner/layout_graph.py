"""The layouts in a model as a problem of choices: operators choose records, and where a value is needed in another layout than it has,
it is converted.

What a build does decides where: values keep the layout of the operator that made them through element-wise operators and others that
have a rule for layouts. An operator of several values has the layout of the first; the others are converted. The model's inputs and
results, and operators without a rule, are plain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tilewright.autotvm.task.workload import args_to_workload
from tilewright.ir import Op
from tilewright.relay.cards.card import BROADCAST, OpCard
from tilewright.relay.expr import Call, Expr, Function, Tuple, TupleGetItem, Var
from tilewright.relay.functor import post_order
from tilewright.relay.rewriting import card_of, static_shape
from tilewright.relay.transform.operators.template_calls import candidates
from tilewright.target import Target

PLAIN = -1
"""In place of the number of an operator: what is in the plain layout."""


class Node(NamedTuple):
    """An operator that chooses a record. workloads: of the templates that it has."""

    call: Call
    workloads: tuple[tuple[Any, ...], ...]


class Conversion(NamedTuple):
    """A value (N, C, H, W) of the operator `source` that is needed as the data of `reader`, or, if like is True, in the layout of its
    result. Either can be PLAIN."""

    source: int
    reader: int
    shape: tuple[int, ...]
    like: bool


class LayoutGraph:
    """nodes: the operators, in the order in which a build asks for their configurations. conversions: where values may be converted."""

    def __init__(self, func: Function, inputs: Sequence[str], ops: Sequence[Op], target: Target) -> None:
        self.nodes: list[Node] = []
        self.conversions: list[Conversion] = []
        self._sources: dict[Expr, int] = {}
        named = set(inputs)
        for e in post_order(func.body):
            if isinstance(e, Var) and e.name_hint in named:
                self._sources[e] = PLAIN
            elif isinstance(e, Call) and type(e.op) is Op:
                self._call(e, ops, target)
            elif isinstance(e, TupleGetItem) and e.tuple_value in self._sources:
                self._sources[e] = self._sources[e.tuple_value]
        self._convert(func.body, PLAIN)

    def _call(self, call: Call, ops: Sequence[Op], target: Target) -> None:
        values = [f for a in call.args for f in (a.fields if isinstance(a, Tuple) else (a,)) if f in self._sources]
        found = tuple([args_to_workload(args, name) for name, args in candidates(call, target)])
        if call.op in ops and found and values:
            self.nodes.append(Node(call, found))
            self._sources[call] = len(self.nodes) - 1
            self._convert(call.args[0], self._sources[call])
        elif values:
            self._sources[call] = self._passed_on(call, values)

    def _passed_on(self, call: Call, values: Sequence[Expr]) -> int:
        """The operator whose layout the result of another operator has."""
        card = card_of(call)
        rule = type(card).layout_rule is not OpCard.layout_rule
        elementwise = card.fuse <= BROADCAST and not hasattr(card, "axis")
        if not (rule or elementwise) or len(static_shape(call) or ()) != 4:
            for value in values:
                self._convert(value, PLAIN)
            return PLAIN
        images = [v for v in values if len(static_shape(v) or ()) == 4]
        first = next((s for v in images if (s := self._sources[v]) != PLAIN), PLAIN)
        for value in images:
            self._convert(value, first, like=True)
        return first

    def _convert(self, value: Expr, reader: int, like: bool = False) -> None:
        if isinstance(value, Tuple):
            for field in value.fields:
                self._convert(field, reader, like)
            return
        source, shape = self._sources.get(value), static_shape(value)
        if source is not None and shape is not None and len(shape) == 4 and (source, like) != (reader, True):
            self.conversions.append(Conversion(source, reader, shape, like))
