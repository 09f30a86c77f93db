"""Every operator with sizes known only at run time: compiled for unknown dimensions, run on those of its samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.test_symbolic_cards import SAMPLES, flat, make_input, type_of
from tilewright import relay
from tilewright.ir import TensorType, TupleType, Type
from tilewright.relay.backend.vm import compile
from tilewright.relay.op.card import OpCard, argument_names
from tilewright.relay.op.dynamic import Dynamic
from tilewright.runtime.container import ADT
from tilewright.runtime.vm import VirtualMachine
from tilewright.support.errors import DiagnosticError
from tilewright.tir import Any as AnyDim

NEEDED = ("must be known", "must be given", "must name", "constant")
"""Words of errors that say that a dimension has to be known."""


def unknown(t: Type, axes: int | None = None) -> Type:
    """The type with unknown dimensions: all, or the first `axes` of each tensor."""
    if isinstance(t, TupleType):
        return TupleType(tuple([unknown(f, axes) for f in t.fields]))
    assert isinstance(t, TensorType)
    shape = [AnyDim() if axes is None or i < axes else d for i, d in enumerate(t.shape)]
    return TensorType(tuple(shape), t.dtype)


def compiled(card: type[OpCard], attrs: Any, types: list[Type], inputs: list[Any]) -> VirtualMachine:
    """The operator compiled for these types; what must be constant is."""
    params = [relay.var(f"x{i}", t) for i, t in enumerate(types)]
    fixed = card.constant if issubclass(card, Dynamic) else ()
    names = argument_names(card)[0]
    args = [relay.const(inputs[i]) if fixed and names[i] in fixed else p for i, p in enumerate(params)]
    call = card.call(args, attrs)
    function = relay.Function(params, getattr(call, "tuple_value", call))
    return VirtualMachine(compile(relay.IRModule.from_expr(function), "llvm"))


@pytest.mark.parametrize(("key", "card", "sample"), SAMPLES)
def test_dynamic(key: str, card: type[OpCard], sample: Any) -> None:
    rng = np.random.default_rng(7)
    specs, attrs = sample
    inputs = [make_input(s, rng) for s in specs]
    types = [type_of(v) for v in inputs]
    try:
        vm = compiled(card, attrs, [unknown(t) for t in types], inputs)
    except DiagnosticError as error:
        # Some extents decide what is computed (a window, a panel): then only the first, of the first tensor, is unknown.
        assert any([words in str(error) for words in NEEDED]), str(error)
        try:
            vm = compiled(card, attrs, [unknown(t, 0 if i else 1) for i, t in enumerate(types)], inputs)
        except DiagnosticError as again:
            assert any([words in str(again) for words in NEEDED]), str(again)
            return
    result = vm.run(*[list(v) if isinstance(v, tuple) else v for v in inputs])
    call = card.call([relay.var("x", t) for t in types], attrs)
    wanted = flat(getattr(call, "tuple_value", call).attrs.ref(*inputs))
    for got, want in zip(list(result) if isinstance(result, ADT) else [result], wanted, strict=False):
        assert got.shape == np.shape(want)
        np.testing.assert_allclose(
            got.numpy().astype("float64"), np.asarray(want).astype("float64"), rtol=1e-4, atol=1e-5
        )
