"""A server: it lets one client after the other use this machine, each session in a process and a folder of its own.

What a session does wrong (it crashes, hangs, fills memory) ends that session alone. A session ends when its client says so, when the client
is gone, or when its time is over; then its process is killed with all that it started, and its folder is removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilewright.rpc import base, files
from tilewright.rpc.base import TrackerCode, logger
from tilewright.rpc.process import Child, Served, end_with_parent
from tilewright.runtime.packed_func import global_func
from tilewright.support.errors import RPCError

FOLDERS = "tilewright-rpc-"
"""How the names of sessions' folders begin; the number of the server's process follows."""
GREETED_IN = 5.0
"""Seconds that a client has for the handshake; the next one waits meanwhile."""
WATCH = 0.2
"""Seconds between two looks at a session, its client and the process that started the server."""
LEAVES_IN = 1.0
"""Seconds that a session has to end once its client is gone."""
TRACKED = 2.0
"""Seconds between two questions to the tracker, whether the key that it has is still free."""


class Server(Served):
    """A server in a process of its own, which ends with this object and with this process.

    host: the address to listen on; "127.0.0.1" takes connections of this machine only. port, port_end: the first free port of [port,
    port_end). tracker_addr: (host, port) of a tracker, which hands the server out under `key`. load_library: libraries to load before
    the first session, with colons between. custom_addr: the address that the tracker tells clients. no_fork: ignored; every session has a
    process of its own. server_init_callback: called in the server's process before it listens. timeout: seconds that a session may last.
    key_file: a file with a secret of at least 16 bytes, which clients, the tracker and this server prove to each other that they know.
    """

    def __init__(
        self,
        host: str = "0.0.0.0",
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
    ) -> None:
        if is_proxy:
            raise NotImplementedError("a server behind a proxy (is_proxy=True) is not supported yet")
        if tracker_addr is not None and not key:
            raise RPCError("a server that registers with a tracker needs a key: key='...'")
        secret = base.read_secret(key_file)
        listener, self.port = base.listen(host, port, port_end, reuse_addr)
        self.host, self.key, self.custom_addr = host, key, custom_addr
        tracked = _Tracked(tracker_addr, key, self.port, custom_addr, secret) if tracker_addr is not None else None
        loop = _Loop(listener, key, tracked, secret, timeout, silent, os.getpid())

        def body() -> None:
            for path in (load_library or "").split(":"):
                if path:
                    global_func("runtime.ModuleLoadFromFile")(path)
            if server_init_callback is not None:
                server_init_callback()
            loop.run()

        self._process = Child(body)
        listener.close()
        if not silent and not base.is_loopback(host):
            logger.warning(
                "the server listens on %s:%s: whoever reaches it can run code on this machine", host, self.port
            )


def remove_left_folders() -> None:
    """Remove the folders of sessions whose server was killed."""
    for folder in Path(tempfile.gettempdir()).glob(FOLDERS + "*-*"):
        number = folder.name.removeprefix(FOLDERS).split("-")[0]
        try:
            os.kill(int(number), 0)
        except ProcessLookupError:
            shutil.rmtree(folder, ignore_errors=True)
        except (ValueError, PermissionError):
            continue


class _Tracked:
    """A server's connection to its tracker: the key under which it waits for the next client."""

    def __init__(
        self, addr: tuple[str, int], key: str, port: int, custom_addr: str | None, secret: bytes | None
    ) -> None:
        self.addr, self.key, self.port, self.custom_addr, self.secret = addr, key, port, custom_addr, secret
        self.sock: socket.socket | None = None
        self.matchkey: str | None = None
        self._asked = 0.0
        self._given = 0  # questions that found the key handed out

    def offer(self) -> None:
        """Connect if need be, and give the tracker a new key."""
        try:
            if self.sock is None:
                self.sock = base.connect_once(self.addr, GREETED_IN)
                self.sock.settimeout(GREETED_IN)
                self.sock.sendall(struct.pack("<i", base.RPC_TRACKER_MAGIC))
                magic = base.recv_int(self.sock)
                if magic == base.RPC_TRACKER_PROVE:
                    base.prove(self.sock, self.secret, f"the tracker {self.addr[0]}:{self.addr[1]}")
                    magic = base.recv_int(self.sock)
                if magic != base.RPC_TRACKER_MAGIC:
                    raise RPCError(f"{self.addr[0]}:{self.addr[1]} is no tracker")
                self._ask(TrackerCode.UPDATE_INFO, {"key": "server:" + self.key, "addr": [self.custom_addr, self.port]})
            self.matchkey = base.random_key(self.key)
            self._ask(TrackerCode.PUT, self.key, [self.port, self.matchkey], self.custom_addr)
            self._asked = time.monotonic()
        except (OSError, RPCError, ValueError) as error:
            self.lose(error)

    def check(self) -> None:
        """Offer the server again where the tracker was lost, or handed the key to a client that never came."""
        if time.monotonic() < self._asked + TRACKED:
            return
        self._asked = time.monotonic()
        if self.sock is None:
            self.offer()
            return
        try:
            if self.matchkey not in self._ask(TrackerCode.GET_PENDING_MATCHKEYS):
                self._given += 1
                if self._given > 2:  # the client that has it connects at once, or is gone
                    self.offer()
            else:
                self._given = 0
        except (OSError, RPCError, ValueError) as error:
            self.lose(error)

    def _ask(self, *message: Any) -> Any:
        assert self.sock is not None
        base.sendjson(self.sock, message)
        return base.recvjson(self.sock)

    def lose(self, error: Exception) -> None:
        if self.sock is not None or self.matchkey is None:
            logger.warning("the tracker %s:%s does not answer (%s); it is tried again", *self.addr, error)
        if self.sock is not None:
            self.sock.close()
        self.sock, self.matchkey = None, self.matchkey or ""
        self._asked = time.monotonic()


class _Loop:
    """What the server's process does: one client after the other."""

    def __init__(
        self,
        listener: socket.socket,
        key: str,
        tracked: _Tracked | None,
        secret: bytes | None,
        timeout: float | None,
        silent: bool,
        parent: int,
    ) -> None:
        self.listener, self.key, self.tracked, self.secret = listener, key, tracked, secret
        self.timeout, self.silent, self.parent = timeout, silent, parent
        self.told = False

    def _stop(self, *_: object) -> None:
        self.told = True

    def _is_stopped(self) -> bool:
        return self.told or os.getppid() != self.parent

    def run(self) -> None:
        """Serve until the process that started the server is gone, or a signal comes."""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        remove_left_folders()
        if self.tracked is not None:
            self.tracked.offer()
        while not self._is_stopped():
            if not select.select([self.listener], [], [], WATCH)[0]:
                if self.tracked is not None:
                    self.tracked.check()
                continue
            try:
                sock, addr = self.listener.accept()
            except OSError:  # the client is gone already
                continue
            where = f"{addr[0]}:{addr[1]}"
            found = self._greet(sock, where)
            if found is None:
                sock.close()
                continue
            self._session(sock, where, found)
            if self.tracked is not None and not self._is_stopped():
                self.tracked.offer()

    def _greet(self, sock: socket.socket, where: str) -> float | None:
        """The server's half of the handshake: the seconds that the session may last; None for a client that is refused."""
        try:
            sock.settimeout(GREETED_IN)
            if base.recv_int(sock) != base.RPC_MAGIC:
                self._tell(f"{where} speaks another protocol")
                return None
            given, *options = base.recv_text(sock, base.LONGEST_KEY).split(" ")
            if self.secret is not None and not base.demand_proof(sock, self.secret, base.RPC_CODE_PROVE):
                self._tell(f"{where} does not know the secret of the key file")
                return None
            expected = "client:" + (self.key if self.tracked is None else self.tracked.matchkey or self.key)
            if given != expected:
                base.send_text(sock, "", struct.pack("<i", base.RPC_CODE_MISMATCH))
                self._tell(f"{where} has another key")
                return None
            base.send_text(sock, "server:" + self.key, struct.pack("<i", base.RPC_CODE_SUCCESS))
            sock.settimeout(None)
        except (OSError, RPCError, struct.error) as error:
            self._tell(f"{where} does not finish the handshake: {error}")
            return None
        limits = [float(m[1]) for m in (re.fullmatch(r"-timeout=(\d+)", option) for option in options) if m]
        limits += [self.timeout] if self.timeout else []
        return min(limits, default=float("inf"))

    def _session(self, sock: socket.socket, where: str, limit: float) -> None:
        """A session in a process and a folder of its own, until it is over."""
        folder = Path(tempfile.mkdtemp(prefix=f"{FOLDERS}{os.getpid()}-"))
        self._tell(f"session with {where}")

        def body() -> None:
            end_with_parent()
            self.listener.close()
            if self.tracked is not None and self.tracked.sock is not None:
                self.tracked.sock.close()
            os.chdir(folder)
            files.offer(folder)
            global_func("rpc.Serve")(os.dup(sock.fileno()), where)

        child = Child(body)
        end = time.monotonic() + limit
        gone: float | None = None
        hangup = select.poll()
        hangup.register(sock, select.POLLRDHUP)
        while not child.wait(WATCH) and not self._is_stopped():
            now = time.monotonic()
            if now > end:
                self._tell(f"the session with {where} took longer than {limit:g} s")
                break
            if gone is None and hangup.poll(0):
                gone = now
            if gone is not None and now > gone + LEAVES_IN:
                break
        child.kill()
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        sock.close()
        shutil.rmtree(folder, ignore_errors=True)
        self._tell(f"the session with {where} has ended")

    def _tell(self, text: str) -> None:
        if not self.silent:
            logger.info("%s", text)
