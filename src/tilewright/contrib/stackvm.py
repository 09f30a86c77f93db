"""A list of files in place of a shared library, for modules without native code."""

from __future__ import annotations

from collections.abc import Sequence


def build(output: str, files: Sequence[str]) -> None:
    """Writes the names of files, one a line. As `fcompile` of `export_library`."""
    with open(output, "w", encoding="utf-8") as file:
        file.writelines([f"{name}\n" for name in files])
