"""Files of a session: a folder of its own, which no path leads out of, and the functions by which a client reaches it."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

from tilewright.runtime import load_module as load_library
from tilewright.runtime.linking.export import linked_for_loading
from tilewright.runtime.packed_func import register_func

PREFIX = "tvm.rpc.server."
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def inside(folder: Path, path: str) -> Path:
    """The place of a client's path in the session's folder. Raises ValueError for a path that leads out of it."""
    place = (folder / path).resolve()
    if place != folder and folder not in place.parents:
        raise ValueError(f"the path {path!r} leads out of the session's folder")
    return place


def linked(path: str) -> bytes:
    """The library of a file: linked of its objects, if it is none."""
    if not path.endswith((".o", ".tar", ".a")):
        return Path(path).read_bytes()
    with linked_for_loading(path) as library:
        return Path(library).read_bytes()


def offer(folder: Path, most: int | None = None) -> None:
    """Register the functions on files of this folder, for the clients of this process. most: bytes that its files may take in all."""
    folder = folder.resolve()

    def existing(path: str) -> Path:
        place = inside(folder, path)
        if not place.exists():
            names = ", ".join(sorted(p.name for p in place.parent.iterdir())) if place.parent.is_dir() else ""
            raise FileNotFoundError(f"there is no {path!r} in the session's folder; uploaded are: {names or 'none'}")
        return place

    def write(path: str, mode: str, blob: bytes) -> None:
        place = inside(folder, path)
        used = sum(p.lstat().st_size for p in folder.rglob("*") if p.is_file()) if most is not None else 0
        if most is not None and used + len(blob) > most:
            raise OSError(
                f"no room for {len(blob)} bytes of {path!r}: files of a session may take {most} bytes, and {used} are in use (--max-disk)"
            )
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open(mode) as file:
                file.write(blob)
        except OSError as error:
            if error.errno in FULL:
                place.unlink(missing_ok=True)
                free = shutil.disk_usage(folder).free
                raise OSError(
                    f"the disk of the server is full: {path!r} is not written, and {free} bytes are free in {folder}; remove files there,"
                    " or let TMPDIR name a larger folder when the server is started"
                ) from error
            raise

    def upload(path: str, blob: bytes) -> None:
        write(path, "wb", blob)

    def append(path: str, blob: bytes) -> None:
        write(path, "ab", blob)

    def size(path: str) -> int:
        return existing(path).stat().st_size

    def read(path: str, start: int, count: int) -> bytes:
        with existing(path).open("rb") as file:
            file.seek(start)
            return file.read(count)

    def remove(path: str) -> None:
        place = inside(folder, path)
        if place == folder:
            raise ValueError("the session's folder itself cannot be removed")
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)

    functions: dict[str, Any] = {
        "upload": upload,
        "append": append,
        "size": size,
        "read": read,
        "download": lambda path: existing(path).read_bytes(),
        "remove": remove,
        "listdir": lambda path: ",".join(sorted(os.listdir(existing(path)))),
        "workpath": lambda path: str(inside(folder, path)),
        "load_module": lambda path: load_library(str(existing(path))),
        "download_linked_module": lambda path: linked(str(existing(path))),
        "near_functions": lambda module, name: module.near_functions(name),
    }
    for name, function in functions.items():
        register_func(PREFIX + name, function, override=True)
