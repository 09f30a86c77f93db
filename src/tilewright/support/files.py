"""Files that are written whole, or not at all, and folders of temporary ones."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING

from tilewright.support.errors import TVMError

if TYPE_CHECKING:
    import tempfile

CLOCKS_DIFFER = 2.0
"""Seconds by which the time of a file and that of a process may differ."""


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file; one that was there stays until the new one is complete. What is not a file (a pipe, a device) is written to."""
    target = Path(path)
    if not target.exists() or target.is_file():
        write_together({target: data})
        return
    try:
        target.write_bytes(data)
    except OSError as error:
        raise _unwritten(target, error) from error


def write_together(files: Mapping[Path, bytes], programs: Collection[Path] = ()) -> None:
    """Writes files, those of `programs` to be executed; what was there stays until all of the new ones are complete."""
    kept = {path: path.with_name(f".{path.name}.{os.getpid()}.{get_ident()}") for path in files}
    try:
        for path, data in files.items():
            kept[path].write_bytes(data)
            if path in programs:
                kept[path].chmod(0o755)
        for path, temporary in kept.items():
            os.replace(temporary, path)
    except OSError as error:
        raise _unwritten(path, error) from error
    finally:
        for temporary in kept.values():
            with suppress(OSError):  # where a folder is none, or cannot be written, there is nothing to remove
                temporary.unlink()


def _unwritten(path: Path, error: OSError) -> TVMError:
    return TVMError(f"{path} cannot be written: {error.strerror or error}")


def temporary_directory() -> str:
    """Where temporary files go: TMPDIR, or what the system has for them. Raises TVMError where none of these can be written."""
    import tempfile  # when it is needed: few processes write temporary files, and it takes 5 ms

    try:
        return tempfile.gettempdir()
    except OSError as error:
        given = os.environ.get("TMPDIR")
        raise TVMError(
            f"temporary files cannot be written, neither in {'TMPDIR, ' + given if given else '/tmp'}, nor in other directories for"
            " them; set TMPDIR to a directory that can be written and has free space"
        ) from error


_tidied: set[str] = set()


def kept_folder(prefix: str = "tilewright-") -> tempfile.TemporaryDirectory[str]:
    """A new temporary folder, which goes with this object. The first one of a prefix removes those of processes that were killed. Raises
    TVMError where none can be made."""
    import tempfile

    place = temporary_directory()
    if prefix not in _tidied:
        _tidied.add(prefix)
        remove_left_folders(prefix)
    with filling(Path(place)):
        return tempfile.TemporaryDirectory(prefix=f"{prefix}{os.getpid()}-", dir=place)


@contextmanager
def temporary_folder(prefix: str = "tilewright-", place: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """A new folder (in `place`, else where TMPDIR says) that is removed in the end. Raises TVMError where it cannot be made, or filled."""
    import tempfile

    where = os.fspath(place) if place is not None else temporary_directory()
    with filling(Path(where)):
        made = tempfile.TemporaryDirectory(prefix=prefix, dir=where)
    with made as folder, filling(Path(folder)):
        yield Path(folder)


def remove_left_folders(prefix: str) -> None:
    """Removes temporary folders whose process was killed: their names begin with the prefix, then its number and a dash."""
    import shutil

    for folder in Path(temporary_directory()).glob(prefix + "*-*"):
        number = folder.name.removeprefix(prefix).split("-")[0]
        # A folder may go, or be another user's.
        with suppress(OSError):
            if number.isdecimal() and not _runs_since(int(number), folder.stat().st_mtime):
                shutil.rmtree(folder, ignore_errors=True)


def remove_own_folders() -> None:
    """Removes all temporary folders of this process, which ends at once, with no time for those that made them to do it."""
    import shutil
    import tempfile

    mine = f"-{os.getpid()}-"
    # What this process has not asked for a place of temporary files, it has no folders in.
    for folder in Path(tempfile.tempdir or os.devnull).glob(f"tilewright*{mine}*"):
        if folder.name.partition(mine)[0].replace("-", "").isalpha():
            shutil.rmtree(folder, ignore_errors=True)


def _runs_since(number: int, when: float) -> bool:
    """Whether a process runs that began before then (seconds since 1970): a later one has got the number of one that has ended, as it
    happens in containers that are started again."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        # Linux: ticks since the machine started, the 22nd field; the second one is a name in brackets, which may hold anything.
        ticks = int(Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[19])
        up = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return True
    began = time.time() - up + ticks / os.sysconf("SC_CLK_TCK")
    return began <= when + CLOCKS_DIFFER


_REFUSED = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ENOENT}


@contextmanager
def filling(folder: Path) -> Iterator[None]:
    """Errors of writing temporary files to a folder blame the place of these, not the file that is made of them."""
    try:
        yield
    except OSError as error:
        elsewhere = error.filename is not None and not Path(os.fsdecode(error.filename)).is_relative_to(folder)
        if elsewhere or error.errno not in _REFUSED:
            raise
        raise TVMError(
            f"temporary files cannot be written in {folder}: {error.strerror}; free some space there, or set TMPDIR to another directory"
        ) from error
