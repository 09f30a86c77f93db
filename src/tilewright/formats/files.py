"""Files that users name: what keeps them from being read becomes an error of the model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tilewright.support.errors import ModelError


@contextmanager
def readable(path: str | os.PathLike[str], before: str = "") -> Iterator[Path]:
    """The path, for a body that only reads its file. Raises ModelError, which begins with `before` and the path, where that fails."""
    name = os.fspath(path)
    try:
        yield Path(path)
    except OSError as error:
        raise ModelError(f"{before}{name}: {error.strerror or error}") from error
    except UnicodeDecodeError:
        raise
    except ValueError as error:  # a path with a NUL, or with characters that no path has
        raise ModelError(f"{before}{name!r}: {error}") from error
