"""Files of a session: a folder of its own, which no path leads out of, and the functions by which a client reaches it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from tilewright.runtime import load_module as load_library
from tilewright.runtime.packed_func import register_func

PREFIX = "tvm.rpc.server."


def inside(folder: Path, path: str) -> Path:
    """The place of a client's path in the session's folder. Raises ValueError for a path that leads out of it."""
    place = (folder / path).resolve()
    if place != folder and folder not in place.parents:
        raise ValueError(f"the path {path!r} leads out of the session's folder")
    return place


def offer(folder: Path) -> None:
    """Register the functions on files of this folder, for the clients of this process."""
    folder = folder.resolve()

    def existing(path: str) -> Path:
        place = inside(folder, path)
        if not place.exists():
            names = ", ".join(sorted(p.name for p in place.parent.iterdir())) if place.parent.is_dir() else ""
            raise FileNotFoundError(f"there is no {path!r} in the session's folder; uploaded are: {names or 'none'}")
        return place

    def upload(path: str, blob: bytes) -> None:
        place = inside(folder, path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(blob)

    def append(path: str, blob: bytes) -> None:
        with inside(folder, path).open("ab") as file:
            file.write(blob)

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
    }
    for name, function in functions.items():
        register_func(PREFIX + name, function, override=True)
