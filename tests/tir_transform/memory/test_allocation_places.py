"""Where buffers are allocated: inside of a loop only when each step reads what the same step wrote."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

from tilewright.codegen.interp import run
from tilewright.ir import IRModule
from tilewright.node import nodes_of, post_order_visit
from tilewright.script import tir as T
from tilewright.tir import Block, BlockRealize, For, PrimFunc, transform


@T.prim_func
def earlier_step(a: T.Buffer((4, 4), "float32"), out: T.Buffer((4, 4), "float32")) -> None:
    s = T.alloc_buffer((4, 4))
    for i in range(4):
        for j in range(4):
            with T.block("write"):
                v, w = T.axis.remap("SS", [i, j])
                s[v, w] = a[v, w] + T.float32(1)
        for j in range(4):
            with T.block("read"):
                v, w = T.axis.remap("SS", [i, j])
                out[v, w] = s[v, w] + s[T.max(v - 1, 0), w]


@T.prim_func
def outer_reduction(a: T.Buffer((4, 4), "float32"), out: T.Buffer((4, 4), "float32")) -> None:
    s = T.alloc_buffer((4,))
    for k in range(4):
        with T.block("outer"):
            vk = T.axis.reduce(4, k)
            for j in range(4):
                with T.block("sum"):
                    v = T.axis.spatial(4, j)
                    with T.init():
                        s[v] = T.float32(0)
                    s[v] = s[v] + a[vk, v]
        for j in range(4):
            with T.block("so_far"):
                v, w = T.axis.remap("SS", [k, j])
                out[v, w] = s[w]


@T.prim_func
def start_in_the_first_step(a: T.Buffer((4, 4), "float32"), out: T.Buffer((4, 4), "float32")) -> None:
    s = T.alloc_buffer((4,))
    for k in range(4):
        for j in range(4):
            with T.block("start"):
                vk, v = T.axis.remap("SS", [k, j])
                T.where(k == 0)
                s[v] = T.float32(0)
        for j in range(4):
            with T.block("add"):
                v, vk = T.axis.remap("SR", [j, k])
                s[v] = s[v] + a[vk, v]
                out[vk, v] = s[v]


@T.prim_func
def half_written(a: T.Buffer((4, 4), "float32"), out: T.Buffer((4, 4), "float32")) -> None:
    s = T.alloc_buffer((4,))
    for i in range(4):
        with T.block("outer"):
            v = T.axis.spatial(4, i)
            T.reads(a[v, 0:4])
            T.writes(s[0:4], out[v, 0:4])
            for j in range(4):
                with T.block("write"):
                    T.where(v == 0 or j < 2)
                    s[j] = a[v, j]
            for j in range(4):
                with T.block("read"):
                    out[v, j] = s[j]


@T.prim_func
def kept_for_later(a: T.Buffer((4, 4), "float32"), out: T.Buffer((4, 4), "float32")) -> None:
    s = T.alloc_buffer((1,))
    for i, j in T.grid(4, 4):
        with T.block("read"):
            out[i, j] = T.if_then_else(i * 4 + j > 0, s[0], T.float32(0))
        with T.block("write"):
            s[0] = a[i, j]


@T.prim_func
def through_a_view(a: T.Buffer((4, 4), "float32"), out: T.Buffer((4, 4), "float32")) -> None:
    s = T.alloc_buffer((4, 4))
    for i in range(4):
        with T.block("write"):
            v = T.axis.spatial(4, i)
            T.reads(a[v, 0:4])
            T.writes(s[v, 0:4])
            row = T.match_buffer(s[v, 0:4], (4,), offset_factor=1)
            for j in range(3):
                row[j] = a[v, j]
            if v == 0:
                row[3] = a[v, 3]
        for j in range(4):
            with T.block("read"):
                v, w = T.axis.remap("SS", [i, j])
                out[v, w] = T.if_then_else(w < 3, s[v, w], s[0, 3])


PROGRAMS = [earlier_step, outer_reduction, start_in_the_first_step, half_written, kept_for_later, through_a_view]
PASSES = [transform.PlanAndUpdateBufferAllocationLocation, transform.ConvertBlocksToOpaque]


def result(mod: IRModule) -> Any:
    out = np.zeros((4, 4), "float32")
    run(mod, [np.arange(16, dtype="float32").reshape(4, 4), out])
    return out


@pytest.mark.parametrize("order", list(permutations(PASSES)))
@pytest.mark.parametrize("func", PROGRAMS, ids=lambda f: f.attrs["global_symbol"])
def test_values_that_go_from_step_to_step(func: PrimFunc, order: Any) -> None:
    mod = IRModule({"main": func})
    want = result(mod)
    mod = transform.LowerInitBlock()(mod)
    for make in order:
        mod = make()(mod)
    np.testing.assert_array_equal(result(mod), want)
    np.testing.assert_array_equal(result(transform.CompactBufferAllocation()(mod)), want)


@T.prim_func
def padded_rows(a: T.Buffer((4, 4), "float32"), out: T.Buffer((4, 4), "float32")) -> None:
    s = T.alloc_buffer((6, 6))
    r = T.alloc_buffer((4, 4))
    for i in range(4):
        for f in range(12):
            with T.block("pad"):
                v = T.axis.spatial(6, i + f // 6)
                w = T.axis.spatial(6, f % 6)
                T.where(i + f // 6 < 5)
                s[v, w] = T.if_then_else(w >= 1 and w < 5 and v < 4, a[v, w - 1], T.float32(0))
        for j0, k, j1 in T.grid(2, 2, 2):
            with T.block("sum"):
                v, vk = T.axis.remap("SR", [i, k])
                w = T.axis.spatial(4, j0 * 2 + j1)
                with T.init():
                    r[v, w] = T.float32(0)
                r[v, w] = r[v, w] + s[v + vk, w + 1] + s[v, w]
        for j in range(4):
            with T.block("out"):
                v, w = T.axis.remap("SS", [i, j])
                out[v, w] = r[v, w]


def allocated_in(mod: IRModule) -> dict[str, list[str]]:
    """The loops around the allocation of each buffer."""
    found: dict[str, list[str]] = {}

    def look(s: Any, loops: tuple[str, ...]) -> None:
        if isinstance(s, For):
            look(s.body, (*loops, s.loop_var.name))
        elif isinstance(s, BlockRealize):
            look(s.block, loops)
        elif isinstance(s, Block):
            found.update({b.name: list(loops) for b in s.alloc_buffers})
            look(s.body, loops)
        else:
            for x in getattr(s, "seq", ()):
                look(x, loops)

    look(mod["main"].body, ())
    return found


@pytest.mark.parametrize("order", list(permutations(PASSES)))
def test_what_each_step_writes_first_belongs_to_the_step(order: Any) -> None:
    mod = IRModule({"main": padded_rows})
    want = result(mod)
    mod = transform.LowerInitBlock()(mod)
    for make in order:
        mod = make()(mod)
    assert allocated_in(mod) == {"s": ["i"], "r": ["i"]}
    mod = transform.CompactBufferAllocation()(mod)
    np.testing.assert_array_equal(result(mod), want)
    shapes: dict[str, list[int]] = {}
    post_order_visit(
        mod["main"].body,
        lambda n: shapes.update({b.name: [int(x) for x in b.shape] for b in getattr(n, "alloc_buffers", ())}),
    )
    assert shapes == {"s": [2, 6], "r": [1, 4]}


@T.prim_func
def index_of_another_type(
    p: T.Buffer((4,), "int64"), a: T.Buffer((4, 4), "float32"), out: T.Buffer((4, 4), "float32")
) -> None:
    s = T.alloc_buffer((4, 4))
    for i in range(4):
        for j0, j1 in T.grid(2, 2):
            with T.block("write"):
                v = T.axis.spatial(4, i)
                w = T.axis.spatial(4, j0 * 2 + j1)
                s[v, w] = a[v, w]
        for j in range(4):
            with T.block("read"):
                v, w = T.axis.remap("SS", [i, j])
                out[v, w] = s[v, p[w]]


def test_indices_may_have_types_of_their_own() -> None:
    mod = transform.PlanAndUpdateBufferAllocationLocation()(IRModule({"main": index_of_another_type}))
    out, a = np.zeros((4, 4), "float32"), np.arange(16, dtype="float32").reshape(4, 4)
    run(mod, [np.array([3, 1, 0, 2]), a, out])
    np.testing.assert_array_equal(out, a[:, [3, 1, 0, 2]])


@T.prim_func
def copied_for_a_view(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    S = T.alloc_buffer((8,), "float32")
    for k in range(4):
        for i in range(8):
            with T.block("fill"):
                vk, vi = T.axis.remap("SS", [k, i])
                S[vi] = A[vk, vi]
        with T.block("use"):
            vk = T.axis.spatial(4, k)
            T.reads(S[0:8])
            T.writes(B[vk, 0:8])
            V = T.match_buffer(S[0:8], (8,), "float32")
            for j in range(8):
                B[vk, j] = V[j]


def test_a_view_is_used_where_its_block_stands() -> None:
    """What a block takes as a view is allocated in the loop around it, where each turn fills it anew."""
    out = transform.PlanAndUpdateBufferAllocationLocation()(IRModule({"main": copied_for_a_view}))["main"]
    (loop,) = [x for x in nodes_of(out.body, For) if x.loop_var.name == "k"]
    assert isinstance(loop.body, BlockRealize) and [b.name for b in loop.body.block.alloc_buffers] == ["S"]
