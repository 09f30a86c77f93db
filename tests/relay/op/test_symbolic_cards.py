"""Operator cards: type rules with symbolic shapes against static ones, expansions against references, attributes as JSON."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay_op.test_cards import WITHOUT_SAMPLES
from tilewright import relay
from tilewright.ir import TensorType, TupleType, Type
from tilewright.node import assert_structural_equal, load_json, save_json
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.cards.card import OpCard, TypeRuleError, cards
from tilewright.relay.cards.relations import dims, may_equal
from tilewright.relay.transform import infer_types
from tilewright.tir import Any as AnyDim

SAMPLES = [
    pytest.param(key, card, sample, id=f"{key}-{i}")
    for key, card in sorted(cards().items())
    for i, sample in enumerate(card.samples)
]


def make_input(spec: Any, rng: np.random.Generator) -> Any:
    """An array, or a tuple of arrays, from an input of a sample."""
    if isinstance(spec, list):
        return tuple([make_input(s, rng) for s in spec])
    if isinstance(spec, np.ndarray):
        return spec
    if callable(spec):
        return spec(rng)
    shape, dtype = spec if len(spec) == 2 and isinstance(spec[1], str) else (spec, "float32")
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if np.issubdtype(numpy_dtype(dtype), np.integer):
        return rng.integers(0, 8, shape).astype(dtype)
    return rng.standard_normal(shape).astype(numpy_dtype(dtype))


def type_of(value: Any) -> Type:
    if isinstance(value, tuple):
        return TupleType(tuple([type_of(v) for v in value]))
    return TensorType(value.shape, value.dtype.name)


def flat(value: Any) -> list[Any]:
    return [x for v in value for x in flat(v)] if isinstance(value, (tuple, list)) else [value]


@pytest.mark.parametrize(("key", "card", "sample"), SAMPLES)
def test_expansion_and_json(key: str, card: type[OpCard], sample: Any) -> None:
    rng = np.random.default_rng(7)
    specs, attrs = sample
    inputs = [make_input(s, rng) for s in specs]
    params = [relay.var(f"x{i}", type_of(v)) for i, v in enumerate(inputs)]
    call = card.call(params, attrs)
    call = getattr(call, "tuple_value", call)
    infer_types(call)
    assert_structural_equal(load_json(save_json(call.attrs)), call.attrs)
    if not card.expands():
        return
    expanded = call.attrs.expand(*params)
    function = relay.Function(params, getattr(expanded, "tuple_value", expanded))
    got = flat(relay.create_executor("debug", relay.IRModule.from_expr(function)).evaluate()(*inputs))
    for g, w in zip(got, flat(call.attrs.ref(*inputs)), strict=False):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("key", "card", "sample"), SAMPLES)
def test_dynamic_shapes_agree_with_static(key: str, card: type[OpCard], sample: Any) -> None:
    rng = np.random.default_rng(7)
    specs, attrs = sample
    types = [type_of(make_input(s, rng)) for s in specs]
    first = types[0] if types else None
    if not isinstance(first, TensorType):
        return
    params = [relay.var(f"x{i}", t) for i, t in enumerate(types)]
    call = card.call(params, attrs)
    attributes = getattr(call, "tuple_value", call).attrs
    static = attributes.infer(*types)
    for axis in range(len(first.shape)):
        shape = list(first.shape)
        shape[axis] = AnyDim()
        try:
            dynamic = attributes.infer(TensorType(tuple(shape), first.dtype), *types[1:])
        except TypeRuleError as error:
            assert "known" in str(error) or "static" in str(error), str(error)
            continue
        statics, dynamics = (flat(t.fields) if isinstance(t, TupleType) else [t] for t in (static, dynamic))
        for s, d in zip(statics, dynamics, strict=True):
            assert s.dtype == d.dtype
            assert len(s.shape) == len(d.shape)
            assert all(may_equal(a, b) for a, b in zip(dims(s), dims(d), strict=True)), f"{static} against {dynamic}"


@pytest.mark.parametrize("key", sorted(cards()))
def test_every_card_has_samples_and_a_docstring(key: str) -> None:
    card = cards()[key]
    assert card.samples or key in WITHOUT_SAMPLES, f"{key} has no samples"
    assert card.__doc__
