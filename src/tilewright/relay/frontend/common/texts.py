"""Texts in programs of numbers: a text is an int64 number, so kernels move and compare texts, and host functions do the rest.

A number follows from its text, in every process; a process knows the texts of the numbers that it has made itself.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilewright.relay.frontend.common.value import Value

CARRIER = "int64"
"""The element type of tensors of texts."""


class Text(Value):
    """A tensor of texts, which are numbers here."""

    __slots__ = ()

    @property
    def numbers(self) -> Value:
        """The numbers, as a tensor like others."""
        return Value(self._expr, self.array, self.name)


class Strings:
    """Texts by number. Numbers of constants stay; those made while programs run are forgotten when none runs any more."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {"": 0}
        self._texts: dict[int, str] = {0: ""}
        self._passing: set[int] = set()
        self._running = 0
        self._lock = threading.RLock()

    def number(self, text: str, keep: bool = False) -> int:
        """The number of a text; equal texts have one number, and 0, which fills what nothing was written to, is the empty one."""
        with self._lock:
            found = self._numbers.get(text)
            if found is None:
                digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
                found = int.from_bytes(digest, "little") >> 1
                while found in self._texts:
                    found = (found + 1) >> 1
                self._numbers[text] = found
                self._texts[found] = text
                if self._running and not keep:
                    self._passing.add(found)
            elif keep:
                self._passing.discard(found)
            return found

    def encode(self, texts: Any, keep: bool = False) -> np.ndarray:
        """Numbers of an array of texts; bytes that are no UTF-8 come back as they were (`as_bytes`)."""
        array = np.asarray(texts)
        flat = [
            self.number(t.decode(errors="surrogateescape") if isinstance(t, bytes) else str(t), keep)
            for t in array.reshape(-1).tolist()
        ]
        return np.array(flat, np.int64).reshape(array.shape)

    def decode(self, numbers: np.ndarray) -> np.ndarray:
        """The texts of an array of numbers."""
        out = np.empty(numbers.shape, object)
        out.reshape(-1)[:] = [self._texts.get(n, "") for n in numbers.reshape(-1).tolist()]
        return out

    @contextmanager
    def run(self) -> Iterator[None]:
        """While a program runs: the texts that it makes are forgotten afterwards."""
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                if not self._running:
                    for n in self._passing:
                        del self._numbers[self._texts.pop(n)]
                    self._passing.clear()


strings = Strings()


def encode_texts(texts: Any) -> np.ndarray:
    """What a program takes for texts (str or bytes, in an array or lists of any depth): int64 numbers of the same shape."""
    return strings.encode(np.asarray(texts, object), keep=True)


def decode_texts(numbers: Any) -> np.ndarray:
    """The texts of numbers that a program made: an array of objects (str) of the same shape. Numbers that are none's are empty texts."""
    return strings.decode(np.asarray(numbers.numpy() if hasattr(numbers, "numpy") else numbers))


def as_bytes(text: str) -> bytes:
    """The bytes of a text."""
    return text.encode("utf-8", "surrogateescape")


def as_text(data: bytes) -> str:
    """The text of bytes."""
    return data.decode("utf-8", "surrogateescape")
