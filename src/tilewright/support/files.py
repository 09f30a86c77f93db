"""Files that are written whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from threading import get_ident

from tilewright.support.errors import TVMError


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file; one that was there stays until the new one is complete. What is no file (a pipe, a device) is written to."""
    target = Path(path)
    if target.exists() and not target.is_file():
        temporary = None
    else:
        temporary = target.with_name(f".{target.name}.{os.getpid()}.{get_ident()}")
    try:
        (temporary or target).write_bytes(data)
        if temporary is not None:
            os.replace(temporary, target)
    except OSError as error:
        raise TVMError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
