"""What stays alive with an executor: the code and the laid out constants, not the program that they were made of."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay


@pytest.mark.releases
def test_an_executor_does_not_hold_the_weights_that_it_was_built_from() -> None:
    x = relay.var("x", shape=(2, 64))
    weight = np.random.default_rng(0).standard_normal((64, 64), dtype=np.float32)
    lib = relay.build(relay.Function([x], relay.nn.dense(x, relay.const(weight))), "llvm")
    program = weakref.ref(lib.ir_mod)
    held = [weakref.ref(a) for a in lib.plan.constants.arrays]
    executor = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
    source = lib.lib.get_source("tir")
    module = lib.lib
    del lib
    gc.collect()
    assert program() is None
    assert all(a() is None for a in held)
    given = np.ones((2, 64), np.float32)
    executor.run(x=given)
    np.testing.assert_allclose(executor.get_output(0).numpy(), given @ weight.T, rtol=1e-4, atol=1e-4)
    assert module.get_source("tir") == source
