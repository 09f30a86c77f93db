"""Features: what they count is what the interpreter counts; their columns; their time."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir
from tilewright.codegen import interp
from tilewright.ir import IRModule
from tilewright.node import Mutator, on
from tilewright.script import tir as T
from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.tir import Buffer, BufferLoad, BufferStore, PrimFunc, SeqStmt
from tilewright.tir.schedule import Schedule
from tilewright.tuning.features import CLASSIC, COLUMNS, features
from tilewright.tuning.features.arithmetic import KINDS, operations
from tilewright.tuning.features.columns import names
from tilewright.tuning.features.footprints import footprints
from tilewright.tuning.features.linear import distinct
from tilewright.tuning.features.stores import stores_of

TARGET = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4 -num-cores=2")


class _Probes(Mutator):
    """Before each store of something else than a constant: counts it, and marks the elements that it accesses."""

    def __init__(self) -> None:
        self.counters: list[Buffer] = []
        self.marks: list[dict[Buffer, Buffer]] = []

    @on(BufferStore)
    def _store(self, s: BufferStore) -> Any:
        if isinstance(s.value, (tir.FloatImm, tir.IntImm)):
            return s
        number = len(self.counters)
        counter = tir.decl_buffer((1,), "int32", f"count{number}")
        zero = tir.const(0)
        steps: list[Any] = [BufferStore(counter, BufferLoad(counter, (zero,)) + 1, (zero,))]
        marks: dict[Buffer, Buffer] = {}
        for access in (s, *operations(s.value)[1]):
            mark = marks.get(access.buffer)
            if mark is None:
                mark = marks[access.buffer] = tir.decl_buffer(access.buffer.shape, "int32", f"mark{number}")
            steps.append(BufferStore(mark, tir.const(1), access.indices))
        self.counters.append(counter)
        self.marks.append(marks)
        return SeqStmt((*steps, s))


def counted(func: PrimFunc) -> list[tuple[int, dict[str, int]]]:
    """What the interpreter counts for each store: how often it ran, and how many elements of each buffer it accessed."""
    probes = _Probes()
    body = probes.visit(func.body)
    parameters = [func.buffer_map[p] for p in func.params]
    extra = [*probes.counters, *[m for marks in probes.marks for m in marks.values()]]
    arrays = [np.zeros([int(d) for d in b.shape], str(b.dtype)) for b in (*parameters, *extra)]
    interp.run(PrimFunc([*parameters, *extra], body), arrays)
    values = dict(zip((*parameters, *extra), arrays, strict=True))
    return [
        (int(values[counter][0]), {b.name: int(values[mark].sum()) for b, mark in marks.items()})
        for counter, marks in zip(probes.counters, probes.marks, strict=True)
    ]


def _matmul() -> PrimFunc:
    a, b, k = te.placeholder((6, 8), name="a"), te.placeholder((8, 12), name="b"), te.reduce_axis((0, 8), "k")
    c = te.compute((6, 12), lambda i, j: te.sum(a[i, k] * b[k, j], k), "c")
    return te.create_prim_func([a, b, te.compute((6, 12), lambda i, j: tir.exp(c[i, j]) - 1.0, "d")])


def _windows() -> PrimFunc:
    x, w = te.placeholder((2, 11, 9), name="x"), te.placeholder((3, 2, 3, 2), name="w")
    c, r, s = te.reduce_axis((0, 2)), te.reduce_axis((0, 3)), te.reduce_axis((0, 2))
    out = te.compute(
        (3, 5, 4), lambda f, i, j: te.sum(x[c, i * 2 + r, j * 2 + s] * w[f, c, r, s], (c, r, s)), "windows"
    )
    return te.create_prim_func([x, w, out])


def _neighbours() -> PrimFunc:
    x = te.placeholder((10, 12), name="x")
    return te.create_prim_func(
        [x, te.compute((8, 12), lambda i, j: tir.max(x[i, j] * 0.5 + x[i + 1, j], x[i + 2, j]), "n")]
    )


def _diagonal() -> PrimFunc:
    x = te.placeholder((12, 12), name="x")
    return te.create_prim_func([x, te.compute((4, 3), lambda i, j: x[i * 3 + j, i * 3 + j] + x[11 - j, i], "d")])


def _reshaped() -> PrimFunc:
    x = te.placeholder((24, 4), name="x")
    return te.create_prim_func([x, te.compute((6, 16), lambda i, j: x[(i * 16 + j) // 4, (i * 16 + j) % 4] * 2.0, "r")])


def _scheduled(func: PrimFunc, seed: int, misaligned: bool = False) -> PrimFunc:
    """Loops that are split, reordered and fused at random."""
    random, s = Random(seed), Schedule(func, seed=seed + 1)
    for block in s.get_child_blocks(s.get_block("root")):
        loops = []
        for loop in s.get_loops(block):
            extent = s.get(loop).extent.value
            factors = [d for d in range(2, extent) if extent % d == 0]
            if factors and random.random() < 0.7:
                loops += s.split(loop, [None, random.choice(factors)])
            else:
                loops.append(loop)
        random.shuffle(loops)
        s.reorder(*loops)
        at = random.randrange(len(loops))
        if random.random() < 0.7 and at + 1 < len(loops):
            # A part of the fused loop that does not divide the inner one is no digit of its own: such programs have bounds only.
            even = s.get(loops[at + 1]).extent.value % 2 == 0
            fused = s.fuse(loops[at], loops[at + 1])
            if random.random() < 0.5 and (even or misaligned):
                s.split(fused, [None, 2])
    (made,) = s.mod.functions.values()
    assert isinstance(made, PrimFunc)
    return made


PROGRAMS = [_matmul, _windows, _neighbours, _diagonal, _reshaped]


@pytest.mark.parametrize("program", PROGRAMS)
def test_iterations_and_elements_are_those_that_the_interpreter_counts(program: Any) -> None:
    for seed in range(6):
        func = _scheduled(program(), seed)
        for form in (func, _flat(func)):
            assert found(form) == counted(form), form


def found(func: PrimFunc) -> list[tuple[int, dict[str, int]]]:
    """The same by the features."""
    return [
        (
            round(float(np.prod([loop.extent for loop in store.loops])) * store.share),
            {t.buffer.name: t.elements[0] for t in footprints(store, 64)},
        )
        for store in stores_of(func)
    ]


@pytest.mark.parametrize("program", PROGRAMS)
def test_indices_that_are_no_sums_have_bounds(program: Any) -> None:
    for seed in range(6, 14):
        func = _scheduled(program(), seed, misaligned=True)
        for (times, elements), (counted_times, counted_elements) in zip(found(func), counted(func), strict=True):
            assert times >= counted_times
            assert all([elements[name] >= n for name, n in counted_elements.items()]), func


def _flat(func: PrimFunc) -> PrimFunc:
    """The program without blocks, with flat buffers."""
    mod = IRModule({"main": func.with_attr("global_symbol", "main")})
    steps = ("LowerInitBlock", "ConvertBlocksToOpaque", "LowerOpaqueBlock", "FlattenBuffer")
    for step in steps:
        mod = getattr(tir.transform, step)()(mod)
    made = mod["main"]
    assert isinstance(made, PrimFunc)
    return made


def test_the_elements_of_inner_loops() -> None:
    a, b, k = te.placeholder((32, 64), name="a"), te.placeholder((64, 48), name="b"), te.reduce_axis((0, 64), "k")
    func = te.create_prim_func([a, b, te.compute((32, 48), lambda i, j: te.sum(a[i, k] * b[k, j], k), "c")])
    s = Schedule(func)
    i, j, r = s.get_loops("c")
    i0, i1 = s.split(i, [8, 4])
    j0, j1 = s.split(j, [3, 16])
    s.reorder(i0, j0, r, i1, j1)
    (store,) = stores_of(s.mod["main"])
    touched = {t.buffer.name: t for t in footprints(store, 64)}
    assert touched["a"].elements == [32 * 64, 4 * 64, 4 * 64, 4, 1, 1]
    assert touched["b"].elements == [64 * 48, 64 * 48, 64 * 16, 16, 16, 1]
    assert touched["c"].elements == [32 * 48, 4 * 48, 4 * 16, 4 * 16, 16, 1]
    assert touched["b"].lines == [64 * 3, 64 * 3, 64, 1, 1, 1]
    assert touched["a"].lines == [32 * 4, 4 * 4, 4 * 4, 4, 1, 1]
    assert touched["b"].moves == [False, True, True, False, True]
    assert [touched[n].stride for n in "abc"] == [0, 1, 1]


def test_the_number_of_values_of_sums() -> None:
    random = Random(0)
    for _ in range(300):
        terms = sorted((random.randrange(1, 20), random.randrange(2, 7)) for _ in range(random.randrange(0, 4)))
        shifts = tuple(sorted({random.randrange(9) for _ in range(random.choice((1, 1, 2, 3)))}))
        values = set(shifts)
        for factor, extent in terms:
            values = {v + factor * n for v in values for n in range(extent)}
        count, span, step = distinct(tuple(terms), shifts)
        assert (count, span) == (len(values), max(values) - min(values)), (terms, shifts)
        if (count - 1) * step == span and count > 1:
            assert values == set(range(min(values), max(values) + 1, step))
    assert distinct(((1, 1000), (3000, 4000)))[0] == 4_000_000


def test_operations() -> None:
    x = te.placeholder((4, 6), name="x")

    def body(i: Any, j: Any) -> Any:
        value = x[i, j] * 2.0 + tir.exp(x[i, 5 - j])
        return tir.Select(x[i, j] > 0.0, value, tir.max(x[i, j] / 3.0, -value * 0.5))

    (row,) = features(te.create_prim_func([x, te.compute((4, 6), body, "y")]), TARGET)
    counts = {n: round(2 ** float(v) - 1) for n, v in zip(COLUMNS[: len(KINDS)], row, strict=False) if v}
    # -value is 0 - value, or a product with -1.
    assert counts.pop("float_mul", 0) + counts.pop("float_addsub", 0) == 24 * 2
    assert counts == {
        "float_mad": 24 * 2,
        "float_mathfunc": 24 * 2,
        "float_cmp": 24 * 2,
        "float_divmod": 24,
        "select_op": 24,
    }


def column(rows: Any, name: str) -> list[float]:
    return [float(v) for v in rows[:, COLUMNS.index(name)]]


def _gemm(n: int = 512) -> Schedule:
    a, b, k = te.placeholder((n, n), name="a"), te.placeholder((n, n), name="b"), te.reduce_axis((0, n), "k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], k), "c")
    s = Schedule(te.create_prim_func([a, b, te.compute((n, n), lambda i, j: tir.max(c[i, j], 0.0), "d")]))
    i, j, r = s.get_loops("c")
    i0, i1, i2, i3 = s.split(i, [4, n // 64, 4, 4])
    j0, j1, j2, j3 = s.split(j, [4, n // 128, 2, 16])
    k0, k1 = s.split(r, [n // 8, 8])
    s.reorder(i0, j0, i1, j1, k0, i2, j2, k1, i3, j3)
    s.vectorize(j3)
    s.unroll(i3)
    s.reverse_compute_at("d", j1)
    outer = s.fuse(i0, j0)
    s.parallel(outer)
    s.annotate(outer, "pragma_auto_unroll_max_step", 64)
    return s


def test_columns_of_a_tiled_product() -> None:
    assert CLASSIC == len(names()) == 164 and len(set(COLUMNS)) == len(COLUMNS)
    rows = features(_gemm().mod, TARGET)
    assert rows.shape == (2, len(COLUMNS)) and rows.dtype == np.float32 and np.isfinite(rows).all()
    exact = {
        "float_mad": 512**3,
        "vectorize_length": 16,
        "unroll_product": 4,
        "parallel_product": 16,
        "buffer0_bytes": 512**3 * 4 * 2,
        "buffer0_unique_bytes": 512 * 512 * 4,
        "buffer0_unique_lines": 512 * 512 // 16,
        "buffer0_stride": 1,
        "loops": 9,
        "auto_unroll_max_step": 64,
        "held_vectors": 4,
        "lanes": 16,
        "spread": 2,
        "accesses_same": 1,
    }
    found = {name: 2 ** column(rows, name)[0] - 1 for name in exact}
    assert found == pytest.approx(exact, rel=1e-5)
    flags = ("vectorize_at_inner_spatial", "parallel_at_outer_spatial", "buffer0_access_read_write", "lanes_used")
    assert [column(rows, name)[0] for name in flags] == [1.0] * 4
    assert column(rows, "parallel_at_none") == [0.0, 0.0] and column(rows, "vectorize_at_none") == [0.0, 1.0]


def test_lowered_programs_have_the_same_counts() -> None:
    s = _gemm()
    before, after = features(s.mod, TARGET), features(tvm.lower(s.mod), TARGET)
    for name in ("float_mad", "float_cmp", "vectorize_length", "parallel_product", "outer_product", "held_vectors"):
        assert column(before, name) == pytest.approx(column(after, name)), name


def test_regions_of_intrinsics_and_lets() -> None:
    @T.prim_func
    def called(a: T.Buffer((8, 4), "int8"), b: T.Buffer((16, 4), "int8"), c: T.Buffer((8, 16), "int32")) -> None:
        for i in range(8):
            with T.block("dot"):
                v = T.axis.spatial(8, i)
                T.reads(a[v, 0:4], b[0:16, 0:4], c[v, 0:16])
                T.writes(c[v, 0:16])
                T.evaluate(T.call_extern("int32", "dot", c.access_ptr("rw"), a.access_ptr("r"), b.access_ptr("r")))

    rows = features(called, TARGET)
    assert 2 ** column(rows, "int_mad")[0] - 1 == pytest.approx(8 * 16 * 4)
    (store,) = stores_of(called)
    assert {t.buffer.name: t.elements for t in footprints(store, 64)} == {"a": [32, 4], "b": [64, 64], "c": [128, 16]}

    @T.prim_func
    def bound(a: T.Buffer((32,), "float32"), b: T.Buffer((32,), "float32")) -> None:
        for i in range(4):
            first: T.int32 = i * 8
            x: T.float32x8 = a[T.Ramp(first, 1, 8)] * T.Broadcast(T.float32(2), 8)
            b[T.Ramp(first, 1, 8)] = x + T.Broadcast(T.float32(1), 8)

    rows = features(bound, TARGET)
    exact = {"float_mul": 32, "float_addsub": 32, "lanes": 8, "buffer0_unique_bytes": 128, "accesses_neighbours": 2}
    assert {name: 2 ** column(rows, name)[0] - 1 for name in exact} == pytest.approx(exact)


def test_conditions() -> None:
    x = te.placeholder((10,), name="x")
    s = Schedule(te.create_prim_func([x, te.compute((10,), lambda i: x[i] + 1.0, "y")]))
    s.split(s.get_loops("y")[0], [None, 4])
    rows = features(s.mod, TARGET)
    assert column(rows, "share") == [pytest.approx(10 / 12)]
    assert 2 ** column(rows, "float_addsub")[0] - 1 == pytest.approx(10)
    empty = PrimFunc([], tir.Evaluate(0))
    assert features(empty, TARGET).shape == (0, len(COLUMNS))
    fill = features(te.create_prim_func([te.compute((8,), lambda i: tir.const(1.0, "float32"), "ones")]), TARGET)
    assert 2 ** column(fill, "outer_product")[0] - 1 == pytest.approx(8)
    with pytest.raises(TVMError, match="a kernel is a module with a single PrimFunc, but this one has 0 functions"):
        features(IRModule(), TARGET)


def test_a_tiled_product_takes_less_than_three_milliseconds() -> None:
    mod = _gemm().mod
    times = []
    for _ in range(20):
        begun = time.thread_time()
        features(mod, TARGET)
        times.append(time.thread_time() - begun)
    assert min(times) < 3e-3
