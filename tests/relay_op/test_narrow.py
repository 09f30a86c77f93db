"""Operators on bfloat16 and float16, compiled: as their references compute in float32, and rounded once."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright as tvm
from tests.relay_op.test_cards import prepare, results, samples
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.cards.card import OpCard
from tilewright.relay.op.data_dependent.dynamic import Dynamic

NARROW = {"bfloat16": (ml_dtypes.bfloat16, 2.0**-8), "float16": (np.float16, 2.0**-11)}
"""The type, and half the distance of neighbours relative to a number."""

KEYS = frozenset(
    """abs add clip concatenate divide erf exp expand_dims layout_transform log max maximum mean minimum multiply negative
    nn.adaptive_avg_pool2d nn.avg_pool2d nn.batch_matmul nn.bias_add nn.conv1d nn.conv2d nn.conv3d nn.conv2d_transpose nn.dense
    nn.global_avg_pool2d nn.global_max_pool2d nn.instance_norm nn.layer_norm nn.leaky_relu nn.log_softmax nn.matmul nn.max_pool2d nn.pad
    nn.prelu nn.relu nn.softmax reshape reverse sigmoid split squeeze sqrt stack strided_slice subtract sum take tanh tile transpose
    variance where""".split()
)


def cases() -> list[Any]:
    """Samples of these operators, all arrays of which are float32, or no floats."""
    found: list[Any] = []
    count: dict[str, int] = {}
    for card, inputs, attrs in [getattr(s, "values", s) for s in samples()]:
        if card.type_key not in KEYS or count.get(card.type_key, 0) == 2:
            continue
        made, arrays, _ = prepare(card, inputs, attrs)
        flat = [a for x in arrays for a in (x if isinstance(x, tuple) else (x,))]
        kinds = {a.dtype.name for a in flat if a.dtype.kind == "f"}
        if kinds == {"float32"} and not isinstance(made, Dynamic) and not getattr(made, "out_dtype", ""):
            count[card.type_key] = count.get(card.type_key, 0) + 1
            marks = [pytest.mark.slow] if count[card.type_key] > 1 else []
            found.append(pytest.param(card, arrays, attrs, made, id=f"{card.type_key}-{len(found)}", marks=marks))
    return found


def test_the_operators_are_there() -> None:
    assert {case.values[0].type_key for case in cases()} == KEYS


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("card, arrays, attrs, made", cases())
def test_narrow_operands(card: type[OpCard], arrays: list[Any], attrs: Any, made: OpCard, dtype: str) -> None:
    kind, unit = NARROW[dtype]
    variables: list[relay.Var] = []
    values: list[np.ndarray] = []

    def rounded(x: np.ndarray) -> np.ndarray:
        return x.astype(kind).astype("float32") if x.dtype == np.float32 else x

    def leaf(x: np.ndarray) -> relay.Expr:
        value = x.astype(kind) if x.dtype == np.float32 else x
        if x.ndim == 0:
            return relay.const(value)
        variables.append(relay.var(f"x{len(variables)}", shape=x.shape, dtype=value.dtype.name))
        values.append(np.ascontiguousarray(value))
        return variables[-1]

    args = [[leaf(a) for a in x] if isinstance(x, tuple) else leaf(x) for x in arrays]
    call = card.call(args, attrs)
    body = call if isinstance(call, relay.Expr) else call.tuple_value
    library = relay.build(tvm.IRModule.from_expr(relay.Function(variables, body)), target="llvm")
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    for variable, value in zip(variables, values, strict=True):
        executor.set_input(variable.name_hint, tvm.nd.array(value))
    executor.run()
    wide = [tuple([rounded(a) for a in x]) if isinstance(x, tuple) else rounded(x) for x in arrays]
    for k, want in enumerate(results(made.ref(*wide))):
        got = executor.get_output(k).numpy()
        if want.dtype.kind != "f":
            np.testing.assert_array_equal(got, want)
            continue
        assert got.dtype == kind
        # What float32 arithmetic may be off, and one rounding.
        scale = float(np.abs(want).max(initial=0.0))
        bound = unit * np.abs(want) + card.tolerance * 10 * (np.abs(want) + max(scale, 1.0))
        assert (np.abs(got.astype("float64") - want) <= bound).all()
