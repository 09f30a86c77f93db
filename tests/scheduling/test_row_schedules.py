"""Reductions of any shape by the rules for rows: native code against NumPy; lengths that no vector divides, several axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay, te, topi
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.script import tir as T
from tilewright.target import Target

TARGETS = ["llvm", "llvm -mcpu=x86-64-v3"]
SCALE = relay.const(1e4)


def run(body: Any, x: np.ndarray[Any, Any], target: str = "llvm") -> np.ndarray[Any, Any]:
    """The compiled relay function of one tensor."""
    var = relay.var("x", shape=x.shape, dtype=str(x.dtype))
    executor = relay.build(tvm.IRModule.from_expr(relay.Function([var], body(var))), target)["default"](tvm.cpu())
    executor["set_input"]("x", x)
    executor["run"]()
    result: np.ndarray[Any, Any] = executor["get_output"](0).numpy()
    return result


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = np.exp(x.astype("float64") - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [17, 56, 63, 64, 65, 72, 197, 257, 1000, 1003, 2048])
def test_rows_of_any_length(size: int, target: str) -> None:
    x = numbers(6, size)
    np.testing.assert_allclose(run(relay.nn.softmax, x, target), softmax(x), rtol=1e-5, atol=1e-7)
    both = run(lambda v: relay.add(relay.max(v, axis=1), relay.sum(v * v, axis=1)), x, target)
    np.testing.assert_allclose(both, x.max(1) + (x.astype("float64") ** 2).sum(1), rtol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(32, 35), (18, 17), (10, 16), (2, 4, 40), (48, 64)])
def test_short_rows_in_groups(shape: tuple[int, ...], target: str) -> None:
    """Groups of 16, 9, 5, 4 and 16 rows (of half as many lanes: 8, 6, 5, 4 and 8)."""
    x = numbers(*shape)
    expected = softmax(x)
    np.testing.assert_allclose(run(relay.nn.softmax, x, target), expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(run(relay.nn.log_softmax, x, target), np.log(expected), rtol=1e-5, atol=1e-5)
    got = run(lambda v: (v - relay.mean(v, -1, True)) / relay.sqrt(relay.variance(v, -1, True)), x, target)
    wide = x.astype("float64")
    np.testing.assert_allclose(got, (wide - wide.mean(-1, keepdims=True)) / wide.std(-1, keepdims=True), 1e-4, 1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_rows_before_an_axis_of_one_element(target: str) -> None:
    """Their reductions end with the row, within a vector."""
    x = numbers(8, 17, 1)
    got = run(lambda v: relay.nn.softmax(v, axis=1), x, target)
    np.testing.assert_allclose(got[..., 0], softmax(x[..., 0]), rtol=1e-5, atol=1e-7)


def test_groups_of_rows_compute_what_they_read() -> None:
    """In the interpreter, which checks bounds and races."""
    x = te.placeholder((18, 32), name="x")
    func = te.create_prim_func([x, topi.nn.log_softmax(x)])
    plan = KernelPlan(Target("llvm -mcpu=x86-64-v4"))
    grouped = schedule_kernel(func, Target("llvm -mcpu=x86-64-v4"), plan)
    assert plan.values()["T_log_softmax.group"] == 9
    data, found = numbers(18, 32), tvm.nd.empty((18, 32))
    tvm.build(grouped, target="interp")(tvm.nd.array(data), found)
    np.testing.assert_allclose(found.numpy(), np.log(softmax(data)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(40, 6, 3), (33, 5, 2), (9, 30, 6)])
@pytest.mark.parametrize("log", [False, True])
def test_few_columns(shape: tuple[int, ...], log: bool) -> None:
    """The numbers of a row are fewer than half of a vector."""
    x = numbers(*shape)
    expected = np.moveaxis(softmax(np.moveaxis(x, 1, -1)), -1, 1)
    got = run(lambda v: (relay.nn.log_softmax if log else relay.nn.softmax)(v, axis=1), x)
    np.testing.assert_allclose(got, np.log(expected) if log else expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", [2, 5, 8, 12, 20])
@pytest.mark.parametrize("length", [23, 64])
@pytest.mark.parametrize("kind", ["mean", "max", "argmax"])
def test_middle_axis_before_few_columns(kind: str, length: int, columns: int, target: str) -> None:
    """64 elements are added up in several sums for each column."""
    x = numbers(6, length, columns)
    got = run(lambda v: getattr(relay, kind)(v, axis=1), x, target)
    np.testing.assert_allclose(got, getattr(np, kind)(x.astype("float64"), axis=1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(64, 3, 1, 50), (64, 3, 1, 64), (65, 2, 1, 7)])
@pytest.mark.parametrize("kind", ["mean", "max"])
def test_outer_axes_one_of_which_is_short(shape: tuple[int, ...], kind: str) -> None:
    """The parts of the sum and the sum itself may share their innermost loop."""
    x = numbers(*shape)
    got = run(lambda v: getattr(relay, kind)(v, axis=(0, 2)), x)
    np.testing.assert_allclose(got, getattr(np, kind)(x.astype("float64"), axis=(0, 2)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shape", [(3, 4, 7, 7), (2, 3, 56, 56), (2, 3, 13, 40), (1, 5, 17, 1), (2, 2, 3, 112)])
@pytest.mark.parametrize("kind", ["mean", "max", "min", "prod", "variance"])
def test_two_axes(shape: tuple[int, ...], kind: str) -> None:
    x = numbers(*shape)
    if kind == "prod":
        x = 1 + x / 100
    reference = getattr(np, {"variance": "var"}.get(kind, kind))(x.astype("float64"), axis=(2, 3))
    got = run(lambda v: getattr(relay, kind)(v, axis=[2, 3]), x)
    np.testing.assert_allclose(got, reference, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((40, 3, 9, 14), (0, 2)),
        ((3, 20, 4, 5, 14), (0, 1, 3)),
        ((2, 20, 30, 4, 5), (1, 3)),
        ((5, 2, 5, 3), (0, 2)),
        ((40, 3, 1, 14), (0, 2)),
        ((64, 5, 14, 1, 17), (0, 1, 3)),
    ],
)
def test_groups_of_axes_that_are_apart(
    shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool, target: str
) -> None:
    """The first group is reduced before the others where its rows fill vectors: not in one of 15 elements, and where no other axis has
    several."""
    x = numbers(*shape)
    for kind in ("sum", "mean", "max", "min"):
        got = run(
            lambda v, kind=kind: relay.exp(getattr(relay, kind)(v * v / SCALE, axis=axes, keepdims=keepdims)), x, target
        )
        expected = np.exp(getattr(np, kind)(x.astype("float64") ** 2 / 1e4, axis=axes, keepdims=keepdims))
        np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize(("rows", "size", "decided"), [(750, 840, "next row"), (30, 840, "no"), (60, 9999, "no")])
def test_rows_from_memory_are_fetched_ahead(rows: int, size: int, decided: str) -> None:
    """Where they are not in the second cache (here 1 MiB), and two of them fit in the first one."""
    with Target("llvm -mcpu=skylake-avx512") as target, KernelPlan(target) as plan:
        x = te.placeholder((rows, size), name="x")
        func = schedule_kernel(te.create_prim_func([x, topi.nn.softmax(x)]), target, plan)
    assert plan.values()["T_softmax_exp.prefetch"] == decided
    assert ("software_prefetch_next" in func.script()) == (decided == "next row")


def test_stages_of_a_reduction() -> None:
    def decided(*shape: int) -> Any:
        with Target("llvm -mcpu=skylake-avx512"), KernelPlan("llvm -mcpu=skylake-avx512") as plan:
            topi.sum(te.placeholder(shape), axis=(0, 2))
        return plan.values().get("reduction.stages")

    assert [decided(40, 3, 9, 14), decided(4, 3, 9, 14), decided(40, 100, 9, 100)] == ["two", "one", "one"]


@pytest.mark.parametrize(
    ("shape", "axis"), [((1, 21, 16, 16), 1), ((5, 37), 0), ((4, 9, 33), 1), ((7, 130), 1), ((300,), 0)]
)
def test_places_of_the_greatest(shape: tuple[int, ...], axis: int) -> None:
    x = numbers(*shape)
    np.testing.assert_array_equal(run(lambda v: relay.argmax(v, axis=axis), x), x.argmax(axis))


def test_a_vector_of_two_numbers() -> None:
    x = 1 + numbers(33).astype("float64") / 100
    np.testing.assert_allclose(run(lambda v: relay.prod(v), x, "llvm -mcpu=x86-64"), x.prod(), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["uint8", "uint32"])
def test_places_among_numbers_without_sign(dtype: str) -> None:
    x = (np.random.default_rng(2).permutation(262).reshape(2, 131) % 251).astype(dtype)
    np.testing.assert_array_equal(run(lambda v: relay.argmax(v, axis=1), x), x.argmax(1))
    np.testing.assert_array_equal(run(lambda v: relay.argmin(v, axis=1), x), x.argmin(1))


@pytest.mark.parametrize("target", TARGETS)
def test_places_in_rows_beyond_vectors(target: str) -> None:
    """What is read beyond a row's end never counts: not beside infinities, not where everything is NaN; NaN is beyond any number."""
    x = numbers(5, 133)
    x[1], x[2, 7:], x[3] = -np.inf, -np.inf, np.nan
    x[4, 99:101] = np.nan
    np.testing.assert_array_equal(run(lambda v: relay.argmax(v, axis=1), x, target), x.argmax(1))
    np.testing.assert_array_equal(run(lambda v: relay.argmin(v, axis=1), x, target), x.argmin(1))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize(
    ("shape", "axes"), [((6, 133), 1), ((33, 40), 0), ((3, 7, 7, 5), (1, 2)), ((2, 3, 9, 31), (2, 3)), ((300,), 0)]
)
def test_extremes_of_nan(shape: tuple[int, ...], axes: Any, dtype: str, target: str) -> None:
    """One NaN anywhere is the result, whichever elements the lanes and partial results hold."""
    x = numbers(*shape).astype(dtype)
    order = np.random.default_rng(3).permutation(x.size)[: x.size // 40]
    x.flat[order] = np.nan
    np.testing.assert_array_equal(run(lambda v: relay.max(v, axis=axes), x, target), x.max(axes))
    np.testing.assert_array_equal(run(lambda v: relay.min(v, axis=axes), x, target), x.min(axes))


@pytest.mark.parametrize("place", range(0, 70, 3))
def test_one_nan(place: int) -> None:
    x = numbers(70)
    x[place] = np.nan
    assert np.isnan(run(lambda v: relay.max(v), x))
    assert np.isnan(run(relay.nn.softmax, x[None])).all()


def test_rows_that_overlap_in_a_stage_of_no_whole_vectors() -> None:
    """Each result pads what it reads for itself: 16 channels of 10 places, in vectors of 8."""
    x, w = np.arange(2 * 32 * 52).reshape(2, 32, 52) % 7, np.arange(32 * 16 * 10).reshape(32, 16, 10) % 5
    got = run(
        lambda v: relay.nn.conv1d(v, relay.const(w.astype("int32")), 5, (9, 3), groups=2, channels=32, kernel_size=10),
        x.astype("int32"), "llvm -mcpu=x86-64-v3 -num-cores=2",
    )  # fmt: skip
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, [(0, 0), (0, 0), (9, 3)]), 10, axis=2)[:, :, ::5]
    halves = [np.einsum("ncpk,ock->nop", windows[:, k : k + 16], w[k : k + 16]) for k in (0, 16)]
    np.testing.assert_array_equal(got, np.concatenate(halves, 1))


def test_masked_steps_of_a_reduction() -> None:
    """The last vector of a row reaches beyond its end; the start values do not depend on it."""

    @T.prim_func
    def rows(a: T.Buffer((4, 70), "float32"), b: T.Buffer((4,), "float32")):
        for i, k in T.grid(4, 70):
            with T.block("b"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    b[vi] = T.float32(0)
                b[vi] = b[vi] + a[vi, vk]

    sch = tvm.tir.Schedule(rows)
    block = sch.get_block("b")
    _, lane = sch.split(sch.get_loops(block)[1], [None, 16])
    partial = sch.rfactor(lane, 1)
    i, steps, lanes = sch.get_loops(partial)
    sch.decompose_reduction(partial, steps)
    a, out = numbers(4, 70), np.zeros(4, "float32")
    arrays = [tvm.nd.array(a), tvm.nd.array(out)]
    tvm.build(sch.mod, target="llvm")(*arrays)
    np.testing.assert_allclose(arrays[1].numpy(), a.sum(1), rtol=1e-5)


def test_a_first_step_that_is_left_out() -> None:
    """Where a condition leaves out the step that initialises, start values of their own would write what was not written."""

    @T.prim_func
    def late(a: T.Buffer((4, 8), "float32"), b: T.Buffer((4,), "float32")):
        for i, k in T.grid(4, 8):
            with T.block("b"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.where(i + k < 9)
                with T.init():
                    b[vi] = T.float32(0)
                b[vi] = b[vi] + a[vi, vk]

    sch = tvm.tir.Schedule(late)
    sch.decompose_reduction("b", sch.get_loops("b")[1])

    @T.prim_func
    def later(a: T.Buffer((4, 8), "float32"), b: T.Buffer((4,), "float32")):
        for i, k in T.grid(4, 8):
            with T.block("b"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.where(i < k + 2)
                with T.init():
                    b[vi] = T.float32(0)
                b[vi] = b[vi] + a[vi, vk]

    sch = tvm.tir.Schedule(later)
    with pytest.raises(tvm.tir.ScheduleError, match="must not leave out steps of the reduction"):
        sch.decompose_reduction("b", sch.get_loops("b")[1])
