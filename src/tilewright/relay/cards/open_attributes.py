"""Attributes that are expressions over the sizes of tensors: finding, rewriting and evaluating them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.ir import FloatImm, IntImm, PrimExpr, TensorType, TupleType, Type
from tilewright.relay.cards.card import OpCard
from tilewright.relay.cards.relations import simplest
from tilewright.tir import Var as SizeName
from tilewright.tir.stmt_functor import substitute


def has_sizes(value: Any) -> bool:
    """Whether an attribute, or any attribute of a card, is an expression over sizes."""
    if isinstance(value, OpCard):
        return any([has_sizes(getattr(value, f.name)) for f in value._fields])
    return _is_size(value) or isinstance(value, (tuple, list)) and any(map(has_sizes, value))


def _is_size(value: Any) -> bool:
    return isinstance(value, PrimExpr) and not isinstance(value, (IntImm, FloatImm))


def sizes_in(value: Any) -> list[PrimExpr]:
    """The expressions over sizes in an attribute, or in all attributes of a card."""
    if isinstance(value, OpCard):
        return [e for f in value._fields for e in sizes_in(getattr(value, f.name))]
    if isinstance(value, (tuple, list)):
        return [e for v in value for e in sizes_in(v)]
    return [value] if _is_size(value) else []


def map_sizes(card: OpCard, f: Callable[[PrimExpr], PrimExpr]) -> OpCard:
    """The card with f applied to each expression over sizes."""

    def mapped(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return tuple([mapped(v) for v in value])
        return f(value) if _is_size(value) else value

    changes = {x.name: mapped(getattr(card, x.name)) for x in card._fields if has_sizes(getattr(card, x.name))}
    return card.replace(**changes)


def name_sizes(t: Type | None, value: Any, names: dict[SizeName, IntImm]) -> None:
    """Records the values of the variables in the dimensions of a value's type."""
    if isinstance(t, TupleType):
        for field, part in zip(t.fields, value, strict=True):
            name_sizes(field, part, names)
    elif isinstance(t, TensorType) and any([isinstance(d, SizeName) for d in t.shape]):
        found = zip(t.shape, value.shape, strict=True)
        names.update({d: IntImm(d.dtype, n) for d, n in found if isinstance(d, SizeName)})


def with_sizes(card: OpCard, names: Mapping[SizeName, IntImm]) -> OpCard:
    """The card with numbers in place of the expressions whose sizes are known."""

    def known(e: PrimExpr) -> Any:
        found = simplest(substitute(e, dict(names)))
        return found.value if isinstance(found, IntImm) else found

    return map_sizes(card, known) if has_sizes(card) else card
