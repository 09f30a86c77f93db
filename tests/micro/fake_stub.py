"""A stub of GDB's remote protocol in a thread: a device of 64 KiB with registers, and whatever goes wrong on the wire."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Callable

from tilewright.micro.debug.packets import PacketReader, packet, unescaped

BASE, SIZE = 0x20000000, 1 << 16
TARGET = """<?xml version="1.0"?><target><xi:include href="core.xml"/></target>"""
CORE = (
    '<feature><reg name="r0" bitsize="32"/><reg name="r1" bitsize="32"/><reg name="pc" bitsize="32" regnum="15"/>'
    '<reg name="xpsr" bitsize="32" regnum="25"/></feature>'
)


class FakeStub:
    """features: what it says that it can do. answer: called before the stub's own answers; what it returns is sent as it is (bytes of the
    wire), None leaves the answer to the stub, b"" sends nothing."""

    def __init__(
        self,
        features: str = "PacketSize=200;qXfer:features:read+",
        answer: Callable[[bytes], bytes | None] | None = None,
        binary: bool = False,
    ) -> None:
        self.features, self.answer, self.binary = features, answer, binary
        self.memory = bytearray(SIZE)
        self.registers = dict.fromkeys(range(26), 0)
        self.asked: list[bytes] = []
        self.acknowledges = True
        self.breakpoints: set[int] = set()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = ("127.0.0.1", self.server.getsockname()[1])
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self.server.accept()
            with sock:
                reader = PacketReader()
                while data := sock.recv(1 << 16):
                    for kind, request in reader.feed(data):
                        if kind == "packet":
                            self._one(sock, request)

    def _one(self, sock: socket.socket, request: bytes) -> None:
        self.asked.append(request)
        own = self.answer(request) if self.answer is not None else None
        if own is not None:
            sock.sendall(own)
            return
        head = b"+" if self.acknowledges else b""
        sock.sendall(head + packet(self._reply(request)))

    def _reply(self, r: bytes) -> bytes:
        if r.startswith(b"qSupported"):
            return self.features.encode()
        if r == b"QStartNoAckMode":
            self.acknowledges = False
            return b"OK"
        if r.startswith(b"qXfer:features:read:"):
            name, _, window = r[20:].partition(b":")
            start, size = (int(v, 16) for v in window.split(b","))
            text = {b"target.xml": TARGET, b"core.xml": CORE}[name].encode()
            return (b"m" if start + size < len(text) else b"l") + text[start : start + size]
        if r[:1] in (b"M", b"X"):
            place, _, data = r[1:].partition(b":")
            at, size = (int(v, 16) for v in place.split(b","))
            if r[:1] == b"X":
                if not self.binary:
                    return b""
                content = data
            else:
                content = bytes.fromhex(data.decode())
            if size == 0:
                return b"OK"
            if not BASE <= at <= BASE + SIZE - size or len(content) != size:
                return b"E14"
            self.memory[at - BASE : at - BASE + size] = content
            return b"OK"
        if r[:1] == b"m":
            at, size = (int(v, 16) for v in r[1:].split(b","))
            return (
                self.memory[at - BASE : at - BASE + size].hex().encode() if BASE <= at <= BASE + SIZE - size else b"E14"
            )
        if r[:1] == b"p":
            return self.registers[int(r[1:], 16)].to_bytes(4, "little").hex().encode()
        if r[:1] == b"P":
            number, _, value = r[1:].partition(b"=")
            self.registers[int(number, 16)] = int.from_bytes(bytes.fromhex(value.decode()), "little")
            return b"OK"
        if r[:2] == b"Z0":
            self.breakpoints.add(int(r[3:].split(b",")[0], 16))
            return b"OK"
        if r[:2] == b"z0":
            self.breakpoints.discard(int(r[3:].split(b",")[0], 16))
            return b"OK"
        if r == b"c":
            self.registers[15] = min(self.breakpoints, default=0)
            return b"T05thread:01;"
        if r.startswith(b"qRcmd,"):
            return b"OK"
        return b""


def noise(rng: random.Random) -> bytes:
    """Bytes that a broken wire might give: packets with wrong checksums, cut off, without an end, of nonsense."""
    body = rng.randbytes(rng.randrange(40))
    kind = rng.randrange(6)
    if kind == 0:
        return body
    if kind == 1:
        return b"$" + body + b"#" + rng.randbytes(2)
    if kind == 2:
        return b"$" + body
    if kind == 3:
        return packet(body)[: rng.randrange(1, len(body) + 4)]
    if kind == 4:
        return b"+" * rng.randrange(5) + b"-" * rng.randrange(3) + b"#" * rng.randrange(3)
    return b"$" + b"}" * rng.randrange(3) + b"*" * rng.randrange(4) + b"#00"


__all__ = ["BASE", "FakeStub", "noise", "unescaped"]
