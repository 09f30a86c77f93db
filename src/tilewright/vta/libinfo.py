"""Where the native library of accelerators is."""

from __future__ import annotations

from pathlib import Path

from tilewright.runtime import libinfo


def find_libvta(lib_vta: str = "libtilewright_vta", optional: bool = False) -> list[str] | None:
    """The paths of a library beside the runtime. RuntimeError where there is none, or None if it is optional."""
    return libinfo.find_lib_path(f"{lib_vta}{Path(libinfo.LIBRARY).suffix}", optional=optional) or None


__all__ = ["find_libvta"]
