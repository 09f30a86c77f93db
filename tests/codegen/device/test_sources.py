"""The text of kernels in every language (goldens), and that compilers and a reader of C accept it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tilewright as tvm
from tests.codegen.device.kernels import KERNELS, ONLY_CUDA, source
from tests.codegen.device.readers import read_metal, read_opencl
from tilewright import te
from tilewright.codegen.source.cuda import nvrtc
from tilewright.tir.schedule import Schedule
from tilewright.tir.tensor_intrin import metal

LANGUAGES = {"cuda": ("cuda -arch=sm_80", "cu"), "opencl": ("opencl", "cl"), "metal": ("metal", "metal")}
CASES = [(name, language) for name in KERNELS for language in LANGUAGES if language == "cuda" or name not in ONLY_CUDA]


@pytest.fixture(autouse=True)
def without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """No NVRTC, wherever the tests run: the texts are what is tested."""
    monkeypatch.setattr(nvrtc, "nvrtc", lambda: None)


@pytest.mark.parametrize(("name", "language"), CASES)
def test_source(name: str, language: str, golden: Callable[[str, str], None]) -> None:
    target, suffix = LANGUAGES[language]
    text = source(name, target)
    golden(f"{name}.{suffix}", text)
    if language == "opencl":
        read_opencl(text)
    elif language == "metal":
        read_metal(text)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_matrices_of_a_simdgroup(dtype: str, golden: Callable[[str, str], None]) -> None:
    """Metal's own matrix units: 8 x 8 elements, staged through threadgroup memory."""
    a, b = te.placeholder((16, 16), dtype, name="A"), te.placeholder((16, 16), dtype, name="B")
    r = te.reduce_axis((0, 16), "k")
    s = Schedule(te.create_prim_func([a, b, te.compute((16, 16), lambda i, j: te.sum(a[i, r] * b[r, j], r), name="C")]))
    names, block = metal.get_simdgroup_intrin_group("shared", "global", dtype), s.get_block("C")
    (i0, i), (j0, j), (k0, k) = [s.split(loop, [None, 8]) for loop in s.get_loops(block)]
    s.reorder(i0, j0, k0, i, j, k)
    s.bind(i0, "blockIdx.y")
    s.bind(j0, "blockIdx.x")
    sums = s.cache_write(block, 0, "metal.simdgroup")
    s.reverse_compute_at(sums, j0)
    for operand, letter in ((0, "a"), (1, "b")):
        tile = s.cache_read(block, operand, "shared")
        matrix = s.cache_read(block, operand, "metal.simdgroup")
        s.compute_at(matrix, k0)
        s.compute_at(tile, k0)
        thread, _ = s.split(s.fuse(*s.get_loops(tile)[-2:]), [32, None])
        s.bind(thread, "threadIdx.x")
        s.tensorize(s.get_loops(matrix)[-2], names[f"load_{letter}"])
    start = s.decompose_reduction(block, k0)
    s.tensorize(s.get_loops(start)[-2], names["init"])
    s.tensorize(i, names["compute"])
    s.tensorize(s.get_loops(sums)[-2], names["store"])
    text = str(tvm.build(s.mod, target="metal").imported_modules[0].get_source())
    golden(f"simdgroup_{dtype}.metal", text)
    read_metal(text)
