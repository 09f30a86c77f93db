"""Kernels that no block can run are refused when they are built, with what they need, the limit and the remedy."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tilewright as tvm
from tests.codegen.performance.kernels import of_one_warp
from tilewright import tir
from tilewright.support.errors import TVMError


def with_storage(size: int, scope: str, threads: int = 32) -> tir.PrimFunc:
    """A block with `size` bytes of storage."""

    def body(t: Any, b: Any) -> Any:
        return tir.SeqStmt(
            [
                tir.BufferStore(b["s"], tir.const(1, "int8"), [t]),
                tir.BufferStore(b["out"], b["s"][t].astype("float32"), [t]),
            ]
        )

    return of_one_warp(body, threads, s=(size, "int8", scope))


def grid(tag: str, extent: int) -> tir.PrimFunc:
    out = tir.decl_buffer((1,), "float32", "out")
    store: Any = tir.BufferStore(out, tir.const(1, "float32"), [tir.const(0, "int32")])
    for name, n in ((tag, extent), ("threadIdx.x" if tag != "threadIdx.x" else "blockIdx.x", 1)):
        store = tir.AttrStmt(
            tir.IterVar(None, tir.Var("v", "int32"), 1, name), "thread_extent", tir.IntImm("int32", n), store
        )
    return tir.PrimFunc([out], store)


@pytest.mark.parametrize(
    ("func", "target", "message"),
    [
        (
            with_storage(49153, "shared"),
            "cuda -arch=sm_80",
            "kernel 'default_function_kernel' needs 49153 bytes of static shared memory (s 49153), but sm_80 has 49152; put it into scope"
            ' "shared.dyn", of which a block may have 166912, or take smaller tiles',
        ),
        (
            with_storage(65537, "shared.dyn"),
            "cuda -arch=sm_75",
            "needs 65537 bytes of shared memory (s 65537), but sm_75 has 65536 for a block; take smaller tiles or fewer stages",
        ),
        (
            with_storage(232449, "shared.dyn"),
            "cuda -arch=sm_100a",
            "needs 232449 bytes of shared memory (s 232449), but sm_100a has 232448 for a block; take smaller tiles or fewer stages",
        ),
        (grid("threadIdx.y", 2048), "cuda -arch=sm_100a", "needs threadIdx.y up to 2048, but sm_100a has at most 1024; split the loop"),
        (with_storage(40000, "shared"), "cuda -arch=sm_80 -max_shared_memory_per_block=32768", "but sm_80 has 32768"),
        (grid("threadIdx.x", 2048), "cuda -arch=sm_80", "needs threadIdx.x up to 2048, but sm_80 has at most 1024; split the loop"),
        (grid("threadIdx.z", 128), "nvptx -mcpu=sm_80", "needs threadIdx.z up to 128, but sm_80 has at most 64"),
        (grid("blockIdx.y", 65536), "cuda -arch=sm_80", "needs blockIdx.y up to 65536, but sm_80 has at most 65535; bind"),
        (grid("threadIdx.x", 512), "cuda -max_num_threads=256", "needs 512 threads in a block, but sm_75 has at most 256; let each thread"),
    ],
)  # fmt: skip
def test_refused(func: tir.PrimFunc, target: str, message: str) -> None:
    with pytest.raises(TVMError, match=re.escape(message)):
        tvm.build(func, target=target)


def test_fragments_that_no_thread_holds() -> None:
    def filled(c: Any) -> Any:
        args = (c.data, 16, 16, 16, 0, tir.const(0, "float32"))
        fill = tir.Evaluate(tir.call_intrin("handle", "tir.tvm_fill_fragment", *args))
        return tir.AttrStmt(c.data, "fragment_shape", tir.StringImm("16, 16, 16"), fill)

    def tile(fragments: int) -> tir.PrimFunc:
        return of_one_warp(lambda t, b: filled(b["c"]), c=(256 * fragments, "float32", "wmma.accumulator"))

    tvm.build(tile(16), target="cuda -arch=sm_80")
    with pytest.raises(
        TVMError, match="needs 256 registers of each thread for its fragments, but sm_80 has at most 255"
    ):
        tvm.build(tile(32), target="cuda -arch=sm_80")


@pytest.mark.parametrize(
    ("func", "target"),
    [
        (with_storage(49152, "shared"), "cuda -arch=sm_80"),
        (with_storage(166912, "shared.dyn"), "cuda -arch=sm_80"),
        (with_storage(232448, "shared.dyn"), "cuda -arch=sm_90a"),
        (with_storage(232448, "shared.dyn"), "cuda -arch=sm_100a"),
        (grid("blockIdx.x", 1 << 20), "cuda -arch=sm_80"),
        (grid("threadIdx.x", 1024), "cuda -arch=sm_80"),
    ],
)
def test_just_within_the_limits(func: tir.PrimFunc, target: str) -> None:
    assert tvm.build(func, target=target).imported_modules
