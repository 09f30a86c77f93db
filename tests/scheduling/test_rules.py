"""Schedule rules keep the meaning of kernels: interpreted before and after, on shapes that divide and shapes that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from tilewright import lower, te, topi
from tilewright.codegen import interp
from tilewright.codegen.llvm import emit_module
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.scheduling.cost import padded_rows, register_tile, tile_cost
from tilewright.target import Target
from tilewright.target.core import core
from tilewright.topi import nn
from tilewright.topi.nn.winograd_blocked import conv2d_winograd_NCHWc

TARGETS = {
    "avx512": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -num-cores=2",
    "avx2": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell -num-cores=2",
    "neon": "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=cortex-a72 -num-cores=2",
}


def ph(*shape: int, name: str = "x") -> te.Tensor:
    return te.placeholder(shape, name=name)


def conv(i: int, o: int, size: int, kernel: int, stride: int = 1) -> list[te.Tensor]:
    d, w, b = (
        ph(1, i // 16, size, size, 16),
        ph(o // 16, i // 16, kernel, kernel, 16, 16, name="w"),
        ph(1, o // 16, 1, 1, 16, name="b"),
    )
    return [d, w, b, nn.relu(topi.add(nn.conv2d_NCHWc(d, w, stride, kernel // 2, 1), b))]


def dense(rows: int, panels: int, inner: int, width: int) -> list[te.Tensor]:
    d, w, b = ph(1, rows, inner), ph(panels, inner, width, name="w"), ph(panels * width, name="b")
    return [d, w, b, nn.relu(topi.add(nn.dense_pack(d, w), b))]


def gelu_dense(rows: int) -> list[te.Tensor]:
    d, w = ph(1, rows, 8), ph(2, 8, 64, name="w")
    x = nn.dense_pack(d, w)
    return [d, w, topi.multiply(x, topi.add(topi.erf(topi.divide(x, 1.5)), 1.0))]


def dense_cut(rows: int, units: int) -> list[te.Tensor]:
    d, w = ph(rows, 8), ph(2, 8, 32, name="w")
    return [d, w, nn.relu(nn.dense_pack(d, w, units=units))]


def matmul(transpose_b: bool) -> list[te.Tensor]:
    a, b = ph(2, 8, 16), ph(2, 32, 16, name="b") if transpose_b else ph(2, 16, 32, name="b")
    return [a, b, nn.batch_matmul(a, b, transpose_b=transpose_b)]


def plain_product(rows: int, columns: int, depth: int, batch: int = 0) -> list[te.Tensor]:
    """A product as a program writes it, without any form that is made for vectors."""
    lead = (batch,) if batch else ()
    a, b = ph(*lead, rows, depth), ph(*lead, depth, columns, name="b")
    k = te.reduce_axis((0, depth), name="k")
    y = te.compute(
        (*lead, rows, columns), lambda *i: te.sum(a[(*i[:-1], k)] * b[(*i[:-2], k, i[-1])], axis=k), name="y"
    )
    return [a, b, nn.relu(y) if batch else y]


def unary(f: Callable[[te.Tensor], te.Tensor], *shape: int) -> Callable[[], list[te.Tensor]]:
    def make() -> list[te.Tensor]:
        x = ph(*shape)
        return [x, f(x)]

    return make


def layer_norm() -> list[te.Tensor]:
    x, g, b = ph(2, 3, 96), ph(96, name="g"), ph(96, name="b")
    return [x, g, b, nn.layer_norm(x, g, b, [-1])]


def taken() -> list[te.Tensor]:
    x, i = ph(9, 6), te.placeholder((5,), "int64", "i")
    return [x, i, topi.take(x, i, 1, mode="wrap")]


def group_norm_of(*shape: int, groups: int = 8) -> list[te.Tensor]:
    x, g, b = ph(*shape), ph(shape[1], name="g"), ph(shape[1], name="b")
    return [x, g, b, nn.group_norm(x, g, b, groups)]


def reshaped_norm() -> list[te.Tensor]:
    *given, result = layer_norm()
    return [*given, topi.reshape(result, (6, 96))]


def concatenated() -> list[te.Tensor]:
    a, b = ph(1, 3, 7, 7), ph(1, 2, 7, 7, name="b")
    return [a, b, topi.concatenate([a, b], 1)]


def resized(size: tuple[int, int], method: str) -> Callable[[], list[te.Tensor]]:
    return unary(lambda x: topi.image.resize2d(x, None, size, method=method), 1, 2, 6, 9)


def depthwise() -> list[te.Tensor]:
    d, w = ph(1, 2, 9, 9, 16), ph(2, 1, 3, 3, 1, 16, name="w")
    return [d, w, nn.relu(nn.depthwise_conv2d_NCHWc(d, w, 2, 1, 1))]


def plain_conv() -> list[te.Tensor]:
    d, w = ph(1, 6, 9, 9), ph(8, 6, 3, 3, name="w")
    return [d, w, nn.relu(nn.conv2d_nchw(d, w, 1, 1, 1))]


def row_products() -> list[te.Tensor]:
    d, w = ph(1, 3, 5, 32), ph(1, 1, 32, 11, name="w")
    return [d, w, nn.relu(nn.conv2d_nhwc(d, w, 1, 0, 1))]


def winograd() -> list[te.Tensor]:
    d, w, b = ph(1, 1, 5, 6, 16), ph(16, 1, 16, 32, name="w"), ph(1, 2, 1, 1, 16, name="b")
    return [d, w, b, nn.relu(topi.add(conv2d_winograd_NCHWc(d, w, (1, 0), 2, 16), b))]


def attention(masked: bool) -> list[te.Tensor]:
    q, k, v = ph(2, 19, 6, name="q"), ph(2, 21, 6, name="k"), ph(2, 21, 9, name="v")
    masks = [ph(1, 19, 21, name="mask")] if masked else []
    return [q, k, v, *masks, nn.relu(nn.attention(q, k, v, *masks, scale=0.4))]


CASES: dict[str, Callable[[], list[te.Tensor]]] = {
    "conv3x3": lambda: conv(16, 32, 7, 3),
    "conv3x3 strided": lambda: conv(16, 32, 8, 3, 2),
    "conv3x3 in Winograd's form": winograd,
    "conv1x1": lambda: conv(32, 32, 4, 1),
    "dense": lambda: dense(16, 2, 8, 64),
    "dense with a prime number of rows": lambda: dense(13, 2, 8, 64),
    "dense with one row": lambda: dense(1, 2, 24, 32),
    "dense whose epilogue is a long chain": lambda: gelu_dense(28),
    "dense with a long chain over padded rows": lambda: gelu_dense(13),
    "dense of fewer columns than panels hold": lambda: dense_cut(14, 53),
    "batch_matmul": lambda: matmul(False),
    "batch_matmul transposed": lambda: matmul(True),
    "softmax": unary(nn.softmax, 2, 3, 64),
    "softmax of a length that fills no vector": unary(nn.softmax, 2, 3, 50),
    "mean of rows": unary(lambda x: topi.mean(x, axis=-1), 2, 3, 128),
    "sum of everything": unary(topi.sum, 30, 50),
    "sum of everything in vectors": unary(topi.sum, 6, 128),
    "sum of everything, shared out": unary(topi.sum, 64, 1024),
    "mean of a long row, shared out": unary(lambda x: topi.mean(x, axis=-1), 1, 65600),
    "mean over two axes": unary(lambda x: topi.mean(x, axis=(2, 3)), 2, 3, 8, 64),
    "product of odd sizes": lambda: plain_product(13, 37, 9),
    "products of odd sizes with an epilogue": lambda: plain_product(5, 19, 8, 2),
    "sum of columns": unary(lambda x: topi.sum(x, axis=0), 6, 50),
    "argmax": unary(lambda x: topi.argmax(x, axis=-1), 2, 3, 128),
    "global average pool": unary(lambda x: topi.mean(x, axis=(2, 3), keepdims=True), 1, 2, 5, 5, 16),
    "max pool": unary(
        lambda x: nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max", layout="NCHW16c"), 1, 2, 8, 8, 16
    ),
    "max pool, plain": unary(lambda x: nn.pool2d(x, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max"), 1, 3, 8, 8),
    "transpose": unary(lambda x: topi.transpose(x, (0, 2, 3, 1)), 1, 3, 8, 8),
    "exp of odd shape": unary(topi.exp, 7, 5),
    "exp of a scalar": unary(topi.exp),
    "layer norm": layer_norm,
    "group norm": lambda: group_norm_of(1, 6, 5, 8, groups=3),
    "layer norm, reshaped": reshaped_norm,
    "rows of images that follow each other": concatenated,
    "images with a scalar for each": unary(lambda x: x * topi.mean(x, axis=(1, 2), keepdims=True), 2, 7, 7),
    "enlarged": resized((11, 20), "linear"),
    "made smaller": resized((4, 5), "cubic"),
    "argmax of a length that fills no vector": unary(lambda x: topi.argmax(x, axis=-1), 2, 3, 50),
    "argmax over columns that fill no vectors": unary(lambda x: topi.argmax(x, axis=1), 2, 3, 75),
    "softmax over columns that fill no vectors": unary(lambda x: nn.softmax(x, 0), 5, 43),
    "taken along an inner axis": taken,
    "depthwise": depthwise,
    "attention": lambda: attention(False),
    "attention with a mask": lambda: attention(True),
    "plain convolution": plain_conv,
    "convolution of eleven filters whose sums fill their lanes": row_products,
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES)
def test_rule_keeps_values(case: str, target: str) -> None:
    with Target(TARGETS[target]) as chosen, KernelPlan(chosen):
        func = te.create_prim_func(CASES[case]())
        scheduled = schedule_kernel(func, chosen)
    rng = np.random.default_rng(0)
    buffers = [func.buffer_map[p] for p in func.params]
    args = [rng.standard_normal([int(d) for d in b.shape]).astype(b.dtype) for b in buffers]
    before, after = [a.copy() for a in args], [a.copy() for a in args]
    interp.run(func, before)
    interp.run(scheduled, after)
    np.testing.assert_allclose(after[-1], before[-1], rtol=1e-5, atol=1e-5)


def test_contractions_accumulate_in_registers() -> None:
    """The convolution's accumulators are a local buffer, its innermost loops unrolled and vectorised."""
    scheduled: Any = schedule_kernel(te.create_prim_func(conv(64, 64, 56, 3)), Target(TARGETS["avx512"]))
    text = scheduled.script()
    assert 'scope="local"' in text and "T.parallel" in text and "T.vectorized(16)" in text and "T.unroll(14)" in text


@pytest.mark.parametrize(
    ("rows", "columns", "inner", "shared"),
    [(16, 64, 64, False), (24, 64, 64, False), (32, 64, 64, True), (1, 256, 120, False), (1, 256, 128, True)],
)
def test_products_too_small_for_two_threads(rows: int, columns: int, inner: int, shared: bool) -> None:
    """Multiply-adds count less than elements that are read for one of them each."""
    x, w = te.placeholder((rows, inner), name="x"), te.placeholder((columns, inner), name="w")
    target = Target(TARGETS["avx512"])
    with target, KernelPlan(target):
        scheduled: Any = schedule_kernel(te.create_prim_func([x, w, topi.nn.dense(x, w)]), target)
    assert ("T.parallel" in scheduled.script()) == shared


def test_long_chains_read_a_copy_of_crowded_registers() -> None:
    """GELU over a tile of 28 accumulators is a loop over their copy; unrolled over the registers themselves they all spill."""
    target = Target(TARGETS["avx512"])
    with target, KernelPlan(target):
        scheduled: Any = schedule_kernel(te.create_prim_func(gelu_dense(28)), target)
    copy, epilogue = scheduled.script().split("T_dense_pack_local")[-1], "T.erf("
    assert epilogue in copy and "T.unroll" not in copy.split(epilogue)[0]


def test_group_norm_is_one_loop_over_groups() -> None:
    """The reshape at its end leaves its loops those over groups."""
    scheduled: Any = schedule_kernel(te.create_prim_func(group_norm_of(1, 32, 64, 64)), Target(TARGETS["avx512"]))
    text = scheduled.script()
    assert text.count("T.parallel") == 1 and "T.parallel(8)" in text


def test_rows_that_follow_each_other_are_one() -> None:
    """56 x 56 elements are whole vectors, though a row is not."""
    x, y = ph(1, 64, 56, 56), ph(1, 64, 56, 56, name="y")
    func = te.create_prim_func([x, y, topi.concatenate([x, y], 1)])
    text = cast(Any, schedule_kernel(func, Target(TARGETS["avx512"]))).script()
    assert "T.vectorized(16)" in text and "T.where" not in text


def test_chains_of_rows_that_follow_each_other_run_side_by_side() -> None:
    """A row of 112 is whole vectors, but not fours of them."""
    func = te.create_prim_func(unary(topi.sigmoid, 1, 96, 112, 112)())
    text = cast(Any, schedule_kernel(func, Target(TARGETS["avx512"]))).script()
    assert "T.vectorized(64)" in text and "T.where" not in text


def test_places_that_many_rows_ask_for_are_computed_once() -> None:
    for rows, kept in ((9, True), (3, False)):
        x, i = ph(rows, 6), te.placeholder((5,), "int64", "i")
        func = te.create_prim_func([x, i, topi.take(x, i, 1, mode="wrap")])
        text = cast(Any, schedule_kernel(func, Target(TARGETS["avx512"]))).script()
        assert ("T_places = T.alloc_buffer" in text) == kept, rows


def test_gathers_at_gathered_places_do_not_grow_exponentially() -> None:
    """Each reads its place several times: eight of them inlined into one another are past any memory."""
    x = te.placeholder((3, 3), "int32", name="x")
    found: te.Tensor = x
    for _ in range(8):
        found = topi.gather(found, 1, found)
    func = te.create_prim_func([x, found])
    values = np.array([[1, -3, 0], [2, 7, 1], [0, 0, -1]], "int32")
    wanted = values
    for _ in range(8):
        at = np.clip(np.where(wanted < 0, wanted + 3, wanted), 0, 2)
        wanted = np.take_along_axis(wanted, at, 1)
    scheduled = schedule_kernel(func, Target(TARGETS["avx2"]))
    assert len(str(scheduled)) < 100_000
    got = np.zeros((3, 3), "int32")
    interp.run(scheduled, [values, got])
    np.testing.assert_array_equal(got, wanted)


def test_loops_that_are_shared_out_leave_a_loop_inside() -> None:
    """9 x 784 vectors, of which 18 parts are enough."""
    x = ph(784, 9, 16)
    func = te.create_prim_func([x, topi.transpose(x, (1, 0, 2))])
    text = cast(Any, schedule_kernel(func, Target(TARGETS["avx512"]))).script()
    assert "T.parallel(18)" in text and "392" in text


def test_rows_that_narrow_vectors_divide_take_whole_ones() -> None:
    """116 elements are 29 vectors of four, or eight of 16; but 120 of an image made eight times larger are read one by one in these."""
    x, y = ph(9, 116), ph(9, 116, name="y")
    func = te.create_prim_func([x, y, topi.concatenate([x, y], 0)])
    assert "T.vectorized(16)" in cast(Any, schedule_kernel(func, Target(TARGETS["avx512"]))).script()
    x = ph(9, 15)
    func = te.create_prim_func([x, te.compute((9, 120), lambda i, j: x[i, j // 8])])
    assert "T.vectorized(8)" in cast(Any, schedule_kernel(func, Target(TARGETS["avx512"]))).script()


def test_one_sum_is_shared_out() -> None:
    """Parts of it run in parallel; what is too short for that stays one loop."""
    for rows, parallel in ((1024, "T.parallel(16)"), (96, "T.parallel(3)"), (32, "")):
        func = te.create_prim_func(unary(topi.sum, rows, 1024)())
        text = cast(Any, schedule_kernel(func, Target(TARGETS["avx512"]))).script()
        assert (parallel in text) if parallel else ("T.parallel" not in text), rows


@pytest.mark.parametrize("shape", [(1, 112, 112, 11), (1, 56, 56, 22), (1, 28, 28, 88), (1, 113, 113, 11)])
def test_rows_whose_digits_are_not_seen_in_one_stay_apart(shape: tuple[int, ...]) -> None:
    """Vectors of 16 over 112 x 112 x 11 elements: % 11 of their number keeps only 5 of 16."""
    scheduled: Any = schedule_kernel(te.create_prim_func(unary(nn.relu, *shape)()), Target(TARGETS["avx512"]))
    assert "T.vectorized" in scheduled.script()


@pytest.mark.parametrize("columns", [48, 61])
def test_sums_of_columns_stay_in_registers(columns: int) -> None:
    func = te.create_prim_func(unary(lambda x: topi.sum(x, axis=0), 40, columns)())
    lowered = lower(schedule_kernel(func, Target(TARGETS["avx512"])).with_attr("global_symbol", "main"))
    assert "alloca" not in emit_module(lowered, TARGETS["avx512"])


@pytest.mark.parametrize(("rows", "columns"), [(56, 4), (49, 4), (128, 4), (1, 4), (7, 1)])
def test_tiles_fit_the_registers(rows: int, columns: int) -> None:
    for registers in (16, 32):
        r, c = register_tile(rows, columns, core("avx2", registers))
        assert rows % r == 0 and columns % c == 0
        assert tile_cost(r, c, core("avx2", registers)) is not None


def test_prime_numbers_of_rows_are_padded() -> None:
    assert padded_rows(197, 4, core("avx512_intel", 32)) == 198
    assert padded_rows(128, 4, core("avx512_intel", 32)) == 128


def test_several_reductions_along_columns_take_whole_vectors() -> None:
    """The place of the largest element of columns whose number no vector divides: the maximum, then its first place."""
    x = te.placeholder((3, 20, 252), name="x")
    target = Target("llvm -mcpu=skylake-avx512")
    with target, KernelPlan(target) as plan:
        func = te.create_prim_func([x, topi.argmax(x, 1)])
        script = schedule_kernel(func, target, plan).script()
    assert "T.vectorized(16)" in script and "T.vectorized(4)" not in script
    values = np.random.default_rng(0).integers(0, 5, (3, 20, 252)).astype("float32")
    found = np.zeros((3, 252), "int32")
    interp.run(schedule_kernel(func, target, plan), [values, found])
    np.testing.assert_array_equal(found, values.argmax(1))


@pytest.mark.parametrize(("columns", "unrolled"), [(20, True), (3000, False)])
def test_places_of_short_rows_are_found_once(columns: int, unrolled: bool) -> None:
    x = ph(4, 5, 33)
    func = te.create_prim_func([x, topi.image.resize2d(x, None, (3, columns), layout="CHW")])
    assert ("T.unroll" in schedule_kernel(func, Target(TARGETS["avx512"])).script()) == unrolled


def test_products_of_odd_sizes_have_whole_tiles() -> None:
    scheduled = schedule_kernel(te.create_prim_func(plain_product(37, 83, 29)), Target(TARGETS["avx512"])).script()
    assert "b_pad" in scheduled and "_rf" not in scheduled
    plan = KernelPlan(TARGETS["avx512"], {"y.ends": "as they are"})
    assert "b_pad" not in schedule_kernel(te.create_prim_func(plain_product(37, 83, 29)), plan.target, plan).script()
