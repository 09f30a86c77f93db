"""Features of CPUs as classic programs ask for them, and limits of kernels."""

from __future__ import annotations

import pytest

from tilewright.target import Target


def test_features_as_attributes() -> None:
    arm = Target("llvm -mtriple=aarch64-linux-gnu -mattr=+v8.2a,+dotprod,+sve,+i8mm").features
    assert arm.has_dotprod and arm.has_sve and arm.has_asimd and arm.has_matmul_i8 and arm.is_aarch64
    assert not arm.has_sme and not arm.has_fp16_simd and not arm.is_x86
    assert Target("llvm -mtriple=x86_64-linux-gnu -mattr=+sse4.2").features.has_sse4_2
    with pytest.raises(AttributeError, match="asked for as has_<feature> or is_<architecture>, but 'sve' was given"):
        _ = arm.sve


def test_microcontrollers_without_a_triple() -> None:
    m55 = Target("c -mcpu=cortex-m55 -mattr=-mve")
    assert m55.keys == ("arm_cpu", "cpu") and m55.triple.startswith("arm") and not m55.is_host
    assert m55.features.has_dsp and not m55.features.has_mve and Target("c -mcpu=cortex-m85").features.has_mve
    assert not Target("c -mcpu=cortex-m0").features.has_dsp


def test_arguments_of_kernels() -> None:
    assert [Target(t).max_function_args for t in ("llvm", "cuda", "metal", "opencl")] == [0, 0, 31, 128]
    assert Target("opencl -max_function_args=64").max_function_args == 64
