"""Linking for web pages under its classic name. Emscripten is not needed: the package's own linker makes the library."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tilewright.support.errors import TVMError
from tilewright.support.linker import link_shared


def create_tvmjs_wasm(
    output: str | os.PathLike[str],
    objects: str | Sequence[str],
    options: Sequence[str] | None = None,
    cc: str = "emcc",
    libs: Sequence[str] | None = None,
) -> None:
    """Links objects of WebAssembly, and those of `libs`, into a library that the JavaScript package loads (`fcompile` of export_library).
    cc is not called. Raises TVMError for options, which are Emscripten's, for objects of other machines, and where there is no object."""
    del cc
    if options:
        raise TVMError(f"options of Emscripten are not known to the linker: {' '.join(options)}")
    files = [objects] if isinstance(objects, str) else list(objects)
    link_shared([Path(f) for f in (*files, *(libs or ()))], Path(output))


create_tvmjs_wasm.object_format = "bc"  # type: ignore[attr-defined]
create_tvmjs_wasm.output_format = "wasm"  # type: ignore[attr-defined]
