"""Columns of less than a vector: sums stay in registers, and are stored by a masked vector of their width."""

from __future__ import annotations

from tilewright import te
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.target import Target
from tilewright.topi import nn


def test_few_columns_are_stored_as_part_of_a_whole_vector() -> None:
    with (
        Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -num-cores=2") as target,
        KernelPlan(target),
    ):
        x, y = te.placeholder((17, 49), name="x"), te.placeholder((49, 10), name="y")
        text = schedule_kernel(te.create_prim_func([x, y, nn.matmul(x, y)]), target).script()
    assert "T.vectorized(16)" in text
    assert "T.vectorized(10)" not in text, text
