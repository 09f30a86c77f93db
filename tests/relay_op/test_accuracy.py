"""Functions of one number as models have them: within one unit in the last place, of the right kind and sign, as in code."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tests.codegen.llvm.every_float import FUNCTIONS, errors
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.relay.op import cards


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name in cards()])
def test_one_unit(name: str) -> None:
    rng = np.random.default_rng(7)
    odd = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-45, -1e-45, 1e-39, 3.4e38], "float32")
    some = rng.integers(0, 1 << 32, 1 << 14, np.uint32).view("float32")
    x = np.concatenate([odd, some, rng.normal(0, 4, 5001).astype("float32")])
    data = relay.var("x", shape=x.shape)
    library = relay.build(tvm.IRModule.from_expr(relay.Function([data], getattr(relay, name)(data))), target="llvm")
    model = graph_executor.GraphModule(library["default"](tvm.cpu()))
    model.set_input("x", x)
    model.run()
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name].exact(x.astype("float64"))
    assert errors(model.get_output(0).numpy(), exact).max() <= FUNCTIONS[name].limit
