"""bfloat16 as its own instructions round and multiply it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.codegen.small_programs import aligned, elementwise, native
from tilewright import nd
from tilewright import tir as T
from tilewright.codegen.backend import AOT
from tilewright.codegen.llvm import compile_assembly, emit_module
from tilewright.driver import build
from tilewright.driver.pipeline import host_pipeline
from tilewright.ir import DataType, IRModule
from tilewright.script import from_source
from tilewright.target import Target
from tilewright.tir import Broadcast, BufferLoad, BufferStore, Cast, PrimFunc, Ramp, decl_buffer

BITS = np.concatenate(
    [
        # Ties, their neighbours, the ends of the range, infinities and NaNs of both signs.
        np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0x7F7FFFFF, 0x7F7F8000, 0x7F7F7FFF], np.uint32),
        np.array([0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0x00800000, 0x00000000, 0x7F810000], np.uint32),
        np.random.default_rng(0).integers(0, 1 << 31, 4082, np.uint32),
    ]
)


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell", "llvm -mcpu=x86-64"])
@pytest.mark.parametrize("lanes", [1, 4, 16, 32])
def test_rounding(target: str, lanes: int) -> None:
    values = aligned(np.concatenate([BITS, BITS | 0x80000000]).view(np.float32), "float32")
    func = elementwise(
        ["float32"], "bfloat16", values.size, lanes, lambda a: Cast(DataType("bfloat16").with_lanes(a.dtype.lanes), a)
    )
    out = aligned(np.zeros(values.size), "bfloat16")
    assert native(func, [values, out], target) == 0
    normal = ~((np.abs(values) < np.finfo(np.float32).tiny) & (values != 0))
    with np.errstate(invalid="ignore"):
        want = values.astype(ml_dtypes.bfloat16)
    finite = normal & ~np.isnan(values)
    np.testing.assert_array_equal(out.view(np.uint16)[finite], want.view(np.uint16)[finite])
    assert np.isnan(out[np.isnan(values)].astype(np.float32)).all()
    # Denormal numbers may become zeros.
    small = out[~normal].astype(np.float32)
    assert ((small == 0) | (small == want[~normal].astype(np.float32))).all()


@pytest.mark.parametrize("lanes", [1, 16])
def test_every_number_widens(lanes: int) -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    func = elementwise(
        ["bfloat16"], "float32", values.size, lanes, lambda a: Cast(DataType("float32").with_lanes(a.dtype.lanes), a)
    )
    out = aligned(np.zeros(values.size), "float32")
    assert native(func, [aligned(values, "bfloat16"), out], "llvm") == 0
    np.testing.assert_array_equal(out.view(np.uint32), np.arange(1 << 16, dtype=np.uint32) << 16)


def test_product_of_pairs() -> None:
    a, b = (decl_buffer((n,), "bfloat16", name) for n, name in ((2, "A"), (32, "B")))
    c = decl_buffer((16,), "float32", "C")
    pair = T.reinterpret("bfloat16x32", Broadcast(T.reinterpret("int32", BufferLoad(a, (Ramp(0, 1, 2),))), 16))
    lanes = (Ramp(0, 1, 16),)
    dot = T.call_llvm_pure_intrin(
        "float32x16", "llvm.x86.avx512bf16.dpbf16ps.512", BufferLoad(c, lanes), pair, BufferLoad(b, (Ramp(0, 1, 32),))
    )
    func = PrimFunc((a, b, c), BufferStore(c, dot, lanes), attrs={"global_symbol": "main"})
    text = emit_module(IRModule({"main": func.with_attr("calling_conv", AOT)}), "llvm -mcpu=znver4")
    assert "vdpbf16ps" in compile_assembly(text, "llvm -mcpu=znver4")
    if not Target("llvm").cpu.avx512_bf16:
        return
    rng = np.random.default_rng(0)
    x, y = (aligned(rng.standard_normal(n), "bfloat16") for n in (2, 32))
    z = aligned(rng.standard_normal(16), "float32")
    want = z + y.astype(np.float32).reshape(16, 2) @ x.astype(np.float32)
    assert native(func, [x, y, z]) == 0
    np.testing.assert_allclose(z, want, rtol=1e-6, atol=1e-6)


def test_loops_over_scalars_that_llvm_makes_vectors_of() -> None:
    """Rounding by the instruction in such a loop made LLVM's vectoriser fail an assertion, which ends the process."""
    source = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int32()
    m = T.int32()
    A = T.match_buffer(a, (n, m), "bfloat16")
    C = T.match_buffer(c, (n, m), "bfloat16")
    S = T.alloc_buffer((n, m), "bfloat16")
    for i, j in T.grid(n, m):
        with T.block("s"):
            v, w = T.axis.remap("SS", [i, j])
            S[v, w] = A[v, w] * T.bfloat16(2) + T.bfloat16(1)
    for i, j in T.grid(n, m):
        with T.block("c"):
            v = T.axis.spatial(n, i)
            w = T.axis.spatial(m, m - 1 - j)
            C[v, w] = T.if_then_else(v + w < 3, S[v, w], S[v, w] + S[v, w])
"""
    built = build(from_source(source), target="llvm")
    a = np.arange(35, dtype=np.float32).reshape(5, 7).astype(ml_dtypes.bfloat16)
    out = nd.array(np.zeros_like(a))
    built(nd.array(a), out)
    s = a.astype(np.float32) * 2 + 1
    near = np.add.outer(np.arange(5), np.arange(7)) < 3
    np.testing.assert_array_equal(out.numpy().astype(np.float32), np.where(near, s, s + s))


MASKED = """
@T.prim_func
def main(A: T.Buffer((16,), "bfloat16"), B: T.Buffer((18,), "bfloat16")):
    inside = T.Ramp(0, 1, 18) < T.Broadcast(16, 18)
    B[0:18] = T.Select(
        inside, A.vload([T.Ramp(0, 1, 18)], predicate=inside), T.Broadcast(T.bfloat16(0), 18)
    ) * T.Broadcast(T.bfloat16(-1), 18) + T.Broadcast(T.bfloat16(1), 18)
"""


def test_vectors_that_are_no_whole_registers() -> None:
    """LLVM stopped the process over an instruction for 18 numbers."""
    target = Target("llvm -mcpu=sapphirerapids")
    func = from_source(MASKED).with_attr({"global_symbol": "main", "calling_conv": AOT})
    text = emit_module(host_pipeline(target, unpacked=True)(IRModule({"main": func})), target)
    assert "fptrunc" not in text
    assert compile_assembly(text, target, 0)
