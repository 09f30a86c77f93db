"""Kernels and memory plans: random models run by the interpreter on the planned arena; liveness and sizes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.relay.random_graphs import Generator, assert_same, evaluate
from tilewright import relay
from tilewright.codegen import interp
from tilewright.ir import IRModule
from tilewright.ir.transform import PassContext
from tilewright.relay.backend.planning.memory_plan import Storage, peak, plan
from tilewright.relay.backend.planning.plan import KernelCall, Plan, make_plan
from tilewright.relay.backend.planning.plan_executor import run_plan
from tilewright.relay.backend.te_compiler import TECompiler
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import Any
from tilewright.tir.buffer import DATA_ALIGNMENT


def planned(mod: IRModule) -> Plan:
    optimized, _ = relay.optimize(mod, "llvm")
    return make_plan(optimized, TECompiler(Target("llvm")))


def run_kernel(call: KernelCall, arrays: list[np.ndarray]) -> None:
    interp.run(call.kernel.func, list(arrays))


@pytest.mark.parametrize("seed", range(200, 206))
def test_random_models(seed: int) -> None:
    g = Generator(seed, 8)
    mod, inputs = g.module(), g.inputs()
    assert_same(run_plan(planned(mod), inputs, run_kernel), evaluate(mod, inputs))


def by_reference(mod: IRModule, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return run_plan(planned(mod), inputs, run_kernel)


def test_outputs_that_are_inputs_constants_or_given_twice() -> None:
    x = relay.var("x", shape=(2, 4))
    y = relay.tanh(x)
    outputs = relay.Tuple(
        [y, x, y, relay.reshape(y, (8,)), relay.const(np.ones(3, "float32")), relay.reshape(x, (4, 2))]
    )
    mod = IRModule.from_expr(relay.Function([x], outputs))
    data = [np.random.default_rng(0).standard_normal((2, 4)).astype("float32")]
    assert_same(by_reference(mod, data), evaluate(mod, data))


def test_reshape_is_no_kernel() -> None:
    x = relay.var("x", shape=(2, 4))
    y = relay.nn.softmax(relay.reshape(relay.nn.softmax(x), (4, 2)))
    assert [c.kernel.name for c in planned(IRModule.from_expr(y)).calls] == ["fused_nn_softmax", "fused_nn_softmax_1"]


def test_equal_kernels_are_compiled_once() -> None:
    x = relay.var("x", shape=(2, 64))
    w = relay.const(np.ones((64, 64), "float32"))
    y = relay.nn.dense(relay.nn.dense(relay.nn.dense(x, w), w), w)
    p = planned(IRModule.from_expr(y))
    assert len({id(c.kernel) for c in p.calls}) == 1
    assert p.constants.bytes == 64 * 64 * 4


def test_element_wise_kernels_run_in_place() -> None:
    x = relay.var("x", shape=(64,))
    y = relay.sort(relay.tanh(relay.sort(x)))
    p = planned(IRModule.from_expr(y))
    middle = p.calls[1]
    assert middle.args[0].storage is middle.args[1].storage
    assert p.workspace_bytes == 64 * 4


def test_work_of_a_kernel() -> None:
    x = relay.var("x", shape=(3, 20))
    p = planned(IRModule.from_expr(relay.nn.dense(x, relay.const(np.ones((64, 20), "float32")))))
    assert p.calls[0].kernel.flops == 2 * 3 * 20 * 64
    assert p.calls[0].kernel.moved_bytes == 4 * (3 * 20 + 20 * 64 + 3 * 64)


def test_indices_that_place_other_reads_are_not_overwritten() -> None:
    """Row 0 of the indices is read for every row of the result, so the sum with the indices may not take their memory."""
    table, where = relay.var("t", shape=(8, 8, 2), dtype="int64"), relay.var("i", shape=(2, 2), dtype="int64")
    indices = relay.sort(where)
    mod = IRModule.from_expr(relay.Function([table, where], relay.sort(relay.gather_nd(table, indices) + indices)))
    p = planned(mod)
    assert [c.kernel.in_place for c in p.calls] == [(), (), ()]
    values, at = np.arange(128).reshape(8, 8, 2), np.array([[1, 7], [5, 3]])
    found = run_plan(p, {"t": values, "i": at}, run_kernel)[0]
    ordered = np.sort(at)
    np.testing.assert_array_equal(found, np.sort(values[ordered[0], ordered[1]] + ordered))


@pytest.mark.parametrize("dtype, total", [("float32", "float32"), ("uint8", "int32"), ("int8", "int32")])
def test_products_of_a_kernel(dtype: str, total: str) -> None:
    """Multiply-adds of integers count two, too."""
    x, w = (
        relay.var("x", shape=(3, 20), dtype=dtype),
        relay.const(np.ones((64, 20), "int8" if total == "int32" else dtype)),
    )
    optimized = relay.transform.Sequential([relay.transform.InferType(), relay.transform.FuseOps()])(
        IRModule.from_expr(relay.nn.dense(x, w, out_dtype=total))
    )
    kernel = make_plan(optimized, TECompiler(Target("llvm"))).calls[0].kernel
    assert kernel.products == (dtype, "int8" if total == "int32" else dtype, total)
    assert kernel.flops == 2 * 3 * 20 * 64


def test_kernels_without_products() -> None:
    x = relay.var("x", shape=(3, 20))
    assert [c.kernel.products for c in planned(IRModule.from_expr(relay.tanh(relay.sum(x, axis=1)))).calls] == [()]


TABLE = relay.const(np.zeros((1000, 16), "float32"))
LOOKUPS = {
    "take": (lambda i: relay.take(TABLE, i, axis=0), (3, 4), 12 * 16 * 4),
    "gather": (lambda i: relay.gather(TABLE, 0, i), (5, 16), 5 * 16 * 4),
    "gather_nd": (lambda i: relay.gather_nd(TABLE, i), (2, 7), 7 * 4),
    "embedding and sum": (lambda i: relay.sum(relay.take(TABLE, i, axis=0), axis=1), (3, 4), 12 * 16 * 4),
    "every row many times": (lambda i: relay.take(TABLE, i, axis=0), (9999,), 1000 * 16 * 4),
}


@pytest.mark.parametrize("name", LOOKUPS)
def test_bytes_of_lookups_are_those_of_the_rows_that_are_read(name: str) -> None:
    look, shape, table = LOOKUPS[name]
    (call,) = planned(IRModule.from_expr(look(relay.var("i", shape=shape, dtype="int64")))).calls
    traffic = dict(zip([p.kind for p in call.args], call.kernel.traffic, strict=True))
    written = int(np.prod(call.args[-1].type.concrete_shape)) * 4
    assert traffic == {"constant": table, "input": int(np.prod(shape)) * 8, "output": written}
    assert call.kernel.moved_bytes == sum(traffic.values())


def test_bytes_of_slices_are_those_of_the_part_that_is_read() -> None:
    x = relay.var("x", shape=(100, 8))
    (call,) = planned(IRModule.from_expr(relay.tanh(relay.strided_slice(x, [90, 0], [100, 8])))).calls
    assert call.kernel.traffic == (10 * 8 * 4, 10 * 8 * 4)


def test_unknown_dimension_is_refused_with_a_remedy() -> None:
    x = relay.var("x", shape=(Any(), 4))
    with pytest.raises(
        TVMError, match=r"Tensor\[\(\?, 4\), float32\] has a dimension that is not known.*--shape input=1,3,224,224"
    ):
        planned(IRModule.from_expr(relay.tanh(x)))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("count", [40, 2300])
def test_storages_that_live_together_do_not_overlap(seed: int, count: int) -> None:
    if count > 100 and seed:
        return
    rng = np.random.default_rng(seed)
    storages = []
    for i in range(count):
        begin = int(rng.integers(0, 100)) if count < 100 else i
        storages.append(Storage(int(rng.integers(0, 5000)), begin, begin + int(rng.integers(0, 12))))
    total = plan(storages)
    for i, a in enumerate(storages):
        assert a.offset % DATA_ALIGNMENT == 0
        assert a.offset + a.size <= total
        for b in storages[:i]:
            if a.size and b.size and a.begin <= b.end and b.begin <= a.end:
                assert a.offset + a.size <= b.offset or b.offset + b.size <= a.offset
    peak = max(sum(s.size for s in storages if s.begin <= t <= s.end) for t in range(120))
    assert total <= 1.5 * peak or count > 100


def overlaps(storages: list[Storage]) -> list[tuple[Storage, Storage]]:
    """Pairs that live at one step in the same bytes."""
    return [
        (a, b)
        for i, a in enumerate(storages)
        for b in storages[:i]
        if a.begin <= b.end and b.begin <= a.end and a.offset < b.offset + b.size and b.offset < a.offset + a.size
    ]


@pytest.mark.parametrize("seed", range(40))
def test_places_never_overlap_and_are_near_the_peak(seed: int) -> None:
    rng = np.random.default_rng(seed)
    storages = []
    for begin in range(int(rng.integers(1, 60))):
        length = int(rng.choice([0, 1, 1, 2, 3, 10]))
        storages.append(Storage(int(rng.choice([64, 128, 192, 1024, 4096])), begin, begin + length))
    total = plan(storages)
    assert overlaps(storages) == []
    assert peak(storages) <= total == max([s.offset + s.size for s in storages])
    assert total <= 1.25 * peak(storages)


def test_a_tensor_that_lives_long_moves_out_of_the_way() -> None:
    """Of an encoder: two that live long, placed first, leave a gap that the larger ones of other steps do not fit into."""
    storages = [Storage(4096, 0, 1), Storage(1024, 1, 5), Storage(2048, 2, 3), Storage(1024, 3, 9), Storage(4096, 6, 7)]
    assert plan(storages) == peak(storages) and overlaps(storages) == []


def test_epilogues_write_over_what_they_add() -> None:
    x = relay.var("x", shape=(1, 4, 6, 6))
    w = relay.const(np.random.default_rng(0).standard_normal((4, 4, 3, 3)).astype("float32"))
    first = relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1)))
    second = relay.nn.relu(relay.nn.conv2d(first, w, padding=(1, 1)) + first)
    third = relay.sort(relay.nn.conv2d(second, w, padding=(1, 1)))
    mod = IRModule.from_expr(third)
    p = planned(mod)
    by_name = {c.kernel.name: c for c in p.calls}
    # The convolution reads `first` all over, so the sum may not take its place ...
    joined = next(c for name, c in by_name.items() if "add" in name)
    assert joined.kernel.in_place == ()
    other = relay.nn.relu(relay.nn.conv2d(relay.nn.max_pool2d(first, (1, 1)), w, padding=(1, 1)) + first)
    mod = IRModule.from_expr(relay.sort(other))
    p = planned(mod)
    joined = next(c for c in p.calls if "add" in c.kernel.name)
    # ... but it may where the convolution reads something else.
    (i,) = joined.kernel.in_place
    assert joined.args[i].storage is joined.args[-1].storage is not None
    data = [np.random.default_rng(1).standard_normal((1, 4, 6, 6)).astype("float32")]
    assert_same(run_plan(p, data, run_kernel), evaluate(mod, data))
    assert_same(relay_native(mod, data), evaluate(mod, data))


def relay_native(mod: IRModule, data: list[np.ndarray]) -> list[np.ndarray]:
    """Results of compiled code."""
    result = relay.create_executor("aot", mod).evaluate()(*data)
    return [r.numpy() for r in (result if isinstance(result, list) else [result])]


def test_what_a_reduction_reads_is_not_overwritten() -> None:
    x = relay.var("x", shape=(8, 16))
    y = relay.sort(x)
    mod = IRModule.from_expr(relay.sort(y - relay.mean(y, axis=1, keepdims=True)))
    p = planned(mod)
    assert all(
        [
            c.args[-1].storage is None or c.args[-1].storage is not c.args[0].storage
            for c in p.calls
            if "mean" in c.kernel.name
        ]
    )
    data = [np.random.default_rng(1).standard_normal((8, 16)).astype("float32")]
    assert_same(relay_native(mod, data), evaluate(mod, data))


def test_only_what_may_be_shared_is_declared_to_alias() -> None:
    x = relay.var("x", shape=(64,))
    y = relay.sort(relay.sort(x) + relay.const(np.ones(64, "float32")))
    library = relay.build(IRModule.from_expr(y), "llvm")
    (kernel,) = [c.kernel for c in library.plan.calls if "add" in c.kernel.name]
    assert kernel.func.attrs["tilewright.in_place"] == (0, 1, 2)
    assert "noalias" not in header(library.kernel_source(kernel.name), kernel.name)
    other = relay.sort(relay.sort(x) + relay.var("z", shape=(1,)))
    library = relay.build(IRModule.from_expr(other), "llvm")
    (kernel,) = [c.kernel for c in library.plan.calls if "add" in c.kernel.name]
    assert [("noalias" in p) for p in header(library.kernel_source(kernel.name), kernel.name).split(",")] == [
        False,
        True,
        False,
    ]


def header(text: str, name: str) -> str:
    """The parameters of the function that a kernel's C entry wraps."""
    (line,) = [line for line in text.split("\n") if f"@{name}.impl(" in line and line.startswith("define")]
    return line.partition("(")[2].rpartition(")")[0]


def test_fusion_that_is_disabled() -> None:
    x = relay.var("x", shape=(2,))
    mod = IRModule.from_expr(relay.Function([x], relay.tanh(x)))
    with (
        PassContext(disabled_pass=["FuseOps"]),
        pytest.raises(TVMError, match="main holds a call of tanh outside of primitive functions, which FuseOps makes"),
    ):
        relay.build(mod, "llvm")
