"""Objects for other targets, and code for CPUs without the host's features."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import tilewright as tvm
from tests.codegen.small_programs import aligned, elementwise, native
from tilewright.codegen.llvm import compile_assembly, compile_object, emit_module, load_objects, object_kind
from tilewright.support.errors import TVMError
from tilewright.tir import op as T

MACHINES = {
    "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=cortex-a72": (b"\x7fELF", 183),
    "llvm -mtriple=armv7-unknown-linux-gnueabihf -mcpu=cortex-a9 -mattr=+neon": (b"\x7fELF", 40),
    "llvm -mtriple=thumbv7em-unknown-none-eabihf -mcpu=cortex-m7": (b"\x7fELF", 40),
    "llvm -mtriple=riscv64-unknown-linux-gnu -mattr=+m,+a,+f,+d,+c": (b"\x7fELF", 243),
    "llvm -mtriple=wasm32-unknown-unknown -mattr=+simd128": (b"\0asm", None),
    "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64": (b"\x7fELF", 62),
}


@pytest.mark.parametrize("target", MACHINES)
def test_objects_of_other_targets(target: str) -> None:
    func = elementwise(["float32", "float32"], "float32", 64, 4, lambda a, b: T.exp(a) * b + T.tanh(a))
    text = emit_module(func, target)
    data = compile_object(text, target)
    magic, machine = MACHINES[target]
    assert data.startswith(magic)
    if machine is not None:
        assert int.from_bytes(data[18:20], "little") == machine
    assert "main" in compile_assembly(text, target)


@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64", "llvm -mcpu=x86-64-v2", "llvm -mcpu=haswell"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_older_cpus_compute_the_same(target: str, dtype: str) -> None:
    func = elementwise([dtype, dtype], dtype, 64, 8, lambda a, b: T.max(a + b, b) * a)
    rng = np.random.default_rng(0)
    x, y = (aligned(rng.standard_normal(64), dtype) for _ in range(2))
    results = []
    for each in ("llvm", target):
        out = aligned(np.zeros(64), dtype)
        assert native(func, [x, y, out], each) == 0
        results.append(out.astype(np.float64))
    np.testing.assert_array_equal(*results)


def test_conversions_outlast_optimisation() -> None:
    """LLVM's passes see no call of what converts halves, for its selection of instructions makes them later."""
    func = elementwise(["float16"], "float16", 64, 8, lambda a: a + T.const(1, "float16"))
    library = tvm.build(func, target="llvm -mcpu=x86-64")
    x, out = tvm.nd.array(np.arange(64, dtype="float16")), tvm.nd.empty((64,), "float16")
    library(x, out)
    np.testing.assert_array_equal(out.numpy(), np.arange(1, 65))


def test_unknown_triple() -> None:
    func = elementwise(["float32"], "float32", 8, 1, lambda a: a)
    with pytest.raises(TVMError, match="LLVM has no target for -mtriple=toaster-unknown-none"):
        emit_module(func, "llvm -mtriple=toaster-unknown-none")


FORMS = {
    "x86_64-unknown-linux-gnu": "ELF 62 64 0x0",
    "i686-unknown-linux-gnu": "ELF 3 32 0x0",
    "aarch64-unknown-linux-gnu": "ELF 183 64 0x0",
    "riscv64-unknown-linux-gnu": "ELF 243 64 0x5",
    "riscv64-linux-gnu": "ELF 243 64 0x5",
    "riscv64-unknown-linux-gnu -mattr=-d": "ELF 243 64 0x3",
    "riscv64-unknown-linux-gnu -mabi=lp64": "ELF 243 64 0x1",
    "riscv64-unknown-elf": "ELF 243 64 0x0",
    "armv7-unknown-linux-gnueabihf": "ELF 40 32 0x5000000",
    "arm64-apple-darwin": "Mach-O 16777228 64 0x0",
    "x86_64-apple-macosx13.0": "Mach-O 16777223 64 0x3",
    "x86_64-pc-windows-msvc": "COFF 34404 64 0x0",
    "x86_64-pc-windows-gnu": "COFF 34404 64 0x0",
    "wasm32-unknown-unknown": "WebAssembly 0 32 0x0",
}


@pytest.mark.parametrize("triple", FORMS)
def test_kinds_of_objects(triple: str) -> None:
    """Container, machine, bits and flags; RISC-V's flags: 1 compressed instructions, 2 and 4 floats and doubles passed in registers."""
    kind = object_kind(tvm.target.Target(f"llvm -mtriple={triple}"))
    assert f"{kind.container} {kind.machine} {kind.bits} {kind.flags:#x}" == FORMS[triple]


@pytest.mark.parametrize(
    ("target", "hard"),
    [
        ("-mtriple=armv7-unknown-linux-gnueabihf", True),
        ("-mtriple=armv7-linux-gnueabihf", True),
        ("-mtriple=armv7-linux-gnueabi", False),
        ("-mtriple=armv7-linux-gnueabi -mfloat-abi=hard", True),
        ("-mtriple=armv7-unknown-linux-gnueabihf -mfloat-abi=soft", False),
        ("-mtriple=thumbv7em-none-eabihf -mcpu=cortex-m7", True),
    ],
)
def test_floats_in_registers_of_arm(target: str, hard: bool) -> None:
    """A function that answers a float leaves it in s0, or in r0."""
    func = elementwise(["float32"], "float32", 16, 1, lambda a: T.call_extern("float32", "sinf", a))
    text = compile_assembly(emit_module(func, f"llvm {target}"), f"llvm {target}")
    passed = text[: text.index("sinf")].splitlines()[-4:]
    assert any(["s0" in line for line in passed]) == hard, passed


@pytest.mark.parametrize(
    ("triple", "text"),
    [
        (
            "s390x-unknown-linux-gnu",
            "-mtriple=s390x-unknown-linux-gnu is a big-endian machine, but constants are written little-endian; give the triple of a"
            " little-endian CPU, such as x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu",
        ),
        pytest.param(
            "nvptx64-nvidia-cuda",
            "-mtriple=nvptx64-nvidia-cuda: LLVM writes no objects for it that can be linked; give the triple of a CPU, such as"
            " x86_64-unknown-linux-gnu or aarch64-unknown-linux-gnu",
            marks=pytest.mark.llvm,
        ),
    ],
)
def test_triples_without_objects(triple: str, text: str) -> None:
    func = elementwise(["float32"], "float32", 8, 1, lambda a: a)
    with pytest.raises(TVMError) as caught:
        tvm.build(func, target=f"llvm -mtriple={triple}")
    assert str(caught.value) == text


def test_symbols_and_strings() -> None:
    func = elementwise(["float32"], "float32", 16, 1, lambda a: T.call_extern("float32", "sinf", a))
    loaded = load_objects([compile_object(emit_module(func, "llvm"), "llvm")], ["main"])
    x, out = aligned(np.linspace(0, 1, 16), "float32"), aligned(np.zeros(16), "float32")
    run = loaded.function("main", ctypes.c_void_p, ctypes.c_void_p)
    assert run(x.ctypes.data, out.ctypes.data) == 0
    np.testing.assert_allclose(out, np.sin(x), rtol=1e-6)
    with pytest.raises(TVMError, match="could not be linked into this process"):
        bad = elementwise(["float32"], "float32", 16, 1, lambda a: T.call_extern("float32", "no_such_function", a))
        load_objects([compile_object(emit_module(bad, "llvm"), "llvm")], ["main"])
