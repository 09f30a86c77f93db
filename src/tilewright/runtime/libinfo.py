"""Where the runtime library and the headers are, for programs that use them without Python."""

from __future__ import annotations

import os
from pathlib import Path

from tilewright.runtime import _ffi
from tilewright.runtime.linking.c_source import STANDARD, include_folder

LIBRARY = "libtilewright_runtime.so"


def find_lib_path(name: str | None = None, search_path: str | None = None, optional: bool = False) -> list[str]:
    """Paths of the runtime library, or of the library `name`, in the package and in `search_path`. Raises RuntimeError where there is none,
    unless it is `optional`."""
    folders = [Path(_ffi.__file__).parent, *([Path(search_path)] if search_path else [])]
    found = [os.fspath(f / (name or LIBRARY)) for f in folders if (f / (name or LIBRARY)).exists()]
    if not found and not optional:
        raise RuntimeError(f"there is no {name or LIBRARY} in {', '.join(map(os.fspath, folders))}")
    return found


def find_include_path(name: str | None = None, search_path: str | None = None, optional: bool = False) -> list[str]:
    """Folders of headers: those of the package, and `search_path`. Raises RuntimeError where the folder `name` in them does not exist,
    unless it is `optional`."""
    folders = [Path(include_folder()), *([Path(search_path)] if search_path else [])]
    found = [os.fspath(f / name if name else f) for f in folders if (f / name if name else f).exists()]
    if not found and not optional:
        raise RuntimeError(f"there is no {name or 'folder of headers'} in {', '.join(map(os.fspath, folders))}")
    return found


def find_source_path() -> str:
    """The folder of the native sources: that of the repository which this package is imported from, else the one in the package."""
    repository = Path(__file__).parents[3] / "native"
    return os.fspath(
        repository if (repository / "CMakeLists.txt").is_file() else Path(include_folder()).parent / "native"
    )


def host_options(library: str | None = None) -> list[str]:
    """Options of a C++ compiler for a program that includes tilewright/host.h: standard, headers, library (default: that of the package)
    and its path."""
    return [STANDARD["c++"], *compile_options(), *link_options(library)]


def compile_options() -> list[str]:
    """Options that compile C and C++ against the headers."""
    return [f"-I{include_folder()}"]


def link_options(library: str | None = None) -> list[str]:
    """Options that link a program or a library with the runtime library, and let it be found where it lies."""
    library = library or find_lib_path()[0]
    return [library, f"-Wl,-rpath,{os.path.dirname(library)}", "-ldl"]


def cmake_folder() -> str:
    """The folder of `tilewright-config.cmake`, which `find_package(tilewright)` takes as `tilewright_DIR`."""
    return os.fspath(Path(include_folder()).parent / "cmake")


def pkgconfig_folder() -> str:
    """The folder of `tilewright.pc`, for PKG_CONFIG_PATH."""
    return os.fspath(Path(include_folder()).parent / "pkgconfig")
