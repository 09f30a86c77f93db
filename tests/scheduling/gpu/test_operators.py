"""The first sample of every operator by the rules for GPUs: the interpreter runs its threads beside the operator's reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.relay_op.test_cards import evaluate, fields, prepare, results, samples
from tilewright.codegen import interp
from tilewright.ir import IRModule
from tilewright.relay.cards.card import OpCard
from tilewright.relay.op.data_dependent.counted import is_counted
from tilewright.scheduling import KernelPlan, scheduled
from tilewright.target import Target

CUDA = Target("cuda -arch=sm_80")


def first_samples() -> Iterator[Any]:
    return (p for p in samples() if p.id is not None and p.id.endswith("-0"))


def on_threads(func: Any, arrays: list[Any], plan: KernelPlan) -> None:
    mod: IRModule = scheduled(func, CUDA, plan).mod
    assert not plan.fallbacks, plan.fallbacks
    interp.run(mod, arrays, check_races=True)


@pytest.mark.parametrize("card, inputs, attrs", list(first_samples()))
def test_operators(card: type[OpCard], inputs: Any, attrs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    call, arrays, t = prepare(card, inputs, attrs)
    if is_counted(call):
        # Its kernel is an operator of its own; the virtual machine runs both.
        return
    plan = KernelPlan(CUDA)
    monkeypatch.setattr(interp, "run", lambda func, given: ran.append((func, given)))
    ran: list[tuple[Any, list[Any]]] = []
    with CUDA, plan:
        found = evaluate(call, arrays, fields(t))
    monkeypatch.undo()
    for func, given in ran:
        on_threads(func, given, plan)
    for got, want in zip(found, results(call.ref(*arrays)), strict=True):
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=card.tolerance * 10, atol=card.tolerance)
        else:
            np.testing.assert_array_equal(got, want)
