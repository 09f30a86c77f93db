"""The machines that the native runtime is built for, and what differs between their systems."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace

from tilewright.support.errors import TVMError
from tilewright.support.object_kind import COFF, ELF, MACH_O, WASM
from tilewright.target import KINDS, Target


@dataclass(frozen=True, slots=True)
class System:
    """An operating system: its object files, and which sources of the runtime are for it.

    `platform`: folders of native/src/platform. `without`: patterns of sources of native/src that it cannot have.
    """

    name: str
    container: str
    platform: tuple[str, ...]
    without: tuple[str, ...] = ()
    library: str = "libtilewright_runtime.so"
    archive: str = "libtilewright_runtime.a"
    """"" where libraries are not linked into programs."""
    program: str = ""
    """Suffix of programs."""
    links: tuple[str, ...] = ()
    """Options that link a shared library or a program."""
    shared: tuple[str, ...] = ("-shared",)
    """Options that link a shared library."""
    options: tuple[str, ...] = ("-fPIC",)
    """Options of the compiler."""
    zig_sources: tuple[str, ...] = ()
    """Folders of zig's own sources that sources of the runtime include."""
    devices: tuple[str, ...] = ("opencl", "cuda", "vta")
    """Types of devices that it has drivers for, whose libraries can be built."""
    package: str = ""
    """A folder of native/ whose files make the library a package of another language."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine: its short name, its LLVM triple, and how zig names it and its CPU."""

    name: str
    triple: str
    zig: str
    system: System
    cpu: str = ""
    options: tuple[str, ...] = ()
    """Options of the compiler beside those of the system."""
    hot: str = "-O2"
    """The optimisation of sources whose speed matters."""
    also: str = ""
    """A machine whose library is put beside the one of this machine."""


LINUX = System(
    "Linux", ELF, ("posix", "linux", "libcxx"), links=("-Wl,--gc-sections", "-Wl,--hash-style=gnu", "-ldl", "-lpthread")
)

LARGE_FILES = ("-D_FILE_OFFSET_BITS=64",)
"""For systems of 32 bits, whose files may have more bytes and numbers than these hold."""

WINDOWS = System(
    "Windows",
    COFF,
    ("windows", "libcxx"),
    library="tilewright_runtime.dll",
    program=".exe",
    links=("-Wl,--gc-sections", "-lws2_32", "-ladvapi32"),
    options=(),
)
MACOS = System(
    "macOS",
    MACH_O,
    ("posix", "darwin", "libcxx"),
    library="libtilewright_runtime.dylib",
    links=("-Wl,-dead_strip", "-Wl,-x"),
    devices=("opencl", "vta"),
)

WEBASSEMBLY = System(
    "WebAssembly",
    WASM,
    ("wasm", "wasm_serial", "libcxx"),
    without=(
        "rpc/*", "executors/pipeline.cc", "devices/c_api.cc", "devices/functions.cc", "devices/kernels.cc", "devices/libraries.cc",
        "shared_library.cc",
        "classic/*", "thread_pool.cc", "seal.cc", "elf_file.cc", "crc32.cc", "timing.cc",
    ),
    library="tilewright.wasm",
    archive="",
    links=("-Wl,--gc-sections", "-Wl,-z,stack-size=1048576", "-Wl,--export-table", "-Wl,--growable-table"),
    shared=("-mexec-model=reactor",),
    options=("-fexceptions", "-fwasm-exceptions", "-frtti"),
    zig_sources=("libcxxabi/src", "libcxx/src", "libunwind/include", "libunwind/src"),
    devices=(),
    package="javascript",
)  # fmt: skip
"""What browsers and node run; the loader of models is in JavaScript."""
SHARED_MEMORY = (
    "-Wl,--import-memory",
    "-Wl,--shared-memory",
    "-Wl,--initial-memory=16777216",
    "-Wl,--max-memory=4294901760",
)
WEBASSEMBLY_THREADS = replace(
    WEBASSEMBLY,
    platform=("wasm", "wasm_workers", "libcxx"),
    library="tilewright-threads.wasm",
    links=(*WEBASSEMBLY.links, *SHARED_MEMORY),
    package="",
)
"""The same for hosts whose workers share memory."""
WEBASSEMBLY_CPU = "generic+bulk_memory+exception_handling+mutable_globals+nontrapping_fptoint+sign_ext"

MACHINES = {
    m.name: m
    for m in (
        Machine("x86_64-linux-gnu", "x86_64-unknown-linux-gnu", "x86_64-linux-gnu.2.28", LINUX),
        Machine("aarch64-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-linux-gnu.2.28", LINUX),
        Machine("armv7-linux-gnueabihf", "armv7-unknown-linux-gnueabihf", "arm-linux-gnueabihf.2.28", LINUX, "cortex_a9", LARGE_FILES),
        Machine("riscv64-linux-gnu", "riscv64-unknown-linux-gnu", "riscv64-linux-gnu.2.28", LINUX),
        Machine("wasm32", "wasm32-unknown-unknown", "wasm32-wasi", WEBASSEMBLY, WEBASSEMBLY_CPU, also="wasm32-threads"),
        Machine("wasm32-threads", "wasm32-unknown-unknown", "wasm32-wasi", WEBASSEMBLY_THREADS, WEBASSEMBLY_CPU + "+atomics"),
        Machine("i686-linux-gnu", "i686-unknown-linux-gnu", "x86-linux-gnu.2.28", LINUX, options=LARGE_FILES, hot="-Os"),
        Machine("x86_64-windows-gnu", "x86_64-pc-windows-gnu", "x86_64-windows-gnu", WINDOWS),
        Machine("aarch64-macos", "arm64-apple-macosx11.0.0", "aarch64-macos.11.0", MACOS),
    )
}  # fmt: skip
"""Machines by short name."""

_ARCHITECTURES = {
    "amd64": "x86_64", "arm64": "aarch64", "arm": "armv7", "armv7l": "armv7", "armv7a": "armv7", "i386": "i686", "x86": "i686",
}  # fmt: skip
_SYSTEMS = ("linux", "windows", "darwin", "macos", "wasi")


def machine_of(name: str) -> Machine:
    """The machine of a triple of three or four parts, an architecture (its Linux), a board (a tag of a target), or a target with -mtriple.

    Raises TVMError with the nearest names.
    """
    triple = _triple_of(name.strip())
    found = MACHINES.get(_short(triple))
    if found is None:
        known = [m for m in MACHINES if m not in {other.also for other in MACHINES.values()}]
        close = difflib.get_close_matches(_short(triple), known, n=3, cutoff=0.5)
        nearest = f"; nearest: {', '.join(close)}" if close else ""
        raise TVMError(
            f"there is no runtime for the target {name!r}{nearest}. It can be built for {', '.join(known)}, and for the boards that"
            " `tilewright targets` lists, such as raspberry-pi/5"
        )
    return found


def _triple_of(name: str) -> str:
    """The triple that a target or a tag has; a name that is none stands for itself."""
    if "/" not in name and " " not in name and not name.startswith("{") and name not in KINDS:
        return name
    target = Target(name)
    triple = target.attrs.get("mtriple")
    if not triple and target.host is not None:
        triple = target.host.attrs.get("mtriple")
    if not triple:
        raise TVMError(f"the target {name!r} names no machine: it needs -mtriple, such as -mtriple=aarch64-linux-gnu")
    return str(triple)


def _short(triple: str) -> str:
    """A triple without its vendor and versions, its architecture by our name; an architecture alone is its Linux, a system without its
    environment the one that there is."""
    head, *rest = triple.lower().split("-")
    arch = _ARCHITECTURES.get(head, head)
    if len(rest) > 1 and not rest[0].startswith(_SYSTEMS):
        rest = rest[1:]
    parts = [arch, *[part.split(".")[0] for part in rest if part != "unknown"]]
    if len(parts) > 1 and parts[1].startswith(("darwin", "macos")):
        parts = [arch, "macos"]
    short = "-".join(parts)
    return next((name for name in MACHINES if name == short or name.startswith(short + "-")), short)
