"""PackStrassen: products take Strassen's algorithm where a plan says so, and then compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.relay.analysis import list_op_freqs
from tilewright.relay.backend.model_program import ModelProgram
from tilewright.scheduling import GraphPlan

DENSE, CONVOLUTION = "nn.contrib_dense_strassen", "nn.contrib_conv2d_strassen_NCHWc"
AVX512 = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512"


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def dense(lead: tuple[int, ...], inner: int, columns: int) -> IRModule:
    """A product with a bias and a residual."""
    x, r = relay.var("x", shape=(*lead, inner)), relay.var("r", shape=(*lead, columns))
    y = relay.nn.dense(x, relay.const(drawn(columns, inner))) + relay.const(drawn(columns))
    return IRModule.from_expr(relay.Function([x, r], relay.nn.relu(y) + r))


def convolution(channels: int, filters: int, side: int, **attributes: Any) -> IRModule:
    x = relay.var("x", shape=(1, channels, side, side))
    w = relay.const(drawn(filters, channels, 1, 1))
    y = relay.nn.conv2d(relay.nn.relu(x), w, kernel_size=(1, 1), channels=filters, **attributes)
    return IRModule.from_expr(relay.Function([x], relay.nn.relu(y)))


def decisions(mod: IRModule, target: str) -> list[str]:
    """The names of the decisions between algorithms."""
    with GraphPlan(target) as plan, PassContext(opt_level=3):
        optimized, _ = relay.optimize(mod, target)
    assert not {DENSE, CONVOLUTION} & {*list_op_freqs(optimized)}, "without being given, it is never chosen"
    return [name for name in plan.space() if name.endswith(".algorithm")]


def results(mod: IRModule, target: str, given: dict[str, str]) -> np.ndarray:
    with GraphPlan(target, given) as plan, PassContext(opt_level=3):
        library = relay.build(mod, target)
    assert not plan.refused
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    for k in range(executor.get_num_inputs()):
        executor.set_input(k, drawn(*executor.get_input(k).shape))
    executor.run()
    return executor.get_output(0).numpy()


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(
    ("mod", "problem"),
    [
        (dense((32,), 128, 320), "32x128x320"),
        (dense((1, 37), 160, 256), "37x160x256"),
        (dense((2, 7, 6), 128, 256), "84x128x256"),
        (convolution(128, 256, 6), "36x128x256"),
        (convolution(128, 256, 14), "196x128x256"),
    ],
)
def test_computes_the_same(mod: IRModule, problem: str, cores: int) -> None:
    target = f"llvm -num-cores={cores}"
    assert decisions(mod, target) == [f"dense({problem}, 32 bits).algorithm"]
    plain, other = (results(mod, target, {f"dense({problem}, 32 bits).algorithm": a}) for a in ("plain", "strassen"))
    np.testing.assert_allclose(other, plain, rtol=1e-5, atol=1e-5 * float(np.abs(plain).max()))
    assert (other != plain).any(), "sums are taken in another order"


def test_is_a_decision_of_tuning() -> None:
    program = ModelProgram(dense((32,), 128, 320), "llvm -num-cores=1")
    name = "dense(32x128x320, 32 bits).algorithm"
    with PassContext(opt_level=3):
        assert program.variant({}).choices[name] == ["plain", "strassen"]
        (task,) = program.variant({name: "strassen"}).tasks
    assert "strassen" in task.name
    assert program.order(name) == 0


@pytest.mark.parametrize(
    "mod",
    [
        dense((8,), 128, 256),  # few rows
        dense((32,), 64, 256),
        dense((32,), 128, 128),
        dense((32,), 128, 264),  # columns whose half is no whole vectors
        convolution(128, 256, 7),  # an odd number of places
        convolution(128, 256, 8, strides=(2, 2)),
        convolution(128, 256, 8, padding=(1, 1)),
    ],
)
def test_leaves_other_products(mod: IRModule) -> None:
    assert not decisions(mod, AVX512)


def test_weights_that_are_computed_stay() -> None:
    x, w = relay.var("x", shape=(32, 128)), relay.var("w", shape=(256, 128))
    assert not decisions(IRModule.from_expr(relay.Function([x, w], relay.nn.dense(x, w))), AVX512)


def test_unknown_algorithm_is_refused() -> None:
    given = {"dense(32x128x320, 32 bits).algorithm": "cubic"}
    with GraphPlan(AVX512, given) as plan, PassContext(opt_level=3):
        relay.optimize(dense((32,), 128, 320), AVX512)
    assert "plain" in plan.refused["dense(32x128x320, 32 bits).algorithm"]
