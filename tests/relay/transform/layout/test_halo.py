"""WriteHalos: which values are written with a halo for the convolutions that read them, and that these compute the same."""

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

TARGET = "llvm -mcpu=znver4"


def weights(*shape: int) -> relay.Constant:
    return relay.const((np.random.default_rng(sum(shape)).standard_normal(shape) * 0.1).astype("float32"))


def picture(*shape: Any) -> relay.Var:
    return relay.var("x", shape=shape)


def pointwise(x: relay.Expr, channels: int, filters: int) -> relay.Expr:
    return relay.nn.relu(relay.nn.conv2d(x, weights(filters, channels, 1, 1)) + weights(1, filters, 1, 1))


def around(x: relay.Expr, channels: int, filters: int, strides: int = 2, **options: Any) -> relay.Expr:
    padding = options.pop("padding", (1, 1))
    return relay.nn.conv2d(x, weights(filters, channels, 3, 3), strides=strides, padding=padding, **options)


def halos(body: relay.Expr, precision: str = "bfloat16", target: str = TARGET) -> int:
    """How many kernels write a halo."""
    with PassContext(opt_level=3, config={"relay.build.precision": precision}):
        optimized, _ = relay.optimize(IRModule.from_expr(body), target)
    return list_op_freqs(optimized).get("nn.pad", 0)


def outputs(body: relay.Expr, data: np.ndarray, without: tuple[str, ...] = (), executor: str = "graph") -> np.ndarray:
    with PassContext(opt_level=3, disabled_pass=without, config={"relay.build.precision": "bfloat16"}):
        if executor == "vm":
            machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(IRModule.from_expr(body), "llvm"), tvm.cpu())
            return machine.invoke("main", data).numpy()
        library = relay.build(IRModule.from_expr(body), "llvm", executor=executor)
    module: Any = graph_executor.GraphModule(library["default"](tvm.cpu()))
    module.set_input(0, data)
    # Twice: what the arena holds then is no zeros.
    module.run()
    module.run()
    return module.get_output(0).numpy()


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype("float32")


def chain(n: int, size: int, **options: Any) -> relay.Expr:
    x = picture(n, 32, size, size)
    return around(relay.nn.relu(around(pointwise(x, 32, 64), 64, 32, 1, **options)), 32, 32)


def test_a_producer_writes_the_halo_for_its_only_reader() -> None:
    assert halos(around(pointwise(picture(1, 32, 16, 16), 32, 64), 64, 32)) == 1


def test_several_convolutions_that_pad_alike_read_one_halo() -> None:
    y = pointwise(picture(1, 32, 16, 16), 32, 64)
    assert halos(around(y, 64, 32) + around(y, 64, 32) * relay.const(2.0)) == 1


def test_pooling_writes_the_halo_too() -> None:
    y = relay.nn.max_pool2d(pointwise(picture(1, 32, 16, 16), 32, 64), (2, 2), (2, 2))
    assert halos(around(y, 64, 32)) == 1


def test_what_others_read_has_no_halo() -> None:
    y = pointwise(picture(1, 32, 16, 16), 32, 64)
    assert halos(relay.Tuple([around(y, 64, 32), y])) == 0
    assert halos(relay.Tuple([around(y, 64, 32), pointwise(y, 64, 32)])) == 0
    assert halos(around(y, 64, 64, 1) + y) == 0


def test_convolutions_that_pad_otherwise_share_no_halo() -> None:
    y = pointwise(picture(1, 32, 16, 16), 32, 64)
    both = [around(y, 64, 32), around(y, 64, 32, padding=(2, 2), dilation=(2, 2))]
    assert halos(relay.Tuple(both)) == 0


def test_wide_elements_are_copied() -> None:
    assert halos(around(pointwise(picture(1, 32, 16, 16), 32, 64), 64, 32), "float32") == 0


def test_inputs_have_no_halo() -> None:
    assert halos(around(picture(1, 32, 16, 16), 32, 64)) == 0


def test_padded_columns_need_another_halo() -> None:
    assert halos(around(pointwise(picture(1, 32, 31, 31), 32, 64), 64, 32, 1)) == 0


def test_a_dynamic_batch_keeps_its_copies() -> None:
    assert halos(around(pointwise(picture(relay.Any(), 32, 16, 16), 32, 64), 64, 32)) == 0


@pytest.mark.parametrize("images", [1, 4])
@pytest.mark.parametrize("size", [14, 28])
def test_sums_are_the_same(images: int, size: int) -> None:
    body, data = chain(images, size), random(images, 32, size, size)
    assert np.array_equal(outputs(body, data), outputs(body, data, ("WriteHalos",)))


@pytest.mark.parametrize(
    "options", [{"padding": (0, 1, 2, 1)}, {"padding": (2, 2), "dilation": (2, 2)}, {"padding": (1, 0)}]
)
def test_every_padding(options: dict[str, Any]) -> None:
    x = picture(2, 32, 16, 18)
    body = around(pointwise(x, 32, 64), 64, 32, **options)
    data = random(2, 32, 16, 18)
    assert np.array_equal(outputs(body, data), outputs(body, data, ("WriteHalos",)))


@pytest.mark.parametrize("executor", ["aot", "vm"])
def test_executors(executor: str) -> None:
    body, data = chain(1, 14), random(1, 32, 14, 14)
    wanted = outputs(body, data, ("WriteHalos",))
    assert np.array_equal(outputs(body, data, executor=executor), wanted)


def test_halos_of_many_elements_are_written_in_parallel() -> None:
    body, data = chain(8, 28), random(8, 32, 28, 28)
    assert np.array_equal(outputs(body, data), outputs(body, data, ("WriteHalos",)))


def test_bytes() -> None:
    rng = np.random.default_rng(5)

    def bytes_of(*shape: int) -> relay.Constant:
        return relay.const(rng.integers(-20, 20, shape).astype("int8"))

    x = relay.var("x", shape=(1, 32, 16, 16), dtype="uint8")
    y = relay.nn.conv2d(x, bytes_of(64, 32, 1, 1), out_dtype="int32")
    y = relay.cast(relay.clip(relay.right_shift(y, relay.const(6)), 0, 255), "uint8")
    body = relay.nn.conv2d(y, bytes_of(32, 64, 3, 3), padding=(1, 1), strides=(2, 2), out_dtype="int32")
    assert halos(body, "float32", "llvm -mcpu=cascadelake") == 1
    data = rng.integers(0, 255, (1, 32, 16, 16)).astype("uint8")
    assert np.array_equal(outputs(body, data), outputs(body, data, ("WriteHalos",)))


def test_functions_of_no_arguments_read_no_data() -> None:
    """What a loop over known rounds becomes: a function that takes nothing, called."""
    x = picture(1, 16, 12, 12)
    inner = relay.Function([], relay.nn.relu(x))
    body = around(relay.Call(relay.var("inner"), []), 16, 16)
    bound = relay.Let(body.args[0].op, inner, body)
    data = np.random.default_rng(0).standard_normal((1, 16, 12, 12)).astype("float32")
    found = outputs(relay.Function([x], bound), data, executor="vm")
    np.testing.assert_allclose(found, outputs(around(relay.nn.relu(x), 16, 16), data), rtol=0.05, atol=0.05)
