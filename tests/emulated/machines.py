"""Compiled models on processors that this machine is not: exported, and run by the native runtime under QEMU.

`make test-arm` sets up what it needs: the runtime and runner.cc for AArch64 (build/arm/runner, by zig), Debian's qemu-user-static
(or qemu-user) and libc6-arm64-cross.
"""

from __future__ import annotations

import os
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
RUNNER = ROOT / "build" / "arm" / "runner"
LIBRARIES = Path(os.environ.get("QEMU_LD_PREFIX", "/usr/aarch64-linux-gnu"))
ARM = "llvm -mtriple=aarch64-unknown-linux-gnu -num-cores=2 -mcpu="
TARGETS = {
    "NEON": ARM + "cortex-a72",
    "NEON with dot products": ARM + "cortex-a76",
    "SVE of any width": ARM + "neoverse-n2",
    "SVE of 256 bits": ARM + "neoverse-v1",
    "SVE of 512 bits": ARM + "a64fx",
}
PATIENCE = 600.0
"""Seconds that an emulated run may take."""
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}


class EmulationError(Exception):
    """What the emulated program said instead of a result."""


def emulator(target: Target) -> list[str] | None:
    """The command that programs for `target` are put behind; None where this machine runs them itself."""
    cpu = target.cpu
    if cpu.arch != "aarch64":
        return None
    # Wider registers than code for any width asks for: what it leaves of them must not matter.
    kind = f"max,sve-max-vq={cpu.sve_bits // 128 or 8}" if cpu.sve else target.mcpu
    return [_qemu(), "-L", os.fspath(LIBRARIES), "-cpu", kind]


def _qemu() -> str:
    found = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if found is None or not (LIBRARIES / "lib" / "ld-linux-aarch64.so.1").exists() or not RUNNER.exists():
        raise FileNotFoundError(
            "programs for ARM run under QEMU: install qemu-user-static and libc6-arm64-cross (Debian's names), and"
            " `make build/arm/runner`"
        )
    return found


def run(
    library: Path, inputs: Mapping[str, np.ndarray], target: Target | str, emulated: list[str] | None = None
) -> list[np.ndarray]:
    """The outputs of an exported model; it runs twice, and must give the same. emulated: another machine than the target's."""
    command = emulated or emulator(Target(target))
    assert command is not None, f"{target} is this machine"
    with tempfile.TemporaryDirectory() as folder:
        params, results = Path(folder) / "inputs.params", Path(folder) / "results"
        params.write_bytes(
            relay.save_param_dict({k: runtime.array(np.asarray(v, order="C")) for k, v in inputs.items()})
        )
        done = subprocess.run(
            [*command, RUNNER, library, params, results], capture_output=True, text=True, timeout=PATIENCE, check=False
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
