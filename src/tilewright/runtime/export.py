"""Writing compiled modules to files, and linking objects that are loaded."""

from __future__ import annotations

import os
import platform
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tilewright.runtime.module import ModuleSource
from tilewright.runtime.ndarray import NDArray
from tilewright.runtime.object_file import data_object
from tilewright.support.errors import TVMError
from tilewright.support.linker import link_shared, write_library


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a whole file or none; an older one stays when it fails."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, target)
    except OSError as error:
        raise TVMError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def is_host_triple(triple: str | None) -> bool:
    """Whether objects for a target triple can be linked by this machine's own linker."""
    return triple is None or triple.split("-")[0] in (platform.machine(), platform.machine().replace("amd64", "x86_64"))


def constants_object(constants: NDArray, triple: str | None) -> bytes:
    """An object that exports an array's bytes as `__tilewright_constants`."""
    data = constants.numpy().reshape(-1).view("uint8").data
    return data_object("__tilewright_constants", data, (triple or platform.machine()).split("-")[0])


def export_library(
    path: str,
    sources: Sequence[ModuleSource],
    fcompile: Callable[..., Any] | None,
    addons: Sequence[str],
    workspace_dir: str | None,
    options: dict[str, Any],
) -> None:
    """Writes the objects of modules as one library: .so, .tar or .o by the path's name."""
    objects: dict[str, bytes] = {}
    for i, source in enumerate(sources):
        for j, data in enumerate(source.objects):
            objects[f"lib{i}_{j}.o"] = data
        if source.constants is not None:
            objects[f"constants{i}.o"] = constants_object(source.constants, source.triple)
    for extra in addons:
        objects[Path(extra).name] = Path(extra).read_bytes()
    if not objects:
        raise ValueError(f"nothing to write into {path}: the module holds no objects")
    if fcompile is None:
        write_library(objects, Path(path), cross=not all(is_host_triple(s.triple) for s in sources))
        return
    with tempfile.TemporaryDirectory(dir=workspace_dir) as folder:
        files = []
        for name, data in objects.items():
            file = Path(folder) / name
            file.write_bytes(data)
            files.append(str(file))
        fcompile(path, files, **options)


def link_for_loading(path: str) -> str:
    """A shared library linked from an object or an archive of them; the file is gone when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="tilewright-load-")
    _folders.append(folder)
    output = Path(folder.name) / "lib.so"
    if not path.endswith(".tar"):
        link_shared([Path(path)], output)
        return str(output)
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                data = tar.extractfile(member) if member.isfile() and member.name.endswith(".o") else None
                if data is not None:
                    # By its last name only: an archive says nothing about places outside its folder.
                    (Path(folder.name) / Path(member.name).name).write_bytes(data.read())
    except (tarfile.TarError, OSError) as error:
        raise TVMError(f"{path} is no archive of objects: {error}") from error
    files = sorted(Path(folder.name).glob("*.o"))
    if not files:
        raise TVMError(f"{path} holds no objects (*.o)")
    link_shared(files, output)
    return str(output)


_folders: list[tempfile.TemporaryDirectory[str]] = []
