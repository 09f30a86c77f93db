"""The on-disk compile cache: content-addressed, safe under many processes, bounded in size.

Entries are files named by their key. Each is written whole to a temporary file and renamed, and begins with a checksum, so
that a reader sees a whole entry or none. The least recently used go when the cache outgrows its bound. Nothing that goes
wrong here stops a compilation: it is warned about once, and the work is done again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import warnings
from pathlib import Path
from typing import NamedTuple

MAGIC = b"TWC1"
DIGEST_BYTES = 16
DEFAULT_LIMIT = 2 << 30
"""Bytes that the cache may hold, unless TILEWRIGHT_CACHE_BYTES says otherwise."""

_TRIM_EVERY = 64


def default_directory() -> Path:
    """TILEWRIGHT_CACHE_DIR, else tilewright under XDG_CACHE_HOME, else ~/.cache/tilewright."""
    own = os.environ.get("TILEWRIGHT_CACHE_DIR")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tilewright"


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
        self._writes = 0
        self._warned: set[str] = set()

    @property
    def path(self) -> Path:
        """The directory."""
        return self._directory if self._directory is not None else default_directory()

    @property
    def limit(self) -> int:
        if self._limit is not None:
            return self._limit
        text = os.environ.get("TILEWRIGHT_CACHE_BYTES", "")
        return int(text) if text.isdigit() else DEFAULT_LIMIT

    def file(self, entry: str) -> Path:
        """The file of an entry; two letters of the key make a subdirectory."""
        return self.path / entry[:2] / entry[2:]

    def get(self, entry: str) -> bytes | None:
        """The content of an entry; None when it is absent or damaged (then it is removed, with a warning)."""
        if self.limit == 0:
            return None
        path = self.file(entry)
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn("read", f"the compile cache {self.path} cannot be read ({error}); kernels are compiled anew")
            return None
        head = len(MAGIC) + DIGEST_BYTES
        body = raw[head:]
        if raw[:head] != MAGIC + _checksum(body):
            warnings.warn(
                f"the entry {path} of the compile cache is damaged; it is removed and compiled anew", stacklevel=2
            )
            _remove(path)
            return None
        # Recency only orders what is dropped first; a read-only cache still serves.
        with contextlib.suppress(OSError):
            os.utime(path)
        return body

    def put(self, entry: str, content: bytes) -> None:
        """Store an entry. A full disk or a directory that cannot be written is warned about once."""
        if self.limit == 0:
            return
        path = self.file(entry)
        # Named before it exists, so that an interrupt at any point finds what to remove.
        temporary = path.parent / f".new{os.urandom(8).hex()}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(temporary, "wb") as file:
                file.write(MAGIC + _checksum(content))
                file.write(content)
            os.replace(temporary, path)
        except OSError as error:
            self._warn(
                "write",
                f"nothing can be kept in the compile cache {self.path} ({error.strerror or error}); compiling goes on without it."
                " Free some space, or set TILEWRIGHT_CACHE_DIR to another directory",
            )
            return
        finally:
            _remove(temporary)
        self._writes += 1
        if self._writes % _TRIM_EVERY == 1:
            self.trim()

    def entries(self) -> list[Entry]:
        """Every entry, and what killed writers left."""
        found: list[Entry] = []
        try:
            folders = [d for d in self.path.iterdir() if d.is_dir() and len(d.name) == 2]
        except OSError:
            return []
        for folder in folders:
            try:
                for item in os.scandir(folder):
                    info = item.stat()
                    found.append(Entry(Path(item.path), info.st_size, info.st_mtime))
            except OSError:
                # Another process may have removed it meanwhile.
                continue
        return found

    def trim(self) -> None:
        """Drop the least recently used entries until the cache is within its bound, and leftovers of killed writers."""
        found = sorted(self.entries(), key=lambda e: e.used)
        total = sum(size for _, size, _ in found)
        now = time.time()
        for path, size, used in found:
            stale = path.name.startswith(".new") and now - used > 3600
            if total > self.limit or stale:
                _remove(path)
                total -= size

    def clear(self) -> int:
        """Remove every entry; returns how many there were."""
        found = self.entries()
        for entry in found:
            _remove(entry.path)
        return len(found)

    def size(self) -> int:
        """Bytes held."""
        return sum(size for _, size, _ in self.entries())

    def _warn(self, what: str, text: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            warnings.warn(text, stacklevel=3)


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()


def _remove(path: Path) -> None:
    # Gone already, or not ours to remove; either way the next writer replaces it.
    with contextlib.suppress(OSError):
        path.unlink()


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


def clear() -> int:
    """`Cache.clear` of the default cache."""
    return _default.clear()
