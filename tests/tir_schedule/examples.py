"""Each primitive on a program that it fits: (program, call). What the tests of values, traces and states go through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import te, tir
from tilewright.script import from_source
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import IndexMap, Schedule, TensorIntrin

Call = Callable[[Schedule], Any]


def chain(n: int = 16) -> PrimFunc:
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * 2.0, name="B")
    return te.create_prim_func([a, te.compute((n,), lambda i: b[i] + 1.0, name="C")])


def matmul(m: int = 8, n: int = 8, k: int = 8) -> PrimFunc:
    a = te.placeholder((m, k), name="A")
    b = te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    return te.create_prim_func([a, b, te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")])


def pooled() -> PrimFunc:
    """Windows of 3 x 3 over windows of 3 x 3."""
    a = te.placeholder((12, 12), name="A")
    b = te.compute((10, 10), lambda i, j: a[i, j] + a[i + 1, j + 2] + a[i + 2, j + 1], name="B")
    return te.create_prim_func(
        [a, te.compute((8, 8), lambda i, j: b[i, j] + b[i + 1, j + 2] + b[i + 2, j + 1], name="C")]
    )


def broadcast() -> PrimFunc:
    """Images with a bias for each channel, and their sums."""
    a, bias = te.placeholder((2, 3, 4, 5), name="A"), te.placeholder((3, 1, 1), name="bias")
    b = te.compute((2, 3, 4, 5), lambda n, c, i, j: a[n, c, i, j] + bias[c, 0, 0], name="B")
    i, j = te.reduce_axis((0, 4), name="i"), te.reduce_axis((0, 5), name="j")
    return te.create_prim_func(
        [a, bias, te.compute((2, 3, 1), lambda n, c, o: te.sum(b[n, c, i, j], [i, j]), name="C")]
    )


def padded() -> PrimFunc:
    a = te.placeholder((8,), name="A")
    zero = tir.const(0.0, "float32")
    b = te.compute((10,), lambda i: tir.if_then_else(tir.all(i >= 1, i < 9), a[i - 1], zero), name="B")
    return te.create_prim_func([a, te.compute((8,), lambda i: b[i] + b[i + 2], name="C")])


def with_halo() -> PrimFunc:
    """Images with zeros around them, of which two sides are wider."""
    a = te.placeholder((2, 5, 6), name="A")
    b = te.compute((2, 5, 6), lambda n, i, j: a[n, i, j] * 2.0, name="B")
    zero = tir.const(0.0, "float32")
    c = te.compute(
        (2, 8, 9),
        lambda n, i, j: tir.if_then_else(tir.all(i >= 1, i < 6, j >= 2, j < 8), b[n, i - 1, j - 2], zero),
        name="C",
    )
    return te.create_prim_func([a, c])


def copied() -> PrimFunc:
    a = te.placeholder((4, 8), name="A")
    b = te.compute((4, 8), lambda i, j: a[i, j] * 2.0, name="B")
    return te.create_prim_func([a, te.compute((4, 8), lambda i, j: b[i, j], name="C")])


def rows(tiles: str = "") -> PrimFunc:
    """A dynamic number of rows, computed in tiles of four, of which what is there is read."""
    n = tir.SizeVar("n", "int32")
    a = te.placeholder((n, 8), name="A")
    whole = tir.floordiv(n + 3, 4) * 4
    attrs = {tiles: 1} if tiles else {}
    b = te.compute((whole, 8), lambda i, j: a[tir.min(i, n - 1), j] * 2.0, name="B", attrs=attrs)
    return te.create_prim_func([a, te.compute((n, 8), lambda i, j: b[i, j] + 1.0, name="C")])


def gathered() -> PrimFunc:
    a = te.placeholder((12,), name="A")
    return te.create_prim_func([a, te.compute((12,), lambda i: a[i * 5 % 7 + i // 3] + a[i // 3], name="B")])


def softmax() -> PrimFunc:
    """Sums of rows that are weighted by a softmax, whose maxima are at least the lowest finite number."""
    largest = te.comm_reducer(lambda a, b: tir.max(a, b), lambda dtype: tir.min_value(dtype), name="largest")
    a, b = te.placeholder((4, 24), name="A"), te.placeholder((24, 6), name="B")
    k, r = te.reduce_axis((0, 24), name="k"), te.reduce_axis((0, 24), name="r")
    m = te.compute((4,), lambda i: largest(a[i, k], axis=[k]), name="M")
    w = te.compute((4, 24), lambda i, j: tir.exp(a[i, j] - m[i]), name="W")
    s = te.compute((4, 6), lambda i, j: te.sum(w[i, r] * b[r, j], axis=[r]), name="S")
    return te.create_prim_func([a, b, te.compute((4, 6), lambda i, j: s[i, j] * 0.5, name="C")])


IN_PLACE = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    A = T.match_buffer(a, (8,))
    C = T.match_buffer(c, (8,))
    for i in range(8):
        with T.block("fill"):
            v = T.axis.spatial(8, i)
            C[v] = A[v]
    for i in range(6):
        with T.block("double"):
            v = T.axis.spatial(6, i)
            C[v + 1] = C[v + 1] * T.float32(2)
"""


def in_place() -> PrimFunc:
    return from_source(IN_PLACE)


def register_tile() -> None:
    """A 4 x 4 x 4 update in loops, under the name test.tile."""
    s = Schedule(matmul(4, 4, 4))
    s.decompose_reduction("C", s.get_loops("C")[0])
    func = s.mod["main"]
    root = func.body.block
    update = func.replace(body=func.body.replace(block=root.replace(body=root.body.seq[1])))
    TensorIntrin.register("test.tile", update, update, override=True)


def _tiles(s: Schedule) -> list[Any]:
    i, j, k = s.get_loops("C")
    parts = [s.split(x, [None, 4]) for x in (i, j, k)]
    s.reorder(*[p[0] for p in parts], *[p[1] for p in parts])
    return [p[0] for p in parts] + [p[1] for p in parts]


def _tensorize(s: Schedule) -> None:
    register_tile()
    loops = _tiles(s)
    s.decompose_reduction("C", loops[2])
    s.tensorize(loops[3], "test.tile")


def _rolling(s: Schedule) -> None:
    i, j = s.get_loops("C")
    i0, i1 = s.split(i, [None, 4])
    j0, j1 = s.split(j, [None, 4])
    s.reorder(i0, j0, i1, j1)
    s.compute_at("B", j0)
    s.rolling_buffer("B", 0)


def _at(s: Schedule) -> None:
    i0, _ = s.split(s.get_loops("C")[0], [None, 3])
    s.compute_at("B", i0, preserve_unit_loops=True, index=-2)


def _reverse_at(s: Schedule) -> None:
    s.reverse_compute_at("C", s.split(s.get_loops("B")[0], [None, 4])[0])


def by_tiles(s: Schedule) -> tuple[Any, Any]:
    """Maxima and sums of `softmax` over tiles, in loops that follow one another."""
    i, j, r = s.get_loops("S")
    r0, r1 = s.split(r, [None, 8])
    s.reorder(i, r0, j, r1)
    k0, _ = s.split(s.get_loops("M")[1], [None, 8])
    s.rfactor(k0, 0)
    s.compute_at("W", r0)
    s.merge(s.get_loops("M")[0], i)
    return s.get_loops("M")[1], s.get_loops("S")[1]


def _online(s: Schedule) -> None:
    s.online(*by_tiles(s))
    s.compute_at("M_rf", s.get_loops("S_update")[1])


def _shortened(s: Schedule) -> None:
    i0, i1 = s.split(s.get_loops("B")[0], [4, 4])
    s.unsafe_shorten(i1, [i0], lambda v: v * 0 + 4)


def _sampled(s: Schedule) -> None:
    i, j, _ = s.get_loops("C")
    s.split(i, s.sample_perfect_tile(i, 3, 4))
    s.split(j, s.sample_partitioned_tile(j, 3, 1, 2))
    s.annotate("C", "width", s.sample_categorical([1, 2, 4], [0.2, 0.3, 0.5]))


def _inside_of_halo(s: Schedule) -> None:
    """The halo in threads and vectors, and the rest directly into its place."""
    parts = s.decompose_halo("C")
    for part in parts:
        s.vectorize(s.get_loops(part)[-1])
    s.parallel(s.get_loops(parts[0])[0])
    s.elide_copy("C")


EXAMPLES: list[tuple[str, Callable[[], PrimFunc], Call]] = [
    ("get_block", chain, lambda s: s.unroll(s.get_loops(s.get_block("B"))[0])),
    ("get_loops", chain, lambda s: s.get_loops("B")),
    ("get_child_blocks", chain, lambda s: s.unroll(s.get_loops(s.get_child_blocks(s.get_block("root"))[1])[0])),
    ("get_producers", chain, lambda s: s.compute_inline(s.get_producers("C")[0])),
    ("get_consumers", chain, lambda s: s.reverse_compute_inline(s.get_consumers("B")[0])),
    ("get_output_blocks", chain, lambda s: s.split(s.get_loops(s.get_output_blocks("root")[0])[0], [4, 4])),
    ("sample_categorical", matmul, _sampled),
    ("sample_perfect_tile", matmul, lambda s: s.split(s.get_loops("C")[2], s.sample_perfect_tile(s.get_loops("C")[2], 2))),
    ("sample_partitioned_tile", matmul, lambda s: s.sample_partitioned_tile(s.get_loops("C")[0], 2, 1, 4)),
    ("sample_compute_location", chain, lambda s: s.compute_at("B", s.sample_compute_location("B"))),
    ("split", chain, lambda s: s.split(s.get_loops("B")[0], [None, 5], preserve_unit_iters=False)),
    ("fuse", matmul, lambda s: s.fuse(*s.get_loops("C")[:2], preserve_unit_iters=False)),
    ("merge", chain, lambda s: s.merge(s.get_loops("B")[0], s.get_loops("C")[0])),
    ("online", softmax, _online),
    ("replicate", softmax, lambda s: s.replicate([s.get_block("M")], 4, lambda j: j % 8 // 2)),
    ("unsafe_shorten", chain, _shortened),
    ("rasterize", matmul, lambda s: s.rasterize(*s.get_loops("C")[:2], 2)),
    ("loop_partition", chain, lambda s: s.loop_partition(s.get_loops("B")[0], [2, None, 5])),
    ("reorder", matmul, lambda s: s.reorder(*reversed(s.get_loops("C")))),
    ("reorder_block_iter_var", matmul, lambda s: s.reorder_block_iter_var("C", [2, 0, 1])),
    ("add_unit_loop", chain, lambda s: s.add_unit_loop("C")),
    ("parallel", chain, lambda s: s.parallel(s.get_loops("B")[0])),
    ("vectorize", chain, lambda s: s.vectorize(s.get_loops("B")[0])),
    ("unroll", chain, lambda s: s.unroll(s.get_loops("B")[0])),
    ("bind", chain, lambda s: s.bind(s.get_loops("B")[0], "threadIdx.x")),
    ("annotate", chain, lambda s: s.annotate("B", "hint", {"size": [1, 2.5], "name": 'a "b"', "on": True})),
    ("unannotate", chain, lambda s: (s.annotate("B", "x", 1), s.unannotate("B", "x"))),
    ("annotate_buffer_access", chain, lambda s: s.annotate_buffer_access("B", 0, "read", lambda v: ((v, v + 1),))),
    ("unsafe_hide_buffer_access", matmul, lambda s: s.unsafe_hide_buffer_access("C", "read", [1])),
    ("cache_read", matmul, lambda s: s.cache_read("C", 0, "local")),
    ("cache_read", chain, lambda s: s.cache_read("C", "B", "local", ["C"])),
    ("cache_write", matmul, lambda s: s.cache_write("C", 0, "local")),
    ("reindex_cache_read", matmul, lambda s: s.reindex_cache_read("C", 1, "local", lambda i, j, k: (j, k))),
    ("reindex_cache_write", matmul, lambda s: s.reindex_cache_write("C", 0, "local", lambda i, j, k: (j, i))),
    ("cache_inplace", in_place, lambda s: s.cache_inplace("double", 0, "local")),
    ("cache_index", gathered, lambda s: s.cache_index("B", "global")),
    ("cache_index", gathered, lambda s: s.cache_index("B", "global", 2)),
    ("read_at", matmul, lambda s: s.read_at(s.get_loops("C")[1], "C", 0, "shared")),
    ("read_at", chain, lambda s: s.read_at(s.split(s.get_loops("C")[0], [None, 5])[0], "C", 0, "local")),
    ("write_at", matmul, lambda s: s.write_at(s.get_loops("C")[0], "C", 0, "local")),
    ("reindex", matmul, lambda s: s.reindex("C", ("read", 1))),
    ("reindex", matmul, lambda s: s.reindex("C", "A")),
    ("compute_at", chain, _at),
    ("reverse_compute_at", chain, _reverse_at),
    ("compute_inline", chain, lambda s: s.compute_inline("B")),
    ("reverse_compute_inline", chain, lambda s: s.reverse_compute_inline("C")),
    ("decompose_reduction", matmul, lambda s: s.decompose_reduction("C", s.get_loops("C")[2])),
    ("rfactor", matmul, lambda s: s.rfactor(s.split(s.get_loops("C")[2], [None, 4])[1], 0)),
    ("merge_axes", broadcast, lambda s: s.merge_axes("root")),
    ("merge_axes", broadcast, lambda s: (s.merge_axes("root"), s.cache_write("B", 0, "local"), s.cache_read("C", 0, "local"))),
    ("storage_align", chain, lambda s: s.storage_align("B", 0, 0, 8, 1)),
    ("set_scope", chain, lambda s: s.set_scope("B", "B", "shared")),
    ("unsafe_set_dtype", chain, lambda s: s.unsafe_set_dtype("B", 0, "float64")),
    ("blockize", matmul, lambda s: s.blockize(_tiles(s)[3], preserve_unit_iters=False)),
    ("blockize", chain, lambda s: s.blockize([s.get_block("B"), s.get_block("C")])),
    ("tensorize", matmul, _tensorize),
    ("transform_layout", chain, lambda s: s.transform_layout("B", "B", lambda i: (i // 4, i % 4))),
    (
        "transform_layout",
        lambda: chain(10),
        lambda s: s.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4), pad_value=lambda i, j: i + j),
    ),
    (
        "transform_layout",
        chain,
        lambda s: s.transform_layout("B", ("write", 0), lambda i: (i // 4, IndexMap.AXIS_SEPARATOR, i % 4)),
    ),
    ("transform_block_layout", matmul, lambda s: s.transform_block_layout("C", lambda i, j, k: (i // 4, j, i % 4, k))),
    ("set_axis_separator", matmul, lambda s: (s.cache_read("C", 0, "local"), s.set_axis_separator("C", ("read", 0), [1]))),
    ("decompose_padding", padded, lambda s: s.decompose_padding("B", s.get_loops("B")[0])),
    ("decompose_halo", with_halo, lambda s: s.decompose_halo("C")),
    ("elide_copy", copied, lambda s: s.elide_copy("C")),
    ("elide_copy", with_halo, _inside_of_halo),
    ("pad_einsum", lambda: matmul(7, 5, 6), lambda s: s.pad_einsum("C", [4, 4, 4])),
    ("rolling_buffer", pooled, _rolling),
    ("enter_postproc", chain, lambda s: (s.unroll(s.get_loops("B")[0]), s.enter_postproc(), s.vectorize(s.get_loops("C")[0]))),
]  # fmt: skip
