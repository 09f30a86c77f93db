"""PTX by LLVM: kernels for NVIDIA's GPUs without CUDA's compiler."""

from __future__ import annotations

import re

import pytest

import tilewright as tvm
from tests.codegen.device.kernels import elementwise, source
from tilewright import tir
from tilewright.script import tir as T
from tilewright.support.errors import TVMError

TARGET = "nvptx -mcpu=sm_80"


def test_vectors_and_threads() -> None:
    text = source("add", TARGET)
    assert ".target sm_80" in text and ".visible .entry main_kernel(" in text
    assert "%ctaid.x" in text and "%tid.x" in text and text.count("ld.global.nc.v4") == 2 and "st.global.v4" in text


def test_shared_memory_and_barriers() -> None:
    text = source("sum_in_shared_memory", TARGET)
    # The sums of four warps.
    assert re.search(r"\.shared .align 16 .b8 \w+\[16\]", text) and text.count("bar.sync") == 2
    assert re.search(r"\.extern \.shared .align 16 .b8 \w+\[\]", source("matmul_dynamic_shared", TARGET))


def test_shuffles() -> None:
    text = source("sum_by_shuffles", TARGET)
    assert text.count("shfl.sync.down.b32") == 5 and text.count("shfl.sync.idx.b32") == 1 and "bar.sync" not in text


@pytest.mark.parametrize(
    "name", ["gelu", "matmul", "softmax", "half_relu", "bfloat16_scale", "select", "symbolic", "cumulative_sum"]
)
def test_kernels(name: str) -> None:
    assert ".visible .entry" in source(name, TARGET)


@pytest.mark.parametrize(("dtype", "kind"), [("int32", "u32"), ("int64", "u64"), ("float32", "f32")])
def test_atomic_additions(dtype: str, kind: str) -> None:
    @T.prim_func
    def count(total: T.Buffer((1,), dtype)):  # type: ignore[no-untyped-def]
        for _ in T.thread_binding(32, thread="threadIdx.x"):
            T.evaluate(T.atomic_add(T.address_of(total[0]), T.Cast(dtype, 1), dtype=dtype))

    text = str(tvm.build(count, target=TARGET).imported_modules[0].get_source())
    assert re.search(rf"\b(atom|red)\.\S*add\.{kind}", text), text


def test_checks_count_themselves() -> None:
    assert re.search(r"\batom\.\S*add\.u32", source("checked", TARGET))


def test_what_there_is_not() -> None:
    with pytest.raises(TVMError, match=r"has no rule for the intrinsic tir\.dp4a"):
        source("int8_dot", TARGET)
    with pytest.raises(
        TVMError, match=r"LLVM has no storage of scope 'wmma\.accumulator' for GPUs; the target cuda has more"
    ):
        source("wmma_matmul", TARGET)
    with pytest.raises(
        TVMError, match="the kernels call foreign, and a GPU has no such functions; use the target cuda"
    ):
        tvm.build(elementwise("float32", 1, lambda a: tir.call_pure_extern("float32", "foreign", a)), target=TARGET)


def test_threads_of_a_block_are_told() -> None:
    """Without it the driver's compiler gives threads more registers than a large block has."""
    assert ".maxntid 16, 16, 1" in source("matmul", TARGET)
    assert ".maxntid 256, 1, 1" in source("gelu", TARGET)
