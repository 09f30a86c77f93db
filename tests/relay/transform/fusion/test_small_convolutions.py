"""CombineSmallConvolutions: branches of few filters, or of little work, become one convolution, of which readers read pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.relay.random_graphs import assert_same, evaluate
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.ir import IRModule
from tilewright.relay import transform
from tilewright.relay.analysis import list_op_freqs
from tilewright.runtime.vm import VirtualMachine
from tilewright.target import Target

TARGET = "llvm -mcpu=x86-64-v3"


def values(*shape: int, seed: int = 0) -> relay.Constant:
    return relay.const((np.random.default_rng(seed).standard_normal(shape) / 4).astype("float32"))


def branch(x: relay.Expr, channels: int, size: int = 1, seed: int = 0, inner: int = 16, **attrs: Any) -> relay.Expr:
    made = relay.nn.conv2d(x, values(channels, inner, size, size, seed=seed), padding=(size // 2, size // 2), **attrs)
    return relay.nn.relu(made + values(channels, 1, 1, seed=seed + 1))


def image(batch: int = 1, side: int = 8, channels: int = 16) -> relay.Var:
    return relay.var("x", shape=(batch, channels, side, side))


def pooled(e: relay.Expr) -> relay.Expr:
    return relay.nn.max_pool2d(e, (2, 2), (2, 2))


def joined(x: relay.Var, *results: relay.Expr, target: str = TARGET) -> dict[str, int]:
    """How often each operator is called after the pass, which changes no values."""
    mod = IRModule.from_expr(relay.Function([x], relay.Tuple(list(results))))
    with Target(target):
        after = transform.CombineSmallConvolutions()(mod)
    inputs = [np.random.default_rng(3).standard_normal(x.type_annotation.concrete_shape).astype("float32")]
    assert_same(evaluate(after, inputs), evaluate(mod, inputs))
    return list_op_freqs(after)


@pytest.mark.parametrize("channels", [(8, 8), (8, 64), (16, 24, 8)])
@pytest.mark.parametrize("size", [1, 3])
def test_branches_become_one(channels: tuple[int, ...], size: int) -> None:
    x = image()
    got = joined(x, *[pooled(branch(x, c, size, i)) for i, c in enumerate(channels)])
    count = len(channels)
    assert got == {"nn.conv2d": 1, "add": 1, "nn.relu": 1, "strided_slice": count, "nn.max_pool2d": count}


def test_what_is_wide_and_long_stays_apart() -> None:
    x = image(side=40, channels=64)
    assert joined(x, *[pooled(branch(x, 64, 3, i, 64)) for i in range(2)])["nn.conv2d"] == 2
    # Filters of one vector are joined whatever else there is.
    assert joined(x, *[pooled(branch(x, c, 3, c, 64)) for c in (8, 64)])["nn.conv2d"] == 1


def test_what_stays_apart() -> None:
    x = image()

    def count(*results: relay.Expr, data: relay.Var = x, target: str = TARGET) -> int:
        return joined(data, *results, target=target)["nn.conv2d"]

    a, b = branch(x, 8), branch(x, 8, 1, 5)
    assert count(pooled(a), pooled(branch(x, 8, 3))) == 2  # another kernel size
    assert count(pooled(a), pooled(branch(x, 8, 1, 5, strides=(2, 2)))) == 2
    assert count(pooled(a), relay.concatenate([b, b], axis=1)) == 2  # is written into a larger value
    assert count(pooled(a), pooled(relay.sigmoid(b))) == 2  # an epilogue of its own
    assert count(pooled(relay.nn.conv2d(x, values(8, 16, 1, 1))), pooled(relay.tanh(b) * relay.sigmoid(b))) == 2
    odd = image(side=7)
    assert count(pooled(branch(odd, 3)), pooled(branch(odd, 3, 1, 5)), data=odd) == 2  # a piece that begins anywhere
    two = image(2)
    assert count(pooled(branch(two, 8)), pooled(branch(two, 8, 1, 5)), data=two) == 2  # channels of an image are no run
    assert count(pooled(a), pooled(b), target="cuda") == 2


@pytest.mark.parametrize(("batch", "side"), [(1, 8), (1, 7), (2, 8)])
def test_compiled(batch: int, side: int) -> None:
    """As in blocks of several branches: two go on through layers of their own, one is joined with what they make."""
    x = image(batch, side)
    head = branch(x, 16, 1, 9)
    made = [branch(head, 16)]
    for i, c in enumerate((16, 32)):
        made.append(branch(branch(head, c, 1, 2 * i + 2), 16, 3, 7, c))
    mod = IRModule.from_expr(relay.Function([x], relay.concatenate(made, axis=1)))
    inputs = [np.random.default_rng(3).standard_normal((batch, 16, side, side)).astype("float32")]
    want = evaluate(mod, inputs)
    lib = relay.build(mod, TARGET)
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.run(x=inputs[0])
    assert_same([module.get_output(0).numpy()], want)
    result = VirtualMachine(relay.vm.compile(mod, TARGET), tvm.cpu()).invoke("main", tvm.nd.array(inputs[0]))
    assert_same([result.numpy()], want)
    names = [c.kernel.name for c in lib.plan.calls]
    if batch == 1:
        # The first, the one that is joined, two as one, and what reads each of these.
        assert len([n for n in names if "conv2d" in n]) == 5 and not [n for n in names if "slice" in n]
