"""Instructions for sums of products of bytes, as TE intrinsics and in the schedules of templates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, testing, topi
from tilewright.topi.x86 import tensor_intrin

RNG = np.random.default_rng(5)


def needs(feature: testing.Feature) -> pytest.MarkDecorator:
    return pytest.mark.skipif(feature.missing() is not None, reason=feature.missing() or "")


CPUS = [
    pytest.param("cascadelake", "vpdpbusd", marks=needs(testing.requires_x86_vnni)),
    pytest.param("skylake-avx512", "vpmaddubsw", marks=needs(testing.requires_x86_avx512)),
    pytest.param("haswell", "", marks=needs(testing.requires_x86)),
]


@pytest.mark.parametrize("cpu, instruction", CPUS[:2])
def test_intrinsics(cpu: str, instruction: str) -> None:
    m, n, k = 4, 32, 16
    x, w = te.placeholder((m, k), "uint8", "x"), te.placeholder((n // 16, k // 4, 16, 4), "int8", "w")
    ko, ki = te.reduce_axis((0, k // 4), "ko"), te.reduce_axis((0, 4), "ki")

    def element(i: Any, j: Any) -> Any:
        return te.sum(x[i, ko * 4 + ki].astype("int32") * w[j // 16, ko, j % 16, ki].astype("int32"), axis=[ko, ki])

    y = te.compute((m, n), element, name="y")
    s = te.create_schedule(y.op)
    i, j = s[y].op.axis
    jo, ji = s[y].split(j, 16)
    s[y].reorder(i, jo, ko, ji, ki)
    target = tvm.target.Target(f"llvm -mcpu={cpu}")
    with target:
        s[y].tensorize(ji, tensor_intrin.dot_16x1x16_uint8_int8_int32())
    built = tvm.build(s, [x, w, y], target)
    a, b = RNG.integers(0, 60, (m, k)).astype("uint8"), RNG.integers(-60, 60, (n // 16, k // 4, 16, 4)).astype("int8")
    out = tvm.nd.array(np.zeros((m, n), "int32"))
    built(tvm.nd.array(a), tvm.nd.array(b), out)
    np.testing.assert_array_equal(
        out.numpy(), a.astype("int32") @ b.transpose(1, 3, 0, 2).reshape(k, n).astype("int32")
    )
    assert instruction in built.get_source("asm")


def test_targets_without_the_instructions() -> None:
    with tvm.target.Target("llvm -mcpu=haswell"), pytest.raises(RuntimeError, match="needs AVX-512"):
        tensor_intrin.dot_16x1x16_uint8_int8_int32()


@pytest.mark.parametrize("cpu, instruction", CPUS)
def test_convolutions_of_bytes(cpu: str, instruction: str) -> None:
    d, w = RNG.integers(0, 60, (1, 16, 9, 8)).astype("uint8"), RNG.integers(-60, 60, (32, 16, 3, 3)).astype("int8")
    x, k = te.placeholder(d.shape, "uint8"), te.placeholder(w.shape, "int8")
    target = tvm.target.Target(f"llvm -mcpu={cpu}")
    with target:
        y = topi.x86.conv2d_NCHWc_int8(x, k, 1, 1, 1, "NCHW", "NCHW", "int32")
        built = tvm.build(topi.x86.schedule_conv2d_NCHWc_int8([y]), [x, k, y], target)
    out = tvm.nd.array(np.zeros([int(v) for v in y.shape], "int32"))
    built(tvm.nd.array(d), tvm.nd.array(w), out)
    wanted = topi.testing.conv2d_nchw_python(d.astype("int32"), w.astype("int32"), 1, 1)
    np.testing.assert_array_equal(out.numpy(), wanted.reshape(1, 2, 16, 9, 8).transpose(0, 1, 3, 4, 2))
    assert instruction in built.get_source("asm")
