"""Connections of asyncio: exact reads, two of them joined, and plain sockets before those with TLS."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
from collections.abc import Awaitable, Callable

from tilewright.rpc import base
from tilewright.rpc.limits import Limits, allow_files
from tilewright.rpc.process import is_orphan
from tilewright.support.errors import RPCError

PIECE = 1 << 18
"""Bytes that are passed on at a time."""
GREETED_IN = 10.0
"""Seconds that who connects has for the handshake of TLS."""
LOOKS = 0.5
"""Seconds between two looks at the process that started this one."""
FLUSHED_IN = 5.0
"""Seconds that what was written has to leave when a connection is closed."""


class Raw:
    """A socket from which no byte more is read than is asked for."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock, self._loop = sock, asyncio.get_running_loop()

    async def exactly(self, count: int) -> bytes:
        """So many bytes. Raises ConnectionError if the other side closes the connection first."""
        parts = []
        while count > 0:
            part = await self._loop.sock_recv(self._sock, min(count, PIECE))
            if not part:
                raise ConnectionError("the other side has closed the connection")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    async def write(self, data: bytes) -> None:
        """Send these."""
        await self._loop.sock_sendall(self._sock, data)


class Stream:
    """A connection whose bytes are read as they come. silence: seconds in which the other side takes nothing, after which it is lost."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silence: float = 60) -> None:
        self.reader, self.writer, self.silence = reader, writer, silence
        self._held = b""
        self._ahead: asyncio.Task[bytes] | None = None
        if (sock := self.socket) is not None:
            base.keep_alive(sock)

    @property
    def socket(self) -> socket.socket | None:
        """The socket below."""
        found: socket.socket | None = self.writer.get_extra_info("socket")
        return found

    @property
    def peer(self) -> tuple[str, int]:
        """The address of the other side."""
        host, port, *_ = self.writer.get_extra_info("peername") or ("?", 0)
        return host, port

    async def _received(self) -> bytes:
        return await self.reader.read(PIECE)

    async def _sent(self, data: bytes) -> None:
        self.writer.write(data)
        async with asyncio.timeout(self.silence):
            await self.writer.drain()

    async def read(self) -> bytes:
        """The next bytes; none at the end."""
        if self._held:
            held, self._held = self._held, b""
            return held
        if self._ahead is not None:
            task, self._ahead = self._ahead, None
            return await task
        return await self._received()

    async def exactly(self, count: int) -> bytes:
        """So many bytes. Raises ConnectionError if the other side closes the connection first."""
        found = bytearray()
        while len(found) < count:
            part = await self.read()
            if not part:
                raise ConnectionError("the other side has closed the connection")
            found += part
        self.unread(bytes(found[count:]))
        return bytes(found[:count])

    def unread(self, data: bytes) -> None:
        """Let the next read begin with these."""
        self._held = data + self._held

    async def write(self, data: bytes) -> None:
        """Send these. Raises TimeoutError if the other side does not take them."""
        await self._sent(data)

    def waiting(self) -> asyncio.Task[bytes]:
        """The next read, begun. Who waits for something else learns of the end of the connection by it; what it reads is not lost."""
        if self._ahead is None:
            self._ahead = asyncio.ensure_future(self._received())
        return self._ahead

    async def close(self) -> None:
        """Send what is written yet, and end the connection."""
        if self._ahead is not None:
            self._ahead.cancel()
            await asyncio.gather(self._ahead, return_exceptions=True)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            self.writer.close()
            async with asyncio.timeout(FLUSHED_IN):
                await self.writer.wait_closed()
        self.writer.transport.abort()


async def of_socket(sock: socket.socket, silence: float = 60) -> Stream:
    """A stream over a connected socket, which belongs to it from now on."""
    return Stream(*await asyncio.open_connection(sock=sock, limit=PIECE), silence)


async def secure(
    sock: socket.socket, context: ssl.SSLContext, host: str, seconds: float, silence: float = 60
) -> Stream:
    """TLS over a connected socket, as the side that connects. Raises OSError."""
    reader, writer = await asyncio.open_connection(
        sock=sock, limit=PIECE, ssl=context, server_hostname=host, ssl_handshake_timeout=seconds
    )
    return Stream(reader, writer, silence)


async def secured(sock: socket.socket, context: ssl.SSLContext, seconds: float, silence: float = 60) -> Stream:
    """TLS over an accepted socket, as the side that listens. Raises OSError."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=PIECE, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.connect_accepted_socket(
        lambda: protocol, sock, ssl=context, ssl_handshake_timeout=seconds
    )
    return Stream(reader, asyncio.StreamWriter(transport, protocol, reader, loop), silence)


async def _forward(source: Stream, target: Stream) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read():
            await target.write(data)


async def join(one: Stream, other: Stream) -> None:
    """Pass on what each of two connections sends, until one ends; then both are closed."""
    tasks = [asyncio.ensure_future(_forward(one, other)), asyncio.ensure_future(_forward(other, one))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(one.close(), other.close())


async def serve_streams(
    listener: socket.socket,
    serve: Callable[[Stream], Awaitable[None]],
    stopped: asyncio.Event,
    context: ssl.SSLContext | None,
    limits: Limits,
) -> None:
    """Serve who connects, until it is stopped, a signal comes, or the process that started this one is gone. Connections beyond the
    limit are closed, as are those whose service raises OSError or RPCError."""
    tasks = set[asyncio.Task[None]]()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    allow_files(limits.connections + 64)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = Stream(reader, writer, limits.silence)
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            if len(tasks) > limits.connections:
                raise RPCError(f"there are {limits.connections} connections already (--max-connections)")
            await serve(stream)
        except asyncio.CancelledError:  # all are closed
            pass
        except (OSError, RPCError) as error:
            base.logger.info("%s:%s is disconnected: %s", *stream.peer, str(error) or "it is too slow")
        finally:
            await stream.close()
            tasks.discard(task)

    seconds = None if context is None else GREETED_IN
    server = await asyncio.start_server(
        connected, sock=listener, limit=PIECE, ssl=context, ssl_handshake_timeout=seconds
    )
    while not stopped.is_set() and not is_orphan():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), LOOKS)
    server.close()
    for task in list(tasks):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
