"""ProductsBeforeResizes: products over channels change places with resizes, split over concatenations, and join with products before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

import tilewright as tvm
from tests.relay.random_graphs import evaluate
from tilewright import relay
from tilewright.contrib import graph_executor
from tilewright.ir import IRModule
from tilewright.relay import transform
from tilewright.relay.analysis import get_total_mac_number, list_op_freqs
from tilewright.relay.transform import infer_types
from tilewright.scheduling.cpu.graph_forms import CpuGraphForms
from tilewright.scheduling.product_places import Place, Step
from tilewright.target import Target

TARGET = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512"
HOW = {"method": "linear", "coordinate_transformation_mode": "half_pixel"}


def values(*shape: int, seed: int = 0) -> relay.Constant:
    return relay.const((np.random.default_rng(seed).standard_normal(shape) / np.sqrt(shape[-1])).astype("float32"))


def image(name: str, channels: int, side: int) -> relay.Var:
    return relay.var(name, shape=(1, channels, side, side))


def moved(body: relay.Expr) -> IRModule:
    """The program after the pass, which changes no value."""
    mod = transform.InferType()(IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body)))
    with Target(TARGET):
        after: IRModule = transform.InferType()(transform.ProductsBeforeResizes()(mod))
    alike(after, mod)
    return after


def alike(after: IRModule, before: IRModule) -> None:
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(p.type_annotation.concrete_shape).astype("float32") for p in before["main"].params]
    (got,), (want,) = evaluate(after, inputs), evaluate(before, inputs)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(want).max())))


def head(side: int = 32, width: int = 64, bias: bool = True) -> relay.Expr:
    """The decoder of a segmentation network: maps of several sizes as rows of channels, each through a layer of its own, resized,
    concatenated, and through a 1 x 1 convolution."""
    parts = []
    for i, channels in enumerate((16, 32, 64)):
        here = side >> i
        x = relay.var(f"x{i}", shape=(1, here * here, channels))
        made = relay.nn.dense(x, values(width, channels, seed=i))
        made = made + values(width, seed=9 + i) if bias else made
        made = relay.reshape(relay.transpose(made, (0, 2, 1)), (1, width, here, here))
        parts.append(relay.image.resize2d(made, (side, side), **HOW) if i else made)
    joined = relay.concatenate(parts[::-1], axis=1)
    return relay.nn.relu(relay.nn.conv2d(joined, values(width, 3 * width, 1, 1, seed=5)))


def test_a_decoder_computes_each_part_at_its_own_size() -> None:
    body = head()
    after = moved(body)
    ops = list_op_freqs(after)
    # One product for each map instead of two, on as few pixels and channels as it has.
    assert (ops["nn.conv2d"], ops.get("nn.dense", 0), ops.get("concatenate", 0), ops["image.resize2d"]) == (3, 0, 0, 2)
    assert get_total_mac_number(after["main"]) == 64 * (1024 * 16 + 256 * 32 + 64 * 64)
    # The biases of all maps become one.
    assert ops["add"] == 3
    assert list_op_freqs(moved(head(bias=False)))["add"] == 2


def test_what_gains_nothing_stays_concatenated() -> None:
    small, same, other = image("x", 64, 8), image("y", 64, 32), image("z", 32, 32)
    joined = relay.concatenate([same, relay.image.resize2d(small, (32, 32), **HOW), other], axis=1)
    after = moved(relay.nn.conv2d(joined, values(64, 160, 1, 1)))
    assert list_op_freqs(after) == {"nn.conv2d": 2, "image.resize2d": 1, "concatenate": 1, "add": 1}
    after = moved(relay.nn.conv2d(relay.concatenate([same, relay.nn.relu(other)], axis=1), values(64, 96, 1, 1)))
    assert list_op_freqs(after) == {"nn.conv2d": 1, "concatenate": 1, "nn.relu": 1}


def test_products_of_narrow_results_stay_apart() -> None:
    x = image("x", 96, 16)
    narrow = relay.nn.conv2d(x, values(16, 96, 1, 1))
    assert list_op_freqs(moved(relay.nn.conv2d(narrow, values(96, 16, 1, 1, seed=1)))) == {"nn.conv2d": 2}
    wide = relay.nn.conv2d(x, values(192, 96, 1, 1)) + values(192, 1, 1)
    after = moved(relay.nn.conv2d(wide, values(16, 192, 1, 1, seed=1)))
    assert list_op_freqs(after) == {"nn.conv2d": 1, "add": 1}
    # Others need the wide result in any case.
    shared = relay.nn.conv2d(wide, values(192, 192, 1, 1, seed=1)) * wide
    assert list_op_freqs(moved(shared))["nn.conv2d"] == 2


def outside(x: relay.Expr) -> relay.Expr:
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize", "roi": (0.1, 0.1, 1.2, 0.9)}
    return relay.image.resize2d(x, (32, 32), extrapolation_value=1.0, **crop)


def activated(x: relay.Expr) -> relay.Expr:
    return relay.nn.relu(relay.image.resize2d(x, (32, 32), **HOW))


def channels_resized(x: relay.Expr) -> relay.Expr:
    return relay.image.resize2d(x, (32, 16), layout="NHWC", **HOW)


@pytest.mark.parametrize("between", [outside, activated, channels_resized])
def test_what_products_do_not_pass(between: Callable[[relay.Expr], relay.Expr]) -> None:
    x = image("x", 64, 8)
    resized = between(x)
    body = relay.nn.conv2d(resized, values(64, infer_types(resized).concrete_shape[1], 1, 1))
    mod = transform.InferType()(IRModule.from_expr(relay.Function([x], body)))
    with Target(TARGET):
        assert tvm.ir.structural_equal(transform.ProductsBeforeResizes()(mod), mod)


class Chain:
    """A random product over what random operators make of channels that lie on any axis."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.count = 0
        places = (self.pick(2, 3, 4, 5), self.pick(2, 3, 4, 5))
        e, axis = self.grown(places)
        if self.rng.random() < 0.6:
            parts, shape = [e], infer_types(e).concrete_shape
            spatial = tuple([d for i, d in enumerate(shape) if i not in (0, axis)])
            for _ in range(self.pick(1, 2)):
                parts.append(self.fitting(spatial, axis))
            e = relay.concatenate(parts, axis=axis)
        channels = infer_types(e).concrete_shape[axis]
        self.body = self.product(e, axis, channels)

    def pick(self, *choices: int) -> int:
        return int(self.rng.choice(choices))

    def weight(self, *shape: int) -> relay.Constant:
        return values(*shape, seed=int(self.rng.integers(1 << 30)))

    def source(self, places: tuple[int, ...], axis: int) -> relay.Expr:
        shape = [1, *places]
        shape.insert(axis, self.pick(3, 4, 8))
        self.count += 1
        return relay.var(f"x{self.count}", shape=tuple(shape))

    def product(self, e: relay.Expr, axis: int, channels: int) -> relay.Expr:
        filters, rank = self.pick(2, 5, 8), len(infer_types(e).concrete_shape)
        if axis == rank - 1:
            if self.rng.random() < 0.4:
                return relay.nn.matmul(e, self.weight(channels, filters))
            return relay.nn.dense(e, self.weight(filters, channels))
        return relay.nn.conv2d(e, self.weight(filters, channels, 1, 1))

    def resized(self, e: relay.Expr, axis: int, size: tuple[int, ...]) -> relay.Expr:
        how = {"method": ("linear", "cubic", "nearest_neighbor")[self.pick(0, 0, 1, 2)]}
        how["coordinate_transformation_mode"] = ("half_pixel", "align_corners", "asymmetric")[self.pick(0, 1, 2)]
        return relay.image.resize2d(e, size, layout="NCHW" if axis == 1 else "NHWC", **how)

    def fitting(self, spatial: tuple[int, ...], axis: int) -> relay.Expr:
        e = self.source((self.pick(2, 3), self.pick(2, 4)), axis)
        if self.rng.random() < 0.5:
            e = self.product(e, axis, infer_types(e).concrete_shape[axis])
        return self.resized(e, axis, spatial)

    def grown(self, places: tuple[int, ...]) -> tuple[relay.Expr, int]:
        axis = self.pick(1, 3)
        e = self.source(places, axis)
        for _ in range(self.pick(1, 2, 3, 4, 5)):
            shape = infer_types(e).concrete_shape
            kind = self.pick(0, 0, 1, 1, 2, 3, 4)
            if kind == 0:
                e = self.resized(e, axis, (self.pick(2, 5, 7), self.pick(3, 6)))
            elif kind == 1:
                e = self.product(e, axis, shape[axis])
            elif kind == 2:
                e = e + self.weight(*[shape[axis], *[1] * (3 - axis)])
            elif kind == 3:
                e = relay.transpose(e, (0, 2, 3, 1) if axis == 1 else (0, 3, 1, 2))
                axis = 4 - axis
            else:
                joined = (1, shape[1], shape[2] * shape[3]) if axis == 1 else (1, shape[1] * shape[2], shape[3])
                e = relay.reshape(relay.reshape(e, joined), shape)
        return e, axis


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Place]]:
    """Each product takes any of its places, whatever it costs: those that were taken."""
    rng, taken = np.random.default_rng(1), []

    def product_place(
        self: CpuGraphForms,
        channels: int,
        filters: int,
        size: int,
        steps: Sequence[Step],
        choices: Sequence[Place],
        summed: bool,
    ) -> Place:
        taken.append(choices[int(rng.integers(len(choices)))])
        return taken[-1]

    monkeypatch.setattr(CpuGraphForms, "product_place", product_place)
    yield taken


def test_every_place_computes_the_same(anywhere: list[Place]) -> None:
    for seed in range(120):
        moved(Chain(seed).body)
    assert len([p for p in anywhere if p.above]) > 30 and len([p for p in anywhere if p.source > p.above]) > 15


def test_compiled() -> None:
    body = head(8, 16)
    mod = IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
    lib = relay.build(mod, "llvm")
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(p.type_annotation.concrete_shape).astype("float32") for p in mod["main"].params]
    module.run(**{p.name_hint: v for p, v in zip(mod["main"].params, inputs, strict=True)})
    (want,) = evaluate(mod, inputs)
    np.testing.assert_allclose(module.get_output(0).numpy(), want, rtol=1e-4, atol=1e-5)
    assert not [c for c in lib.plan.calls if "concatenate" in c.kernel.name]
