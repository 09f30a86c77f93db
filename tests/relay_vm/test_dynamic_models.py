"""Networks with dynamic dimensions: compiled once, run at several sizes, against the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay_vm.executors import same
from tilewright import relay
from tilewright.relay.backend.vm import compile
from tilewright.runtime.vm import VirtualMachine

RNG = np.random.default_rng(3)


def weight(*shape: int) -> relay.Constant:
    """A small random constant."""
    return relay.const((RNG.standard_normal(shape) * 0.3).astype("float32"))


def array(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype("float32")


def check(function: relay.Function, calls: list[list[Any]]) -> VirtualMachine:
    """Compiles a function once and runs it on each list of arguments."""
    mod = relay.IRModule.from_expr(function)
    debug = relay.create_executor("debug", mod).evaluate()
    vm = VirtualMachine(compile(mod, "llvm"))
    for args in calls:
        same(debug(*args), vm.run(*args), rtol=1e-3)
    return vm


def test_convolutional_network_of_any_batch_and_size() -> None:
    x = relay.var("x", shape=(relay.Any(), 3, relay.Any(), relay.Any()))
    y = relay.nn.conv2d(x, weight(8, 3, 3, 3), padding=(1, 1), strides=(2, 2), channels=8, kernel_size=(3, 3))
    y = relay.nn.relu(relay.nn.bias_add(y, weight(8)))
    z = relay.nn.conv2d(y, weight(8, 8, 3, 3), padding=(1, 1), channels=8, kernel_size=(3, 3))
    y = relay.nn.relu(y + z * relay.const(np.linspace(0.5, 1.5, 8, dtype="float32").reshape(8, 1, 1)))
    y = relay.nn.max_pool2d(y, pool_size=(3, 3), strides=(2, 2), padding=(1, 1), ceil_mode=True)
    y = relay.nn.dense(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(y)), weight(10, 8))
    check(
        relay.Function([x], relay.nn.softmax(y)),
        [[array(n, 3, h, w)] for n, h, w in [(1, 8, 8), (3, 17, 9), (2, 32, 30)]],
    )


def test_attention_of_any_batch_and_length() -> None:
    batch, length = relay.Any(), relay.Any()
    x, mask = relay.var("x", shape=(batch, length, 32)), relay.var("mask", shape=(batch, 1, 1, length))

    def heads(w: Any) -> Any:
        return relay.transpose(relay.reshape(relay.nn.dense(x, w), (0, 0, 4, 8)), (0, 2, 1, 3))

    q, k, v = (heads(weight(32, 32)) for _ in range(3))
    scores = relay.nn.softmax(relay.nn.batch_matmul(q, k, transpose_b=True) * relay.const(0.35) + mask)
    mixed = relay.transpose(relay.nn.batch_matmul(scores, v, transpose_b=False), (0, 2, 1, 3))
    y = x + relay.nn.dense(relay.reshape(mixed, (0, 0, -1)), weight(32, 32))
    y = relay.nn.layer_norm(y, weight(32), weight(32))
    calls = []
    for n, s in [(1, 5), (2, 16), (3, 33)]:
        calls.append([array(n, s, 32), np.where(RNG.random((n, 1, 1, s)) < 0.2, -1e9, 0).astype("float32")])
    vm = check(relay.Function([x, mask], y), calls)
    with pytest.raises(ValueError, match="the sizes .* must be equal or 1"):
        vm.run(array(2, 5, 32), array(2, 1, 1, 6))


def test_sizes_that_differ_in_branches() -> None:
    x, n = relay.var("x", shape=(relay.Any(), 4)), relay.var("n", shape=(), dtype="int32")
    either = relay.If(n > relay.const(0), relay.concatenate([x, x], 0), x)
    check(
        relay.Function([x, n], relay.sum(either * either, axis=[0])),
        [[array(k, 4), np.int32(s)] for k in (1, 3) for s in (0, 1)],
    )


def test_a_loop_that_grows_its_state() -> None:
    mod = relay.parse("""
    def @grow(%n: int32, %x: Tensor[(?, 2), float32]) -> Tensor[(?, 2), float32] {
      if (%n == 0) { %x } else { @grow(%n - 1, concatenate((%x, %x * 2f), axis=0)) }
    }
    def @main(%x: Tensor[(?, 2), float32], %n: int32) -> Tensor[(?, 2), float32] { @grow(%n, %x) }
    """)
    debug, vm = relay.create_executor("debug", mod).evaluate(), VirtualMachine(compile(mod, "llvm"))
    for n in range(4):
        args = [array(3, 2), np.int32(n)]
        got = vm.run(*args)
        assert got.shape == (3 << n, 2)
        same(debug(*args), got)


def test_one_size_in_two_places() -> None:
    from tilewright import tir

    n = tir.SizeVar("n", "int64")
    x, y = relay.var("x", shape=(n, 3)), relay.var("y", shape=(n,))
    vm = VirtualMachine(compile(relay.IRModule.from_expr(relay.Function([x, y], relay.sum(x, axis=[1]) * y)), "llvm"))
    a, b = array(5, 3), array(5)
    np.testing.assert_allclose(vm.run(a, b).numpy(), a.sum(1) * b, rtol=1e-5)
    with pytest.raises(ValueError) as caught:
        vm.run(a, b[:4])
    assert str(caught.value) == "main: dimension 0 of y must equal x.shape[0], but y.shape[0] is 4 and x.shape[0] is 5"


def test_kernels_are_shared_by_calls_that_differ_in_names() -> None:
    x, y = relay.var("x", shape=(relay.Any(), 4)), relay.var("y", shape=(relay.Any(), 4))
    exe = compile(relay.IRModule.from_expr(relay.Function([x, y], relay.Tuple([relay.tanh(x), relay.tanh(y)]))), "llvm")
    assert exe.primitive_ops == ["fused_tanh"]
