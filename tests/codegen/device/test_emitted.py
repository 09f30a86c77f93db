"""Single constructs in the text of kernels."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tvm
from tests.codegen.device.kernels import elementwise, over_threads, scheduled
from tests.codegen.device.readers import read_metal, read_opencl
from tilewright import te, tir
from tilewright.codegen.source.cuda import nvrtc
from tilewright.runtime import remove_global_func
from tilewright.script import tir as T
from tilewright.support.errors import TVMError
from tilewright.tir.transform.function.launch import MIN_BLOCKS

TARGETS = ("cuda -arch=sm_80", "opencl", "metal")


@pytest.fixture(autouse=True)
def without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "nvrtc", lambda: None)


def text_of(func: tir.PrimFunc, target: str) -> str:
    text = str(tvm.build(func, target=target).imported_modules[0].get_source())
    if target == "opencl":
        read_opencl(text)
    elif target == "metal":
        read_metal(text)
    return text


def body_of(func: tir.PrimFunc, target: str) -> list[str]:
    """The lines of the last kernel that follow the thread axes."""
    lines = [line.strip() for line in text_of(func, target).rstrip().splitlines()]
    last = max(k for k, line in enumerate(lines) if line.startswith("const int threadIdx"))
    return lines[last + 1 : -1]


def test_fast_math() -> None:
    func = elementwise("float32", 1, lambda a: te.exp(a))
    for target, precise, fast in (
        ("cuda", "expf(", "__expf("),
        ("opencl", "exp(", "native_exp("),
        ("metal", "precise::exp(", "fast::exp("),
    ):
        assert f"= {precise}" in text_of(func, target)
        assert f"= {fast}" in text_of(func, f"{target} -fast-math=1")


def test_divisions() -> None:
    def line(compute: Any) -> str:
        return body_of(elementwise("int32", 1, compute), "cuda")[-1].partition(" = ")[2]

    assert line(lambda a: te.floordiv(a, 8)) == "A[at] >> 3;"
    assert line(lambda a: te.floormod(a, 8)) == "A[at] & 7;"
    assert line(lambda a: te.floordiv(a, 7)) == "floordiv(A[at], 7);"
    assert line(lambda a: te.truncdiv(a, 7)) == "A[at] / 7;"


def test_accesses() -> None:
    """Vectors are read as one where they are aligned; others lane by lane, or by the functions of the language."""
    x = te.placeholder((4096 + 8,), name="X")
    shifted = te.compute((4096,), lambda i: x[i + 1], name="Y")
    strided = te.compute((2048,), lambda i: x[i * 2], name="Y")
    for compute, cuda, opencl, metal in (
        (shifted, "make_float4(X[", "vload4(0, &X[", "*(device const packed_float4*)&X["),
        (strided, "make_float4(X[", "(float4)(X[", "float4(X["),
    ):
        func = scheduled([x, compute], lambda s: over_threads(s, "Y", 4, 64))
        for target, part in zip(TARGETS, (cuda, opencl, metal), strict=True):
            assert part in text_of(func, target)


def test_wide_vectors_are_cut() -> None:
    func = elementwise("float32", 32, lambda a: a + 1.0)
    assert text_of(func, "cuda").count("*(float16*)&D[") == 2
    assert text_of(func, "opencl").count("*(__global float16*)&D[") == 2
    assert text_of(func, "metal").count("*(device float4*)&D[") == 8


def test_choices_by_lanes_of_another_width() -> None:
    """OpenCL's select takes truth in lanes as wide as those of the values."""
    plain = []
    for t in ("int64", "int16", "float32", "float64"):
        func = elementwise("float32", 4, lambda a, t=t: tir.Select(a.astype(t) < tir.const(1, t), a, -a))
        plain.append("convert_uchar4(" not in text_of(func, "opencl"))
    assert plain == [False, False, True, False]


def test_short_literals_of_64_bits() -> None:
    """A shift has the type of what is shifted, and a choice between literals theirs: both would be int."""

    def compute(a: tir.PrimExpr) -> tir.PrimExpr:
        factor = tir.Select(a > 0, tir.const(3, "int64"), tir.const(1, "int64"))
        return (tir.const(1, "int64") << (a + tir.const(30, "int64"))) + factor * tir.const(2000000000, "int64")

    for target, long in zip(TARGETS, ("(long long)", "(long)", "(long)"), strict=True):
        text = text_of(elementwise("int64", 1, compute), target)
        assert f"{long}1 <<" in text and f"? {long}3 : 1" in text, text


def test_narrow_types() -> None:
    for dtype in ("float8_e4m3fn", "float8_e5m2", "bfloat16"):
        func = elementwise(dtype, 1, lambda a: a + a)
        for target in TARGETS:
            text = text_of(func, target)
            assert f"float_of_{dtype}(" in text or "__nv_bfloat16" in text


def test_calls() -> None:
    @T.prim_func
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):  # type: ignore[no-untyped-def]
        for thread in T.thread_binding(64, thread="threadIdx.x"):
            with T.block("b"):
                i = T.axis.spatial(64, thread)
                T.block_attr({"pragma_import_c": "inline float twice(float x) { return x * 2.0f; }"})
                y[i] = T.call_pure_extern("float32", "twice", x[i]) + T.call_llvm_pure_intrin(
                    "float32", "llvm.sqrt.f32", x[i]
                )
                T.evaluate(T.call_extern("int32", "printf", "%f\n", y[i]))

    lines = body_of(func, "cuda")
    assert lines[-2:] == [
        "y[threadIdx_x] = twice(x[threadIdx_x]) + sqrtf(x[threadIdx_x]);",
        'printf("%f\\012", y[threadIdx_x]);',
    ]


def test_barriers_below_assertions() -> None:
    """A thread whose assertion fails comes to the barrier too."""

    @T.prim_func
    def func(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):  # type: ignore[no-untyped-def]
        for t in T.thread_binding(64, thread="threadIdx.x"):
            assert x[t] > T.float32(0), "positive"
            T.evaluate(T.call_extern("int32", "__syncthreads"))
            y[t] = x[63 - t]

    assert (
        text_of(func, "cuda").rstrip().endswith("\n  }\n  __syncthreads();\n  y[threadIdx_x] = x[63 - threadIdx_x];\n}")
    )


def test_sixty_four_bits() -> None:
    @T.prim_func
    def func(x: T.Buffer((T.int64(8589934592),), "int8"), y: T.Buffer((64,), "int8")):  # type: ignore[no-untyped-def]
        for thread in T.thread_binding(64, thread="threadIdx.x"):
            with T.block("b"):
                i = T.axis.spatial(64, thread)
                y[i] = x[T.int64(134217728) * T.Cast("int64", i)]

    assert body_of(func, "cuda") == ["y[threadIdx_x] = x[(long long)threadIdx_x * 134217728];"]
    assert body_of(func, "opencl") == ["y[threadIdx_x] = x[(long)threadIdx_x * 134217728];"]


def over_threads_of(n: int, block: int) -> tir.Schedule:
    """Additions of n elements, by blocks of threads."""
    a = te.placeholder((n,), name="a")
    s = tir.Schedule(te.create_prim_func([a, te.compute((n,), lambda i: a[i] + 1.0, name="b")]))
    blocks, threads = s.split(s.get_loops(s.get_block("b"))[0], [None, block])
    s.bind(blocks, "blockIdx.x")
    s.bind(threads, "threadIdx.x")
    return s


def test_blocks_that_run_at_once() -> None:
    """CUDA's compilers are told, others have no word for it."""
    s = over_threads_of(256, 64)
    s.annotate(s.get_loops(s.get_block("b"))[1], MIN_BLOCKS, 5)

    def source(target: str) -> str:
        return str(tvm.build(s.mod, target=target).imported_modules[0].get_source())

    assert "__launch_bounds__(64, 5) main_kernel(" in source("cuda -arch=sm_80")
    ptx = source("nvptx -mcpu=sm_80")
    assert ".maxntid 64" in ptx and ".minnctapersm 5" in ptx
    assert not any([MIN_BLOCKS in source(target) for target in ("opencl", "metal")])


@pytest.mark.parametrize("target", ["cuda -arch=sm_86", "nvptx -mcpu=sm_86"])
@pytest.mark.parametrize("number", [-1, 0, 17, 1000000, "x"])
def test_blocks_that_cannot_run_at_once(number: Any, target: str) -> None:
    """A multiprocessor of sm_86 holds 16 blocks."""
    s = over_threads_of(256, 64)
    s.annotate(s.get_loops(s.get_block("b"))[1], MIN_BLOCKS, number)
    message = f"{MIN_BLOCKS} of the loop \\S+ is a constant from 1 to 16, the blocks of a multiprocessor of sm_86, but"
    with pytest.raises(TVMError, match=message):
        tvm.build(s.mod, target=target)


def test_hooks() -> None:
    """tvm_callback_cuda_postproc and tvm_callback_cuda_compile, as in classic programs."""
    seen: list[Any] = []

    @tvm.register_func("tvm_callback_cuda_postproc", override=True)
    def postproc(code: str, target: Any) -> str:
        return f"// changed\n{code}"

    @tvm.register_func("tvm_callback_cuda_compile", override=True)
    def compiled(code: str, target: Any) -> bytes:
        seen.append((code, str(target.kind)))
        return b"//\n.version 8.0\n.target sm_80\n"

    try:
        built = tvm.build(elementwise("float32", 1, lambda a: a + 1.0), target="cuda")
    finally:
        remove_global_func("tvm_callback_cuda_postproc")
        remove_global_func("tvm_callback_cuda_compile")
    text = built.imported_modules[0].get_source()
    assert text.startswith("// changed\n") and seen == [(text, "cuda")]
