"""Loads of an unrolled tile's later steps stay there: brought forward they would have no registers."""

from __future__ import annotations

import re

import pytest

from tilewright import te, topi
from tilewright.codegen.llvm import compile_assembly, emit_module
from tilewright.driver import lower
from tilewright.scheduling import KernelPlan, schedule_kernel
from tilewright.target import Target

TARGET = "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=skylake-avx512 -num-cores=1"


@pytest.mark.parametrize("inner", [22, 24])
def test_a_tile_that_fills_the_registers_keeps_its_sums_in_them(inner: int) -> None:
    target = Target(TARGET)
    with target, KernelPlan(target):
        x, w = te.placeholder((252, inner), name="x"), te.placeholder((4, inner, 64), name="w")
        func = schedule_kernel(te.create_prim_func([x, w, topi.nn.dense_pack(x, w)]), target)
    assert "T.unroll(14)" in func.script()
    assembly = compile_assembly(emit_module(lower(func), target), target)
    assert assembly.count("vfmadd") >= 56
    assert not re.findall(r"%zmm\d+, -?\d*\(%rsp\)", assembly)
