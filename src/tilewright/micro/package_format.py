"""Packages in the model library format, as they are read: `model_library_format` writes them."""

from __future__ import annotations

import json
import os
import tarfile
from typing import Any

from tilewright.support.errors import TVMError

METADATA_FILE = "metadata.json"
GENERATED_VERSION = 7
"""The version of the format."""
HOST = "codegen/host"
"""The folder of what the host compiles."""


class NoArchiveError(TVMError):
    """A file that holds no packages, or is damaged."""


def package_metadata(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """The description in a package; None where the archive is none. Raises NoArchiveError for other files, and
    TVMError for descriptions of a version that is not known."""
    try:
        with tarfile.open(path) as tar:
            member = next((m for m in tar if m.isfile() and os.path.normpath(m.name) == METADATA_FILE), None)
            data = tar.extractfile(member) if member is not None else None
            if data is None:
                return None
            found: dict[str, Any] = json.loads(data.read())
    except tarfile.TarError as error:
        raise NoArchiveError(f"{os.fspath(path)} is no archive; give a package in the model library format") from error
    except FileNotFoundError as error:
        raise TVMError(f"{os.fspath(path)} is not there; give a package in the model library format") from error
    if found.get("version") != GENERATED_VERSION or "modules" not in found:
        raise TVMError(
            f"{os.fspath(path)} is a package of version {found.get('version')}, but version {GENERATED_VERSION} is read; write it again"
        )
    return found


__all__ = ["GENERATED_VERSION", "HOST", "METADATA_FILE", "NoArchiveError", "package_metadata"]
