"""What a server's process does: it greets clients, and gives each its turn in a process and a folder of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import select
import shutil
import signal
import socket
import ssl
import tempfile
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.rpc import base, client, files, handshake, streams
from tilewright.rpc.base import logger
from tilewright.rpc.limits import Limits, allow_files
from tilewright.rpc.process import Child, end_with_parent, is_orphan
from tilewright.rpc.registration import Registration
from tilewright.runtime.packed_func import global_func
from tilewright.support.errors import RPCError
from tilewright.support.files import remove_left_folders

FOLDERS = "tilewright-rpc-"
"""How the names of sessions' folders begin; the number of the server's process follows."""
GREETED_IN = 5.0
"""Seconds that a client has for the handshake."""
WATCH = 0.05
"""Seconds between two looks at a session and its client, at most."""
PARENT = 0.3
"""Seconds between two looks at the process that started the server."""
LEAVES_IN = 1.0
"""Seconds that a session has to end once its client is gone."""
AGAIN_IN = 2.0
"""Seconds between two tries to reach a proxy."""


@dataclass
class Terms:
    """Whom a server serves, and how."""

    key: str
    secret: bytes | None
    timeout: float | None
    silent: bool
    limits: Limits
    certified: ssl.SSLContext | None  # for who connects to the server
    trusted: ssl.SSLContext | None  # for trackers and proxies that it connects to


def _split(key: str) -> tuple[str, float, bool]:
    """The name in "client:<name> <options>", the seconds that the client wants the session to last at most, and whether it wants to know
    that it waits for its turn."""
    name, *options = key.split(" ")
    found = [float(m[1]) for m in (re.fullmatch(r"-timeout=(\d+)", option) for option in options) if m]
    return name, min((seconds for seconds in found if seconds), default=float("inf")), handshake.WAITS in options


class Serving:
    """The loop of a server's process, until the process that started it is gone, or a signal comes."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._sockets: set[socket.socket] = set()  # what a session's process must not keep open
        self._registration: Registration | None = None
        self._clients: set[asyncio.Task[None]] = set()
        self._joined: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Semaphore(terms.limits.sessions)

    async def listen(self, listener: socket.socket, registration: Registration | None) -> None:
        """Serve who connects; the keys of clients are those that a tracker gave them, if there is a registration."""
        tasks = [self._accept(listener)]
        if registration is not None:
            self._registration, registration.room = registration, self.terms.limits.sessions
            tasks.append(registration.run())
        await self._until_stopped(*tasks)

    async def wait_at(self, proxy: tuple[str, int]) -> None:
        """Serve the clients that a proxy sends."""
        await self._until_stopped(self._visit(proxy))

    async def _until_stopped(self, *work: Coroutine[Any, Any, None]) -> None:
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        remove_left_folders(FOLDERS)
        tasks = [asyncio.ensure_future(w) for w in work]
        while not stopped.is_set() and not is_orphan() and not any(t.done() for t in tasks):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), PARENT)
        for task in [*tasks, *self._clients]:
            task.cancel()
        for found in await asyncio.gather(*tasks, *self._clients, return_exceptions=True):
            if isinstance(found, Exception):
                raise found

    # ---- clients that connect

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        self._sockets.add(listener)
        allow_files(4 * self.terms.limits.connections + 64)
        while True:
            try:
                sock, addr = await loop.sock_accept(listener)
            except OSError as error:  # the client is gone already, or there are too many files
                logger.debug("no connection is accepted: %s", error)
                await asyncio.sleep(WATCH)
                continue
            where = f"{addr[0]}:{addr[1]}"
            if len(self._clients) >= self.terms.limits.connections:
                self._tell(
                    f"{where} is refused: there are {len(self._clients)} connections already (--max-connections)"
                )
                sock.close()
                continue
            task = asyncio.ensure_future(self._client(sock, where))
            self._clients.add(task)
            task.add_done_callback(self._clients.discard)

    async def _client(self, sock: socket.socket, where: str) -> None:
        try:
            with self._owned(sock):
                async with asyncio.timeout(GREETED_IN):
                    plain = await self._plain(sock)
                with self._owned(plain):
                    await self._serve(plain, where)
        except TimeoutError:
            self._tell(f"{where} does not finish the handshake in {GREETED_IN:g} s")
        except (OSError, RPCError) as error:
            self._tell(f"{where} is refused: {error}")

    async def _serve(self, sock: socket.socket, where: str) -> None:
        link = streams.Raw(sock)
        async with asyncio.timeout(GREETED_IN):
            given, limit, told = _split(await handshake.arun(link, handshake.admit(self.terms.secret)))
        key = given.removeprefix("client:")
        if key == given or not (key == self.terms.key if self._registration is None else self._registration.take(key)):
            await link.write(handshake.code_and_text(base.RPC_CODE_MISMATCH))
            self._tell(f"{where} has another key")
            return
        try:
            if await self._has_turn(sock, where, link if told else None):
                try:
                    await link.write(handshake.code_and_text(base.RPC_CODE_SUCCESS, "server:" + self.terms.key))
                    await self._session(sock, where, limit)
                finally:
                    self._turn.release()
        finally:
            if self._registration is not None:
                self._registration.free()

    async def _has_turn(self, sock: socket.socket, where: str, told: streams.Raw | None) -> bool:
        """Wait for the client's turn; False for one that goes away before. told: the connection of one who wants to know that it waits."""
        turn, begun = asyncio.ensure_future(self._turn.acquire()), True
        try:
            while not turn.done() and not _is_gone(sock):
                await asyncio.wait({turn}, timeout=handshake.TOLD_IN)
                if begun and not turn.done():
                    self._tell(f"{where} waits for its turn")
                    if told is not None:
                        reason = f"it serves other clients (--max-sessions {self.terms.limits.sessions})"
                        with contextlib.suppress(OSError):
                            await told.write(handshake.code_and_text(handshake.RPC_CODE_WAITS, reason))
                begun = False
        finally:
            gone = not turn.done() or _is_gone(sock)
            if turn.done() and gone:
                self._turn.release()
            turn.cancel()
        return not gone

    # ---- clients by way of a proxy

    async def _visit(self, proxy: tuple[str, int]) -> None:
        where, told = f"the proxy {proxy[0]}:{proxy[1]}", ""
        while True:
            try:
                sock = await self._connected(proxy)
                with self._owned(sock):
                    async with asyncio.timeout(GREETED_IN):
                        plain = await self._plain(sock, proxy[0])
                    with self._owned(plain):
                        enter = handshake.enter("server:" + self.terms.key, self.terms.secret, where)
                        code, greeting = await handshake.arun(streams.Raw(plain), enter)
                        if code == base.RPC_CODE_SUCCESS:
                            told = ""
                            await self._session(plain, f"a client of {where}", _split(greeting)[1])
                            continue
                if code == base.RPC_CODE_MISMATCH:  # no client came in time
                    continue
                reason = (
                    "the key is in use there"
                    if code == base.RPC_CODE_DUPLICATE
                    else f"it is no proxy: it answered {code:#x}"
                )
            except (OSError, RPCError) as error:
                reason = str(error) or type(error).__name__
            if reason != told:
                logger.warning(
                    "%s takes no server with the key %r (%s); it is tried again", where, self.terms.key, reason
                )
            told = reason
            await asyncio.sleep(AGAIN_IN)

    async def _connected(self, addr: tuple[str, int]) -> socket.socket:
        loop = asyncio.get_running_loop()
        family, kind, protocol, _, place = (await loop.getaddrinfo(*addr, type=socket.SOCK_STREAM))[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            base.keep_alive(sock)
            async with asyncio.timeout(GREETED_IN):
                await loop.sock_connect(sock, place)
        except BaseException:
            sock.close()
            raise
        return sock

    # ---- sessions

    async def _plain(self, sock: socket.socket, host: str | None = None) -> socket.socket:
        """A socket with the bytes that TLS carries over this one, if there is TLS; host: that of the other side, if this one connected."""
        context = self.terms.certified if host is None else self.terms.trusted
        if context is None:
            return sock
        silence = self.terms.limits.silence
        if host is None:
            secure = await streams.secured(sock, context, GREETED_IN, silence)
        else:
            secure = await streams.secure(sock, context, host, GREETED_IN, silence)
        ours, theirs = socket.socketpair()
        self._sockets.add(theirs)
        task = asyncio.ensure_future(streams.join(secure, await streams.of_socket(theirs, silence)))
        self._joined.add(task)
        task.add_done_callback(self._joined.discard)
        task.add_done_callback(lambda _: self._sockets.discard(theirs))
        return ours

    @contextlib.contextmanager
    def _owned(self, sock: socket.socket) -> Iterator[None]:
        self._sockets.add(sock)
        try:
            yield
        finally:
            self._sockets.discard(sock)
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    async def _session(self, sock: socket.socket, where: str, limit: float) -> None:
        """A session in a process and a folder of its own, until it is over."""
        folder = Path(tempfile.mkdtemp(prefix=f"{FOLDERS}{os.getpid()}-"))
        limits = self.terms.limits
        others = self._sockets - {sock}
        if self._registration is not None and self._registration.socket is not None:
            others.add(self._registration.socket)
        self._tell(f"session with {where}")

        def body() -> None:
            end_with_parent()
            for other in others:
                with contextlib.suppress(OSError):
                    os.close(other.fileno())
            os.chdir(folder)
            os.environ["TMPDIR"] = tempfile.tempdir = os.fspath(
                folder
            )  # a session is killed: nothing else removes its temporary files
            files.offer(folder, limits.disk)
            client.offer_constructors(self.terms.secret, self.terms.trusted)
            global_func("rpc.Serve")(os.dup(sock.fileno()), where, limits.message, limits.silence, limits.idle)

        child = Child(body)
        try:
            await self._watch(child, sock, where, min(limit, self.terms.timeout or limit))
        finally:
            child.kill()
            shutil.rmtree(folder, ignore_errors=True)
            self._tell(f"the session with {where} has ended")

    async def _watch(self, child: Child, sock: socket.socket, where: str, limit: float) -> None:
        end = time.monotonic() + limit
        gone: float | None = None
        pause = 0.001
        while child.is_alive():
            now = time.monotonic()
            if now > end:
                self._tell(f"the session with {where} took longer than {limit:g} s")
                return
            if gone is None and _is_gone(sock):
                gone = now
            if gone is not None and now > gone + LEAVES_IN:
                return
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, WATCH)

    def _tell(self, text: str) -> None:
        if not self.terms.silent:
            logger.info("%s", text)


def _is_gone(sock: socket.socket) -> bool:
    """Whether the other side has closed the connection."""
    hangup = select.poll()
    hangup.register(sock, getattr(select, "POLLRDHUP", 0))
    return bool(hangup.poll(0))
