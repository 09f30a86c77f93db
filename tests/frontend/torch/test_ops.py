"""Every converter of PyTorch's operators against PyTorch: numbers, shapes and element types, by the reference interpreter."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import torch

from tests.frontend.torch.ops.indexing import KNOWN, SEGMENTS
from tests.frontend.torch.ops.making import SHAPES
from tests.frontend.torch.ops.matrices import FIRST as FACTORS
from tilewright.relay.evaluation.interpreter import run_function
from tilewright.relay.expr import Function, Tuple
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.dtypes import dtype_name, tensor_array
from tilewright.relay.frontend.pytorch.importer import Importer
from tilewright.relay.frontend.pytorch.value import Complex, find_converter

FAMILIES = ("elementwise", "reductions", "layout", "indexing", "layers", "making", "complexes", "matrices")


def samples() -> list[Any]:
    found = []
    for family in FAMILIES:
        for k, (name, *rest) in enumerate(importlib.import_module(f"tests.frontend.torch.ops.{family}").SAMPLES):
            found.append(pytest.param(name, rest[0], rest[1] if len(rest) > 1 else {}, id=f"{name}-{family}{k}"))
    return found


def operator(name: str) -> Any:
    """torch.ops.aten.add.Tensor from "add.Tensor"; the default overload needs no name."""
    short, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, short), overload or "default")


def convert(
    op: Any, args: Any, kwargs: Any, fold: bool = False, first: bool = False
) -> tuple[Any, Importer, list[Any]]:
    """(what the converter answers, the importer, the tensors among the arguments); `fold`: integers are known."""
    home = Importer("the sample", "float32", None, False)
    given: list[Any] = []

    def as_input(x: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.is_complex():
            return Complex(as_input(x.real.clone()), as_input(x.imag.clone()))
        if isinstance(x, torch.Tensor):
            if fold and x.dtype in (torch.int64, torch.bool):
                return Value(array=tensor_array(x))
            given.append(tensor_array(x))
            return home.input(f"x{len(given)}", x.shape, dtype_name(x.dtype))
        if isinstance(x, (list, tuple)):
            return [as_input(v) for v in x]
        return x

    plain = [as_input(a) for a in args]
    named = {k: as_input(v) for k, v in kwargs.items()}
    schema = op._schema

    def used(k: int) -> bool:
        return k == 0 or not first

    return home.convert(schema.name, schema.overload_name, "sample", schema, plain, named, used), home, given


def leaves(x: Any) -> list[Any]:
    if isinstance(x, Complex) or isinstance(x, torch.Tensor) and x.is_complex():
        return [x.real, x.imag]
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, (list, tuple)) else [x]


def check(name: str, args: Any, kwargs: Any, fold: bool = False, first: bool = False) -> None:
    op = operator(name)
    result, home, given = convert(op, args, kwargs, fold, first)
    wanted = leaves(op(*args, **kwargs))
    found = leaves(result)
    assert len(found) == len(wanted)
    pairs = [(v, w) for v, w in zip(found, wanted, strict=True) if v is not None]
    body = Tuple(tuple([home.output(v) for v, _ in pairs]))
    values = run_function(Function(home.inputs, body), given)
    for value, (made, want) in zip(values, pairs, strict=True):
        if not isinstance(want, torch.Tensor):
            assert value == want
            continue
        assert (made.dtype, tuple(made.shape)) == (dtype_name(want.dtype), tuple(want.shape))
        assert (value.dtype.name, value.shape) == (dtype_name(want.dtype), tuple(want.shape))
        np.testing.assert_allclose(
            value.astype("float64") if value.dtype != bool else value, np.asarray(tensor_array(want), value.dtype).astype("float64"),
            rtol=2e-3 if "16" in value.dtype.name else 2e-5, atol=2e-6,
        )  # fmt: skip


@pytest.mark.parametrize(("name", "args", "kwargs"), samples())
def test_operator(name: str, args: Any, kwargs: Any) -> None:
    check(name, args, kwargs)


@pytest.mark.parametrize(("name", "args"), [pytest.param(n, a[0], id=f"{n}{k}") for k, (n, *a) in enumerate(KNOWN)])
def test_operator_on_known_places(name: str, args: Any) -> None:
    check(name, args, {}, fold=True)


@pytest.mark.parametrize(
    ("name", "args"), [pytest.param(n, a[0], id=f"{n}{k}") for k, (n, *a) in enumerate([*SEGMENTS, *FACTORS])]
)
def test_first_result(name: str, args: Any) -> None:
    check(name, args, {}, fold=True, first=True)


@pytest.mark.parametrize(("name", "args"), [pytest.param(n, a[0], id=n) for n, *a in SHAPES])
def test_shape_and_type(name: str, args: Any) -> None:
    result, _, _ = convert(operator(name), args, {})
    wanted = leaves(operator(name)(*args))
    found = [(v.dtype, tuple(v.shape)) for v in leaves(result)]
    assert found == [(dtype_name(w.dtype), tuple(w.shape)) for w in wanted]


def test_every_core_operator_is_tried() -> None:
    """The operators that PyTorch marks as its core have converters, and samples here, save those that only training calls, those
    that write in place (exported programs have none) and questions about memory."""
    tried = {p.values[0] for p in samples()} | {n for n, *_ in [*KNOWN, *SEGMENTS, *FACTORS, *SHAPES]}
    missing, untried = [], []
    for short in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, short)
        for overload in packet.overloads() if hasattr(packet, "overloads") else ():
            op = getattr(packet, overload)
            if torch.Tag.core not in op.tags or short.endswith(("_backward", "_")) or overload == "out":
                continue
            if short == "sym_is_contiguous":
                continue
            if find_converter(f"aten::{short}", overload) is None:
                missing.append(f"{short}.{overload}")
            elif f"{short}.{overload}".removesuffix(".default") not in tried:
                untried.append(f"{short}.{overload}")
    assert (missing, untried) == ([], [])
