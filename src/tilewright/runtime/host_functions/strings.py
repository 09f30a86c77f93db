"""Strings in programs of numbers: a string is an int64 number, so kernels move and compare strings, and host functions do the rest.

The number of a string is the same in every process. A process knows the strings of those numbers only that it has made itself, and those of
constants of the libraries that it loads, which their metadata hold.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilewright.runtime.host_functions.registry import Config, host_function
from tilewright.support.errors import TVMError

CARRIER = "int64"
"""The element type of tensors of strings."""


class StringTable:
    """Strings by number. Numbers of constants stay; those made while programs run are forgotten when none runs any more."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {"": 0}
        self._strings: dict[int, str] = {0: ""}
        self._passing: set[int] = set()
        self._running = 0
        self._lock = threading.RLock()

    def number(self, string: str, keep: bool = False) -> int:
        """The number of a string. Equal strings have the same number; 0, the value of elements that nothing wrote, is the empty string."""
        with self._lock:
            found = self._numbers.get(string)
            if found is None:
                digest = hashlib.blake2b(string.encode("utf-8", "surrogatepass"), digest_size=8).digest()
                found = int.from_bytes(digest, "little") >> 1
                while found in self._strings:
                    found = (found + 1) >> 1
                self._numbers[string] = found
                self._strings[found] = string
                if self._running and not keep:
                    self._passing.add(found)
            elif keep:
                self._passing.discard(found)
            return found

    def encode(self, strings: Any, keep: bool = False) -> np.ndarray:
        """Numbers of an array of strings; bytes that are no UTF-8 come back as they were (`as_bytes`)."""
        array = np.asarray(strings)
        flat = [
            self.number(t.decode(errors="surrogateescape") if isinstance(t, bytes) else str(t), keep)
            for t in array.reshape(-1).tolist()
        ]
        return np.array(flat, np.int64).reshape(array.shape)

    def decode(self, numbers: np.ndarray) -> np.ndarray:
        """The strings of an array of numbers."""
        out = np.empty(numbers.shape, object)
        out.reshape(-1)[:] = [self._strings.get(n, "") for n in numbers.reshape(-1).tolist()]
        return out

    @property
    def is_empty(self) -> bool:
        """Whether there is none but the empty string."""
        return len(self._strings) == 1

    def known(self, numbers: np.ndarray) -> set[str]:
        """The strings among numbers, but for those that are forgotten and for the empty one."""
        if self.is_empty:
            return set()
        found = {n for n in numbers.reshape(-1).tolist() if n and n in self._strings}
        return {self._strings[n] for n in found - self._passing}

    def learn(self, metadata: Mapping[str, Any]) -> None:
        """Adds the strings that the model of a library contains."""
        self.encode(np.array(metadata.get("strings", ()), object), keep=True)

    @contextmanager
    def run(self) -> Iterator[None]:
        """While a program runs: the strings that it makes are forgotten afterwards."""
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                if not self._running:
                    for n in self._passing:
                        del self._numbers[self._strings.pop(n)]
                    self._passing.clear()


string_table = StringTable()


def encode_strings(strings: Any) -> np.ndarray:
    """The int64 numbers that a program takes for strings, in the same shape. `strings`: str or bytes, in an array or nested lists."""
    return string_table.encode(np.asarray(strings, object), keep=True)


def decode_strings(numbers: Any) -> np.ndarray:
    """The strings of numbers that a program returned: an object array of str, in the same shape. Unknown numbers are empty strings."""
    return string_table.decode(np.asarray(numbers.numpy() if hasattr(numbers, "numpy") else numbers))


def as_bytes(string: str) -> bytes:
    """The bytes of a string."""
    return string.encode("utf-8", "surrogateescape")


def as_string(data: bytes) -> str:
    """The string of bytes."""
    return data.decode("utf-8", "surrogateescape")


Function = Callable[..., Any]
_waiting = threading.local()
"""The result of a host function of data-dependent shape, computed when its shape was asked for and kept for the call that returns it."""


def string_host(name: str, sized: bool = False) -> Callable[[Function], Function]:
    """Register f(config, *arrays) -> array for `hosted`: strings come and go as arrays of str. sized: another function tells its shape."""

    def register(f: Function) -> Function:
        def whole(config: Config, *arrays: np.ndarray) -> np.ndarray:
            held = set(config.get("strings", ()))
            given = [string_table.decode(a) if k in held else a for k, a in enumerate(arrays)]
            try:
                made = np.asarray(f(config, *given))
            except (ValueError, IndexError, np.linalg.LinAlgError) as error:
                title = name.partition(".")[2]
                raise TVMError(f"{title} {config.get('node', '')!r}: {error}") from None
            return string_table.encode(made) if made.dtype.kind in "OUS" else made

        def elements(config: Config, *arrays: np.ndarray) -> np.ndarray:
            found = getattr(_waiting, "found", None)
            if found is not None and found[:2] == (name, config) and _equal(found[2], arrays):
                _waiting.found = None
                kept: np.ndarray = found[3]
                return kept
            return whole(config, *arrays)

        def shape(config: Config, *arrays: np.ndarray) -> np.ndarray:
            made = whole(config, *arrays)
            _waiting.found = name, config, [a.copy() for a in arrays], made
            return np.array(made.shape, np.int64)

        for one, title in ((elements, name), (shape, f"{name}.shape")) if sized else ((whole, name),):
            one.__module__ = f.__module__
            host_function(title)(one)
        return f

    return register


def _equal(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> bool:
    return len(a) == len(b) and all([x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(a, b, strict=True)])
