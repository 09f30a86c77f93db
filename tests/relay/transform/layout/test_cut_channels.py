"""Channels that are split, read apart and joined again: they stay in blocks, and cost no kernel where they are one run of memory."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tilewright as tvm
from tests.relay.random_graphs import assert_same, evaluate
from tests.slow import seeds
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.ir import IRModule
from tilewright.relay import transform
from tilewright.relay.analysis import list_op_freqs
from tilewright.relay.transform import infer_types
from tilewright.runtime.vm import VirtualMachine

TARGET = "llvm -mcpu=x86-64-v3"


def filters(*shape: int, seed: int = 0) -> relay.Constant:
    weights = np.random.default_rng(seed).standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
    return relay.const(weights.astype("float32"))


def conv(x: relay.Expr, channels: int, size: int = 1, seed: int = 0) -> relay.Expr:
    inner = channels_of(x)
    made = relay.nn.conv2d(x, filters(channels, inner, size, size, seed=seed), padding=(size // 2, size // 2))
    return relay.nn.relu(made)


def channels_of(x: relay.Expr) -> int:
    t = infer_types(x)
    assert isinstance(t, relay.TensorType)
    return t.concrete_shape[1]


def compiled(mod: IRModule, inputs: list[np.ndarray]) -> list[str]:
    """The names of the kernels that are called, after results were compared."""
    lib = relay.build(mod, TARGET)
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    want = evaluate(mod, inputs)
    module.run(x=inputs[0])
    got = [module.get_output(i).numpy() for i in range(len(want))]
    assert_same(got, want)
    result = VirtualMachine(relay.vm.compile(mod, TARGET), tvm.cpu()).invoke("main", tvm.nd.array(inputs[0]))
    assert_same([r.numpy() for r in (result if len(want) > 1 else [result])], want)
    return [c.kernel.name for c in lib.plan.calls]


def module_of(x: relay.Var, *results: relay.Expr) -> tuple[IRModule, list[np.ndarray]]:
    body = results[0] if len(results) == 1 else relay.Tuple(results)
    shape = x.type_annotation.concrete_shape
    return IRModule.from_expr(relay.Function([x], body)), [
        np.random.default_rng(1).standard_normal(shape).astype("float32")
    ]


def test_a_block_that_splits_its_features_and_joins_them_again() -> None:
    """As detectors have them: half goes on through layers, and all that came is joined."""
    x = relay.var("x", shape=(1, 32, 12, 12))
    halves = relay.split(conv(x, 64), 2, axis=1)
    kept, last = [halves[0], halves[1]], halves[1]
    for i in range(2):
        last = conv(conv(last, 32, 3, i), 32, 3, 8 + i)
        kept.append(last)
    mod, inputs = module_of(x, conv(relay.concatenate(kept, axis=1), 64))
    names = compiled(mod, inputs)
    # The data is brought into blocks and out of them, and the rest is convolutions.
    assert [n for n in names if "conv2d" not in n and "layout_transform" not in n] == []
    assert len([n for n in names if "conv2d" in n]) == 6 and len(names) == 8


def test_a_block_that_shuffles_a_batch() -> None:
    x = relay.var("x", shape=(2, 32, 6, 6))
    halves = relay.split(conv(x, 64), 2, axis=1)
    mod, inputs = module_of(x, conv(relay.concatenate([conv(halves[1], 32), halves[0]], axis=1), 32))
    optimized, _ = relay.optimize(mod, TARGET)
    found = list_op_freqs(optimized)
    # Two convolutions read blocks of the first; nothing leaves blocks before the end.
    assert "split" not in found and found["layout_transform"] == 2
    compiled(mod, inputs)


@pytest.mark.parametrize("seed", seeds(60, 20))
def test_random_cuts(seed: int) -> None:
    rng = random.Random(seed)
    n, side = rng.choice([1, 1, 2]), rng.choice([4, 5, 7])
    x = relay.var("x", shape=(n, rng.choice([3, 16, 24]), side, side))
    pool: list[relay.Expr] = [conv(x, rng.choice([16, 32, 40, 64]), rng.choice([1, 3]))]
    for i in range(rng.randint(3, 8)):
        e = rng.choice(pool[-3:])
        channels = channels_of(e)
        kind = rng.random()
        if kind < 0.3:
            cuts = sorted({rng.choice([8, 16, 16, 32, 5]) for _ in range(rng.choice([1, 1, 2]))})
            cuts = [c for c in cuts if c < channels]
            pieces = relay.split(e, tuple(cuts) or 1, axis=1)
            pool += [pieces[k] for k in range(len(cuts) + 1)]
        elif kind < 0.5:
            begin = rng.randrange(0, channels, rng.choice([1, 8, 16, 16]))
            end = rng.choice([channels, min(begin + 16, channels)])
            pool.append(relay.strided_slice(e, [begin], [end], axes=[1]))
        elif kind < 0.6:
            pool.append(relay.strided_slice(e, [0, 0, 1, 0], [n, channels, side, side], [1, 1, 1, 1]))
            pool[-1] = relay.nn.pad(pool[-1], ((0, 0), (0, 0), (1, 0), (0, 0)))
        elif kind < 0.8:
            pool.append(conv(e, rng.choice([8, 16, 32]), rng.choice([1, 3]), i))
        elif kind < 0.9:
            pool.append(relay.nn.max_pool2d(e, (3, 3), padding=(1, 1)))
        else:
            pool.append(relay.concatenate([rng.choice(pool[-4:]), e, rng.choice(pool[-4:])], axis=1))
    mod, inputs = module_of(x, pool[-1], *rng.sample(pool, 1))
    compiled(mod, inputs)


def joined(*fields: relay.Expr, axis: int = 1) -> dict[str, int]:
    mod = IRModule.from_expr(relay.concatenate(list(fields), axis))
    after = transform.SimplifyExpr()(mod)
    inputs = [np.random.default_rng(2).standard_normal((2, 6, 4)).astype("float32")]
    assert_same(evaluate(after, inputs), evaluate(mod, inputs))
    return list_op_freqs(after)


def test_slices_that_are_joined_again() -> None:
    x = relay.var("x", shape=(2, 6, 4))

    def cut(begin: int, end: int, axis: int = 1, step: int = 1) -> relay.Expr:
        return relay.strided_slice(x, [begin], [end], [step], axes=[axis])

    other = relay.tanh(x)
    assert joined(cut(0, 2), cut(2, 6)) == {}
    assert joined(cut(0, 2), cut(2, 5), other) == {"strided_slice": 1, "concatenate": 1, "tanh": 1}
    assert joined(other, cut(0, 2), cut(2, 4), cut(4, 6), cut(0, 3)) == {
        "strided_slice": 1,
        "concatenate": 1,
        "tanh": 1,
    }
    # Not one after the other, of another step, of another axis, of something else.
    assert joined(cut(2, 6), cut(0, 2))["strided_slice"] == 2
    assert joined(cut(0, 4, 1, 2), cut(4, 6))["strided_slice"] == 2
    assert joined(cut(0, 2, 2), cut(2, 4, 2))["strided_slice"] == 2
    assert joined(cut(0, 2), relay.strided_slice(other, [2], [6], axes=[1]))["strided_slice"] == 2
