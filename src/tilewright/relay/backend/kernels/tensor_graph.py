"""TE graph of a primitive function, composed of the computes of its operators."""

from __future__ import annotations

from typing import Any

from tilewright import te, tir, topi
from tilewright.codegen.backend import back_end_of
from tilewright.ir import IntImm, Op, TensorType, TupleType, Type
from tilewright.relay.cards.card import OpCard
from tilewright.relay.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem
from tilewright.relay.functor import post_order
from tilewright.relay.op.op import registered_compute
from tilewright.relay.rewriting import card_of
from tilewright.relay.texts import type_text
from tilewright.support.errors import TVMError
from tilewright.target import Target


def tensor_types(t: Type) -> list[TensorType]:
    """The tensor types in a type, with tuples flattened."""
    if isinstance(t, TupleType):
        return [x for f in t.fields for x in tensor_types(f)]
    if isinstance(t, TensorType):
        return [t]
    raise TVMError(f"only tensors and tuples of them can be passed to kernels, but {type_text(t)} was found")


MOST_BYTES = 1 << 47
"""The most bytes of a tensor: the size of a process's address space."""


def static_bytes(t: TensorType) -> int:
    """The size of a tensor in bytes. Raises TVMError for a dynamic dimension, and for more than MOST_BYTES."""
    size = t.dtype.bytes
    for d in t.shape:
        if not isinstance(d, IntImm):
            raise TVMError(
                f"{type_text(t)} has a dimension that is not known, but ahead-of-time code has fixed sizes. Pin the shapes of the"
                " model's inputs (shape={'input': (1, 3, 224, 224)} of its importer, --shape input=1,3,224,224 on the command line)"
            )
        size *= d.value
    if size > MOST_BYTES:
        raise TVMError(
            f"{type_text(t)} has {size} bytes, more than any machine can address ({MOST_BYTES}). Is one of the shapes of"
            " the model or of its inputs wrong?"
        )
    return size


def is_static(t: TensorType) -> bool:
    """Whether all dimensions are static."""
    return all([isinstance(d, IntImm) for d in t.shape])


def placeholder_of(t: TensorType, name: str) -> te.Tensor:
    if is_static(t):
        static_bytes(t)
    return te.placeholder(t.shape, dtype=t.dtype, name=name)


def _scalar(c: Constant) -> te.Tensor:
    if c.value.size != 1:
        raise TVMError(f"a kernel takes a constant of shape {c.value.shape} as an argument, not in its function")
    value = c.value.reshape(-1)[0].item()
    return te.compute((), lambda: tir.const(value, c.data.dtype.name), name="constant", tag="injective")


class TensorGraph:
    """The tensors of a primitive function. inputs: placeholders in the order of the parameters; outputs: the results."""

    def __init__(self, func: Function) -> None:
        self.inputs: list[te.Tensor] = []
        self.values: dict[Expr, Any] = {}
        self.schedules: list[tuple[OpCard, Any]] = []
        for p in func.params:
            self.values[p] = self._parameter(p.checked_type, p.name_hint)
        for node in post_order(func.body):
            if node not in self.values:
                self.values[node] = self._value(node)
        result = self.values[func.body]
        self.outputs: list[te.Tensor] = list(_flat(result))
        self._separate_outputs()

    def _parameter(self, t: Type, name: str) -> Any:
        if isinstance(t, TupleType):
            return [self._parameter(f, f"{name}_{i}") for i, f in enumerate(t.fields)]
        assert isinstance(t, TensorType)
        tensor = placeholder_of(t, name)
        self.inputs.append(tensor)
        return tensor

    def _value(self, node: Expr) -> Any:
        if isinstance(node, Constant):
            return _scalar(node)
        if isinstance(node, Tuple):
            return [self.values[f] for f in node.fields]
        if isinstance(node, TupleGetItem):
            return self.values[node.tuple_value][node.index]
        if isinstance(node, Call) and type(node.op) is Op:
            inputs, card = [self.values[a] for a in node.args], card_of(node)
            given = registered_compute(node.op, card, inputs, node.checked_type)
            if given is None:
                if type(card).schedule is not OpCard.schedule:
                    self.schedules.append((card, type(card).schedule))
                return _of_type(card.compute(*inputs), node.checked_type)
            if given.schedule is not None:
                self.schedules.append((card, given.schedule))
            return _of_type(given.results, node.checked_type)
        raise TVMError(f"a primitive function cannot hold {type(node).__name__}:\n{node}")

    def schedule_given(self, target: Target) -> te.Schedule | None:
        """The schedule by the card of the anchor or by the function that a program registered for it; without one, or if it changes no
        stage, that of the target's back end, or None."""
        return self._registered_schedule(target) or back_end_of(target).schedule(self.outputs, target)

    def _registered_schedule(self, target: Target) -> te.Schedule | None:
        if not self.schedules:
            return None
        card, schedule = max(self.schedules, key=lambda found: found[0].fuse)
        made = schedule(card, list(self.outputs), target)
        return made if isinstance(made, te.Schedule) and not made.is_plain else None

    def _separate_outputs(self) -> None:
        """Copies outputs that are inputs, or that are the same tensor, since every output needs a buffer of its own."""
        seen = set(self.inputs)
        for i, t in enumerate(self.outputs):
            if t in seen:
                t = te.compute(t.shape, lambda *ix, t=t: t(*ix), name="copy", tag="injective")
                self.outputs[i] = t
            seen.add(t)


def _of_type(value: Any, t: Type) -> Any:
    """The tensors that an operator computes, converted to the elements of its result's type: buffers are made by the type, and some
    functions compute integers as floats (exp, softmax)."""
    if isinstance(value, (list, tuple)):
        fields = t.fields if isinstance(t, TupleType) else (t,)
        return [_of_type(v, f) for v, f in zip(value, fields, strict=True)]
    return topi.cast(value, str(t.dtype)) if isinstance(t, TensorType) and value.dtype != t.dtype else value


def _flat(value: Any) -> list[te.Tensor]:
    return [t for v in value for t in _flat(v)] if isinstance(value, (list, tuple)) else [value]
