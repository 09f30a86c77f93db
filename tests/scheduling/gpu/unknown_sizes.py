"""Operators, mostly such that sum over an axis, with no size of their matrices known when they are compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright as tvm
from tests.relay_op.test_cards import prepare, results
from tests.relay_op.test_native import agree
from tilewright import relay, te, tir
from tilewright.relay.cards.card import cards
from tilewright.scheduling import KernelPlan

SUMS = {
    "nn.dense": 1, "nn.matmul": 0, "qnn.dense": 1, "nn.bitserial_dense": 1, "nn.batch_matmul": 0, "nn.group_norm": 0, "dft": 0,
    "einsum": 0, "sum": 0, "argmax": 0, "logsumexp": 0, "variance": 0,
}  # fmt: skip
"""Operators, and which of their samples."""
OPERATORS = {**SUMS, "vision.non_max_suppression": 0, "fixed_point_multiply_per_axis": 0}
"""Besides: loops whose lengths only data say, and arithmetic in 64 bits without vectors."""


def sample(name: str) -> tuple[Any, list[Any], list[np.ndarray]]:
    """(the operator with its attributes, arrays, the results of NumPy)."""
    card = cards()[name]
    call, arrays, _ = prepare(card, *card.samples[OPERATORS[name]])
    return call, arrays, results(call.ref(*arrays))


def kernel(name: str, plan: KernelPlan) -> tir.PrimFunc:
    """The operator's program of loops, with wide indices as models have them."""
    call, arrays, _ = sample(name)

    def leaf(x: np.ndarray) -> te.Tensor:
        tensor = f"p{len(inputs)}"
        shape = [te.var(f"{tensor}_{k}", "int64") for k in range(x.ndim)] if x.ndim > 1 else x.shape
        inputs.append(te.placeholder(shape, x.dtype.name, name=tensor))
        return inputs[-1]

    inputs: list[te.Tensor] = []
    with plan.target, plan:
        args = [[leaf(a) for a in x] if isinstance(x, tuple) else leaf(x) for x in arrays]
        return te.create_prim_func([*inputs, *results(call.compute(*args))], "int64")


def given(name: str) -> list[np.ndarray]:
    """The arrays of a call, those that are parts of a tuple one by one."""
    return [a for x in sample(name)[1] for a in (x if isinstance(x, tuple) else (x,))]


def sizes(name: str) -> dict[str, int]:
    """What the program's unknown sizes are for these arrays, by name."""
    return {f"p{n}_{k}": size for n, a in enumerate(given(name)) for k, size in enumerate(a.shape)}


def program(name: str) -> tvm.IRModule:
    """A model of one call."""
    call, arrays, _ = sample(name)

    def leaf(x: np.ndarray) -> relay.Expr:
        shape = [relay.Any()] * x.ndim if x.ndim > 1 else x.shape
        variables.append(relay.var(f"x{len(variables)}", shape=shape, dtype=x.dtype.name))
        return variables[-1]

    variables: list[relay.Var] = []
    args = [[leaf(a) for a in x] if isinstance(x, tuple) else leaf(x) for x in arrays]
    made = type(call).call(args, cards()[name].samples[OPERATORS[name]][1])
    return tvm.IRModule.from_expr(relay.Function(variables, made if isinstance(made, relay.Expr) else made.tuple_value))


def check(name: str, found: list[np.ndarray]) -> None:
    agree(found, sample(name)[2], cards()[name].tolerance)
