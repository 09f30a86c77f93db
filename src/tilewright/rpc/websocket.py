"""WebSockets (RFC 6455) and the pages around them, over connections of asyncio: a browser has no other sockets."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import secrets
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import numpy as np

from tilewright.rpc.base import is_loopback
from tilewright.rpc.streams import PIECE, Stream
from tilewright.support.errors import RPCError

PATH = "/ws"
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""Of the protocol: section 1.3."""
LONGEST_HEAD = 1 << 14
CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
"""Kinds of frames: section 5.2."""
LONGEST_CONTROL = 125


@dataclass(frozen=True)
class Request:
    """A question of HTTP."""

    method: str
    path: str
    headers: Mapping[str, str]


class WebSocket(Stream):
    """A connection whose bytes go in binary frames. client: whether this side has connected, and masks what it sends."""

    def __init__(self, stream: Stream, client: bool) -> None:
        super().__init__(stream.reader, stream.writer, stream.silence)
        self._below, self._client = stream, client
        self._left, self._mask, self._at = 0, b"", 0  # of the frame that is being read
        self._ended = False

    async def _received(self) -> bytes:
        while self._left == 0 and not self._ended:
            await self._next_frame()
        if self._ended:
            return b""
        data = await self._below.read()
        if not data:
            raise ConnectionError("the connection ended in the middle of a frame")
        self._below.unread(data[self._left :])
        data = data[: self._left]
        found = _masked(data, self._mask, self._at)
        self._left, self._at = self._left - len(data), self._at + len(data)
        return found

    async def _next_frame(self) -> None:
        try:
            first, second = await self._below.exactly(2)
        except ConnectionError:
            self._ended = True
            return
        kind, size = first & 0x0F, second & 0x7F
        if bool(second & 0x80) == self._client:
            raise ConnectionError("a frame of a WebSocket is masked by the wrong side")
        if size == 126:
            (size,) = struct.unpack(">H", await self._below.exactly(2))
        elif size == 127:
            (size,) = struct.unpack(">Q", await self._below.exactly(8))
        mask = await self._below.exactly(4) if second & 0x80 else b""
        if kind in (BINARY, CONTINUED):
            self._left, self._mask, self._at = size, mask, 0
            return
        if kind not in (CLOSE, PING, PONG) or size > LONGEST_CONTROL or not first & 0x80:
            raise ConnectionError(f"a frame of a WebSocket is not binary (kind {kind}, {size} bytes)")
        content = _masked(await self._below.exactly(size), mask, 0)
        if kind == PING:
            await self._sent(content, PONG)
        elif kind == CLOSE:
            self._ended = True
            await self._sent(content[:2], CLOSE)

    async def _sent(self, data: bytes, kind: int = BINARY) -> None:
        size = len(data)
        mask_bit = 0x80 if self._client else 0
        if size < 126:
            head = struct.pack(">BB", 0x80 | kind, mask_bit | size)
        elif size < 1 << 16:
            head = struct.pack(">BBH", 0x80 | kind, mask_bit | 126, size)
        else:
            head = struct.pack(">BBQ", 0x80 | kind, mask_bit | 127, size)
        if self._client:
            mask = secrets.token_bytes(4)
            head, data = head + mask, _masked(data, mask, 0)
        await self._below.write(head + data)

    async def close(self) -> None:
        """Say that the connection ends, and end it."""
        if not self._ended:
            self._ended = True
            with contextlib.suppress(OSError):
                await self._sent(b"\x03\xe8", CLOSE)
        await super().close()


def _masked(data: bytes, mask: bytes, at: int) -> bytes:
    """Masks, or takes a mask away; at: how many bytes of the frame came before."""
    if not mask or not data:
        return data
    turn = at % 4
    repeated = np.frombuffer((mask[turn:] + mask[:turn]) * (len(data) // 4 + 1), np.uint8, len(data))
    return (np.frombuffer(data, np.uint8) ^ repeated).tobytes()


def _accept(key: str) -> str:
    return base64.b64encode(hashlib.sha1((key + GUID).encode(), usedforsecurity=False).digest()).decode()


async def _head(stream: Stream) -> list[str]:
    """The lines of a question or an answer, before its content."""
    text = bytearray()
    while not text.endswith(b"\r\n\r\n"):
        if len(text) > LONGEST_HEAD:
            raise RPCError(f"the head of its HTTP message is longer than {LONGEST_HEAD} bytes")
        text += await stream.exactly(1)
    return text.decode("latin-1").split("\r\n")


def _headers(lines: Sequence[str]) -> dict[str, str]:
    pairs = [line.partition(":") for line in lines if line]
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


async def request(stream: Stream) -> Request:
    """The question with which a connection begins. Raises RPCError if it is none."""
    first, *rest = await _head(stream)
    method, _, path = first.partition(" ")
    path, _, version = path.rpartition(" ")
    if not version.startswith("HTTP/1."):
        raise RPCError("it does not speak HTTP")
    return Request(method, unquote(path.partition("?")[0]), _headers(rest))


async def respond(stream: Stream, status: str, kind: str = "text/plain; charset=utf-8", content: bytes = b"") -> None:
    """Answer a question. The page may use memory that threads share."""
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\nConnection: close\r\n"
        "Cross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Embedder-Policy: require-corp\r\nCache-Control: no-cache\r\n\r\n"
    )
    await stream.write(head.encode() + content)


def is_trusted(asked: Request, origins: Sequence[str], listens_at: str) -> bool:
    """Whether a page may connect: one of this host, or of a listed origin ("*": any). Programs that are no browsers name no origin.
    A proxy of this machine alone takes only its own names for the host, which another name could resolve to."""
    host, origin = asked.headers.get("host", ""), asked.headers.get("origin")
    try:
        if is_loopback(listens_at) and not is_loopback(urlsplit("//" + host).hostname or ""):
            return False
        return origin is None or origin in origins or "*" in origins or urlsplit(origin).netloc == host
    except ValueError:  # it is no address
        return False


async def accept(stream: Stream, asked: Request) -> WebSocket:
    """The server's half of the opening. Raises RPCError if the question asks for no WebSocket."""
    headers = asked.headers
    key = headers.get("sec-websocket-key", "")
    if headers.get("upgrade", "").lower() != "websocket" or headers.get("sec-websocket-version") != "13" or not key:
        await respond(stream, "426 Upgrade Required", content=b"a WebSocket of version 13 is served here\n")
        raise RPCError("it asks for no WebSocket of version 13")
    answer = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
    answer += [f"Sec-WebSocket-Accept: {_accept(key)}", "", ""]
    await stream.write("\r\n".join(answer).encode())
    return WebSocket(stream, client=False)


async def open_url(url: str, silence: float = 60, seconds: float = 20) -> WebSocket:
    """A connection to ws://host:port/path. Raises RPCError if none is served there."""
    parts = urlsplit(url)
    if parts.scheme != "ws" or not parts.hostname:
        raise RPCError(f"the address of a WebSocket is ws://host:port/path, but {url!r} was given")
    key = base64.b64encode(secrets.token_bytes(16)).decode()
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80, limit=PIECE)
        stream = Stream(reader, writer, silence)
        question = (
            f"GET {parts.path or '/'} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        await stream.write(question.encode())
        first, *rest = await _head(stream)
    if " 101 " not in first + " " or _headers(rest).get("sec-websocket-accept") != _accept(key):
        await stream.close()
        raise RPCError(f"{url} serves no WebSocket: it answered {first!r}")
    return WebSocket(stream, client=True)
