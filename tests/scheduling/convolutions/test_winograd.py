"""Winograd's form of an unknown number of images: groups of tiles that hold a part of one image, or several images."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from tests.scheduling.test_rules import TARGETS
from tilewright import te, tir, topi
from tilewright.codegen import interp
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.scheduling.winograd import winograd_plan
from tilewright.target import Target
from tilewright.target.core import core
from tilewright.topi import nn
from tilewright.topi.nn.winograd_blocked import conv2d_winograd_NCHWc


def convolution(height: Any, width: Any, padding: tuple[int, ...], tile_size: int = 2) -> tir.PrimFunc:
    """relu(conv2d(d) + b) of 16 channels and n images."""
    n, places = tir.SizeVar("n", "int64"), (tile_size + 2) ** 2
    sizes = [n, *[v for v in (height, width) if isinstance(v, tir.Var)]]
    d = te.placeholder((n, 1, height, width, 16), name="d")
    w = te.placeholder((places, 1, 16, 16), name="w")
    b = te.placeholder((1, 1, 1, 1, 16), name="b")
    out = nn.relu(topi.add(conv2d_winograd_NCHWc(d, w, padding, tile_size, 16), b))
    return te.create_prim_func([d, w, b, out, *sizes], "int64")


def results(func: tir.PrimFunc, images: int, height: int, width: int, out: tuple[int, int], *sizes: int) -> np.ndarray:
    rng = np.random.default_rng(images)
    places = int(func.buffer_map[func.params[1]].shape[0])
    shapes = [(images, 1, height, width, 16), (places, 1, 16, 16), (1, 1, 1, 1, 16), (images, 1, *out, 16)]
    args = [rng.standard_normal(s).astype("float32") for s in shapes]
    interp.run(func, [*args, images, *sizes])
    return args[-1]


@functools.cache
def unscheduled(height: int, width: int, padding: tuple[int, ...], images: int, out: tuple[int, int]) -> np.ndarray:
    """The results of a convolution as it is declared; they are the same for all targets."""
    return results(convolution(height, width, padding), images, height, width, out)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("images", [1, pytest.param(2, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize(
    ("shape", "padding", "most"),
    [
        ((4, 3), (1, 1), 8),  # one group of fewer images than it may hold
        ((4, 3), (1, 0, 0, 1), 2),  # groups of two images, the last one half full
        ((3, 5), (0, 1, 2, 1), 1),  # an image in each group
    ],
)
def test_groups_of_images(
    shape: tuple[int, int], padding: tuple[int, ...], most: int, images: int, target: str, monkeypatch: Any
) -> None:
    height, width = shape
    func = convolution(height, width, padding)
    before, after = (padding[:2], padding[2:]) if len(padding) == 4 else (padding, padding)
    out = (height + before[0] + after[0] - 2, width + before[1] + after[1] - 2)
    with Target(TARGETS[target]) as chosen, KernelPlan(chosen):
        monkeypatch.setattr(chosen.cpu, "core", chosen.cpu.core._replace(winograd_images=most))
        scheduled = schedule_kernel(func, chosen)
    assert 'scope="local"' in scheduled.script() and "vectorized" in scheduled.script()
    expected = unscheduled(height, width, padding, images, out)
    np.testing.assert_allclose(results(scheduled, images, height, width, out), expected, rtol=1e-4, atol=1e-4)


def test_parts_of_an_image() -> None:
    """Threads share the parts of all images."""
    with Target(TARGETS["avx512"]) as chosen, KernelPlan(chosen):
        text = schedule_kernel(convolution(96, 96, (1, 1), 4), chosen).script()
    plan = winograd_plan(16, 16, (None, 24, 24), 4, 16, core("avx512_intel", 32), 2, chosen.cpu.l2_bytes)
    assert plan is not None and text.count("T.parallel") == 1
    assert f"T.parallel(n * T.int64({576 // plan.group}))" in text


def test_images_of_unknown_size_keep_the_general_rules() -> None:
    height = tir.SizeVar("h", "int64")
    func = convolution(height, 4, (1, 1))
    with Target(TARGETS["avx512"]) as chosen, KernelPlan(chosen):
        scheduled = schedule_kernel(func, chosen)
    expected = results(func, 2, 5, 4, (5, 4), 5)
    np.testing.assert_allclose(results(scheduled, 2, 5, 4, (5, 4), 5), expected, rtol=1e-4, atol=1e-4)


def test_each_choice_computes_the_same() -> None:
    """Tiles in a group, the product's tile, and whether threads share groups or steps."""
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(s).astype("float32") for s in ((1, 1, 8, 8, 16), (16, 1, 16, 16))]

    def result(plan: KernelPlan) -> np.ndarray:
        with plan:
            d, w = [te.placeholder(a.shape) for a in args]
            func = te.create_prim_func([d, w, conv2d_winograd_NCHWc(d, w, (1, 1), 2, 16)])
        out = np.zeros((1, 1, 8, 8, 16), "float32")
        interp.run(schedule_kernel(func, plan.target, plan), [*args, out])
        return out

    plan = KernelPlan("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -num-cores=2")
    expected, space = result(plan), plan.space()
    assert {name.rpartition(".")[2] for name in space} >= {"group", "tile", "shared"}
    for name, choices in space.items():
        for choice in {str(c): c for c in (choices[0], choices[-1])}.values():
            other = KernelPlan(plan.target, {name: choice})
            np.testing.assert_allclose(result(other), expected, rtol=1e-4, atol=1e-4, err_msg=f"{name}: {choice}")
            assert not other.unfit()
