"""Triples: which text is one, and the form in which LLVM reads it as it was meant."""

from __future__ import annotations

import difflib
import re

from tilewright.support.errors import TVMError

_SYSTEMS = (
    "linux", "windows", "darwin", "macosx", "macos", "ios", "none", "elf", "freebsd", "netbsd", "openbsd", "android", "androideabi", "wasi",
    "emscripten", "fuchsia", "unknown", "mingw32", "win32",
)  # fmt: skip
_OF_APPLE = r"darwin|macosx?|ios"
_ARCHITECTURES = (
    r"x86_64|amd64|x86|i[3-6]86|aarch64(_be)?|arm64(e|ec)?|(arm|thumb)(v\d[\w.]*|eb)?|riscv(32|64)(gc|imac|imafdc)?|wasm(32|64)"
    r"|powerpc(64)?(le)?|ppc64(le)?|s390x|loongarch(32|64)|mips\w*|sparcv?9?|avr|hexagon|xtensa|msp430"
)
_NAMES = ("x86_64", "i686", "aarch64", "armv7", "thumbv7em", "riscv64", "riscv32", "wasm32")
_ALIASES = {
    "amd64": "x86_64",
    "x86": "i686",
    "riscv64gc": "riscv64",
    "riscv64imafdc": "riscv64",
    "riscv32imac": "riscv32",
}


def architecture(triple: str) -> str:
    """The family of `triple` that names of CPUs and features belong to: x86, aarch64, arm, riscv, wasm or other."""
    head = triple.split("-", 1)[0].lower()
    if re.fullmatch(r"x86_64|amd64|x86|i[3-6]86", head):
        return "x86"
    if head.startswith(("aarch64", "arm64")):
        return "aarch64"
    if head.startswith(("arm", "thumb")):
        return "arm"
    if head.startswith("riscv"):
        return "riscv"
    if head.startswith("wasm"):
        return "wasm"
    return "other"


def is_triple(text: str) -> bool:
    """Whether a word is meant as a triple: it begins with an architecture, or has the parts of one."""
    head, *rest = text.lower().split("-")
    return re.fullmatch(_ARCHITECTURES, head) is not None or (len(rest) >= 2 and any([_system(p) for p in rest]))


def need_triple(text: str) -> str:
    """A triple as LLVM takes it. An architecture alone is its Linux. Raises TVMError, with the nearest names, for words that are none."""
    head, *rest = text.split("-")
    if re.fullmatch(_ARCHITECTURES, head.lower()) is None:
        raise TVMError(
            f"{text!r} is no triple: there is no architecture {head!r}{_nearest(head, _NAMES)}. A triple is architecture, vendor, system"
            " and environment, such as aarch64-linux-gnu or armv7-unknown-linux-gnueabihf"
        )
    if not rest:
        rest = ["unknown", "unknown"] if head.startswith("wasm") else ["linux", "gnu"]
    if not any([_system(p) for p in rest]):
        nearest = next((found for p in rest if (found := _nearest(p, _SYSTEMS))), "")
        raise TVMError(
            f"{text!r} names no system that is known{nearest}. Systems: linux, windows,"
            " darwin, macos, ios, android, freebsd, none (no system), wasi"
        )
    return normal_triple("-".join([head, *rest]))


def _system(part: str) -> bool:
    return re.sub(r"[\d.]+$", "", part.lower()) in _SYSTEMS or part.lower() in _SYSTEMS


def _nearest(name: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f"; nearest known: {', '.join(close)}" if close else ""


def normal_triple(triple: str) -> str:
    """A triple of all its parts, with LLVM's names. LLVM takes the second part for the vendor whatever it says: armv7-linux-gnueabihf is
    a machine without hardware for floats to it, and armv7-unknown-linux-gnueabihf one with it."""
    head, *rest = triple.split("-")
    head = _ALIASES.get(head.lower(), head)
    if rest and re.match(rf"linux|windows|{_OF_APPLE}|none|freebsd|android|wasi|elf$|eabi", rest[0]):
        rest = ["apple" if re.match(_OF_APPLE, rest[0]) else "unknown", *rest]
    if rest and rest[-1] == "mingw32":
        rest[-1:] = ["windows", "gnu"]
    if head == "arm64" and rest[:1] != ["apple"]:
        head = "aarch64"
    return "-".join([head, *rest])


def is_bare(triple: str) -> bool:
    """Whether a triple is of machines without an operating system, which run one thread."""
    return architecture(triple) in ("arm", "riscv") and re.search(r"-none(-|$)", triple) is not None


def with_float_abi(triple: str, abi: str) -> str:
    """The triple of 32-bit ARM whose functions pass floats in registers of floats ("hard") or not ("soft")."""
    head, dash, environment = triple.rpartition("-")
    if architecture(triple) != "arm" or not re.search(r"eabi(hf)?$", environment):
        return triple
    return head + dash + environment.removesuffix("hf") + ("hf" if abi == "hard" else "")


__all__ = ["architecture", "is_bare", "is_triple", "need_triple", "normal_triple", "with_float_abi"]
