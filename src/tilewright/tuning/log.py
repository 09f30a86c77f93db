"""Files of records: a line of JSON each. Several processes, of several machines that share the file system, may append to one."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.support.errors import TVMError


class Line(NamedTuple):
    """A line of a log: its number from 1 on, its record, or None and why it has none."""

    number: int
    record: Any
    why: str = ""


def append(path: str | os.PathLike[str], records: Iterable[Any]) -> None:
    """Adds records to a log, which is created if it is missing. They are on the disk when this returns. If not all can be written, none is.

    Raises TVMError where the file cannot be written.
    """
    data = b"".join([json.dumps(record, allow_nan=False).encode() + b"\n" for record in records])
    if not data:
        return
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            _write(file, data)
        finally:
            os.close(file)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "the disk is full" if full else error.strerror or str(error)
        raise TVMError(f"records cannot be added to the log {os.fspath(path)}: {what}") from error


def _write(file: int, data: bytes) -> None:
    size = os.fstat(file).st_size
    # A process that was killed may have left a line without its end.
    if size and os.pread(file, 1, size - 1) != b"\n":
        data = b"\n" + data
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fsync(file)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(file, size)
        raise


def content(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a log. Raises TVMError where it cannot be read."""
    # Some devices to which a log may be written never end when they are read.
    if Path(path).is_char_device():
        return b""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise TVMError(f"the log {os.fspath(path)} cannot be read: {error.strerror or error}") from error


def read(path: str | os.PathLike[str], kind: type = dict) -> Iterator[Line]:
    """The lines of a log that are not empty, nor comments (`# ...`). kind: of the records, `dict` or `list`. Raises TVMError where
    the file cannot be read."""
    for number, line in enumerate(content(path).split(b"\n"), 1):
        if line.strip() and not line.lstrip().startswith(b"#"):
            yield _line(number, line, kind)


def _line(number: int, line: bytes, kind: type) -> Line:
    try:
        found = json.loads(line)
    except ValueError as error:
        return Line(number, None, f"it is no JSON ({error})")
    except RecursionError:
        return Line(number, None, "it is no record: its brackets are nested too deep")
    if not isinstance(found, kind):
        return Line(number, None, f"it is a {type(found).__name__}, not {'an object' if kind is dict else 'a list'}")
    return Line(number, found)
