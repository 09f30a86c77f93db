"""Every operator card: its type rule against its NumPy reference, and its compute against both."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tilewright import relay, te
from tilewright.ir import TensorType, TupleType, Type
from tilewright.relay.cards.card import OpCard, cards
from tilewright.relay.cards.relations import dims, may_equal
from tilewright.relay.op.data_dependent.counted import is_counted
from tilewright.relay.op.data_dependent.dynamic import Dynamic
from tilewright.relay.typing.infer_type import infer_types


def make_input(spec: Any, rng: np.random.Generator) -> Any:
    """An input of a sample as an array (or a tuple of arrays)."""
    if isinstance(spec, np.ndarray):
        return spec
    if callable(spec):
        return spec(rng)
    if isinstance(spec, list):
        return tuple([make_input(s, rng) for s in spec])
    shape, dtype = spec if len(spec) == 2 and isinstance(spec[1], str) else (spec, "float32")
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if "int" in dtype:
        return rng.integers(-9, 10, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def samples() -> Iterator[Any]:
    """(card class, inputs, attributes) of every sample."""
    for key, card in sorted(cards().items()):
        for k, (inputs, attrs) in enumerate(card.samples):
            yield pytest.param(card, inputs, attrs, id=f"{key}-{k}")


def prepare(card: type[OpCard], inputs: Any, attrs: Any) -> tuple[Any, list[Any], Type]:
    """The call's attributes (a card instance), its input arrays and its inferred type."""
    rng = np.random.default_rng(zlib.crc32(card.type_key.encode()))
    arrays = [make_input(s, rng) for s in inputs]
    call = card.call([[relay.const(a) for a in x] if isinstance(x, tuple) else relay.const(x) for x in arrays], attrs)
    if not isinstance(call, relay.Expr):
        call = call.tuple_value
    t = infer_types(call)
    if isinstance(call.attrs, Dynamic):
        # What its result is like, only values say.
        static, kept = call.attrs.on_arrays(arrays)
        t = static.infer(*[TensorType(a.shape, a.dtype.name) for a in kept])
    if is_counted(call.attrs):
        assert all(map(is_known_part, fields(t), results(call.attrs.ref(*arrays))))
        t = TupleType(tuple([TensorType(r.shape, r.dtype.name) for r in results(call.attrs.ref(*arrays))]))
    return call.attrs, arrays, t


def is_known_part(t: TensorType, value: np.ndarray) -> bool:
    """Whether an array has what a type says of it."""
    return len(t.shape) == value.ndim and all(map(may_equal, dims(t), value.shape))


def fields(t: Type) -> list[TensorType]:
    return list(t.fields) if isinstance(t, TupleType) else [t]  # type: ignore[list-item]


def results(value: Any) -> list[np.ndarray]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def evaluate(attrs: OpCard, arrays: list[Any], types: list[TensorType]) -> list[np.ndarray]:
    """The card's compute, run by the interpreter."""
    if isinstance(attrs, Dynamic):
        return evaluate(*attrs.on_arrays(arrays), types)
    from tilewright.codegen import interp

    leaves: list[te.Tensor] = []
    values: list[np.ndarray] = []

    def leaf(x: np.ndarray) -> te.Tensor:
        t = te.placeholder(x.shape, x.dtype.name, name=f"p{len(leaves)}")
        leaves.append(t)
        values.append(np.array(x, order="C"))  # ascontiguousarray would make a scalar 1-D
        return t

    args = [[leaf(a) for a in x] if isinstance(x, tuple) else leaf(x) for x in arrays]
    found = results(attrs.compute(*args))
    outs = [np.zeros(t.concrete_shape, str(t.dtype)) for t in types]
    for k, t in enumerate(found):
        if any([t is leaf_ for leaf_ in leaves]):
            outs[k][...] = values[[t is leaf_ for leaf_ in leaves].index(True)]
    computed = [k for k, t in enumerate(found) if not any([t is leaf_ for leaf_ in leaves])]
    func = te.create_prim_func([*leaves, *[found[k] for k in computed]])
    interp.run(func, [*values, *[outs[k] for k in computed]])
    for t, want in zip(found, types, strict=True):
        assert tuple(int(d) for d in t.shape) == want.concrete_shape
        assert t.dtype == want.dtype
    return outs


@pytest.mark.parametrize("card, inputs, attrs", list(samples()))
def test_type_agrees_with_reference(card: type[OpCard], inputs: Any, attrs: Any) -> None:
    call_attrs, arrays, t = prepare(card, inputs, attrs)
    found = results(call_attrs.ref(*arrays))
    assert len(found) == len(fields(t))
    for value, want in zip(found, fields(t), strict=True):
        assert value.shape == want.concrete_shape
        assert value.dtype.name == want.dtype


@pytest.mark.parametrize("card, inputs, attrs", list(samples()))
def test_compute_agrees_with_reference(card: type[OpCard], inputs: Any, attrs: Any) -> None:
    call_attrs, arrays, t = prepare(card, inputs, attrs)
    if is_counted(call_attrs):
        # Its kernel is an operator of its own; the virtual machine runs both.
        return
    wanted = results(call_attrs.ref(*arrays))
    for got, want in zip(evaluate(call_attrs, arrays, fields(t)), wanted, strict=True):
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=card.tolerance * 10, atol=card.tolerance)
        else:
            np.testing.assert_array_equal(got, want)


WITHOUT_SAMPLES = {
    "call_lowered", "debug", "dyn.host.call", "host.call", "host.draw", "memory.alloc_storage", "memory.alloc_tensor", "memory.kill",
    "vm.invoke_tvm_op", "vm.shape_func",
}  # fmt: skip
"""Those that take a function or memory, which no sample is, and the one that stops in a debugger."""


def test_every_card_has_samples() -> None:
    assert {key for key, card in cards().items() if not card.samples} == WITHOUT_SAMPLES
