"""Facts about GPUs: the published peaks, limits and occupancies follow from them; attributes take precedence; every refusal."""

from __future__ import annotations

import pytest

from tilewright.support.errors import TVMError
from tilewright.target import Target
from tilewright.target.gpu import _capabilities, _table

STATED = {
    ("sm_70", "v100"): {"float16": 125e12, "float32": 15.7e12, "float64": 7.8e12},
    ("sm_75", "t4"): {"float16": 65e12, "int8": 130e12, "float32": 8.1e12},
    ("sm_80", "a100"): {"float16": 312e12, "tf32": 156e12, "int8": 624e12, "float32": 19.5e12, "float64": 19.5e12},
    ("sm_86", "a10"): {"bfloat16": 125e12, "tf32": 62.5e12, "int8": 250e12, "float32": 31.2e12},
    ("sm_89", "l4"): {"float16": 121e12, "float8_e4m3fn": 242e12, "float32": 30.3e12},
    ("sm_90a", "h200"): {"float16": 989e12, "tf32": 494e12, "float8_e5m2": 1979e12, "float32": 67e12, "float64": 67e12},
    ("sm_90a", "h100-pcie"): {"float16": 756e12, "float32": 51e12},
    ("sm_100a", "b200"): {"float16": 2250e12, "tf32": 1125e12, "float8_e4m3fn": 4500e12, "float32": 75e12},
}
"""Peaks in NVIDIA's data sheets, without sparsity."""


@pytest.mark.parametrize(("arch", "model"), STATED)
def test_peaks_are_those_of_the_data_sheets(arch: str, model: str) -> None:
    gpu = Target(f"cuda -arch={arch} -model={model}").gpu
    assert gpu.device == model
    for dtype, peak in STATED[arch, model].items():
        assert gpu.peak(dtype) == pytest.approx(peak, rel=0.09 if dtype == "float64" else 0.02), dtype


def test_peaks_of_geforce_devices_are_halved_by_sums_of_32_bits() -> None:
    gpu = Target("nvidia/geforce-rtx-4090").gpu
    assert gpu.device == "geforce-rtx-4090"
    assert gpu.peak("float16", "float16") == pytest.approx(330e12, rel=0.01)
    assert gpu.peak("float16", "float32") == pytest.approx(165e12, rel=0.01)
    assert gpu.peak("float16", matrix=False) == pytest.approx(82.6e12, rel=0.01)


def test_every_architecture_is_whole() -> None:
    for capability in _capabilities():
        gpu = Target(f"cuda -arch=sm_{capability}").gpu
        unknown = [name for name, value in gpu._asdict().items() if value in (0, "")]
        assert unknown == ["shared_memory_reserved"] * (capability < 80), (capability, unknown)
        assert gpu.shared_memory_per_block_optin + gpu.shared_memory_reserved <= gpu.shared_memory_per_multiprocessor
        assert gpu.max_threads_per_multiprocessor == gpu.max_warps_per_multiprocessor * 32
        devices = [d["name"] for d in _table(f"sm_{capability}")["device"]]
        assert gpu.device == devices[0] and len(set(devices)) == len(devices)


def test_features_by_architecture() -> None:
    def has(arch: str) -> list[str]:
        gpu = Target(f"cuda -arch={arch}").gpu
        names = ("ldmatrix", "cp_async", "mbarrier", "tma", "wgmma", "tcgen05")
        return [name for name in names if getattr(gpu, f"has_{name}")]

    assert has("sm_70") == []
    assert has("sm_75") == ["ldmatrix"]
    assert has("sm_80") == has("sm_86") == has("sm_89") == ["ldmatrix", "cp_async", "mbarrier"]
    assert has("sm_90") == has("sm_100") == ["ldmatrix", "cp_async", "mbarrier", "tma"]
    assert has("sm_90a") == ["ldmatrix", "cp_async", "mbarrier", "tma", "wgmma"]
    assert has("sm_100a") == ["ldmatrix", "cp_async", "mbarrier", "tma", "tcgen05"]


def test_matrix_units() -> None:
    hopper = Target("cuda -arch=sm_90a").gpu
    fastest = hopper.matrix_units("bfloat16")
    assert {unit.instruction for unit in fastest} == {"wmma", "mma", "wgmma"}
    (wide,) = hopper.matrix_units("float16", sums="float32", instruction="wgmma")
    assert (64, 256, 16) in wide.shapes and (64, 8, 16) in wide.shapes and len(wide.shapes) == 32
    assert not Target("cuda -arch=sm_90").gpu.matrix_units("float16", instruction="wgmma")
    (turing,) = Target("cuda -arch=sm_75").gpu.matrix_units("float16", instruction="mma")
    assert turing.shapes == ((16, 8, 8),)
    assert not Target("cuda -arch=sm_75").gpu.matrix_units("bfloat16")
    assert not Target("cuda -arch=sm_60").gpu.matrix


def test_attributes_take_precedence() -> None:
    gpu = Target(
        "cuda -arch=sm_80 -max_num_threads=512 -thread_warp_size=32 -registers_per_block=32768 -l2_cache_size_bytes=1048576"
    ).gpu
    assert (gpu.max_threads_per_block, gpu.registers_per_block, gpu.l2_bytes) == (512, 32768, 1 << 20)
    assert Target("cuda -max_num_threads=512 -max_threads_per_block=256").gpu.max_threads_per_block == 256


@pytest.mark.parametrize(
    ("attribute", "shared"),
    [("", (49152, 232448)), ("49152", (49152, 232448)), ("16384", (16384, 16384)), ("131072", (49152, 131072))],
)
def test_shared_memory_by_attribute(attribute: str, shared: tuple[int, int]) -> None:
    option = f" -max_shared_memory_per_block={attribute}" if attribute else ""
    gpu = Target(f"cuda -arch=sm_90{option}").gpu
    assert (gpu.shared_memory_per_block, gpu.shared_memory_per_block_optin) == shared


def test_devices_and_kinds() -> None:
    assert Target("nvidia/nvidia-h100").gpu[:2] == ("sm_90a", "h100")
    assert Target("nvidia/nvidia-h100").gpu.shared_memory_per_block_optin == 232448
    assert Target("cuda -arch=sm_90a -model=h200").gpu.memory_bandwidth == 4.8e12
    assert Target("cuda").gpu.arch == "sm_75"
    assert Target("nvptx -mcpu=sm_86").gpu.device == "a10"
    assert Target("nvptx").gpu.arch == "sm_70"
    along = [Target(kind).gpu.max_threads_along for kind in ("nvptx", "opencl", "metal")]
    assert along == [(1024, 1024, 64), (1024, 1024, 64), (1024, 1024, 1024)]
    assert Target("cuda -arch=sm_61").gpu.device == "p100"
    assert Target("cuda -arch=sm_35").gpu.device == "p100"
    assert Target("cuda -arch=sm_103a").gpu.device == "b200"
    opencl = Target("opencl -max_shared_memory_per_block=65536 -thread_warp_size=64").gpu
    assert (opencl.warp_size, opencl.shared_memory_per_block, opencl.shared_memory_per_block_optin) == (
        64,
        32768,
        65536,
    )
    assert opencl.matrix == () and opencl.peak("float32") == 0
    assert Target("apple/m1-gpu").gpu.peak("float32") == pytest.approx(2.6e12, rel=0.01)


# What cudaOccupancyMaxActiveBlocksPerMultiprocessor gives, worked out by hand from the rules in cuda_occupancy.h.
@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "expected"),
    [
        ("sm_80", 256, 32, 0, (8, 64, 1.0, ("threads", "registers"))),
        ("sm_80", 256, 33, 0, (6, 48, 0.75, ("registers",))),  # 33 x 32 = 1056 -> 1280: 12 warps of each scheduler
        ("sm_80", 32, 16, 0, (32, 32, 0.5, ("blocks",))),
        ("sm_80", 128, 0, 166912, (1, 4, 0.0625, ("shared memory",))),
        ("sm_80", 128, 0, 81 << 10, (2, 8, 0.125, ("shared memory",))),
        ("sm_80", 128, 0, (81 << 10) + 1, (1, 4, 0.0625, ("shared memory",))),
        ("sm_75", 1024, 64, 0, (1, 32, 1.0, ("threads", "registers"))),
        ("sm_75", 64, 32, 4096, (16, 32, 1.0, ("threads", "blocks", "shared memory"))),
        ("sm_90a", 384, 168, 232448, (1, 12, 0.1875, ("registers", "shared memory"))),
        ("sm_90a", 1024, 255, 0, (0, 0, 0.0, ("registers",))),
        ("sm_60", 96, 40, 0, (16, 48, 0.75, ("registers",))),
    ],
)
def test_occupancy(arch: str, threads: int, registers: int, shared: int, expected: object) -> None:
    assert Target(f"cuda -arch={arch}").gpu.occupancy(threads, registers, shared) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2048,), "a block has 1 to 1024 threads on sm_80, but was given 2048"),
        ((128, 256), "a thread has at most 255 registers on sm_80, but was given 256"),
        ((128, 32, 166913), "a block has at most 166912 bytes of shared memory on sm_80, but was given 166913"),
    ],
)
def test_blocks_beyond_a_limit(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(TVMError, match=message):
        Target("cuda -arch=sm_80").gpu.occupancy(*arguments)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("llvm", "target kind 'llvm' has no facts of a GPU; kinds that have: cuda, nvptx, opencl, metal"),
        ("cuda -arch=ampere", "the architecture of target cuda is written like \"sm_80\", but 'ampere' was given"),
    ],
)
def test_targets_without_facts(target: str, message: str) -> None:
    with pytest.raises(TVMError, match=message):
        _ = Target(target).gpu
    with pytest.raises(TVMError, match="nothing is known of the multiprocessors of opencl"):
        Target("opencl").gpu.occupancy(64)
