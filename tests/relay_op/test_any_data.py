"""No operator reads or writes outside of its tensors, whatever numbers they hold: its compute, run by the interpreter, which watches
every access, on samples of which most numbers are as far away as they can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay_op.test_cards import evaluate, fields, prepare, samples
from tilewright.codegen.interp import InterpError
from tilewright.relay.cards.card import OpCard
from tilewright.relay.op.data_dependent.counted import is_counted
from tilewright.relay.op.data_dependent.dynamic import Dynamic

FAR = [-1, -100, 10**9, -(2**31), 2**31 - 1, -(2**63), 2**63 - 1]
STRANGE = [np.nan, -7.5, 30.0]


def far(x: Any, rng: np.random.Generator) -> Any:
    """The sample's input with most of its numbers replaced."""
    if isinstance(x, tuple):
        return tuple([far(part, rng) for part in x])
    if x.dtype.kind == "b":
        return x
    choices: list[Any] = STRANGE
    if x.dtype.kind in "iu":
        low, high = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
        choices = [low, high, *[v for v in FAR if low <= v <= high]]
    found = np.array([choices[k] for k in rng.integers(0, len(choices), x.size)], x.dtype).reshape(x.shape)
    return np.where(rng.random(x.shape) < 0.3, x, found).astype(x.dtype)


def decided_by_data() -> list[Any]:
    """Samples of operators whose data may say where to read or write: those of integers, boxes and regions. Of `take` in mode
    "fast" the caller vouches for the indices."""
    found = []
    for sample in samples():
        card, inputs, attrs = sample.values
        whole = any([isinstance(x, np.ndarray) and x.dtype.kind in "iu" or callable(x) for x in inputs])
        named = card.type_key.startswith(("vision.", "image."))
        if (whole or named) and not issubclass(card, Dynamic) and attrs.get("mode") != "fast":
            found.append(sample)
    return found


@pytest.mark.parametrize("card, inputs, attrs", decided_by_data())
def test_stays_inside(card: type[OpCard], inputs: Any, attrs: Any) -> None:
    call, arrays, t = prepare(card, inputs, attrs)
    if is_counted(call):
        return
    for seed in range(3):
        rng = np.random.default_rng(seed)
        try:
            with np.errstate(all="ignore"):
                evaluate(call, [far(x, rng) for x in arrays], fields(t))
        except InterpError as error:
            assert "out of bounds" not in str(error), error
