"""Slices and repetitions that leave nothing, in the interpreter and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor


def both(make: Any) -> list[np.ndarray]:
    x = relay.var("x", shape=(5,))
    data = np.arange(5, dtype="float32")
    mod = tvm.IRModule.from_expr(relay.Function([x], make(x)))
    run = graph_executor.GraphModule(relay.build(mod, "llvm")["default"](tvm.cpu()))
    run.set_input("x", data)
    run.run()
    interpreted = relay.create_executor("debug", mod=mod).evaluate()(data)
    return [run.get_output(0).numpy(), interpreted.numpy()]


@pytest.mark.parametrize(
    "begin, end, step", [(-7, -(2**31) + 1, -1), (-6, -8, -2), (-9, -7, 1), (2, 2, 1), (-1, -6, -2)]
)
def test_slices(begin: int, end: int, step: int) -> None:
    wanted = np.arange(5, dtype="float32")[begin:end:step]
    for got in both(lambda x: relay.strided_slice(x, [begin], [end], [step])):
        np.testing.assert_array_equal(got, wanted)


def test_repeated_no_times() -> None:
    for got in both(lambda x: relay.repeat(x, 0, axis=0)):
        assert got.shape == (0,)
