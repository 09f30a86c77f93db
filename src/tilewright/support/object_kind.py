"""The kind of an object file: its container (ELF, Mach-O, COFF, WebAssembly) and the machine of its code."""

from __future__ import annotations

import platform
import struct
from dataclasses import dataclass

ELF, MACH_O, COFF, WASM = "ELF", "Mach-O", "COFF", "WebAssembly"
_ELF_NAMES = {
    (62, 64): "x86_64", (183, 64): "aarch64", (243, 64): "riscv64", (40, 32): "arm", (243, 32): "riscv32", (3, 32): "i686",
    (21, 64): "powerpc64", (258, 64): "loongarch64",
}  # fmt: skip
_HOSTS = {
    "x86_64": (62, 64, 0), "amd64": (62, 64, 0), "AMD64": (62, 64, 0), "aarch64": (183, 64, 0), "arm64": (183, 64, 0),
    "riscv64": (243, 64, 5), "armv7l": (40, 32, 0x05000000), "i686": (3, 32, 0), "ppc64le": (21, 64, 2),
}  # fmt: skip
_COFF_MACHINES = {0x8664: 64, 0xAA64: 64, 0x14C: 32, 0x1C4: 32}


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """`machine`, `flags`: the numbers of the container's header (ELF: e_machine, e_flags; Mach-O: CPU type and subtype)."""

    container: str
    machine: int = 0
    bits: int = 32
    flags: int = 0
    little: bool = True
    version: bytes = b""
    """Mach-O: the load command that says which systems the code is for; b"" where there is none."""

    @staticmethod
    def of(data: bytes) -> ObjectKind | None:
        """The kind of an object or a library, of which the first 64 bytes are enough but for `version`; None for other files."""
        if len(data) >= 52 and data[:4] == b"\x7fELF" and data[4] in (1, 2) and data[5] in (1, 2):
            order, wide = "<" if data[5] == 1 else ">", data[4] == 2
            machine = struct.unpack_from(order + "H", data, 18)[0]
            flags = struct.unpack_from(order + "I", data, 48 if wide else 36)[0]
            return ObjectKind(ELF, machine, 64 if wide else 32, flags, order == "<")
        if len(data) >= 32 and data[:4] == b"\xcf\xfa\xed\xfe":
            cpu, subtype, _, commands, _ = struct.unpack_from("<IIIII", data, 4)
            return ObjectKind(MACH_O, cpu, 64, subtype, version=_version_command(data, commands))
        if data[:4] == b"\0asm":
            return ObjectKind(WASM)
        if len(data) >= 20 and (machine := struct.unpack_from("<H", data)[0]) in _COFF_MACHINES:
            return ObjectKind(COFF, machine, _COFF_MACHINES[machine])
        return None

    @staticmethod
    def host() -> ObjectKind | None:
        """The kind that this machine runs; None where it is none of those known."""
        known = _HOSTS.get(platform.machine())
        return ObjectKind(ELF, *known) if known is not None and platform.system() == "Linux" else None

    @property
    def machine_name(self) -> str:
        """The machine's name in LLVM triples, where it is known."""
        return _ELF_NAMES.get((self.machine, self.bits), f"machine {self.machine}")

    @property
    def made_for(self) -> str:
        """The machine for messages: by its name, or by the system that uses the container."""
        return {MACH_O: "macOS", COFF: "Windows", WASM: WASM}.get(self.container, self.machine_name)

    def runs_on(self, other: ObjectKind | None) -> bool:
        """Whether the containers and machines are the same."""
        return other is not None and (self.container, self.machine, self.bits, self.little) == (
            other.container, other.machine, other.bits, other.little,
        )  # fmt: skip


def _version_command(data: bytes, commands: int) -> bytes:
    """LC_BUILD_VERSION, or the older LC_VERSION_MIN_MACOSX."""
    at = 32
    for _ in range(commands):
        if at + 8 > len(data):
            break
        kind, size = struct.unpack_from("<II", data, at)
        if kind in (0x32, 0x24):
            return data[at : at + size]
        at += size
    return b""
