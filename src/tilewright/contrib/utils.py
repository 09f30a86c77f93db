"""Temporary directories and other small helpers, with the classic names."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from tilewright.support.files import kept_folder, temporary_directory

SOURCE_SUFFIXES = (".c", ".cc", ".cpp", ".cu", ".cxx")


class TempDirectory:
    """A directory that is removed with this object, unless `keep_for_debug`."""

    _keep: ClassVar[bool] = False
    _all: ClassVar[weakref.WeakSet[TempDirectory]] = weakref.WeakSet()

    def __init__(self, custom_path: str | os.PathLike[str] | None = None, keep_for_debug: bool = False) -> None:
        keep_for_debug = keep_for_debug or self._keep
        self._own = None if custom_path or keep_for_debug else kept_folder()
        self._all.add(self)
        if custom_path:
            Path(custom_path).mkdir(parents=True, exist_ok=True)
        self.temp_dir = os.fspath(
            custom_path or (self._own.name if self._own else tempfile.mkdtemp(dir=temporary_directory()))
        )

    @property
    def path(self) -> Path:
        return Path(self.temp_dir)

    def remove(self) -> None:
        """Removes the directory and all in it now."""
        if self._own is not None:
            self._own.cleanup()
            self._own = None

    @classmethod
    def remove_tempdirs(cls) -> None:
        """Removes all that are left now."""
        for directory in list(cls._all):
            directory.remove()

    @classmethod
    @contextlib.contextmanager
    def set_keep_for_debug(cls, set_to: bool = True) -> Iterator[None]:
        """A context in which new directories are kept."""
        before, cls._keep = cls._keep, set_to
        try:
            yield
        finally:
            cls._keep = before

    def relpath(self, name: str) -> str:
        """The path of a file in the directory."""
        return os.path.join(self.temp_dir, name)

    def __truediv__(self, other: str | os.PathLike[str]) -> Path:
        return self.path / other

    def listdir(self) -> list[str]:
        """Names of what is in the directory."""
        return os.listdir(self.temp_dir)


def tempdir(custom_path: str | os.PathLike[str] | None = None, keep_for_debug: bool = False) -> TempDirectory:
    """A new temporary directory."""
    return TempDirectory(custom_path, keep_for_debug)


class FileLock:
    """A lock that processes share through a file; it waits until it has it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        import fcntl

        self.lock_file = open(path, "w")  # noqa: SIM115 (held until the lock is released)
        fcntl.lockf(self.lock_file, fcntl.LOCK_EX)

    def release(self) -> None:
        """Gives the lock up. A second time does nothing."""
        self.lock_file.close()


def filelock(path: str | os.PathLike[str]) -> FileLock:
    """A lock that processes share through a file."""
    return FileLock(path)


def is_source_path(path: str | Sequence[str]) -> bool:
    """Whether a path, by its suffix, is that of C, C++ or CUDA source."""
    return isinstance(path, str) and os.path.splitext(path)[1].lower() in SOURCE_SUFFIXES


def which(exec_name: str) -> str:
    """The path of a program. Raises RuntimeError when there is none."""
    found = shutil.which(exec_name)
    if found is None:
        raise RuntimeError(f"no program {exec_name!r} is in the PATH")
    return found
