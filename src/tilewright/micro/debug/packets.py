"""Packets of GDB's remote serial protocol: `$data#checksum`, with escapes, runs and acknowledgements."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilewright.micro.errors import ConnectionLost

_SPECIAL = re.compile(rb"[$#}*]")
MOST_BYTES = 1 << 20
"""The longest packet that is read. Stubs tell lengths of some thousand bytes."""


def packet(data: bytes) -> bytes:
    """The packet of some data."""
    escaped = _SPECIAL.sub(lambda found: bytes((0x7D, found[0][0] ^ 0x20)), data)
    return b"$%b#%02x" % (escaped, sum(escaped) & 0xFF)


class PacketReader:
    """Takes bytes as they arrive, and gives what they say: packets, acknowledgements (b"+", b"-").

    Noise between packets is passed over. Packets with a wrong checksum come as None, so that they can be asked for again.
    """

    def __init__(self) -> None:
        self.left = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        """(kind, data) of all that is complete: kind is "ack", "nak", "packet", "damaged" or "notification". Raises ConnectionLost for a
        packet that does not end."""
        self.left += data
        while self.left:
            first = bytes(self.left[0:1])
            if first in b"+-":
                del self.left[0]
                yield ("ack" if first == b"+" else "nak"), b""
                continue
            if first not in b"$%":
                del self.left[0]
                continue
            end = self.left.find(b"#", 1)
            if end < 0 or len(self.left) < end + 3:
                if len(self.left) > MOST_BYTES:
                    raise ConnectionLost(f"the debugger sent {len(self.left)} bytes of a packet that does not end")
                return
            body, told = bytes(self.left[1:end]), bytes(self.left[end + 1 : end + 3])
            # A packet that was cut off: another one begins within, or in its checksum.
            begun = told.find(b"$")
            del self.left[: end + 3 if begun < 0 else end + 1 + begun]
            if (cut := body.rfind(b"$")) >= 0:
                first, body = b"$", body[cut + 1 :]
            if _number(told) != sum(body) & 0xFF:
                yield "damaged", body
            else:
                yield ("packet" if first == b"$" else "notification"), unescaped(body)


def _number(digits: bytes) -> int:
    """A number of two hexadecimal digits; -1 for other texts."""
    try:
        return int(digits, 16) if digits.strip() == digits and b"_" not in digits else -1
    except ValueError:
        return -1


def unescaped(body: bytes) -> bytes:
    """Data of a packet, with escapes and runs (`0*"`) undone."""
    if b"}" not in body and b"*" not in body:
        return body
    found = bytearray()
    k = 0
    while k < len(body):
        byte = body[k]
        if byte == 0x7D and k + 1 < len(body):
            found.append(body[k + 1] ^ 0x20)
            k += 2
        elif byte == 0x2A and k + 1 < len(body) and found and body[k + 1] >= 29:
            found += found[-1:] * (body[k + 1] - 29)
            k += 2
        else:
            found.append(byte)
            k += 1
    return bytes(found)


__all__ = ["PacketReader", "packet", "unescaped"]
