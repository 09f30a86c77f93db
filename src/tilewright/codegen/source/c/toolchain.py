"""Compilation of C text to objects, by the compiler of the machine or the one in the package ziglang."""

from __future__ import annotations

import shlex
from pathlib import Path

from tilewright.codegen.native import big_endian
from tilewright.runtime.linking.c_source import (
    compile_source,
    compiler_command,
    compiler_facts,
    headers_digest,
    include_folder,
)
from tilewright.runtime.linking.zig import zig_cpu
from tilewright.support.object_kind import ELF, ObjectKind
from tilewright.target import Target
from tilewright.target.triples import is_bare

MATH = ("-std=c99", "-fwrapv", "-ffp-contract=fast", "-fno-trapping-math", "-fno-math-errno")
"""Integers wrap around; products and sums are fused; floating point exceptions and errno are not used."""


def compile_text(text: str, target: Target, effort: int = 3) -> bytes:
    """The object of C text. If the compiler refuses it, raises TVMError with its messages, its command and the path of the kept file."""
    triple = None if target.is_native else target.triple
    return compile_source(text, "c", [f"-O{effort}", *_flags(target)], triple, native=False)


def _command(target: Target) -> list[str]:
    """The compiler for a target."""
    return compiler_command("c", None if target.is_native else target.triple)


def _flags(target: Target) -> list[str]:
    """The flags for a target, except for the level of optimisation."""
    zig = any(["zig" in part for part in _command(target)])
    # What runs on a board tells its line where it faults.
    lines = "-gline-tables-only" if is_bare(target.triple) else "-g0"
    return [*MATH, *machine_options(target, zig), *(["-fno-sanitize=all", lines] if zig else [])]


def flags_text(target: Target) -> str:
    """The flags for users who compile exported source, on one line, for GCC and Clang."""
    return shlex.join([f"-O{effort_of(target)}", *MATH, *machine_options(target, False)]) + "\n"


def toolchain(target: Target) -> str:
    """Everything besides the text on which objects depend: the compiler, its version, its flags, and the header."""
    command = _command(target)
    return f"{shlex.join([*command, *_flags(target)])} {compiler_facts(tuple(command))} {headers_digest(Path(include_folder()))}"


def effort_of(target: Target) -> int:
    """The level of optimisation for the C compiler (-O)."""
    return min(int(target.attrs.get("opt-level", 3)), 3)


def machine_options(target: Target, zig: bool) -> list[str]:
    """Which CPU and ABI the code is for; where it is this machine's, that is asked for elsewhere."""
    wide = ["-mprefer-vector-width=512"] if target.cpu.avx512 else []
    if target.is_host:
        return [*wide, "-march=native"]
    if abi := target.attrs.get("mabi"):
        wide.append(f"-mabi={abi}")
    cpu = str(target.attrs.get("mcpu", "generic"))
    given = [str(f) for f in target.attrs.get("mattr", ())]
    if zig:
        if cpu == "generic" and not given:
            return wide
        name = zig_cpu(target.triple, None if cpu == "generic" else cpu) or "baseline"
        return [*wide, f"-mcpu={name}" + "".join([f[0] + f[1:].replace("-", "_").replace(".", "_") for f in given])]
    named = [] if cpu == "generic" else [f"-march={cpu}" if target.cpu.arch == "x86" else f"-mcpu={cpu}"]
    return [*wide, *named, *[f"-m{'' if f[0] == '+' else 'no-'}{f[1:]}" for f in given]]


def object_kind(target: Target) -> ObjectKind:
    """The file format of objects for the target, found by compiling a small one. Raises TVMError if there is no compiler for it."""
    own = ObjectKind.host()
    if target.is_native and own is not None:
        return own
    key = str(target)
    if key not in _kinds:
        data = compile_text("char tw_nothing;\n", target, 1)
        if data[:4] == b"\x7fELF" and data[5] == 2:
            raise big_endian(target)
        _kinds[key] = ObjectKind.of(data) or ObjectKind(ELF)
    return _kinds[key]


_kinds: dict[str, ObjectKind] = {}

__all__ = ["MATH", "compile_text", "effort_of", "flags_text", "machine_options", "object_kind", "toolchain"]
