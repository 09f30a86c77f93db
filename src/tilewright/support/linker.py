"""Objects into libraries: the system's linker where there is one, else the one that the ziglang package brings."""

from __future__ import annotations

import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tilewright.support.errors import TVMError
from tilewright.support.files import temporary_folder


def host_linker() -> list[str] | None:
    """The command of an ELF linker on this machine: ld, ld.lld, or ziglang's; None when there is none."""
    for name in ("ld", "ld.lld"):
        found = shutil.which(name)
        if found:
            return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "ld.lld"]
    return None


def cross_linker() -> list[str] | None:
    """The command of a linker for any ELF target."""
    found = shutil.which("ld.lld")
    if found:
        return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "ld.lld"]
    return None


def _linker(output: Path, cross: bool) -> list[str]:
    """The command for a library. Raises TVMError when there is none."""
    command = cross_linker() if cross else host_linker()
    if command is None:
        kind, package = ("a linker for other processors", "lld") if cross else ("a linker", "binutils")
        raise TVMError(
            f"writing {output} needs {kind}, and this machine has none: install one ({package}), or `pip install"
            " tilewright[cross]`; a .tar of objects can be written without"
        )
    return command


Finish = Callable[[str], object]
"""What is done to a file, by its name, when it is complete and before it takes its place."""


def link_shared(objects: Sequence[Path], output: Path, cross: bool = False, finish: Finish | None = None) -> None:
    """Link objects into a shared library. Raises TVMError with the linker's words, or when there is no linker."""
    link(
        _linker(output, cross),
        ["-shared", "--build-id=none", "-z", "noexecstack"],
        [*map(str, objects)],
        output,
        finish,
    )


def link(
    command: Sequence[str], options: Sequence[str], files: Sequence[str], output: Path, finish: Finish | None = None
) -> None:
    """Runs a linker. Raises TVMError with its words; what was there before stays until the new file is complete."""
    temporary = output.with_name(f".{output.name}.{os.getpid()}")
    try:
        done = subprocess.run(
            [*command, *options, "-o", str(temporary), *files], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise TVMError(
                f"linking {output} failed: {' '.join(command)} says\n{done.stderr.strip() or done.stdout.strip()}"
            )
        if finish is not None:
            finish(str(temporary))
        os.replace(temporary, output)
    except OSError as error:
        raise TVMError(f"{output} cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_library(
    objects: Mapping[str, bytes], output: Path, cross: bool = False, finish: Finish | None = None
) -> None:
    """A .so (linked), .tar (of the objects) or .o (one object only), by the name of `output`."""
    if not output.parent.is_dir():
        raise TVMError(f"{output} cannot be written: there is no directory {output.parent}")
    if output.suffix == ".tar":
        _write_tar(objects, output, finish)
        return
    if output.suffix not in (".so", ".o"):
        raise TVMError(
            f"{output.name}: a library is written as .so, .o or .tar, not as {output.suffix or 'a name without suffix'}"
        )
    with temporary_folder() as folder:
        paths = []
        for name, data in objects.items():
            paths.append(folder / name)
            paths[-1].write_bytes(data)
        if output.suffix == ".so":
            link_shared(paths, output, cross, finish)
        else:
            link(_linker(output, cross), ["-r"], [*map(str, paths)], output, finish)


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
