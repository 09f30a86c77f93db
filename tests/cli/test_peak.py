"""The peak of the machine: instructions by type and processor, and rates that kernels do not exceed."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import relay
from tilewright.cli.peak import (
    BFLOATS,
    BYTES,
    DOUBLES,
    FLOATS,
    SIGNED,
    Peak,
    multiply_add,
    peak_text,
    together,
)
from tilewright.cli.profiling import profile_kernels
from tilewright.codegen.llvm.native.target_machine import compile_assembly
from tilewright.contrib import graph_executor
from tilewright.support.processors import usable_processors
from tilewright.target import Target

X86, ARM = "llvm -mtriple=x86_64-linux-gnu -mcpu=", "llvm -mtriple=aarch64-linux-gnu -mcpu="
CASES = [
    (X86 + "znver4", FLOATS, "vfmadd", 32),
    (X86 + "znver4", DOUBLES, "vfmadd", 16),
    (X86 + "znver4", BFLOATS, "vdpbf16ps", 64),
    (X86 + "znver4", BYTES, "vpdpbusd", 128),
    (X86 + "znver4", SIGNED, "vfmadd", 32),
    (X86 + "alderlake", BYTES, "vpdpbusd", 64),
    (X86 + "haswell", BYTES, "vfmadd", 16),
    (X86 + "x86-64", FLOATS, "mulps", 8),
    (X86 + "sapphirerapids", BFLOATS, "tdpbf16ps", 16384),
    (X86 + "sapphirerapids", BYTES, "tdpbusd", 32768),
    (X86 + "sapphirerapids", SIGNED, "tdpbssd", 32768),
    (ARM + "neoverse-n2", FLOATS, "fmla", 8),
    (ARM + "neoverse-n2", BFLOATS, "bfdot", 16),
    (ARM + "neoverse-n2", BYTES, "usdot", 32),
    (ARM + "neoverse-n2", SIGNED, "sdot", 32),
]


@pytest.mark.parametrize("target, types, mnemonic, operations", CASES)
def test_instruction(target: str, types: tuple[str, str, str], mnemonic: str, operations: int) -> None:
    chosen = Target(target)
    instruction = multiply_add(chosen, types)
    assert instruction.operations == operations
    assert instruction.types == (types if mnemonic not in ("vfmadd", "mulps") or types == DOUBLES else FLOATS)
    loop = compile_assembly(peak_text(chosen, instruction, 4), chosen)
    assert loop.count(f"\t{mnemonic}") == 4


def test_rate_of_threads_is_the_sum_of_what_each_did_while_all_worked() -> None:
    first = [(0.0, 1.0), (1.0, 3.0), (3.0, 7.0), (7.0, 7.5)]
    second = [(0.5, 4.5), (4.5, 7.0)]
    # The first slice and the last of the first thread lie outside of the time of the second.
    assert together([first, second]) == 1 / 2 + 1 / 2.5
    assert together([first]) == 1 / 0.5
    assert together([[(0.0, 1.0)], [(2.0, 4.0)]]) == 1 + 1 / 2


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("threads", [1, 2])
def test_no_kernel_is_beyond_the_peak(precision: str, threads: int) -> None:
    """A product that fits the caches, which comes close to it; in bfloat16 at twice float32's rate where the processor has its products."""
    x, w = relay.var("x", shape=(128, 256)), relay.const(np.ones((256, 256), "float32"))
    before = tvm.runtime.num_threads()
    tvm.runtime.set_num_threads(threads)
    try:
        with tvm.transform.PassContext(opt_level=3, config={"relay.build.precision": precision}):
            library = relay.build(tvm.IRModule.from_expr(relay.nn.dense(x, w)), target="llvm")
        kernels = profile_kernels(graph_executor.GraphModule(library["default"](tvm.cpu())), 0.2, threads)
    finally:
        tvm.runtime.set_num_threads(before)
    product = max(kernels, key=lambda k: k.flops)
    assert product.flops == 2 * 128 * 256 * 256
    # A few percent for the clocks; peaks of the wrong type, or of threads that wait, are off by far more.
    assert product.flops / product.microseconds / 1e3 < 1.1 * product.peak
    narrow = precision == "bfloat16" == multiply_add(Target("llvm"), BFLOATS).types[0]
    assert product.unit == ("bfloat16" if narrow else "float32")


def test_two_threads_do_twice_as_much() -> None:
    if usable_processors() < 2:
        assert Peak(2).threads == 1
        return
    assert Peak(2).rate > 1.3 * Peak(1).rate
