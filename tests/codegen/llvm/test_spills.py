"""Vectors that do not fit in registers lie in one cache line each."""

from __future__ import annotations

import re

import pytest

import tilewright as tvm
from tilewright import te
from tilewright.target import Target
from tilewright.tir.schedule import Schedule

TARGETS = {
    "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512": "64",
    "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell": "32",
}


@pytest.mark.parametrize("name", TARGETS)
def test_the_stack_is_aligned_to_vectors(name: str) -> None:
    """Sums of a tile of 40 vectors: more than there are registers."""
    x, w = te.placeholder((64, 40), name="x"), te.placeholder((64, 16), name="w")
    k = te.reduce_axis((0, 64), "k")
    y = te.compute((40, 16), lambda i, j: te.sum(x[k.var, i] * w[k.var, j], k), name="y")
    sch = Schedule(te.create_prim_func([x, w, y]))
    i, j, k_loop = sch.get_loops("y")
    sch.reorder(k_loop, i, j)
    copy = sch.cache_write("y", 0, "local")
    init = sch.decompose_reduction("y", k_loop)
    for block in (init, sch.get_block("y_update"), copy):
        *_, row, lane = sch.get_loops(block)
        sch.unroll(row)
        sch.vectorize(lane)
    text = tvm.build(sch.mod, target=Target(name)).get_source("asm")
    spills = re.findall(r"vmov[au]p[sd]\s+(?:%[yz]mm\d+, -?\d*\(%rsp\)|-?\d*\(%rsp\), %[yz]mm\d+)", text)
    assert spills and not [s for s in spills if "vmovu" in s]
    assert f"andq\t$-{TARGETS[name]}, %rsp" in text
