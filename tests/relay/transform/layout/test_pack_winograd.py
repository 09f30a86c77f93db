"""PackWinograd: where convolutions take Winograd's form, and that they then compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.slow import seeds
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.relay.analysis import list_op_freqs

WINOGRAD = "nn.contrib_conv2d_winograd_NCHWc"


def weights(*shape: int) -> relay.Constant:
    return relay.const((np.random.default_rng(sum(shape)).standard_normal(shape) * 0.1).astype("float32"))


def picture(*shape: Any) -> relay.Var:
    return relay.var("x", shape=shape)


def count(body: relay.Expr, target: str = "llvm", disabled: tuple[str, ...] = ()) -> int:
    with PassContext(opt_level=3, disabled_pass=disabled):
        optimized, _ = relay.optimize(IRModule.from_expr(body), target)
    return list_op_freqs(optimized).get(WINOGRAD, 0)


def run(mod: IRModule, inputs: list[np.ndarray], target: str = "llvm", disabled: tuple[str, ...] = ()) -> np.ndarray:
    with PassContext(opt_level=3, disabled_pass=disabled):
        library = relay.build(mod, target)
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    for k, v in enumerate(inputs):
        executor.set_input(k, v)
    executor.run()
    return executor.get_output(0).numpy()  # type: ignore[no-any-return]


def test_takes_what_gains() -> None:
    x = picture(1, 64, 28, 28)
    assert count(relay.nn.conv2d(x, weights(64, 64, 3, 3), padding=(1, 1))) == 1
    assert count(relay.nn.conv2d(x, weights(64, 64, 3, 3), padding=(1, 1)), "llvm -mcpu=haswell") == 1


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((64, 64, 1, 1), {}),
        ((64, 64, 5, 5), {}),
        ((64, 64, 3, 3), {"strides": (2, 2)}),
        ((64, 64, 3, 3), {"dilation": (2, 2)}),
        ((64, 32, 3, 3), {"groups": 2}),
        ((8, 64, 3, 3), {}),
    ],
)
def test_leaves_other_convolutions(shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    assert count(relay.nn.conv2d(picture(1, 64, 28, 28), weights(*shape), **attributes)) == 0


def test_leaves_what_waits_for_memory() -> None:
    # Weights of 36 places instead of 9, read for each of a few tiles: worth it where products take longer than the memory.
    y = relay.nn.conv2d(picture(1, 512, 7, 7), weights(512, 512, 3, 3), padding=(1, 1))
    assert count(y, "llvm -mcpu=znver4") == 0
    assert count(y, "llvm -mcpu=haswell") == 1


def test_weights_that_are_computed_stay() -> None:
    w = relay.var("w", shape=(64, 64, 3, 3))
    assert count(relay.nn.conv2d(picture(1, 64, 28, 28), w, padding=(1, 1))) == 0


def test_can_be_turned_off() -> None:
    body = relay.nn.conv2d(picture(1, 64, 28, 28), weights(64, 64, 3, 3), padding=(1, 1))
    assert count(body, disabled=("PackWinograd",)) == 0


def plain(y: relay.Expr) -> relay.Expr:
    return y


def residual(y: relay.Expr) -> relay.Expr:
    return relay.nn.relu(relay.nn.bias_add(y, weights(64)) + picture_of(y))


def picture_of(y: relay.Expr) -> relay.Expr:
    """Another value of the result's shape: what a residual block adds."""
    return relay.nn.conv2d(relay.analysis.free_vars(y)[0], weights(64, 64, 1, 1))


def transposed(y: relay.Expr) -> relay.Expr:
    return relay.transpose(relay.nn.relu(y), axes=(0, 2, 3, 1))


def twice(y: relay.Expr) -> relay.Expr:
    return relay.concatenate(relay.Tuple([relay.nn.relu(y), relay.sigmoid(y)]), axis=1)


def summed(y: relay.Expr) -> relay.Expr:
    return relay.mean(y, axis=[2, 3])


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell"])
@pytest.mark.parametrize("behind", [plain, residual, transposed, twice, summed])
def test_computes_the_same(behind: Any, target: str) -> None:
    x = picture(1, 64, 30, 30)
    mod = IRModule.from_expr(behind(relay.nn.conv2d(x, weights(64, 64, 3, 3), padding=(1, 1))))
    data = [np.random.default_rng(0).standard_normal((1, 64, 30, 30)).astype("float32")]
    assert count(mod["main"].body, target) == 1
    direct = run(mod, data, target, ("PackWinograd",))
    np.testing.assert_allclose(run(mod, data, target), direct, rtol=0, atol=1e-5 * np.abs(direct).max())


@pytest.mark.parametrize("seed", seeds(6, 3))
def test_random_sizes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch, (height, width) = int(rng.integers(1, 4)), (int(v) for v in rng.integers(17, 60, 2))
    channels, filters = 16 * int(rng.integers(2, 9)), 16 * int(rng.integers(2, 9))
    pads = tuple([int(v) for v in rng.integers(0, 3, 4)])
    y = relay.nn.relu(
        relay.nn.conv2d(picture(batch, channels, height, width), weights(filters, channels, 3, 3), padding=pads)
    )
    data = [rng.standard_normal((batch, channels, height, width)).astype("float32")]
    mod = IRModule.from_expr(y)
    direct = run(mod, data, disabled=("PackWinograd",))
    np.testing.assert_allclose(run(mod, data), direct, rtol=0, atol=1e-5 * np.abs(direct).max())


@pytest.mark.parametrize(("channels", "height", "width", "pads"), [(64, 28, 28, (1, 1)), (32, 61, 45, (0, 2, 1, 0))])
def test_dynamic_batch(channels: int, height: int, width: int, pads: tuple[int, ...]) -> None:
    # Images of few tiles are grouped, of many tiles cut in parts.
    def body(batch: Any) -> relay.Expr:
        x = picture(batch, channels, height, width)
        return relay.nn.relu(relay.nn.conv2d(x, weights(channels, channels, 3, 3), padding=pads))

    assert count(body(relay.Any())) == 1
    with PassContext(opt_level=3):
        executable = relay.vm.compile(IRModule.from_expr(body(relay.Any())), "llvm")
    machine = tvm.runtime.vm.VirtualMachine(executable, tvm.cpu())
    for batch in (1, 3, 8, 9):
        data = np.random.default_rng(batch).standard_normal((batch, channels, height, width)).astype("float32")
        expected = run(IRModule.from_expr(body(batch)), [data], disabled=("PackWinograd",))
        found = machine.run(data).numpy()
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_dynamic_batch_stays_direct_where_one_image_would_not_gain() -> None:
    x = picture(relay.Any(), 512, 7, 7)
    assert count(relay.nn.conv2d(x, weights(512, 512, 3, 3), padding=(1, 1)), "llvm -mcpu=znver4") == 0
