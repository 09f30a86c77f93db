"""Transposed reads turned in registers: tiles, parts of tiles, all types, blocks of channels; by threads and not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.codegen.small_programs import aligned
from tilewright import relay, te, tir, topi
from tilewright.codegen import interp
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.target import Target

Array = np.ndarray[Any, Any]
TARGETS = {"avx512": "llvm", "avx2": "llvm -mcpu=x86-64-v3", "sse4": "llvm -mcpu=x86-64-v2"}


def check(
    inputs: list[te.Tensor], out: te.Tensor, want: Callable[..., Array], target: str, across: bool = True
) -> None:
    """A scheduled kernel, interpreted (where it is small) and compiled, against NumPy."""
    func = schedule_kernel(te.create_prim_func([*inputs, out]), Target(target))
    assert ('scope="local"' in func.script()) is across
    rng = np.random.default_rng(0)
    arrays = [aligned(rng.integers(-100, 100, [int(d) for d in t.shape]), t.dtype) for t in inputs]
    expected = want(*arrays)
    if expected.size < 5000:
        found = aligned(np.zeros(expected.shape), out.dtype)
        interp.run(func, [*arrays, found])
        np.testing.assert_array_equal(found, expected)
    made = tvm.nd.array(aligned(np.zeros(expected.shape), out.dtype))
    tvm.build(func, target=target)(*[tvm.nd.array(a) for a in arrays], made)
    np.testing.assert_array_equal(made.numpy(), expected)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((32, 48), (1, 0)), ((33, 52), (1, 0)), ((5, 7), (1, 0)), ((4, 130), (1, 0)), ((211, 6), (1, 0)),
        ((2, 20, 3, 16), (0, 2, 3, 1)), ((2, 17, 3, 9), (0, 2, 3, 1)), ((1, 9, 10, 21), (0, 3, 1, 2)), ((6, 5, 40), (2, 1, 0)),
        ((200, 300), (1, 0)), ((3, 130, 170), (0, 2, 1)),
    ],
)  # fmt: skip
def test_transposes(shape: tuple[int, ...], axes: tuple[int, ...], target: str) -> None:
    x = te.placeholder(shape, "float32", "x")
    check([x], topi.transpose(x, axes), lambda a: a.transpose(axes), TARGETS[target])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("rows", "columns"), [(19, 16), (16, 21), (19, 21), (5, 7), (37, 40)])
def test_axes_that_share_an_index(rows: int, columns: int, target: str) -> None:
    """Of a matrix seen as images and heads: the last tile of an image or of a head does not go on into the next one."""
    x = te.placeholder((3 * rows, 2 * columns), "float32", "x")
    split = topi.reshape(x, (3, rows, 2, columns))
    wanted = lambda a: a.reshape(3, rows, 2, columns).transpose(0, 2, 3, 1) * np.float32(2)  # noqa: E731
    func = te.compute((3, 2, columns, rows), lambda b, h, c, r: split[b, r, h, c] * 2.0)
    check([x], func, wanted, TARGETS[target])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool", "float16", "bfloat16", "int32", "float64", "int64"])
def test_types(dtype: str) -> None:
    x = te.placeholder((2, 37, 40), dtype, "x")
    check([x], topi.transpose(x, (0, 2, 1)), lambda a: a.transpose(0, 2, 1), "llvm")


def test_conversions_and_other_operands() -> None:
    x, y = te.placeholder((24, 35), "int8", "x"), te.placeholder((35, 24), "float32", "y")
    out = te.compute((35, 24), lambda i, j: x[j, i].astype("float32") * 2.0 + y[i, j])
    check([x, y], out, lambda a, b: a.T * np.float32(2) + b, "llvm")
    row = te.placeholder((24,), "float32", "row")
    out = te.compute((35, 24), lambda i, j: y[i, j] - x[j, i].astype("float32") * row[j])
    check([x, y, row], out, lambda a, b, c: b - a.T * c, "llvm")


@pytest.mark.parametrize("size", [16, 19])
def test_blocks_of_channels(size: int) -> None:
    x = te.placeholder((1, 32, 3, size), "float32", "x")
    packed = topi.layout_transform(x, "NCHW", "NCHW16c")
    check([x], packed, lambda a: a.reshape(1, 2, 16, 3, size).transpose(0, 1, 3, 4, 2), "llvm")
    y = te.placeholder((1, 2, 3, size, 16), "float32", "y")
    plain = topi.layout_transform(y, "NCHW16c", "NCHW")
    check([y], plain, lambda a: a.transpose(0, 1, 4, 2, 3).reshape(1, 32, 3, size), "llvm")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("channels", "block"), [(29, 16), (19, 4), (5, 8), (41, 8)])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_blocks_that_channels_do_not_fill(channels: int, block: int, dtype: str, target: str) -> None:
    """What fills the last one up is zeros, and no condition keeps its tiles from being turned."""
    x = te.placeholder((2, channels, 3, 19), dtype, "x")
    packed = topi.layout_transform(x, "NCHW", f"NCHW{block}c")
    more = -channels % block

    def wanted(a: Array) -> Array:
        filled = np.pad(a, ((0, 0), (0, more), (0, 0), (0, 0)))
        return filled.reshape(2, -1, block, 3, 19).transpose(0, 1, 3, 4, 2)

    check([x], packed, wanted, TARGETS[target])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("channels", "dtype"), [(32, "uint8"), (12, "uint8"), (16, "float32")])
def test_blocks_with_a_border(channels: int, dtype: str, target: str) -> None:
    """Tiles of the image are turned before the border is written around it."""
    x = te.placeholder((2, channels, 5, 19), dtype, "x")
    padded = topi.nn.pad(topi.layout_transform(x, "NCHW", "NCHW4c"), (0, 0, 1, 2, 0), (0, 0, 0, 1, 0), 7)
    widths = (0, 0), (0, 0), (1, 0), (2, 1), (0, 0)

    def wanted(a: Array) -> Array:
        blocks = a.reshape(2, -1, 4, 5, 19).transpose(0, 1, 3, 4, 2)
        return np.pad(blocks, widths, constant_values=7)

    check([x], padded, wanted, TARGETS[target])


@pytest.mark.parametrize("block", [32, 64])
def test_blocks_of_several_tiles(block: int) -> None:
    """A tile has fewer channels than a block, and the last tile of a row is cut."""
    x = te.placeholder((1, 2, 3, 19, block), "bfloat16", "x")
    plain = topi.cast(topi.layout_transform(x, f"NCHW{block}c", "NCHW"), "float32")
    check([x], plain, lambda a: a.transpose(0, 1, 4, 2, 3).reshape(1, 2 * block, 3, 19).astype("float32"), "llvm")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [16, 19])
def test_axes_that_are_read_backwards(size: int, target: str) -> None:
    """Images in reverse order, in plain layout of blocks of channels; lines, too."""
    x = te.placeholder((3, 2, size, size, 16), "float32", "x")
    shape = (3, 32, size, size)
    out = te.compute(shape, lambda n, c, h, w: x[2 - n, c // 16, h, w, c % 16])
    check([x], out, lambda a: a[::-1].transpose(0, 1, 4, 2, 3).reshape(shape), TARGETS[target])
    out = te.compute(shape, lambda n, c, h, w: x[n, c // 16, size - 1 - h, w, c % 16])
    check([x], out, lambda a: a[:, :, ::-1].transpose(0, 1, 4, 2, 3).reshape(shape), TARGETS[target])


@pytest.mark.parametrize("target", TARGETS)
def test_images_that_are_read_by_steps(target: str) -> None:
    """Every second image of a volume, whose channels come in blocks."""
    x = te.placeholder((32, 27, 54), "float32", "x")
    out = te.compute((14, 2, 54, 16), lambda d, c, p, i: x[c * 16 + i, d * 2, p])
    check([x], out, lambda a: a[:, ::2].reshape(2, 16, 14, 54).transpose(2, 0, 3, 1), TARGETS[target])


def test_what_stays_as_it_is() -> None:
    x = te.placeholder((3, 50), "float32", "x")
    check([x], topi.transpose(x), lambda a: a.T, "llvm", across=False)  # too narrow
    y = te.placeholder((40, 40), "float32", "y")
    check([y], te.compute((20, 40), lambda i, j: y[j, i * 2]), lambda a: a[:, ::2].T, "llvm", across=False)
    both = te.compute((40, 40), lambda i, j: y[j, i] + y[tir.min(j + 1, 39), i])
    check([y], both, lambda a: (a + a[np.minimum(np.arange(40) + 1, 39)]).T, "llvm", across=False)


def test_what_reads_a_scalar_is_no_border() -> None:
    """Its element has no last axis."""
    x, n = te.placeholder((4,), name="x"), te.placeholder((), name="n")
    doubled = te.compute((4,), lambda i: x[i] * 2.0, name="doubled")
    picked = te.compute((4,), lambda i: tir.if_then_else(doubled[i] > 1.0, n(), 0.0), name="picked")
    func = schedule_kernel(te.create_prim_func([x, n, picked]), Target("llvm -mcpu=haswell"))
    values, found = np.array([0, 1, 2, 3], "float32"), np.zeros(4, "float32")
    interp.run(func, [values, np.array(7, "float32"), found])
    np.testing.assert_array_equal(found, [0, 7, 7, 7])


def test_every_third_slice_of_volumes_in_blocks_of_channels() -> None:
    """The slices of a batch of volumes are images: a digit of their joined axis has a step."""
    x = relay.var("x", shape=(3, 32, 15, 15, 4))
    slices = relay.sliding_window(x, 2, [1, 15, 4], [3, 1, 1])
    images = relay.reshape(relay.transpose(slices, [0, 2, 1, 5, 6, 7, 3, 4]), [15, 32, 15, 4])
    mod = tvm.IRModule.from_expr(relay.layout_transform(images, "NCHW", "NCHW16c"))
    a = np.random.default_rng(0).standard_normal((3, 32, 15, 15, 4)).astype("float32")
    found = relay.create_executor("graph", mod).evaluate()(tvm.nd.array(a)).numpy()
    cut = a[:, :, ::3].transpose(0, 2, 1, 3, 4).reshape(15, 2, 16, 15, 4)
    np.testing.assert_array_equal(found, cut.transpose(0, 1, 3, 4, 2))


@pytest.mark.parametrize("order", ["rows", "columns"])
def test_both_orders_compute_the_same(order: str) -> None:
    """Rows of the result, or columns of it, one after the other; axes before and between those that are turned."""
    x = te.placeholder((3, 22, 2, 36), "float32", name="x")
    plan = KernelPlan("llvm -mcpu=skylake-avx512", {"T_transpose.order": order})
    func = schedule_kernel(te.create_prim_func([x, topi.transpose(x, (0, 3, 2, 1))]), plan.target, plan)
    assert not plan.unfit()
    numbers, found = (
        np.arange(3 * 22 * 2 * 36, dtype="float32").reshape(3, 22, 2, 36),
        np.zeros((3, 36, 2, 22), "float32"),
    )
    interp.run(func, [numbers, found])
    np.testing.assert_array_equal(found, numbers.transpose(0, 3, 2, 1))
