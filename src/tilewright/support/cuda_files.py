"""Where the files of CUDA's compilers are: in NVIDIA's Python packages, or in a toolkit."""

from __future__ import annotations

import ctypes.util
import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_PATTERN = "nvrtc64_*.dll" if sys.platform == "win32" else "libnvrtc.so*"


_PARTS = ("cuda_fp16.h", "crt", "nv/target")
"""What tells a folder of headers; each package has one of these."""


def toolkits() -> Iterator[Path]:
    """Folders of toolkits: CUDA_HOME, CUDA_PATH, and where the system has one."""
    for folder in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if folder:
            yield Path(folder)


def packages() -> list[Path]:
    """Folders of NVIDIA's Python packages, of the oldest version of CUDA first: more drivers load what it compiles."""
    try:
        spec = find_spec("nvidia")
    except (ImportError, ValueError):
        return []
    roots = [Path(p) for p in (spec.submodule_search_locations if spec is not None else None) or ()]
    return sorted([p for root in roots if root.is_dir() for p in root.iterdir() if p.is_dir()], key=_age)


def _age(folder: Path) -> tuple[int, str]:
    digits = folder.name.removeprefix("cu")
    return (int(digits) if digits.isdigit() else 12, folder.name)


@cache
def nvrtc_path() -> Path | None:
    """The file of NVRTC; None where there is none."""
    for folder in [*packages(), *toolkits()]:
        for part in ("lib", "lib64", "bin", "targets/x86_64-linux/lib"):
            found = sorted(
                [p for p in (folder / part).glob(_PATTERN) if "builtins" not in p.name and ".alt." not in p.name]
            )
            if found:
                return found[0]
    name = ctypes.util.find_library("nvrtc")
    return Path(name) if name else None


@cache
def include_folders() -> tuple[Path, ...]:
    """Folders of CUDA's headers, such as cuda_fp16.h and mma.h."""
    library = nvrtc_path()
    near = [library.parent.parent / "include"] if library is not None else []
    installed = [p / "include" for p in packages()]
    found = [p for p in [*near, *installed, *[t / "include" for t in toolkits()]] if p.is_dir()]
    headers = [p for p in dict.fromkeys(found) if any([(p / part).exists() for part in _PARTS])]
    if library is not None and library.parent.parent in {p.parent for p in headers}:
        return (library.parent.parent / "include",)
    wheels = [p for p in headers if p in installed]
    return tuple(wheels or headers)


__all__ = ["include_folders", "nvrtc_path", "packages", "toolkits"]
