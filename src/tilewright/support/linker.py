"""Objects into libraries: the system's linker where there is one, else the one that the ziglang package brings."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tilewright.support.errors import TVMError
from tilewright.support.files import temporary_folder, write_whole
from tilewright.support.object_kind import COFF, ELF, MACH_O, WASM, ObjectKind

STATIC = (".a", ".lib")
"""Suffixes of static libraries, which every container has and no linker writes."""
SUFFIXES = {
    ELF: (".so", ".o", ".tar"),
    MACH_O: (".so", ".dylib", ".tar"),
    WASM: (".wasm", ".o", ".tar"),
    COFF: (".dll", ".tar"),
}
"""Forms in which objects of a container can be written."""
X86_64, COFF_X86_64 = 0x01000007, 0x8664
"""Mach-O's and COFF's number of the machine."""


def host_linker() -> list[str] | None:
    """The command of an ELF linker on this machine: ld, ld.lld, or ziglang's; None when there is none."""
    for name in ("ld", "ld.lld"):
        found = shutil.which(name)
        if found:
            return [found]
    return zig("ld.lld")


def cross_linker() -> list[str] | None:
    """The command of a linker for any ELF target."""
    found = shutil.which("ld.lld")
    return [found] if found else zig("ld.lld")


def zig(*arguments: str) -> list[str] | None:
    """A command of the package ziglang; None where it is not installed."""
    if importlib.util.find_spec("ziglang") is None:
        return None
    return [sys.executable, "-m", "ziglang", *arguments]


def need_writer(output: Path, kind: ObjectKind) -> None:
    """TVMError when objects of a kind cannot be written under this name: it has another suffix, or a linker is
    missing. A .tar of objects and a static library need none."""
    if output.suffix == ".tar" or output.suffix in STATIC:
        return
    allowed = SUFFIXES[kind.container]
    if output.suffix not in allowed:
        *most, last = allowed
        names = f"{', '.join(most)} or {last}" if most else last
        raise TVMError(
            f"{output.name}: {kind.container} objects of this target are written as {names}, not as"
            f" {output.suffix or 'a name without suffix'}"
        )
    if kind.container == COFF and kind.machine != COFF_X86_64:
        raise TVMError(
            f"{output.name}: libraries for Windows are linked for x86-64 only; write a .tar and link its objects on Windows"
        )
    _linker(output, kind)


def _linker(output: Path, kind: ObjectKind) -> list[str]:
    """The command that links objects of a kind into a library, or for a .o into one object. Raises TVMError when there is none."""
    own = ObjectKind.host()
    package, what = "lld", "a linker for other processors"
    if kind.container == MACH_O:
        command = zig("cc", "-target", f"{'x86_64' if kind.machine == X86_64 else 'aarch64'}-macos", "-nostdlib")
        package, what = "ziglang", "zig, which links for macOS"
    elif kind.container == COFF:
        command = zig("lld-link")
        package, what = "ziglang", "zig, which links for Windows"
    elif kind.container == WASM:
        command = [found] if (found := shutil.which("wasm-ld")) else zig("wasm-ld")
    elif own is None or kind.runs_on(own):
        command = host_linker()
        package, what = "binutils", "a linker"
    else:
        command = cross_linker()
    if command is None:
        raise TVMError(
            f"writing {output} needs {what}, and this machine has none: install one ({package}), or `pip install"
            " 'tilewright[cross]'`; a .tar of objects can be written without"
        )
    return command


Finish = Callable[[str], object]
"""Steps on a file, by its name, when it is complete and before it takes its place."""


def link_shared(objects: Sequence[Path], output: Path, finish: Finish | None = None) -> None:
    """Link objects, all of one kind, into a shared library. Raises TVMError with the linker's words, or when there is no linker
    or no object."""
    if not objects:
        raise TVMError(f"{output} has nothing to be linked from: give at least one object")
    kind = _kind(objects)
    if kind.container == COFF:
        _link_windows(_linker(output, kind), objects, output, finish)
        return
    options = ["--build-id=none", "-z", "noexecstack"]
    if kind.container == MACH_O:
        options = []
    elif kind.container == WASM:
        options = [*_WASM_OPTIONS, f"--soname={output.name}"]
        if any(map(_for_threads, objects)):
            options += ["--shared-memory", f"--max-memory={65535 << 16}"]
    link(_linker(output, kind), ["-shared", *options], [*map(str, objects)], output, finish)


def _link_windows(command: Sequence[str], objects: Sequence[Path], output: Path, finish: Finish | None) -> None:
    from tilewright.support import windows_library

    with temporary_folder() as folder:
        support = windows_library.support_files(command[:-1], folder)
        # lld-link has no -o.
        made = folder / "library.dll"
        options = [*windows_library.options(objects), f"-out:{made}", *support]
        _run_linker([*command, *options, *map(str, objects)], output)
        if finish is not None:
            finish(str(made))
        write_whole(output, made.read_bytes())


_WASM_OPTIONS = ("--experimental-pic", "--no-entry", "--allow-undefined", "--strip-debug", "--compress-relocations")


def _for_threads(path: Path) -> bool:
    """Whether a WebAssembly object was compiled for memory that threads share; its last section says so."""
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        return re.search(rb"target_features.*\+\x07atomics", file.read(), re.DOTALL) is not None


def _kind(objects: Sequence[Path]) -> ObjectKind:
    """The kind of the first object; this machine's where that is not an object (a linker script, for one)."""
    with open(objects[0], "rb") as file:
        return ObjectKind.of(file.read(64)) or ObjectKind.host() or ObjectKind(ELF)


def link(
    command: Sequence[str], options: Sequence[str], files: Sequence[str], output: Path, finish: Finish | None = None
) -> None:
    """Runs a linker. Raises TVMError with its words; what was there before stays until the new file is complete."""
    temporary = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        _run_linker([*command, *options, "-o", str(temporary), *files], output)
        if finish is not None:
            finish(str(temporary))
        os.replace(temporary, output)
    except OSError as error:
        raise TVMError(f"{output} cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _run_linker(command: Sequence[str], output: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip()
        raise TVMError(f"linking {output} failed: {' '.join(command)} says\n{said}")


def write_library(objects: Mapping[str, bytes], output: Path, finish: Finish | None = None) -> None:
    """Writes objects, all of one kind, by the name of `output`: a library (.so; .dylib for macOS), one object (.o), or an archive (.tar).

    Raises TVMError where `need_writer` does, and where the linker or the disk refuses.
    """
    if not output.parent.is_dir():
        raise TVMError(f"{output} cannot be written: there is no directory {output.parent}")
    kind = (
        next((k for data in objects.values() if (k := ObjectKind.of(data))), None)
        or ObjectKind.host()
        or ObjectKind(ELF)
    )
    need_writer(output, kind)
    if output.suffix == ".tar":
        _write_tar(objects, output, finish)
        return
    with temporary_folder() as folder:
        paths = []
        for name, data in objects.items():
            paths.append(folder / name)
            paths[-1].write_bytes(data)
        if output.suffix == ".o":
            link(_linker(output, _kind(paths)), ["-r"], [*map(str, paths)], output, finish)
        else:
            link_shared(paths, output, finish)


def _write_tar(objects: Mapping[str, bytes], output: Path, finish: Finish | None) -> None:
    temporary = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        with tarfile.open(temporary, "w") as tar:
            for name, data in objects.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
        if finish is not None:
            finish(str(temporary))
        os.replace(temporary, output)
    except OSError as error:
        raise TVMError(f"{output} cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
