"""Convolutions of a batch on threads: each reads all weights and images of its own where weights are the smaller ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.scheduling.products.test_prefetch import hints_with_loops, with_hints
from tilewright import te, topi
from tilewright.arith import Analyzer
from tilewright.node import on
from tilewright.scheduling import KernelPlan
from tilewright.target import Target
from tilewright.tir import For, ForKind, IfThenElse, PrimFunc, const
from tilewright.tir.stmt_functor import BufferMutator, substitute


def convolution(batch: int, blocks: tuple[int, int], size: int, cores: int) -> PrimFunc:
    outputs, inputs = blocks
    with Target(f"llvm -mcpu=skylake-avx512 -num-cores={cores}") as target, KernelPlan(target):
        d = te.placeholder((batch, inputs, size, size, 16), name="d")
        w = te.placeholder((outputs, inputs, 1, 1, 16, 16), name="w")
        return with_hints([d, w, topi.nn.conv2d_NCHWc(d, w, 1, 0, 1)], target)


class _Share(BufferMutator):
    """One thread's share of the parallel loop: a part of its rounds that lie one after the other, as the thread pool deals them out."""

    def __init__(self, thread: int, threads: int) -> None:
        super().__init__()
        self.thread, self.threads = thread, threads

    @on(For)
    def _for(self, s: For) -> Any:
        if s.kind is not ForKind.PARALLEL:
            return self.rebuild(s)
        count = int(s.extent) // self.threads
        assert count * self.threads == int(s.extent)
        mine = (s.loop_var >= self.thread * count) & (s.loop_var < (self.thread + 1) * count)
        return s.replace(body=IfThenElse(mine, s.body, None))


def images_written(func: PrimFunc, batch: int, blocks: tuple[int, int], size: int, threads: int) -> list[list[float]]:
    """What part of each image each thread writes; the sum of what all write is the convolution."""
    outputs, inputs = blocks
    rng = np.random.default_rng(0)
    x = rng.integers(1, 9, (batch, inputs, size, size, 16)).astype("float32")
    w = rng.integers(1, 9, (outputs, inputs, 1, 1, 16, 16)).astype("float32")
    found, total = [], np.zeros((batch, outputs, size, size, 16), "float32")
    for thread in range(threads):
        mine = tvm.nd.array(np.zeros_like(total))
        share = func.replace(body=_Share(thread, threads).visit(func.body))
        tvm.build(share, target="llvm")(tvm.nd.array(x), tvm.nd.array(w), mine)
        out = mine.numpy()
        found.append([float((out[n] != 0).mean()) for n in range(batch)])
        total += out
    np.testing.assert_array_equal(total, np.einsum("nihwb,oiklbc->nohwc", x, w))
    return found


@pytest.mark.parametrize(("batch", "threads"), [(2, 2), (4, 2), (3, 3)])
def test_each_thread_has_images_of_its_own(batch: int, threads: int) -> None:
    func = convolution(batch, (8, 2), 14, threads)
    own = batch // threads
    want = [[float(n // own == thread) for n in range(batch)] for thread in range(threads)]
    assert images_written(func, batch, (8, 2), 14, threads) == want


def test_threads_share_weights_that_are_larger_than_images() -> None:
    func = convolution(2, (16, 16), 7, 2)
    assert images_written(func, 2, (16, 16), 7, 2) == [[0.5, 0.5], [0.5, 0.5]]


def test_each_thread_fetches_the_next_weights() -> None:
    """The hints of both threads are the same: all panels come again for the second one's images."""
    loops, hints = hints_with_loops(convolution(2, (8, 2), 14, 2))
    tiles = loops[0]
    assert hints and tiles.kind is ForKind.PARALLEL
    half, first = int(tiles.extent) // 2, {loop.loop_var: const(0, "int32") for loop in loops[1:]}

    def place(index: Any, tile: int) -> int:
        return int(Analyzer().simplify(substitute(index, {**first, tiles.loop_var: const(tile, "int32")})))

    panels = set()
    for at in range(half):
        mine, others = ([[place(i, k) for i in hint.indices] for hint in hints] for k in (at, at + half))
        assert mine == others
        panels |= {indices[0] for indices in mine}
    assert len(panels) > 1
