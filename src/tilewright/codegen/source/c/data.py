"""C text of bytes: string literals, which compilers read many times faster than lists of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

ROW = 2048
"""Bytes of one literal. C99 guarantees 4,095 characters."""
_PIECE = 512 * ROW
_KEPT = frozenset(range(32, 127)) - set(b'"\\?')
"""Characters that are written as they are. Others are written with three octal digits, so that a digit may follow."""
_TEXTS = [chr(b) if b in _KEPT else f"\\{b:03o}" for b in range(256)]
_TABLE = np.frombuffer("".join([t.ljust(4) for t in _TEXTS]).encode(), np.uint8).reshape(256, 4)
_USED = np.array([[k < len(t) for k in range(4)] for t in _TEXTS])


def rows_text(data: bytes | np.ndarray[Any, Any]) -> str:
    """The string literals that are the rows of an array `char [][ROW]` with these bytes."""
    flat = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data.reshape(-1).view(np.uint8)
    parts = []
    for start in range(0, len(flat), _PIECE):
        piece = flat[start : start + _PIECE]
        whole = len(piece) // ROW * ROW
        if whole:
            parts.append(_rows(piece[:whole].reshape(-1, ROW)))
        if whole < len(piece):
            parts.append(_rows(piece[whole:].reshape(1, -1)))
    return "".join(parts).removesuffix(",\n")


def _rows(rows: np.ndarray[Any, Any]) -> str:
    count = len(rows)
    characters, used = _TABLE[rows].reshape(count, -1), _USED[rows].reshape(count, -1)
    edges = [np.broadcast_to(np.frombuffer(text, np.uint8), (count, len(text))) for text in (b'"', b'",\n')]
    every = np.concatenate([edges[0], characters, edges[1]], axis=1)
    kept = np.concatenate([np.ones(edges[0].shape, bool), used, np.ones(edges[1].shape, bool)], axis=1)
    return str(every[kept].tobytes(), "ascii")


def bytes_text(head: str, name: str, data: bytes | np.ndarray[Any, Any]) -> str:
    """The definition of an object `name` that holds the bytes, with the largest alignment of any type. head: the text before its type.

    Whole rows, and what is left of one: the object is no larger than its alignment asks for.
    """
    flat = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data.reshape(-1).view(np.uint8)
    count, left = divmod(max(len(flat), 1), ROW)
    members, values = [], []
    if count:
        members.append(f"char rows[{count}][{ROW}] TW_NO_STRING;")
        values.append(f"{{\n{rows_text(flat[: count * ROW])}\n}}")
    if left:
        members.append(f"char rest[{left}] TW_NO_STRING;")
        values.append(rows_text(flat[count * ROW :]) or '""')
    union = f"union {{ struct {{ {' '.join(members)} }} bytes; int64_t whole; double real; void* pointer; }}"
    joined = ",\n".join(values)
    return f"{head} {union} {name} TW_ALIGN(64) = {{{{{joined}}}}};\n"


__all__ = ["ROW", "bytes_text", "rows_text"]
