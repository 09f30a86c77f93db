"""The value of one call of an operator, by its card's reference; and what to say of values that the operator refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.ir import DataType, IntImm, TensorType, TupleType, Type
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.cards.card import OpCard, TypeRuleError, argument_names, find_card
from tilewright.relay.cards.open_attributes import with_sizes
from tilewright.relay.expr import Call
from tilewright.relay.texts import span_text
from tilewright.relay.typing.findings import call_text
from tilewright.relay.typing.open_types import type_of
from tilewright.support.errors import TVMError
from tilewright.tir import Var as SizeName

Value = Any
"""An ndarray or a tuple of values; the interpreter has more kinds."""


def run_card(e: Call, args: Sequence[Value], sizes: Mapping[SizeName, IntImm] | None = None) -> Value:
    """The reference of the called operator on values, in the dtypes that inference found. `sizes` are those that attributes may name."""
    card = e.attrs if isinstance(e.attrs, OpCard) else find_card(e.operator.name)()
    if sizes:
        card = with_sizes(card, sizes)
    try:
        with np.errstate(all="ignore"):
            result = card.ref(*args)
    except TVMError:
        raise
    except (ValueError, TypeError, IndexError, ArithmeticError, MemoryError) as error:
        raise misfit(e, card, args, error) from None
    if isinstance(result, (tuple, list)):
        return tuple([np.asarray(r) for r in result])
    t = type_of(e)
    dtype = numpy_dtype(t.dtype) if isinstance(t, TensorType) else None
    return np.asarray(result, dtype)


def misfit(e: Call, card: OpCard, args: Sequence[Value], error: Exception) -> TVMError:
    """A message about values that an operator refuses: the broken type rule, if there is one."""
    types = [value_type(a) for a in args]
    try:
        card.infer(*types)
        finding = f"{type(error).__name__}: {error}"
    except TypeRuleError as rule:
        finding = str(rule)
    except (ValueError, TypeError, IndexError, AttributeError):
        finding = f"{type(error).__name__}: {error}"
    where = span_text(e.span)
    name = e.operator.name
    text = call_text(e, argument_names(type(card))[0], types)
    return TVMError(f"{where + ': ' if where else ''}{name} cannot be evaluated here: {finding}\n{text}")


def value_type(value: Value) -> Type:
    """The type of a tensor or a tuple of tensors."""
    if isinstance(value, tuple):
        return TupleType(tuple([value_type(v) for v in value]))
    array = np.asarray(value)
    return TensorType(array.shape, DataType(array.dtype.name))
