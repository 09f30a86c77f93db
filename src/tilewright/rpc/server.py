"""A server: it lets one client after the other use this machine, each session in a process and a folder of its own.

What a session does wrong (it crashes, hangs, fills memory) ends that session alone. A session ends when its client says so, when the client
is gone, or when its time is over; then its process is killed with all that it started, and its folder is removed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from tilewright.rpc import base, handshake, tls
from tilewright.rpc.base import logger
from tilewright.rpc.limits import SERVER, Limits
from tilewright.rpc.process import Served, started
from tilewright.rpc.registration import Registration
from tilewright.rpc.serving import Serving, Terms
from tilewright.runtime.packed_func import global_func
from tilewright.support.errors import RPCError


class Server(Served):
    """A server in a process of its own, which ends with this object and with this process.

    host: the address to listen on: of this machine only by default; with "0.0.0.0" others can connect too. port, port_end: the first free
    port of [port, port_end). is_proxy: host and port are those of a proxy, which the server connects to, and which sends it clients with
    the same key. tracker_addr: (host, port) of a tracker, which hands the server out under `key`; a proxy tells its tracker itself.
    load_library: libraries to load before the first session, with colons between. custom_addr: the address that the tracker tells clients.
    no_fork: ignored; every session has a process of its own. server_init_callback: called in the server's process before it listens.
    timeout: seconds that a session may last. Raises RPCError where the server cannot start.

    key_file: a file with a secret of at least 16 bytes, which clients, the tracker and this server prove to each other that they know.
    tls_cert, tls_key: the certificate that clients are shown, and its private key, if that is in another file. tls_ca: a file of
    certificates; the tracker or the proxy must have one of them, or one that they have signed. limits: what clients may use up.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9091,
        port_end: int = 9199,
        is_proxy: bool = False,
        tracker_addr: tuple[str, int] | None = None,
        key: str = "",
        load_library: str | None = None,
        custom_addr: str | None = None,
        silent: bool = False,
        no_fork: bool = False,
        server_init_callback: Callable[[], Any] | None = None,
        reuse_addr: bool = True,
        timeout: float | None = None,
        key_file: str | os.PathLike[str] | None = None,
        tls_cert: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        tls_ca: str | os.PathLike[str] | None = None,
        limits: Limits = SERVER,
    ) -> None:
        if not key and (is_proxy or tracker_addr is not None):
            raise RPCError(
                f"a server that registers with a {'proxy' if is_proxy else 'tracker'} needs a key: key='...'"
            )
        certified = tls.listening(tls.TLS(tls_cert, tls_key))
        secret, trusted = handshake.read_secret(key_file), tls.connecting(tls_ca)
        terms = Terms(key, secret, timeout, silent, limits, certified, trusted)
        self.host, self.port, self.key, self.custom_addr = host, port, key, custom_addr
        listener = None
        if not is_proxy:
            listener, self.port = base.listen(host, port, port_end, reuse_addr)

        async def serve() -> None:
            serving = Serving(terms)
            if listener is None:
                await serving.wait_at((host, port))
                return
            registration = None
            if tracker_addr is not None:
                registration = Registration(tracker_addr, key, self.port, custom_addr, secret, trusted)
            await serving.listen(listener, registration)

        def prepare() -> None:
            for path in (load_library or "").split(":"):
                if path:
                    global_func("runtime.ModuleLoadFromFile")(path)
            if server_init_callback is not None:
                server_init_callback()

        try:
            self._process = started(prepare, lambda: asyncio.run(serve()))
        except RPCError:
            if listener is not None:
                listener.close()
            raise
        if listener is not None:
            listener.close()
            if not silent:
                self._tell_who_reaches_it(secret is not None, tracker_addr)

    def _tell_who_reaches_it(self, guarded: bool, tracker: tuple[str, int] | None) -> None:
        if not base.is_loopback(self.host):
            guard = "knows its key file" if guarded else "reaches it"
            logger.warning(
                "the server listens on %s:%s: whoever %s can run code on this machine", self.host, self.port, guard
            )
        elif tracker is not None and not base.is_loopback(tracker[0]) and self.custom_addr is None:
            logger.warning(
                "the tracker %s:%s sends clients of other machines, but the server listens on %s, where they cannot connect"
                " (--host 0.0.0.0 lets them)",
                *tracker,
                self.host,
            )
