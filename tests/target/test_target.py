"""Targets: parsing, the host, facts, scopes, and the text of every refusal."""

from __future__ import annotations

import pickle

import pytest

from tilewright.support.errors import TVMError
from tilewright.target import Target, host_cpu, list_tags, register_tag
from tilewright.target.cpu import SCHEDULED_THREADS


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


@pytest.mark.parametrize(
    ("text", "bits", "registers", "fma"),
    [
        ("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64", 128, 16, False),
        ("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=haswell", 256, 16, True),
        ("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver5", 512, 32, True),
        ("llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=cortex-a72", 128, 32, True),
        ("llvm -mtriple=armv7-unknown-linux-gnueabihf -mcpu=cortex-a9", 128, 16, False),
        ("llvm -mtriple=wasm32-unknown-unknown -mattr=+simd128", 128, 16, False),
        ("llvm -mtriple=thumbv7em-unknown-none-eabihf -mcpu=cortex-m7", 32, 16, True),
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


@pytest.mark.parametrize(
    ("spec", "message"),
    [
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
