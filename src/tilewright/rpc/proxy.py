"""A proxy: servers and clients that cannot reach each other connect to it, and it passes their bytes on. Browsers connect by a WebSocket.

Both send their key, as to a server. A pair with one key is joined. With a tracker, the proxy registers each server that waits, and clients
come with the key that the tracker gave them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tilewright.rpc import base, files, handshake, tls, websocket
from tilewright.rpc.base import logger
from tilewright.rpc.limits import PROXY, Limits
from tilewright.rpc.process import Child, Served
from tilewright.rpc.registration import Registration
from tilewright.rpc.streams import Stream, join, serve_streams
from tilewright.runtime.packed_func import global_func
from tilewright.support.errors import RPCError

GREETED_IN = 10.0
"""Seconds that who connects has for the handshake."""
MIME_MAP = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "mjs": "text/javascript; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
    "wasm": "application/wasm",
}
"""Types of files that the proxy serves, by the ends of their names."""


class Proxy(Served):
    """A proxy in a process of its own, which ends with this object and with this process.

    host: the address to listen on. port, port_end: the first free port of [port, port_end). web_port: the port for browsers, with
    WebSockets at /ws and pages; 0: none. timeout_client, timeout_server: seconds that either waits for the other. tracker_addr: (host,
    port) of a tracker that gets the servers. index_page: the file that browsers get as "/". resource_files: more files, as "/<name>", or
    in pairs with the folder that they appear in: [("/", "dist/tilewright.js")].

    web_origins: pages of other hosts, such as "https://example.org", that may connect ("*": all may); those of this proxy may.
    custom_addr: the address of the proxy that the tracker tells clients. key_file: a file with a secret that both sides, the tracker and
    the proxy must know. tls_cert, tls_key, tls_ca: as in `Server`. limits: what others may use up.
    """

    def __init__(
        self,
        host: str,
        port: int = 9091,
        port_end: int = 9199,
        web_port: int = 0,
        timeout_client: float = 600,
        timeout_server: float = 600,
        tracker_addr: tuple[str, int] | None = None,
        index_page: str | os.PathLike[str] | None = None,
        resource_files: Sequence[str | os.PathLike[str] | tuple[str, str | os.PathLike[str]]] | None = None,
        web_origins: Sequence[str] = (),
        custom_addr: str | None = None,
        silent: bool = False,
        key_file: str | os.PathLike[str] | None = None,
        tls_cert: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        tls_ca: str | os.PathLike[str] | None = None,
        limits: Limits = PROXY,
    ) -> None:
        secret, trusted = handshake.read_secret(key_file), tls.connecting(tls_ca)
        certified = tls.listening(tls.TLS(tls_cert, tls_key))
        pages = _pages(index_page, resource_files or ())
        listener, self.port = base.listen(host, port, port_end)
        self.host, self.web_port, web = host, 0, None
        if web_port:
            try:
                web, self.web_port = base.listen(host, web_port, web_port + 1)
            except RPCError:
                listener.close()
                raise

        def registration(key: str) -> Registration | None:
            return tracker_addr and Registration(tracker_addr, key, self.port, custom_addr, secret, trusted)

        async def serve() -> None:
            stopped = asyncio.Event()
            pairs = _Pairs(registration, secret, timeout_client, timeout_server)
            work = [serve_streams(listener, pairs.connected, stopped, certified, limits)]
            if web is not None:
                site = _Site(pages, web_origins, host, pairs)
                work.append(serve_streams(web, site.connected, stopped, certified, limits))
            await asyncio.gather(*work)

        self._process = Child(lambda: asyncio.run(serve()))
        for each in (listener, web):
            if each is not None:
                each.close()
        if not silent and secret is None and not base.is_loopback(host):
            logger.warning("the proxy listens on %s:%s: whoever reaches it can use its servers", host, self.port)


def _pages(
    index: str | os.PathLike[str] | None,
    resources: Sequence[str | os.PathLike[str] | tuple[str, str | os.PathLike[str]]],
) -> dict[str, Path]:
    """The files by their paths in addresses. Raises RPCError for one that is not there."""
    found = {} if index is None else {"/": Path(index)}
    for resource in resources:
        folder, file = resource if isinstance(resource, tuple) else ("/", resource)
        folder = f"/{folder.strip('/')}/".replace("//", "/")
        found[folder + Path(file).name] = Path(file)
    for path in found.values():
        if not path.is_file():
            raise RPCError(f"the file {os.fspath(path)!r}, which the proxy is to serve to browsers, does not exist")
    return found


class _Waiting:
    """A side that waits for the other one of its pair."""

    def __init__(self, stream: Stream, greeting: str, registration: Registration | None) -> None:
        self.stream, self.greeting, self.registration = stream, greeting, registration
        self.other: asyncio.Future[_Waiting] = asyncio.get_running_loop().create_future()
        self.served = asyncio.Event()  # what this side's connection was kept for is over


class _Pairs:
    """Servers and clients that wait, by their keys."""

    def __init__(
        self,
        registration: Callable[[str], Registration | None],
        secret: bytes | None,
        timeout_client: float,
        timeout_server: float,
    ) -> None:
        self.registration, self.secret = registration, secret
        self.seconds = {"client": timeout_client, "server": timeout_server}
        self.waiting: dict[str, list[_Waiting]] = {"client": [], "server": []}

    async def connected(self, stream: Stream) -> None:
        """Serve one side, until it is gone or its pair is."""
        async with asyncio.timeout(GREETED_IN):
            greeting = await handshake.arun(stream, handshake.admit(self.secret))
        side, _, rest = greeting.partition(":")
        key = rest.split(" ")[0]
        if side not in self.waiting:
            raise RPCError(f"it is neither a client nor a server: {side[:20]!r}")
        registration = self.registration(key) if side == "server" else None
        this = _Waiting(stream, greeting, registration)
        tasks = [] if registration is None else [asyncio.ensure_future(registration.run())]
        try:
            await self._meet(this, side, key)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(stream.close(), *tasks, return_exceptions=True)

    def _found(self, side: str, key: str) -> _Waiting | None:
        """Who waits on this side with this key; with a tracker, the server to which it has sent a client with the key."""
        for each in self.waiting[side]:
            if each.registration is not None:
                if each.registration.take(key):
                    return each
            elif each.greeting.partition(":")[2].split(" ")[0] == key:
                return each
        return None

    async def _meet(self, this: _Waiting, side: str, key: str) -> None:
        if this.registration is None:
            if (other := self._found("server" if side == "client" else "client", key)) is not None:
                await self._pair(this, other)
                return
            if self._found(side, key) is not None:
                await this.stream.write(handshake.code_and_text(base.RPC_CODE_DUPLICATE))
                raise RPCError(f"another {side} waits with the key {key!r}")
        self.waiting[side].append(this)
        try:
            gone = this.stream.waiting()
            events: set[asyncio.Future[Any]] = {gone, this.other}
            if side == "client" and handshake.WAITS in this.greeting.split(" "):
                found, _ = await asyncio.wait(
                    events, timeout=min(handshake.TOLD_IN, self.seconds[side]), return_when=asyncio.FIRST_COMPLETED
                )
                if not found:
                    reason = f"no server with the key {key!r} is free there"
                    await this.stream.write(handshake.code_and_text(handshake.RPC_CODE_WAITS, reason))
            await asyncio.wait(events, timeout=self.seconds[side], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if this in self.waiting[side]:
                self.waiting[side].remove(this)
        if this.other.done():
            await this.served.wait()
        elif gone.done():
            raise RPCError(f"the {side} with the key {key!r} has not waited for its counterpart")
        else:
            await this.stream.write(handshake.code_and_text(base.RPC_CODE_MISMATCH))
            raise RPCError(f"no counterpart came for the {side} with the key {key!r} in {self.seconds[side]:g} s")

    async def _pair(self, this: _Waiting, other: _Waiting) -> None:
        """Join two sides: each hears the other's key first."""
        for waiting in self.waiting.values():
            if other in waiting:
                waiting.remove(other)
        other.other.set_result(this)
        logger.info("%s:%s and %s:%s are joined", *this.stream.peer, *other.stream.peer)
        try:
            for one, two in ((this, other), (other, this)):
                await one.stream.write(handshake.code_and_text(base.RPC_CODE_SUCCESS, two.greeting))
            await join(this.stream, other.stream)
        finally:
            other.served.set()


class _Site:
    """The port for browsers."""

    def __init__(self, pages: dict[str, Path], origins: Sequence[str], host: str, pairs: _Pairs) -> None:
        self.pages, self.origins, self.host, self.pairs = pages, origins, host, pairs

    async def connected(self, stream: Stream) -> None:
        """Answer with a page, or serve a WebSocket."""
        async with asyncio.timeout(GREETED_IN):
            asked = await websocket.request(stream)
        if not websocket.is_trusted(asked, self.origins, self.host):
            await websocket.respond(stream, "403 Forbidden", content=b"the proxy is not for pages of this origin\n")
            raise RPCError(f"the origin {asked.headers.get('origin')!r} may not connect (--web-origin)")
        if asked.path == websocket.PATH:
            await self.pairs.connected(await websocket.accept(stream, asked))
        elif asked.method != "GET":
            await websocket.respond(stream, "405 Method Not Allowed", content=b"only GET is answered\n")
        elif (page := self.pages.get(asked.path)) is None:
            names = ", ".join(sorted(self.pages)) or "none"
            await websocket.respond(
                stream, "404 Not Found", content=f"there is no {asked.path}; pages are: {names}\n".encode()
            )
        else:
            kind = MIME_MAP.get(page.suffix.lstrip("."), "application/octet-stream")
            await websocket.respond(stream, "200 OK", kind, page.read_bytes())


def websocket_proxy_server(url: str, key: str = "") -> None:
    """Serve the clients that a proxy sends over a WebSocket, such as "ws://127.0.0.1:8888/ws", one after the other in this process, for
    ever. Raises RPCError if there is no proxy, or the key is in use there."""
    asyncio.run(_serve_clients(url, key))


async def _serve_clients(url: str, key: str) -> None:
    while True:
        link = await websocket.open_url(url)
        code, client = await handshake.arun(link, handshake.enter("server:" + key, None, url))
        if code == base.RPC_CODE_DUPLICATE:
            raise RPCError(f"the key {key!r} is in use at {url}")
        if code == base.RPC_CODE_SUCCESS:
            ours, theirs = socket.socketpair()
            reader, writer = await asyncio.open_connection(sock=theirs)
            with tempfile.TemporaryDirectory(prefix="tilewright-web-") as folder:
                files.offer(Path(folder))
                serve = asyncio.to_thread(global_func("rpc.Serve"), ours.detach(), client)
                await asyncio.gather(serve, join(link, Stream(reader, writer)))
        elif code == base.RPC_CODE_MISMATCH:  # no client came in time
            with contextlib.suppress(OSError):
                await link.close()
        else:
            raise RPCError(f"{url} is no proxy: it answered {code:#x}")
