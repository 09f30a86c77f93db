"""Machines as zig names them: its targets and CPUs for LLVM's triples."""

from __future__ import annotations

import re

_SYSTEMS = {
    "linux": "linux", "windows": "windows", "win": "windows", "darwin": "macos", "macosx": "macos", "macos": "macos", "ios": "ios",
    "freebsd": "freebsd", "netbsd": "netbsd", "openbsd": "openbsd", "wasi": "wasi", "emscripten": "emscripten",
    "none": "freestanding", "elf": "freestanding",
}  # fmt: skip
_VERSIONS = {
    "": "6", "4t": "4t", "5": "5t", "5t": "5t", "5te": "5te", "6": "6", "6l": "6", "6hf": "6", "6k": "6k", "6kz": "6kz",
    "6m": "6m", "6t2": "6t2", "7": "7a", "7a": "7a", "7l": "7a", "7hl": "7a", "7em": "7em", "7k": "7k", "7m": "7m", "7r": "7r",
    "7s": "7s", "7ve": "7ve", "8": "8a", "8a": "8a", "8l": "8a", "8m.base": "8m", "8m.main": "8m_main", "8.1m.main": "8_1m_main",
    "8r": "8r",
}  # fmt: skip
"""Versions of 32-bit ARM in triples, and the features that zig has for them. Names without a number stand for ARMv6."""
_UNITS = {
    "6": "vfp2",
    "6k": "vfp2",
    "6kz": "vfp2",
    "7em": "vfp4d16sp",
    "8m_main": "fp_armv8d16sp",
    "8_1m_main": "fp_armv8d16sp",
}
"""Units for floats of the versions that may come without, where the triple says that floats are passed in their registers."""
_UNITS_OF_CPUS = {"cortex_m7": "fp_armv8d16", "cortex_m55": "fp_armv8d16+mve_fp", "cortex_m85": "fp_armv8d16+mve_fp"}
"""Those of CPUs that have more than their version."""
_LEFT_OUT = {"cortex_m33": "dsp", "cortex_m35p": "dsp"}
"""Features of CPUs that zig's table of them leaves out."""


def zig_target(triple: str) -> str:
    """An LLVM triple as zig writes it: x86_64-unknown-linux-gnu is x86_64-linux-gnu, arm64-apple-darwin aarch64-macos."""
    head, *parts = triple.split("-")
    if len(parts) > 1 and _system(parts[0]) is None:
        # The vendor.
        parts = parts[1:]
    system = _system(parts[0]) if parts else None
    if system is not None:
        parts = parts[1:]
    elif not parts or parts[0] == "unknown" or parts[0].startswith("eabi"):
        system, parts = "freestanding", [p for p in parts if p != "unknown"]
    environment = [re.sub(r"(?<=android)\d+|(?<=androideabi)\d+", "", p) for p in parts if p != "elf"]
    return "-".join([_architecture(head), *([system] if system else []), *environment])


def zig_cpu(triple: str, cpu: str | None = None) -> str | None:
    """A CPU as zig names it, by default the least one that a triple stands for; None: zig's own for the target."""
    head, *parts = triple.split("-")
    named = None if cpu is None else cpu.replace("-", "_")
    found = re.fullmatch(r"(?:arm|thumb)(?:v([\da-z.]+))?", head)
    if found is not None and (version := _VERSIONS.get(found[1] or "")) is not None:
        unit = _UNITS_OF_CPUS.get(named or "", _UNITS.get(version)) if parts and parts[-1].endswith("hf") else None
        more = [feature for feature in (unit, _LEFT_OUT.get(named or "")) if feature is not None]
        return "+".join([named or f"generic+v{version}", *more])
    if named is None and head.startswith("riscv") and not any([p.startswith(("linux", "android")) for p in parts]):
        return f"generic_rv{head[5:7]}"
    return named


def _architecture(head: str) -> str:
    """The name of an architecture, without what zig counts among the features of the CPU."""
    if head.startswith("arm64"):
        return "aarch64"
    if head == "amd64":
        return "x86_64"
    if re.fullmatch(r"i[3-6]86", head):
        return "x86"
    return re.sub(r"^(arm|thumb)v.*", r"\1", head)


def _system(part: str) -> str | None:
    """The system that a part of a triple names, with its version: macosx13.0 is macos.13.0."""
    found = re.fullmatch(r"([a-z]+)([\d.]*)", part)
    name = _SYSTEMS.get(found[1]) if found is not None else None
    if found is None or name is None:
        return None
    # Versions of darwin are those of the kernel.
    return f"{name}.{found[2]}" if found[2] and found[1] in ("macosx", "macos", "ios") else name


__all__ = ["zig_cpu", "zig_target"]
