"""Archives of objects, under the classic names."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.support.errors import TVMError, said

if TYPE_CHECKING:
    from tilewright.contrib.utils import TempDirectory


def tar(output: str | os.PathLike[str], files: str | Sequence[str]) -> None:
    """Writes files into an archive, by their last names; two of one name get numbers. `export_library(path, fcompile=tar.tar)`."""
    seen: set[str] = set()
    try:
        with tarfile.open(output, "w") as archive:
            for number, file in enumerate([files] if isinstance(files, str) else files):
                name = os.path.basename(file)
                archive.add(file, name if name not in seen else f"{number}_{name}")
                seen.add(name)
    except OSError as error:
        raise TVMError(f"{output} cannot be written: {said(error)}") from error


tar.output_format = "tar"  # type: ignore[attr-defined]


def untar(tar_file: str | os.PathLike[str], directory: str | os.PathLike[str]) -> None:
    """Unpacks an archive into a folder; what would go elsewhere is refused with TVMError."""
    try:
        with tarfile.open(tar_file) as archive:
            archive.extractall(directory, filter="data")
    except (OSError, tarfile.TarError, EOFError) as error:
        raise TVMError(f"{tar_file} cannot be unpacked: {said(error)}") from error


def normalize_file_list_by_unpacking_tars(temp: TempDirectory, file_list: Sequence[str]) -> list[str]:
    """The files, those that are archives replaced by what they hold, unpacked below a temporary folder."""
    found: list[str] = []
    for number, file in enumerate(file_list):
        if not file.endswith(".tar"):
            found.append(file)
            continue
        folder = Path(temp.relpath(f"unpacked{number}"))
        folder.mkdir()
        untar(file, folder)
        found += [os.fspath(p) for p in sorted(folder.rglob("*")) if p.is_file()]
    return found
