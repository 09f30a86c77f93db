"""Each rule of each primitive, broken once: (primitive, program, call). Their messages are goldens, and part of docs/schedule.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.tir_schedule.examples import (
    by_tiles,
    chain,
    copied,
    gathered,
    in_place,
    matmul,
    padded,
    pooled,
    register_tile,
    rows,
    softmax,
    with_halo,
)
from tilewright import te
from tilewright.script import from_source
from tilewright.tir import PrimFunc
from tilewright.tir.schedule import Schedule

HEAD = """@T.prim_func
def main(a: T.handle, d: T.handle):
    A = T.match_buffer(a, {0})
    D = T.match_buffer(d, {0})
    B = T.alloc_buffer({0})
    C = T.alloc_buffer({0})
"""


def script(body: str, rank: int = 1) -> Callable[[], PrimFunc]:
    """A function over A, B, C, D of 8 elements a dimension with the given statements."""
    lines = body.strip("\n").split("\n")
    text = HEAD.format("(8,)" if rank == 1 else "(8, 8)") + "\n".join(["    " + x for x in lines]) + "\n"
    return lambda: from_source(text)


def block(name: str, store: str, axes: str = "v = T.axis.spatial(8, i)", loop: str = "for i in range(8):") -> str:
    """One loop nest around one block."""
    lines = [loop, f'    with T.block("{name}"):', *[f"        {x}" for x in (*axes.split("; "), *store.split("; "))]]
    return "\n".join(lines)


def _steps(*stores: str) -> Callable[[], PrimFunc]:
    """Blocks b, c, d in loops of their own."""
    return script("\n".join([block(name, store) for name, store in zip("bcd", stores, strict=False)]))


def _changed_softmax(changed: Callable[[str], str]) -> Callable[[], PrimFunc]:
    return lambda: from_source(changed(softmax().script(show_meta=False)))


from_infinity = _changed_softmax(
    lambda text: text.replace("-3.4028234663852886e+38", "-inf").replace("T.float32(-inf)", 'T.float32("-inf")')
)
squared = _changed_softmax(lambda text: text.replace("+ W[v_i, v_r] * B", "+ W[v_i, v_r] * W[v_i, v_r] * B"))


def _without_parts(s: Schedule) -> None:
    """Maxima of whole rows before sums of tiles."""
    i, j, r = s.get_loops("S")
    s.reorder(i, r, j)
    s.compute_at("W", r)
    s.merge(_loop(s, "M"), i)
    s.online(s.get_loops("M")[1], s.split(s.get_loops("S")[1], [None, 8])[0])


TWICE = script(
    block("first", "B[v] = A[v]") + "\n" + block("second", "B[v] = A[v] + B[v]") + "\n" + block("last", "D[v] = B[v]")
)
SHIFTED = script("""
for i in range(4):
    with T.block("b"):
        v = T.axis.spatial(4, i)
        B[v] = A[v]
    with T.block("c"):
        v = T.axis.spatial(4, i)
        D[v] = B[v]
""")
TOGETHER = script("""
for i in range(4):
    with T.block("b"):
        v = T.axis.spatial(4, i)
        B[v] = A[v]
    with T.block("c"):
        v = T.axis.spatial(4, i)
        D[v + 1] = D[v] + B[v]
""")
CARRIED = script(block("b", "D[v + 1] = D[v] + A[v]", "v = T.axis.spatial(7, i)", "for i in range(7):"))
SAME = script(block("b", "D[v // 2] = A[v]"))
AGAIN = script(block("b", "D[v] = D[v] + A[v]", "v = T.axis.spatial(8, i % 8)", "for i in range(24):"))
STAGED_IN_PART = script("""
for i in range(2):
    with T.block("b"):
        v = T.axis.spatial(2, i)
        D[v] = A[v]
for i in range(4):
    with T.block("c"):
        v = T.axis.spatial(4, i)
        B[v] = D[v]
""")
INLINED_VIEW = script("""
for i in range(4):
    with T.block("b"):
        v = T.axis.spatial(4, i)
        M = T.match_buffer(A[v : v + 2], (2,), offset_factor=1)
        B[v] = M[1]
for i in range(4):
    with T.block("d"):
        v = T.axis.spatial(4, i)
        D[v] = B[v]
""")
WRITES_NOTHING = script(block("b", "T.evaluate(v)"))
EIGHT, SIX, FOUR = [f"for i in range({n}):" for n in (8, 6, 4)]
PARTLY = script(
    block("b", "B[v] = A[v]", "v = T.axis.spatial(8, i + 2)", SIX)
    + "\n"
    + block("c", "D[v] = B[v + 2]", "v = T.axis.spatial(6, i)", SIX)
)
HALVED = script(block("b", "B[v // 2] = A[v]") + "\n" + block("c", "D[v] = B[v // 2]"))
WRAPPED = script(
    block("b", "B[v * 2 % 8] = A[v]", "v = T.axis.spatial(4, i)", FOUR)
    + "\n"
    + block("c", "D[v] = B[v * 2]", "v = T.axis.spatial(4, i)", FOUR)
)
UNALIGNED = script(block("b", "D[v] = A[v]", "v = T.axis.spatial(8, i * 2 + j)", "for i, j in T.grid(3, 4):"))
SUM = script("""
for i in range(8):
    with T.block("s"):
        w = T.axis.reduce(8, i)
        with T.init():
            B[0] = T.float32(0)
        B[0] = B[0] + A[w]
for i in range(8):
    with T.block("c"):
        v = T.axis.spatial(8, i)
        D[v] = B[0]
""")
CONDITION = script("""
for i in range(8):
    if i > 0:
        with T.block("b"):
            v = T.axis.spatial(8, i)
            D[v] = A[v]
""")
LATE = script(
    block("b", "B[v] = A[v]") + "\n" + block("over", "A[v] = T.float32(0)") + "\n" + block("c", "D[v] = B[v]")
)
SPLIT_SUM = script(
    """
for i, k in T.grid(8, 8):
    with T.block("s"):
        v, w = T.axis.remap("SR", [i, k])
        with T.init():
            D[v, 0] = T.float32(0)
        D[v, 0] = D[v, 0] + A[v, w]
""",
    2,
)
BACKWARD = script("""
for k in range(7):
    with T.block("s"):
        w = T.axis.reduce(8, k + 1)
        with T.init():
            D[0] = T.float32(0)
        D[0] = D[0] + A[w]
""")
CHOSEN = script("""
for k in range(8):
    with T.block("s"):
        w = T.axis.reduce(8, k)
        T.where(k >= 1)
        with T.init():
            D[0] = T.float32(0)
        D[0] = D[0] + A[w]
""")
OPAQUE = script(block("b", "D[v] = A[v]", "v = T.axis.opaque(8, i)"))
TRIANGLE = script(
    """
for i in range(4):
    for j in range(i + 1):
        with T.block("b"):
            v, w = T.axis.remap("SS", [i, j])
            D[v, w] = A[v, w]
""",
    2,
)
FROM_ONE = script(block("b", "D[v] = A[v]", loop="for i in range(1, 8):"))
VIEWED = script(
    block("b", "B[v] = A[v]") + "\n" + block("c", "M = T.match_buffer(B[v], (1,), offset_factor=1); D[v] = M[0]")
)
NESTED = script("""
for i in range(2):
    with T.block("outer"):
        v = T.axis.spatial(2, i)
        for j in range(4):
            with T.block("inner"):
                w = T.axis.spatial(8, v * 4 + j)
                D[w] = A[w]
for i in range(8):
    with T.block("other"):
        v = T.axis.spatial(8, i)
        B[v] = A[v]
""")
REDUCED_TWICE = script(
    """
for i in range(8):
    for k in range(8):
        with T.block("s"):
            v, w = T.axis.remap("SR", [i, k])
            with T.init():
                B[v, 0] = T.float32(0)
            B[v, 0] = B[v, 0] + A[v, w]
    for k in range(8):
        with T.block("d"):
            v, w = T.axis.remap("SS", [i, k])
            D[v, w] = A[v, w] - B[v, 0]
""",
    2,
)


def symbolic() -> PrimFunc:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    return te.create_prim_func([a, te.compute((n,), lambda i: a[i] + 1.0, name="B")])


def _loop(s: Schedule, name: str, at: int = 0) -> Any:
    return s.get_loops(name)[at]


def _outer(s: Schedule, name: str, factor: int) -> Any:
    return s.split(_loop(s, name), [None, factor])[0]


REFUSALS: list[tuple[str, Callable[[], PrimFunc], Callable[[Schedule], Any]]] = [
    ("get_block", chain, lambda s: s.get_block("X")),
    ("get_block", chain, lambda s: s.get_block("B", func_name="other")),
    ("get_loops", chain, lambda s: s.get_loops(_loop(s, "B"))),
    ("sample_categorical", chain, lambda s: s.sample_categorical([1, 2], [0.5])),
    ("sample_categorical", chain, lambda s: s.sample_categorical([1, 2], [0.5, 0.5], decision=2)),
    ("sample_perfect_tile", symbolic, lambda s: s.sample_perfect_tile(_loop(s, "B"), 2)),
    ("sample_perfect_tile", chain, lambda s: s.sample_perfect_tile(_loop(s, "B"), 2, decision=[3, 5])),
    ("sample_partitioned_tile", chain, lambda s: s.sample_partitioned_tile(_loop(s, "B"), 2, 1, 5)),
    ("split", chain, lambda s: s.split(_loop(s, "B"), [3, 3])),
    ("split", chain, lambda s: s.split(_loop(s, "B"), [None, None])),
    ("split", chain, lambda s: s.split(_loop(s, "B"), [None, 0])),
    ("split", chain, lambda s: s.split(_loop(s, "B"), [])),
    ("split", FROM_ONE, lambda s: s.split(_loop(s, "b"), [None, 2])),
    ("split", chain, lambda s: (s.parallel(_loop(s, "B")), s.split(_loop(s, "B"), [None, 2]))),
    ("fuse", matmul, lambda s: s.fuse(_loop(s, "C"), _loop(s, "C", 2))),
    ("fuse", TRIANGLE, lambda s: s.fuse(*s.get_loops("b"))),
    ("fuse", chain, lambda s: s.fuse()),
    ("online", softmax, lambda s: s.online(_loop(s, "M"), _loop(s, "S"))),
    ("online", softmax, lambda s: s.online(*reversed(by_tiles(s)))),
    ("online", softmax, lambda s: _without_parts(s)),
    ("online", from_infinity, lambda s: s.online(*by_tiles(s))),
    ("online", squared, lambda s: s.online(*by_tiles(s))),
    ("online", chain, lambda s: s.online(_loop(s, "B"), _loop(s, "C"))),
    ("replicate", softmax, lambda s: s.replicate([], 4, lambda j: j)),
    ("replicate", softmax, lambda s: s.replicate([s.get_block("M")], 0, lambda j: j)),
    ("replicate", softmax, lambda s: s.replicate([s.get_block("C")], 4, lambda j: j)),
    ("replicate", TWICE, lambda s: s.replicate([s.get_block("first")], 2, lambda j: j % 2)),
    ("unsafe_shorten", chain, lambda s: s.unsafe_shorten(_loop(s, "B"), [_loop(s, "C")], lambda v: v)),
    ("rasterize", matmul, lambda s: s.rasterize(*s.get_loops("C")[:2], 3)),
    ("rasterize", matmul, lambda s: s.rasterize(_loop(s, "C"), _loop(s, "C", 2), 2)),
    ("loop_partition", chain, lambda s: s.loop_partition(_loop(s, "B"), [10, 10])),
    ("merge", chain, lambda s: s.merge(_loop(s, "B"))),
    ("merge", PARTLY, lambda s: (s.split(_loop(s, "b"), [2, 3]), s.merge(_loop(s, "b"), _loop(s, "c")))),
    ("merge", pooled, lambda s: s.merge(_loop(s, "B"), _loop(s, "C"))),
    ("merge", script(block("b", "B[v] = A[v]") + "\n" + block("c", "D[v] = B[7 - v]")), lambda s: s.merge(_loop(s, "b"), _loop(s, "c"))),
    ("reorder", matmul, lambda s: s.reorder(_loop(s, "C"), _loop(s, "C"))),
    ("reorder", chain, lambda s: s.reorder(_loop(s, "B"), _loop(s, "C"))),
    ("reorder", TRIANGLE, lambda s: s.reorder(*reversed(s.get_loops("b")))),
    ("reorder", REDUCED_TWICE, lambda s: s.reorder(_loop(s, "s", 1), _loop(s, "s"))),
    ("reorder", CARRIED, lambda s: s.reorder(*reversed(s.split(_loop(s, "b"), [None, 7])))),
    ("reorder", SAME, lambda s: s.reorder(*reversed(s.split(_loop(s, "b"), [None, 2])))),
    ("reorder", OPAQUE, lambda s: s.reorder(*reversed(s.split(_loop(s, "b"), [None, 2])))),
    ("reorder_block_iter_var", matmul, lambda s: s.reorder_block_iter_var("C", [0, 1])),
    ("add_unit_loop", chain, lambda s: s.add_unit_loop("root")),
    ("parallel", matmul, lambda s: s.parallel(_loop(s, "C", 2))),
    ("parallel", CARRIED, lambda s: s.parallel(_loop(s, "b"))),
    ("parallel", SAME, lambda s: s.parallel(_loop(s, "b"))),
    ("parallel", AGAIN, lambda s: s.parallel(_loop(s, "b"))),
    ("parallel", TOGETHER, lambda s: s.parallel(_loop(s, "b"))),
    ("vectorize", symbolic, lambda s: s.vectorize(_loop(s, "B"))),
    ("vectorize", matmul, lambda s: s.vectorize(_loop(s, "C", 2))),
    ("bind", chain, lambda s: s.bind(_loop(s, "B"), "warp")),
    ("bind", matmul, lambda s: (s.bind(_loop(s, "C"), "blockIdx.x"), s.bind(_loop(s, "C", 1), "blockIdx.x"))),
    ("bind", matmul, lambda s: (s.bind(_loop(s, "C"), "threadIdx.x"), s.bind(_loop(s, "C", 1), "threadIdx.x"))),
    ("annotate", chain, lambda s: (s.annotate("B", "x", 1), s.annotate("B", "x", 2))),
    ("unannotate", chain, lambda s: s.unannotate("B", "x")),
    ("annotate_buffer_access", chain, lambda s: s.annotate_buffer_access("B", 0, "both", lambda v: v)),
    ("annotate_buffer_access", matmul, lambda s: s.annotate_buffer_access("C", 0, "write", lambda i, j, k: i)),
    ("unsafe_hide_buffer_access", chain, lambda s: s.unsafe_hide_buffer_access("B", "read", [1])),
    ("cache_read", chain, lambda s: s.cache_read("B", 3, "local")),
    ("cache_read", chain, lambda s: s.cache_read("B", "X", "local")),
    ("cache_read", chain, lambda s: s.cache_read("B", 0, "local", ["C"])),
    ("cache_read", TWICE, lambda s: s.cache_read("second", "B", "local")),
    ("cache_read", SHIFTED, lambda s: s.cache_read("c", "B", "local")),
    ("cache_write", TWICE, lambda s: s.cache_write("first", 0, "local")),
    ("cache_write", in_place, lambda s: s.cache_write("fill", 0, "local")),
    ("cache_write", CARRIED, lambda s: s.cache_write("b", 0, "local")),
    ("cache_write", CONDITION, lambda s: s.cache_write("b", 0, "local")),
    ("cache_write", STAGED_IN_PART, lambda s: s.cache_write("b", 0, "local", ["c"])),
    ("cache_inplace", chain, lambda s: s.cache_inplace("B", 0, "local")),
    ("read_at", chain, lambda s: s.read_at(_loop(s, "B"), "B", 3, "local")),
    ("read_at", chain, lambda s: s.read_at(_loop(s, "C"), "B", 0, "local")),
    ("write_at", matmul, lambda s: s.write_at(_loop(s, "C", 2), "C", 0, "local")),
    ("reindex", gathered, lambda s: s.reindex("B", ("read", 0))),
    ("reindex", chain, lambda s: s.reindex("B", "X")),
    ("reindex", chain, lambda s: s.reindex("B", ("both", 0))),
    ("reindex_cache_read", matmul, lambda s: s.reindex_cache_read("C", 0, "local", lambda i, j, k: i)),
    ("reindex_cache_read", matmul, lambda s: s.reindex_cache_read("C", 0, "local", lambda i: i)),
    ("reindex_cache_write", matmul, lambda s: s.reindex_cache_write("C", 0, "local", lambda i, j, k: (i, j, k))),
    ("compute_at", chain, lambda s: s.compute_at("C", _loop(s, "B"))),
    ("compute_at", chain, lambda s: s.compute_at("B", _loop(s, "B"))),
    ("compute_at", TWICE, lambda s: s.compute_at("first", _loop(s, "last"))),
    ("compute_at", LATE, lambda s: s.compute_at("b", _loop(s, "c"))),
    ("compute_at", NESTED, lambda s: s.compute_at("other", _loop(s, "inner"))),
    ("compute_at", PARTLY, lambda s: s.compute_at("b", _loop(s, "c"))),
    ("compute_at", chain, lambda s: s.compute_at("B", _outer(s, "C", 4), index=3)),
    ("compute_at", HALVED, lambda s: s.compute_at("b", _loop(s, "c"))),
    ("reverse_compute_at", chain, lambda s: s.reverse_compute_at("B", _loop(s, "C"))),
    ("reverse_compute_at", pooled, lambda s: s.reverse_compute_at("C", _loop(s, "B"))),
    ("reverse_compute_at", SUM, lambda s: s.reverse_compute_at("c", _loop(s, "s"))),
    ("compute_inline", chain, lambda s: s.compute_inline("C")),
    ("compute_inline", matmul, lambda s: s.compute_inline("C")),
    ("compute_inline", TWICE, lambda s: s.compute_inline("first")),
    ("compute_inline", LATE, lambda s: s.compute_inline("b")),
    ("compute_inline", VIEWED, lambda s: s.compute_inline("b")),
    ("compute_inline", INLINED_VIEW, lambda s: s.compute_inline("b")),
    ("compute_inline", WRAPPED, lambda s: s.compute_inline("b")),
    ("reverse_compute_inline", chain, lambda s: s.reverse_compute_inline("B")),
    ("reverse_compute_inline", pooled, lambda s: s.reverse_compute_inline("C")),
    ("reverse_compute_inline", CONDITION, lambda s: (s.cache_read("b", 0, "local"), s.reverse_compute_inline("b"))),
    ("decompose_reduction", chain, lambda s: s.decompose_reduction("B", _loop(s, "B"))),
    ("decompose_reduction", matmul, lambda s: (s.reorder(*reversed(s.get_loops("C"))), s.decompose_reduction("C", _loop(s, "C", 1)))),
    ("decompose_reduction", BACKWARD, lambda s: s.decompose_reduction("s", _loop(s, "s"))),
    ("decompose_reduction", CHOSEN, lambda s: s.decompose_reduction("s", _loop(s, "s"))),
    ("rfactor", matmul, lambda s: s.rfactor(_loop(s, "C"), 0)),
    ("rfactor", matmul, lambda s: s.rfactor(_loop(s, "C", 2), 3)),
    ("rfactor", SPLIT_SUM, lambda s: (s.decompose_reduction("s", _loop(s, "s", 1)), s.rfactor(_loop(s, "s_update", 1), 0))),
    ("rfactor", REDUCED_TWICE, lambda s: s.rfactor(_loop(s, "s"), 0)),
    ("storage_align", chain, lambda s: s.storage_align("B", 0, 1, 8, 1)),
    ("storage_align", chain, lambda s: s.storage_align("B", 0, 0, 0, 1)),
    ("storage_align", chain, lambda s: s.storage_align("C", 0, 0, 8, 1)),
    ("set_scope", chain, lambda s: s.set_scope("C", 0, "shared")),
    ("unsafe_set_dtype", chain, lambda s: s.unsafe_set_dtype("C", 0, "float16")),
    ("set_axis_separator", chain, lambda s: s.set_axis_separator("B", ("write", 1), [])),
    ("blockize", REDUCED_TWICE, lambda s: s.blockize(_loop(s, "s"))),
    ("blockize", chain, lambda s: s.blockize([])),
    ("blockize", LATE, lambda s: s.blockize([s.get_block("b"), s.get_block("c")])),
    ("blockize", CONDITION, lambda s: s.blockize(_loop(s, "b"))),
    ("blockize", UNALIGNED, lambda s: s.blockize(_loop(s, "b", 1))),
    ("tensorize", chain, lambda s: (register_tile(), s.tensorize(_loop(s, "B"), "test.tile"))),
    ("tensorize", REDUCED_TWICE, lambda s: (register_tile(), s.tensorize(_loop(s, "s"), "test.tile"))),
    ("transform_layout", lambda: chain(10), lambda s: s.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4))),
    ("transform_layout", chain, lambda s: s.transform_layout("B", ("write", 0), lambda i: i // 4)),
    ("transform_layout", chain, lambda s: s.transform_layout("B", ("write", 0), lambda i, j: (i, j))),
    ("transform_layout", VIEWED, lambda s: s.transform_layout("b", ("write", 0), lambda i: (i // 4, i % 4))),
    ("transform_block_layout", chain, lambda s: s.transform_block_layout("B", lambda i: i // 2)),
    ("transform_block_layout", chain, lambda s: s.transform_block_layout("B", lambda i: (i // 5, i % 5))),
    ("transform_block_layout", CONDITION, lambda s: s.transform_block_layout("b", lambda i: (i // 2, i % 2))),
    ("decompose_halo", chain, lambda s: s.decompose_halo("B")),
    ("decompose_halo", script(block("b", "B[v] = T.if_then_else(v + v < 9, A[v], T.float32(0))")), lambda s: s.decompose_halo("b")),
    ("decompose_halo", with_halo, lambda s: (s.fuse(*s.get_loops("C")), s.decompose_halo("C"))),
    ("decompose_halo", with_halo, lambda s: (s.decompose_halo("C"), s.decompose_halo("C"))),
    ("decompose_halo", script(block("b", "B[7 - v] = T.if_then_else(v < 5, A[v], T.float32(0))")), lambda s: s.decompose_halo("b")),
    ("elide_copy", chain, lambda s: s.elide_copy("C")),
    ("elide_copy", chain, lambda s: (s.cache_read("B", 0, "global"), s.elide_copy("A_global"))),
    ("elide_copy", chain, lambda s: (s.cache_write("C", 0, "local"), s.elide_copy("C_local"))),
    ("elide_copy", copied, lambda s: (s.fuse(*s.get_loops("C")), s.elide_copy("C"))),
    ("elide_copy", copied, lambda s: (s.parallel(s.get_loops("C")[0]), s.elide_copy("C"))),
    ("elide_copy", copied, lambda s: (s.reverse_compute_at("C", _loop(s, "B")), s.elide_copy("C"))),
    ("elide_copy", _steps("B[v] = A[v]", "D[v] = B[v]", "D[v] = A[v]"), lambda s: s.elide_copy("c")),
    ("elide_copy", _steps("D[v] = A[v]", "B[v] = D[v]", "D[v] = B[v]"), lambda s: s.elide_copy("d")),
    ("elide_copy", _steps("B[v] = A[v]", "D[v] = B[v]", "B[v] = A[v]"), lambda s: s.elide_copy("c")),
    ("add_version", rows, lambda s: s.add_version("B", 4, 8)),
    ("add_version", rows, lambda s: s.add_version("root", 4, 6)),
    ("add_version", rows, lambda s: s.add_version("root", 3, 6)),
    ("decompose_padding", chain, lambda s: s.decompose_padding("B", _loop(s, "B"))),
    ("decompose_padding", padded, lambda s: s.decompose_padding("B", _loop(s, "C"))),
    ("pad_einsum", matmul, lambda s: s.pad_einsum("C", [4, 4])),
    ("pad_einsum", pooled, lambda s: s.pad_einsum("B", [4, 4])),
    ("pad_einsum", symbolic, lambda s: s.pad_einsum("B", [4])),
    ("rolling_buffer", pooled, lambda s: s.rolling_buffer("B", 0)),
    ("rolling_buffer", pooled, lambda s: s.rolling_buffer("C", 0)),
]  # fmt: skip
