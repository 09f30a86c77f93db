"""The on-disk compile cache: content-addressed, safe under many processes, bounded in size.

Entries are files named by their key. Each is written whole to a temporary file and renamed, and begins with a checksum of
key and content, so that a reader sees a whole entry or none, and never another's. The least recently used go when the cache
outgrows its bound. Nothing that goes wrong here stops a compilation: it is warned about once, and the work is done again.
Several users share a cache by the permissions of its directory, which all that is made in it is given.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
import warnings
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from tilewright.support.errors import TVMError, said

MAGIC = b"TWC2"
DIGEST_BYTES = 16

MAPPED_MAGIC, MAPPED_FROM, PIECE = b"TWM2", 4096, 1 << 24
"""Entries that are mapped: their content begins on a page, after the checksums of its pieces."""
DEFAULT_LIMIT = 2 << 30
"""Bytes that the cache may hold, unless TILEWRIGHT_CACHE_BYTES says otherwise."""

_TRIM_EVERY = 64
"""To look at all entries takes long: once in so many that are stored, by whichever processes."""


def default_directory() -> Path:
    """TILEWRIGHT_CACHE_DIR, else tilewright under XDG_CACHE_HOME, else ~/.cache/tilewright. Raises TVMError where this user has no home."""
    own = os.environ.get("TILEWRIGHT_CACHE_DIR")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "tilewright"
    except RuntimeError as error:
        raise TVMError(
            f"the compile cache has no place: HOME is not set, and user {os.getuid()} has no home directory in the password database;"
            " set TILEWRIGHT_CACHE_DIR to a directory that can be written"
        ) from error


def default_limit() -> int:
    """TILEWRIGHT_CACHE_BYTES, else DEFAULT_LIMIT. Raises TVMError where the variable is not a number of bytes."""
    text = os.environ.get("TILEWRIGHT_CACHE_BYTES", "")
    if text and not (text.isascii() and text.isdigit()):
        raise TVMError(
            f"the environment variable TILEWRIGHT_CACHE_BYTES must be a number of bytes, 0 for no cache, but it is `{text}`; unset it for"
            f" {DEFAULT_LIMIT}"
        )
    return int(text) if text else DEFAULT_LIMIT


def key(*parts: str | bytes) -> str:
    """The key of an entry: a digest of everything that its content depends on."""
    digest = hashlib.blake2b(digest_size=20)
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()


class Entry(NamedTuple):
    """One file of the cache: its size in bytes and the time of its last use."""

    path: Path
    size: int
    used: float


class Cache:
    """A directory of entries. `directory` None: the default one, looked up at each use; `limit` in bytes."""

    def __init__(self, directory: Path | str | None = None, limit: int | None = None) -> None:
        self._directory = Path(directory) if directory is not None else None
        self._limit = limit
        self._warned: set[str] = set()

    @property
    def path(self) -> Path:
        """The directory."""
        return self._directory if self._directory is not None else default_directory()

    @property
    def limit(self) -> int:
        """Bytes that it may hold."""
        return self._limit if self._limit is not None else default_limit()

    def usable(self) -> bool:
        """Whether entries may be kept at all: not with a limit of 0, nor where there is no place for them, which is warned about once."""
        if self.limit == 0:
            return False
        try:
            return bool(self.path)
        except TVMError as error:
            self._warn("place", f"{error}. Until then nothing is kept, and all is compiled anew")
            return False

    def file(self, entry: str) -> Path:
        """The file of an entry; two letters of the key make a subdirectory."""
        return self.path / entry[:2] / entry[2:]

    def get(self, entry: str) -> bytes | None:
        """The content of an entry; None when it is absent or damaged (then it is removed, with a warning)."""
        if not self.usable():
            return None
        path = self.file(entry)
        try:
            with _opened(path) as file:
                raw = file.read()
        except FileNotFoundError:
            return None
        except _NotAFile:
            self._damaged(path)
            return None
        except OSError as error:
            self._warn(
                "read", f"the compile cache {self.path} cannot be read ({said(error)}); kernels are compiled anew"
            )
            return None
        head = len(MAGIC) + DIGEST_BYTES
        body = raw[head:]
        if raw[:head] != MAGIC + _checksum(entry, body):
            self._damaged(path)
            return None
        _used(path)
        return body

    def map(self, entry: str) -> np.ndarray[Any, Any] | None:
        """The content of an entry that `put_mapped` stored, as bytes in pages of its file, which are this process's own once it
        writes to them; None when it is absent or damaged."""
        if not self.usable():
            return None
        path = self.file(entry)
        try:
            with _opened(path) as file:
                pages = np.memmap(file, np.uint8, "c").view(np.ndarray)
        except _NotAFile:
            self._damaged(path)
            return None
        except (OSError, ValueError):
            # Absent, or without a byte.
            return None
        content = pages[MAPPED_FROM:]
        if not content.size or pages[:MAPPED_FROM].tobytes() != _mapped_head(entry, content):
            self._damaged(path)
            return None
        _used(path)
        return content

    def _damaged(self, path: Path) -> None:
        warnings.warn(
            f"the entry {path} of the compile cache is damaged; it is removed and compiled anew", stacklevel=3
        )
        _remove(path)

    def put(self, entry: str, content: bytes) -> None:
        """Store an entry. A full disk or a directory that cannot be written is warned about once."""
        self._put(entry, (MAGIC + _checksum(entry, content), content))

    def put_mapped(self, entry: str, content: np.ndarray[Any, Any]) -> bool:
        """Store an entry of bytes for `map`, unless it would take more than half of the cache. Whether it is stored."""
        if content.nbytes > self.limit // 2:
            return False
        done = self._put(entry, (_mapped_head(entry, content), content.data))
        if content.nbytes > self.limit // 64:
            self.trim()
        return done

    def _put(self, entry: str, parts: Iterable[Any]) -> bool:
        if not self.usable():
            return False
        path = self.file(entry)
        # Named before it exists, so that an interrupt at any point finds what to remove.
        temporary = path.parent / f".new{os.urandom(8).hex()}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, "wb") as file:
                for part in parts:
                    file.write(part)
            self._share(path.parent, temporary)
            os.replace(temporary, path)
        except OSError as error:
            self._warn(
                "write",
                f"nothing can be kept in the compile cache {self.path} ({error.strerror or error}); compiling goes on without it."
                " Free some space, or set TILEWRIGHT_CACHE_DIR to another directory",
            )
            return False
        finally:
            _remove(temporary)
        # Keys are digests, so that theirs decide without a count that processes would have to share.
        if int(entry[-2:], 16) % _TRIM_EVERY == 0:
            self.trim()
        return True

    def _share(self, folder: Path, file: Path) -> None:
        """Gives what was made in a directory that others may write to its permissions, whatever this user's umask."""
        mode = stat.S_IMODE(self.path.stat().st_mode)
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            file.chmod(mode & 0o666)
            with contextlib.suppress(PermissionError):  # made by another user, who did this
                folder.chmod(mode)

    def entries(self) -> list[Entry]:
        """Every entry, and what killed writers left."""
        return [Entry(Path(path), size, used) for path, size, used in self._files()]

    def _files(self) -> Iterator[tuple[str, int, float]]:
        """What `entries` lists, with paths as text: a cache has tens of thousands, and most of them are only counted."""
        try:
            folders = [d for d in self.path.iterdir() if d.is_dir() and len(d.name) == 2]
        except OSError:
            return
        for folder in folders:
            try:
                for item in os.scandir(folder):
                    info = item.stat()
                    yield item.path, info.st_size, info.st_mtime
            except OSError:
                # Another process may have removed it meanwhile.
                continue

    def trim(self) -> None:
        """Drop the least recently used entries until the cache is within its bound, and leftovers of killed writers."""
        found = sorted(self._files(), key=itemgetter(2))
        total, limit, now = sum([size for _, size, _ in found]), self.limit, time.time()
        for path, size, used in found:
            stale = now - used > 3600 and os.path.basename(path).startswith(".new")
            if total > limit or stale:
                _remove(Path(path))
                total -= size

    def clear(self) -> int:
        """Remove every entry; returns how many there were."""
        found = self.entries()
        for entry in found:
            _remove(entry.path)
        return len(found)

    def size(self) -> int:
        """Bytes held."""
        return sum(size for _, size, _ in self._files())

    def _warn(self, what: str, text: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            warnings.warn(text, stacklevel=3)


class _NotAFile(OSError):
    """A directory, a device or a pipe lies where an entry should."""


def _opened(path: Path) -> BinaryIO:
    """An entry, opened to be read. Pipes are not waited for, and devices, which may have no end, are not read: _NotAFile."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except IsADirectoryError as error:
        raise _NotAFile from error
    if stat.S_ISREG(os.fstat(number).st_mode):
        return os.fdopen(number, "rb")
    os.close(number)
    raise _NotAFile


def _checksum(entry: str, content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES, key=entry.encode()).digest()


def _mapped_head(entry: str, content: np.ndarray[Any, Any]) -> bytes:
    """The head of an entry that is mapped: a checksum of its key, its size and the checksums of its pieces."""
    pieces = [content[at : at + PIECE] for at in range(0, content.size, PIECE)]
    with ThreadPoolExecutor(2) as pool:
        sums = list(pool.map(zlib.crc32, pieces))
    said = content.size.to_bytes(8, "little") + b"".join([v.to_bytes(4, "little") for v in sums])
    return (MAPPED_MAGIC + _checksum(entry, said)).ljust(MAPPED_FROM, b"\0")


def _used(path: Path) -> None:
    # Recency only orders what is dropped first; a read-only cache still serves.
    with contextlib.suppress(OSError):
        os.utime(path)


def _remove(path: Path) -> None:
    # Gone already, or not ours to remove; either way the next writer replaces it.
    with contextlib.suppress(OSError):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


_default = Cache()


def default_cache() -> Cache:
    """The process's cache in the default directory."""
    return _default


def get(entry: str) -> bytes | None:
    """`Cache.get` of the default cache."""
    return _default.get(entry)


def put(entry: str, content: bytes) -> None:
    """`Cache.put` of the default cache."""
    _default.put(entry, content)


def map(entry: str) -> np.ndarray[Any, Any] | None:
    """`Cache.map` of the default cache."""
    return _default.map(entry)


def put_mapped(entry: str, content: np.ndarray[Any, Any]) -> bool:
    """`Cache.put_mapped` of the default cache."""
    return _default.put_mapped(entry, content)


def clear() -> int:
    """`Cache.clear` of the default cache."""
    return _default.clear()
