"""Variables of a SavedModel: a checkpoint's index (a sorted table of keys) and its data files, which are mapped."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.formats.tensorflow_messages import Message, dtype_name, message
from tilewright.formats.varint import read_varint
from tilewright.node.field_values import numpy_dtype
from tilewright.relay.frontend.tensorflow.tensors import shape_of
from tilewright.support.errors import ModelError, said

FOOTER, MAGIC, TRAILER = 48, 0xDB4775248B80FB57, 5
"""A table ends with the positions of its index blocks and a magic number. Each block ends with its compression and a checksum."""
DAMAGED = "The checkpoint is damaged; copy or export it again"


class _Damaged(ValueError):
    pass


def _block(data: bytes, offset: int, size: int) -> bytes:
    if offset + size + TRAILER > len(data):
        raise _Damaged("a block lies outside the file")
    body, kind = data[offset : offset + size], data[offset + size]
    if kind == 1:
        return _snappy(body)
    if kind:
        raise _Damaged(f"a block is compressed by method {kind}")
    return body


def _snappy(data: bytes) -> bytes:
    """Decompresses Snappy's format: literals, and copies of earlier output."""
    size, at = read_varint(data, 0)
    if size > 1 << 30:
        raise _Damaged("a block claims to be huge")
    out = bytearray()
    while at < len(data):
        tag = data[at]
        at += 1
        kind, length = tag & 3, (tag >> 2) + 1
        if kind == 0:
            if length > 60:
                more = length - 60
                length, at = int.from_bytes(data[at : at + more], "little") + 1, at + more
            out += data[at : at + length]
            at += length
            continue
        if kind == 1:
            length, back, at = ((tag >> 2) & 7) + 4, (tag >> 5) << 8 | data[at], at + 1
        else:
            width = 2 if kind == 2 else 4
            back, at = int.from_bytes(data[at : at + width], "little"), at + width
        if not 0 < back <= len(out) or len(out) + length > size:
            raise _Damaged("a compressed block does not unpack")
        for _ in range(length):
            out.append(out[-back])
    return bytes(out)


def _entries(block: bytes) -> list[tuple[bytes, bytes]]:
    """(key, value) of a block. Each key is stored as its difference from the one before."""
    if len(block) < 4:
        raise _Damaged("a block is too short")
    (restarts,) = struct.unpack("<I", block[-4:])
    end = len(block) - 4 - 4 * restarts
    if end < 0:
        raise _Damaged("a block is too short")
    found, at, key = [], 0, b""
    while at < end:
        shared, at = read_varint(block, at)
        own, at = read_varint(block, at)
        size, at = read_varint(block, at)
        if shared > len(key) or at + own + size > end:
            raise _Damaged("an entry lies outside its block")
        key = key[:shared] + block[at : at + own]
        found.append((key, block[at + own : at + own + size]))
        at += own + size
    return found


def read_table(data: bytes) -> dict[bytes, bytes]:
    """The entries of a sorted table. Raises ValueError."""
    if len(data) < FOOTER or struct.unpack("<Q", data[-8:])[0] != MAGIC:
        raise _Damaged("it does not end like a checkpoint index")
    footer = data[-FOOTER:]
    _, at = read_varint(footer, 0)
    _, at = read_varint(footer, at)
    offset, at = read_varint(footer, at)
    size, at = read_varint(footer, at)
    found: dict[bytes, bytes] = {}
    for _, handle in _entries(_block(data, offset, size)):
        begin, where = read_varint(handle, 0)
        length, _ = read_varint(handle, where)
        found.update(_entries(_block(data, begin, length)))
    return found


class Checkpoint:
    """The tensors of a checkpoint by key."""

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        index = prefix.with_name(prefix.name + ".index")
        try:
            table = read_table(index.read_bytes())
        except FileNotFoundError:
            raise ModelError(
                f"{index}: there is no such file, but the model has variables. Copy the whole folder"
            ) from None
        except (ValueError, IndexError, OSError) as error:
            raise ModelError(f"{index}: {error}. {DAMAGED}") from None
        header = message("BundleHeaderProto")()
        try:
            header.ParseFromString(table.pop(b"", b""))
            self.entries: dict[str, Any] = {}
            for key, value in table.items():
                entry = message("BundleEntryProto")()
                entry.ParseFromString(value)
                self.entries[key.decode()] = entry
        except Exception as error:  # protobuf's own exceptions, and invalid strings
            raise ModelError(f"{index}: an entry does not parse ({said(error)}). {DAMAGED}") from None
        self.shards = max(int(header.num_shards), 1)
        self.order = ">" if header.endianness == 1 else "<"

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def array(self, key: str) -> np.ndarray:
        """The array of a tensor. Raises ModelError."""
        entry = self.entries.get(key)
        if entry is None:
            raise ModelError(f"{self.prefix}: the checkpoint has no tensor {key!r}. {DAMAGED}")
        kind, shape = dtype_name(entry.dtype), shape_of(entry.shape) or []
        if kind == "string":
            return self._strings(key, entry, shape)
        if kind in ("resource", "variant") or kind.startswith("type"):
            raise ModelError(f"{self.prefix}: the tensor {key!r} holds {kind}, which no kernel computes with")
        path = self._shard(entry)
        dtype = numpy_dtype(kind)
        count = int(np.prod(shape, dtype=object)) if shape else 1
        if any([d < 0 for d in shape]) or count * dtype.itemsize != entry.size:
            raise ModelError(
                f"{self.prefix}: the tensor {key!r} of shape {tuple(shape)} and dtype {kind} has {entry.size} bytes. {DAMAGED}"
            )
        try:
            length = path.stat().st_size
        except OSError:
            raise ModelError(f"{path}: there is no such file, but {key!r} lies in it. Copy the whole folder") from None
        if entry.offset < 0 or entry.offset + entry.size > length:
            raise ModelError(
                f"{path}: {key!r} needs bytes {entry.offset} to {entry.offset + entry.size}, but the file has {length}. Copy it again"
            )
        if not count:
            return np.zeros(shape, dtype)
        raw = np.memmap(path, np.uint8, "r", entry.offset, (int(entry.size),))
        array = (
            raw.view(dtype).reshape(shape)
            if entry.offset % dtype.itemsize == 0
            else np.frombuffer(raw.tobytes(), dtype).reshape(shape)
        )
        return array.byteswap() if self.order == ">" else array

    def _shard(self, entry: Message) -> Path:
        return self.prefix.with_name(f"{self.prefix.name}.data-{entry.shard_id:05d}-of-{self.shards:05d}")

    def _strings(self, key: str, entry: Message, shape: list[int]) -> np.ndarray:
        """A tensor of strings, stored as their lengths, a checksum of 4 bytes, and the concatenated strings."""
        count = int(np.prod(shape, dtype=object)) if shape else 1
        try:
            with self._shard(entry).open("rb") as file:
                file.seek(entry.offset)
                data = file.read(entry.size)
            lengths, at = [], 0
            for _ in range(min(count, len(data) + 1)):
                n, at = read_varint(data, at)
                lengths.append(n)
        except (OSError, ValueError, IndexError) as error:
            raise ModelError(f"{self._shard(entry)}: {key!r} does not read ({said(error)}). {DAMAGED}") from None
        at += 4
        if len(lengths) != count or at + sum(lengths) != len(data):
            raise ModelError(
                f"{self._shard(entry)}: the strings of {key!r} do not fill their {len(data)} bytes. {DAMAGED}"
            )
        out = np.empty(count, object)
        for k, n in enumerate(lengths):
            out[k], at = data[at : at + n], at + n
        return out.reshape(shape)
