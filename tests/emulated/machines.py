"""Compiled models on processors that this machine is not: exported, and run by the native runtime under QEMU.

`make test-wasm` sets up the runtime that node runs.

`make test-arm` and `make test-machines` set up the runtime and runner.cc for each processor (build/emulated, by zig), and QEMU with
their C libraries (build/qemu).
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np

from tilewright import relay, runtime
from tilewright.target import Target

ROOT = Path(__file__).resolve().parents[2]
QEMU = ROOT / "build" / "qemu" / "usr"
ARM = "llvm -mtriple=aarch64-unknown-linux-gnu -num-cores=2 -mcpu="
TARGETS = {
    "NEON": ARM + "cortex-a72",
    "NEON with dot products": ARM + "cortex-a76",
    "SVE of any width": ARM + "neoverse-n2",
    "SVE of 256 bits": ARM + "neoverse-v1",
    "SVE of 512 bits": ARM + "a64fx",
}
OTHERS = {
    "RISC-V": "llvm -mtriple=riscv64-unknown-linux-gnu",
    "RISC-V with vectors": "llvm -mtriple=riscv64-unknown-linux-gnu -mattr=+v",
    "32-bit ARM": "llvm -mtriple=armv7-unknown-linux-gnueabihf",
}
THROUGH_C = {f"{name} through C": target.replace("llvm", "c", 1) for name, target in OTHERS.items()}
WASM = {
    "one thread": "llvm -mtriple=wasm32-unknown-unknown -mattr=+simd128",
    "four threads": "llvm -mtriple=wasm32-unknown-unknown -mattr=+simd128,+atomics -num-cores=4",
}
_EMULATORS = {"aarch64": "aarch64", "riscv": "riscv64", "arm": "arm"}
_LIBRARIES = {"aarch64": "aarch64-linux-gnu", "riscv64": "riscv64-linux-gnu", "arm": "arm-linux-gnueabihf"}
PATIENCE = 600.0
"""Seconds that an emulated run may take."""
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}


class EmulationError(Exception):
    """What the emulated program said instead of a result."""


def emulator(target: Target) -> list[str] | None:
    """The command that programs for `target` are put behind; None where this machine runs them itself."""
    cpu = target.cpu
    if cpu.arch == "wasm":
        return [_node()]
    if cpu.arch not in _EMULATORS:
        return None
    arch = _EMULATORS[cpu.arch]
    if arch == "riscv64":
        kind = "rv64,v=true,vlen=256,vext_spec=v1.0" if cpu.rvv else "rv64"
    elif arch == "arm":
        kind = "max"
    else:
        # Wider registers than code for any width asks for: what it leaves of them must not matter.
        kind = f"max,sve-max-vq={cpu.sve_bits // 128 or 8}" if cpu.sve else target.mcpu
    return [_qemu(arch), "-L", str(QEMU / _LIBRARIES[arch]), "-cpu", kind]


def runner(target: Target) -> Path:
    """The program that runs libraries for the target."""
    if target.cpu.arch == "wasm":
        return ROOT / "tests" / "emulated" / "runner.mjs"
    return ROOT / "build" / "emulated" / f"runner-{_EMULATORS[target.cpu.arch]}"


def library_name(target: Target | str) -> str:
    """The name of a library for the target."""
    return "m.wasm" if Target(target).cpu.arch == "wasm" else "m.so"


def _threads(target: Target | str) -> list[str]:
    """How many threads the runtime for WebAssembly is to have, where code can use several."""
    cpu = Target(target).cpu
    return [str(cpu.threads)] if "atomics" in cpu.features else []


def _node() -> str:
    found = shutil.which("node")
    if found is None or not (ROOT / "build" / "emulated" / "wasm32" / "index.js").exists():
        raise FileNotFoundError(
            "programs for WebAssembly run in node: install nodejs (20 or later), and `make build/emulated/wasm32/index.js`"
        )
    return found


def _qemu(arch: str) -> str:
    found = QEMU / "bin" / f"qemu-{arch}-static"
    if not found.exists() or not (ROOT / "build" / "emulated" / f"runner-{arch}").exists():
        raise FileNotFoundError(f"programs for {arch} run under QEMU: `make build/emulated/runner-{arch}`")
    return str(found)


def run(
    library: Path, inputs: Mapping[str, np.ndarray], target: Target | str, emulated: list[str] | None = None
) -> list[np.ndarray]:
    """The outputs of an exported model; it runs twice, and must give the same. emulated: another machine than the target's."""
    command, program = emulated or emulator(Target(target)), runner(Target(target))
    assert command is not None, f"{target} is this machine"
    with tempfile.TemporaryDirectory() as folder:
        params, results = Path(folder) / "inputs.params", Path(folder) / "results"
        params.write_bytes(
            relay.save_param_dict({k: runtime.array(np.asarray(v, order="C")) for k, v in inputs.items()})
        )
        done = subprocess.run(
            [*command, program, library, params, results, *_threads(target)],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if done.returncode != 0:
            raise EmulationError(done.stderr.strip() or f"the program ended with code {done.returncode}")
        return _read(results.read_bytes())


def _read(data: bytes) -> list[np.ndarray]:
    found, at = [], 0
    while at < len(data):
        code, bits, rank = (int(v) for v in np.frombuffer(data, "int32", 3, at))
        shape = np.frombuffer(data, "int64", rank, at + 12)
        at += 12 + 8 * rank
        name = "bool" if bits == 1 or code not in _CODES else f"{_CODES[code]}{bits}"
        dtype = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
        found.append(np.frombuffer(data, dtype, int(shape.prod()), at).reshape(shape))
        at += found[-1].nbytes
    return found
