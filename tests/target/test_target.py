"""Targets: parsing, the host, facts, scopes, and the text of every refusal."""

from __future__ import annotations

import pickle

import pytest

from tilewright.support.errors import TVMError
from tilewright.target import Target, host_cpu, list_tags, register_tag
from tilewright.target.cpu import _CPU_FEATURES, SCHEDULED_THREADS
from tilewright.target.makers import (
    adreno,
    arm_cpu,
    bifrost,
    cuda,
    hexagon,
    intel_graphics,
    mali,
    micro,
    rasp,
    riscv_cpu,
    stm32,
    vta,
)


def test_string_and_dict_agree() -> None:
    a = Target("llvm -mcpu=skylake-avx512 -mattr=+avx512vnni,-avx512cd -num-cores=4")
    b = Target({"kind": "llvm", "mcpu": "skylake-avx512", "mattr": ["+avx512vnni", "-avx512cd"], "num-cores": 4})
    assert a == b
    assert hash(a) == hash(b)
    assert a.kind.name == "llvm"
    assert a.keys == ("cpu",)
    assert a.attrs["num-cores"] == 4
    assert str(a) == "llvm -keys=cpu -mattr=+avx512vnni,-avx512cd -mcpu=skylake-avx512 -num-cores=4"
    assert Target(str(a)) == a
    assert Target(a.export()) == a
    assert pickle.loads(pickle.dumps(a)) == a
    assert "avx512vnni" in a.features
    assert "avx512cd" not in a.features


def test_host() -> None:
    host = Target("llvm")
    assert host.is_host
    assert host.features == host_cpu().features
    assert host.cpu.threads == SCHEDULED_THREADS and Target("llvm -num-cores=3").cpu.threads == 3
    assert host.cpu.vector_bits in (64, 128, 256, 512)
    assert not Target("llvm -mcpu=generic").is_host


def test_text_for_all_machines() -> None:
    """What stands for this machine has the name of its CPU."""
    cpu = host_cpu().name
    assert Target("llvm").text_for_all == Target("llvm -mcpu=native").text_for_all == str(Target(f"llvm -mcpu={cpu}"))
    assert Target("llvm -num-cores=4").text_for_all == str(Target(f"llvm -mcpu={cpu} -num-cores=4"))
    for other in ("llvm -mcpu=znver4", "llvm -mtriple=aarch64-linux-gnu", "cuda"):
        assert Target(other).text_for_all == str(Target(other))


@pytest.mark.parametrize(
    ("text", "bits", "registers", "fma"),
    [
        ("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64", 128, 16, False),
        ("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell", 256, 16, True),
        ("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver5", 512, 32, True),
        ("llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=cortex-a72", 128, 32, True),
        ("llvm -mtriple=armv7-unknown-linux-gnueabihf -mcpu=cortex-a9", 128, 16, False),
        ("llvm -mtriple=wasm32-unknown-unknown -mattr=+simd128", 128, 15, False),
        ("llvm -mtriple=thumbv7em-unknown-none-eabihf -mcpu=cortex-m7", 32, 16, True),
        ("llvm -mtriple=thumbv6m-unknown-none-eabi -mcpu=cortex-m0plus", 32, 16, False),
        ("llvm -mtriple=thumbv8m.main-unknown-none-eabihf -mcpu=cortex-m33", 32, 16, True),
        ("llvm -mtriple=thumbv8.1m.main-unknown-none-eabihf -mcpu=cortex-m55", 128, 8, True),
        ("llvm -mtriple=riscv32-unknown-none-elf -mattr=+m,+a,+c", 32, 32, False),
    ],
)
def test_facts(text: str, bits: int, registers: int, fma: bool) -> None:
    cpu = Target(text).cpu
    assert (cpu.vector_bits, cpu.vector_registers, cpu.fma) == (bits, registers, fma)
    assert cpu.lanes(32) == bits // 32
    # A register of 256 truth values was one of 256 bytes, whose lanes were read one by one.
    assert cpu.lanes(1) == cpu.lanes(8) == bits // 8


def test_host_argument_and_scope() -> None:
    gpu = Target("cuda -arch=sm_90", host="llvm -mcpu=generic")
    assert gpu.host is not None
    assert gpu.host.mcpu == "generic"
    assert gpu.max_num_threads == 1024
    assert Target(gpu, "llvm").host == Target("llvm")
    assert Target.current() is None
    with gpu:
        with Target("llvm") as inner:
            assert Target.current() is inner
        assert Target.current() is gpu
    with pytest.raises(TVMError, match="no target is in scope"):
        Target.current(allow_none=False)


def test_tags() -> None:
    assert Target("nvidia/nvidia-a100").attrs["arch"] == "sm_80"
    register_tag("test/board", {"kind": "llvm", "mcpu": "generic"}, override=True)
    assert Target("test/board").mcpu == "generic"
    assert "test/board" in list_tags()
    with pytest.raises(TVMError, match="registered already"):
        register_tag("test/board", {"kind": "llvm"})


def test_machines_by_name() -> None:
    """Every name of the data is a target, whose features can be told."""
    tags = list_tags()
    assert len(tags) > 350
    for name, target in tags.items():
        assert target.tag == name
        if target.kind.name == "llvm":
            assert target.cpu.vector_bits >= 32 and target.triple.count("-") >= 2, name
            assert target.attrs.get("mcpu", "generic") in {**_CPU_FEATURES, **UNLISTED}, name
        if target.kind.name == "cuda":
            assert target.arch.startswith("sm_") and target.thread_warp_size == 32
            assert target.attrs["registers_per_block"] in (32768, 65536)
    board = Target("raspberry-pi/4b-aarch64")
    assert (board.mcpu, board.cpu.threads, board.cpu.l2_bytes) == ("cortex-a72", 4, 1 << 20)
    assert Target("raspberry-pi/5 -num-cores=2").attrs["num-cores"] == 2
    assert Target({"tag": "nvidia/nvidia-a100", "l2_cache_size_bytes": 12345}).l2_cache_size_bytes == 12345
    assert pickle.loads(pickle.dumps(board)) == board == Target(board.export())


UNLISTED = {"generic": "", "arm1176jzf-s": "", "thunderxt88": "", "sifive-e31": "", "sifive-e76": ""}
"""CPUs whose features are the baseline of their triples."""
TRIPLES = {
    "aarch64-linux-gnu": "aarch64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu": "aarch64-unknown-linux-gnu",
    "arm64-linux-gnu": "aarch64-unknown-linux-gnu",
    "armv7-linux-gnueabihf": "armv7-unknown-linux-gnueabihf",
    "riscv64gc-unknown-linux-gnu": "riscv64-unknown-linux-gnu",
    "thumbv7em-none-eabihf": "thumbv7em-unknown-none-eabihf",
    "x86_64-pc-windows-msvc": "x86_64-pc-windows-msvc",
    "x86_64-w64-mingw32": "x86_64-w64-windows-gnu",
    "arm64-apple-darwin": "arm64-apple-darwin",
    "aarch64-macos": "aarch64-apple-macos",
    "aarch64-linux-android": "aarch64-unknown-linux-android",
    "x86_64-linux-musl": "x86_64-unknown-linux-musl",
    "riscv64": "riscv64-unknown-linux-gnu",
    "wasm32": "wasm32-unknown-unknown",
}


@pytest.mark.parametrize("triple", TRIPLES)
def test_triples_are_targets(triple: str) -> None:
    target = Target(f"{triple} -num-cores=3")
    assert (target.kind.name, target.triple, target.cpu.threads) == ("llvm", TRIPLES[triple], 3)
    assert Target(f"c -mtriple={triple}").triple == TRIPLES[triple] or "-" not in triple


def test_machines_of_makers() -> None:
    assert arm_cpu("rasp4b64").mcpu == "cortex-a72" and arm_cpu("mine", "-mcpu=generic").model == "mine"
    assert riscv_cpu("sifive-u74").abi == "lp64d" and intel_graphics().thread_warp_size == 16
    assert cuda("rtx-3090").arch == "sm_86" and cuda(arch="sm_90").arch == "sm_90" and cuda().model == "unknown"
    assert [t.keys[0] for t in (mali(), bifrost(), adreno(), vta())] == ["mali", "bifrost", "adreno", "vta"]
    assert hexagon("v69").vtcm_capacity == 8 << 20 and "+hvx-qfloat" in hexagon("v69").mattr
    assert (
        micro("mps3_an547").cpu.threads == micro("riscv32_virt").cpu.threads == 1 and not micro("mps3_an547").cpu.neon
    )
    assert micro("nrf52840").mcpu == "cortex-m4" and stm32("stm32H7xx").mcpu == "cortex-m7"
    with pytest.warns(DeprecationWarning, match="arm_cpu"):
        assert rasp().model == "bcm2837"
    with pytest.raises(TVMError, match="there is no microcontroller 'nrf52'; nearest: nrf52840"):
        micro("nrf52")
    with pytest.raises(TVMError, match="cpu_ver must be a version of Hexagon from v65"):
        hexagon("66")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("raspbery-pi/5", "there is no machine 'raspbery-pi/5'; nearest known: raspberry-pi/5"),
        ("aarc64-linux-gnu", "'aarc64-linux-gnu' is no triple: there is no architecture 'aarc64'; nearest known: aarch64"),
        ("aarch64-linx-gnu", "'aarch64-linx-gnu' names no system that is known; nearest known: linux"),
        ("aarch64-linux-gnu -mcpu=cortexa76", "-mcpu=cortexa76 is no CPU of aarch64-unknown-linux-gnu that LLVM knows; nearest"),
        ("llvn", "there is no target kind 'llvn'; nearest known: llvm"),
        ("llvm -mcpuu=x", "target kind 'llvm' has no option -mcpuu; nearest known: mcpu"),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=skx512", "-mcpu=skx512 is no CPU of x86_64-linux-gnu that LLVM knows"),
        ("llvm -mtriple=x86_64-linux-gnu -mattr=+avx512fff", "has no CPU feature 'avx512fff'; nearest known: avx512f"),
        ("llvm -mattr=avx2", "-mattr takes features as +name or -name, but holds 'avx2'"),
        ("llvm -num-cores=many", "option -num-cores takes an integer, but was given 'many'"),
        ("llvm -num-cores=0", "option -num-cores must be positive, but is 0"),
        ("llvm -vector-width=100", "option -vector-width must be a power of two of bits, 32 to 2048, but is 100"),
        ("llvm mcpu=x", "target options begin with a dash, but 'llvm mcpu=x' holds 'mcpu=x'"),
        ("", "a target string is empty"),
        ({"mcpu": "generic"}, "a target needs a kind"),
    ],
)  # fmt: skip
def test_refusals(spec: object, message: str) -> None:
    with pytest.raises(TVMError) as caught:
        Target(spec)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_width_of_sve() -> None:
    """The CPU's or the one asked for is a feature that the code needs; without SVE it is but the length of vectors."""
    arm = "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu="
    widths = {
        "neoverse-v1": (256, "sve256"),
        "a64fx": (512, "sve512"),
        "neoverse-n2": (128, None),
        "neoverse-n2 -vector-width=256": (256, "sve256"),
        "neoverse-v1 -vector-width=128": (128, None),
        "neoverse-v1 -mattr=-sve": (128, None),
        "cortex-a72 -vector-width=256": (256, None),
    }
    for cpu, (bits, feature) in widths.items():
        target = Target(arm + cpu)
        assert target.cpu.vector_bits == bits, cpu
        assert sorted(target.features & {"sve128", "sve256", "sve512"}) == ([feature] if feature else []), cpu


def test_wrong_type() -> None:
    with pytest.raises(TypeError, match="Target takes a str, a dict or a Target, but was given int"):
        Target(3)  # type: ignore[arg-type]
