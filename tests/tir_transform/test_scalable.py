"""Scalable vectors: their types and text, vectorised loops of vscale lanes, and the fixed vectors that they become for a machine."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import tir
from tilewright.codegen import interp
from tilewright.ir import DataType
from tilewright.ir.dtype import ScalableLanes
from tilewright.script import tir as T
from tilewright.tir.transform import LowerScalableVectors, VectorizeLoop


@T.prim_func
def looped(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64 // (T.vscale() * 4)):
        for j in T.vectorized(T.vscale() * 4):
            B[i * (T.vscale() * 4) + j] = A[i * (T.vscale() * 4) + j] * T.float32(2) + T.Cast("float32", j)


@T.prim_func
def guarded(A: T.Buffer((50,), "float32"), B: T.Buffer((50,), "float32")):
    for i in range((50 + T.vscale() * 4 - 1) // (T.vscale() * 4)):
        for j in T.vectorized(T.vscale() * 4):
            if i * (T.vscale() * 4) + j < 50:
                B[i * (T.vscale() * 4) + j] = A[i * (T.vscale() * 4) + j] + T.float32(1)


def test_types() -> None:
    t = DataType("float32xvscalex4")
    assert t.lanes == ScalableLanes(4) and t.lanes != 4 and t.lanes > 1 and t.element == "float32"
    assert DataType("bool").with_lanes(ScalableLanes(2)) == "boolxvscalex2" == DataType("uint1xvscalex2")  # type: ignore[arg-type]
    assert DataType("boolxvscalex2").element == "bool" and t.with_lanes(1) == "float32"
    with pytest.raises(ValueError, match="the size of a float32xvscalex4 is the machine's"):
        _ = t.itemsize
    with pytest.raises(TypeError, match="unknown data type 'float32xvscale'|expected one like"):
        DataType("float32xvscale")


def test_nodes() -> None:
    for lanes in (tir.vscale() * 4, 4 * tir.vscale(), 2 * tir.vscale() * 2):
        ramp = tir.Ramp(0, 1, lanes)
        assert ramp.dtype == "int32xvscalex4" and str(ramp) == "T.Ramp(0, 1, T.vscale() * 4)"
        tvm.ir.assert_structural_equal(tvm.ir.load_json(tvm.ir.save_json(ramp)), ramp)
    spread = tir.Broadcast(tir.const(1, "float16"), tir.vscale() * 8)
    assert spread.dtype == "float16xvscalex8" and str(spread) == "T.Broadcast(T.float16(1), T.vscale() * 8)"
    assert not tvm.ir.structural_equal(tir.Ramp(0, 1, tir.vscale() * 4), tir.Ramp(0, 1, 4))
    with pytest.raises(TypeError, match="Ramp.lanes must be a constant int, or vscale.. times one"):
        tir.Ramp(0, 1, tir.vscale() + 4)
    with pytest.raises(TypeError):
        tir.Ramp(0, 1, tir.vscale() * 4) + tir.Ramp(0, 1, 4)


def test_text_both_ways() -> None:
    mod = VectorizeLoop()(tvm.IRModule({"main": looped}))
    text = mod.script()
    assert (
        "T.Ramp(i * (T.vscale() * 4), 1, T.vscale() * 4)" in text
        and "T.Broadcast(T.float32(2), T.vscale() * 4)" in text
    )
    tvm.ir.assert_structural_equal(tvm.script.from_source(text), mod)


@pytest.mark.parametrize("func", [looped, guarded], ids=["looped", "guarded"])
@pytest.mark.parametrize("lowered_first", [False, True])
@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64", "c", "interp"])
def test_programs_run(func: tir.PrimFunc, target: str, lowered_first: bool) -> None:
    size = int(func.buffer_map[func.params[0]].shape[0])
    a = np.random.default_rng(0).random(size, "float32")
    b = tvm.nd.empty((size,))
    tvm.build(tvm.lower(func) if lowered_first else func, target=target)(tvm.nd.array(a), b)
    np.testing.assert_allclose(
        b.numpy(), a * 2 + np.arange(size) % lanes_of(target) if func is looped else a + 1, rtol=1e-6
    )


def lanes_of(target: str) -> int:
    return max(1, tvm.target.Target(target).cpu.vector_bits // 128) * 4


def test_the_interpreter_takes_vectors_of_128_bits() -> None:
    a, b = np.arange(50, dtype="float32"), np.zeros(50, "float32")
    for mod in (tvm.IRModule({"main": guarded}), VectorizeLoop()(tvm.IRModule({"main": guarded}))):
        interp.run(mod, [a, b])
        np.testing.assert_array_equal(b, a + 1)


def test_the_scale_is_that_of_the_target() -> None:
    def lanes(scale: int | None = None) -> set[int]:
        fixed = LowerScalableVectors(scale)(VectorizeLoop()(tvm.IRModule({"main": looped})))
        found: set[int] = set()
        tir.stmt_functor.post_order_visit(
            fixed["main"].body, lambda e: found.add(e.lanes) if isinstance(e, tir.Ramp) else None
        )
        return found

    assert lanes() == {4} and lanes(3) == {12}
    with tvm.target.Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1"):
        assert lanes() == {8}  # vectors of 256 bits
    with tvm.target.Target("cuda"):
        assert lanes() == {4}


def test_masks_of_lanes() -> None:
    @T.prim_func
    def masked(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), n: T.int32):
        for i in range(64 // (T.vscale() * 4)):
            base: T.int32 = i * (T.vscale() * 4)
            mask: T.uint1xvscalex4 = T.get_active_lane_mask("uint1xvscalex4", base, n)
            B.vstore(
                [T.Ramp(base, 1, T.vscale() * 4)],
                A.vload([T.Ramp(base, 1, T.vscale() * 4)], predicate=mask),
                predicate=mask,
            )

    a, b = np.arange(64, dtype="float32") + 1, tvm.nd.array(np.zeros(64, "float32"))
    tvm.build(masked, target="llvm")(tvm.nd.array(a), b, 11)
    np.testing.assert_array_equal(b.numpy(), np.where(np.arange(64) < 11, a, 0))


@pytest.mark.parametrize(("limit", "wanted"), [(1 << 32, 16), (-(1 << 32) + 7, 0), (5, 5)])
def test_limits_of_masks_keep_their_bits(limit: int, wanted: int) -> None:
    @T.prim_func
    def masked(out: T.Buffer((16,), "int32"), n: T.int64):
        for i in range(16 // (T.vscale() * 4)):
            base: T.int32 = i * (T.vscale() * 4)
            mask: T.uint1xvscalex4 = T.get_active_lane_mask("uint1xvscalex4", base, n)
            out.vstore([T.Ramp(base, 1, T.vscale() * 4)], T.Broadcast(1, T.vscale() * 4), predicate=mask)

    out = np.zeros(16, "int32")
    interp.run(LowerScalableVectors(1)(tvm.IRModule({"main": masked})), [out, limit])
    assert out.sum() == wanted
