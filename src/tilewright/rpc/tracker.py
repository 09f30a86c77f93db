"""A tracker: servers register under keys, and clients that ask for a key get the next free server, by priority and order of asking."""

from __future__ import annotations

import asyncio
import heapq
import json
import os
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tilewright.rpc import base, handshake, tls
from tilewright.rpc.base import TrackerCode, logger
from tilewright.rpc.limits import TRACKER, Limits
from tilewright.rpc.process import Child, Served
from tilewright.rpc.streams import Stream, serve_streams
from tilewright.support.errors import RPCError

GREETED_IN = 10.0
"""Seconds that who connects has for the handshake."""
MOST_KEYS = 1000
"""Servers and requests of one connection that may wait."""

Answer = Callable[[list[Any]], bool]
"""Sends a server's address to who asked for it; False if that one is gone."""


class Tracker(Served):
    """A tracker in a process of its own, which ends with this object and with this process.

    host: the address to listen on: of this machine only by default; with "0.0.0.0" others can connect too. port, port_end: the first free
    port of [port, port_end). timeout: ignored, as connections are watched.
    key_file: a file with a secret of at least 16 bytes, which servers, clients and the tracker prove to each other that they know.
    tls_cert, tls_key: the certificate that they are shown, and its private key, if that is in another file. limits: what they may use up.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9190,
        port_end: int = 9199,
        silent: bool = False,
        reuse_addr: bool = True,
        timeout: float | None = None,
        key_file: str | os.PathLike[str] | None = None,
        tls_cert: str | os.PathLike[str] | None = None,
        tls_key: str | os.PathLike[str] | None = None,
        limits: Limits = TRACKER,
    ) -> None:
        secret, certified = handshake.read_secret(key_file), tls.listening(tls.TLS(tls_cert, tls_key))
        listener, self.port = base.listen(host, port, port_end, reuse_addr)
        self.host, self.stop_key = host, base.random_key("tracker")

        def body() -> None:
            state = _State(self.stop_key, secret, limits)
            asyncio.run(serve_streams(listener, state.connected, state.stopped, certified, limits))

        self._process = Child(body)
        listener.close()
        if not silent and secret is None and not base.is_loopback(host):
            logger.warning("the tracker listens on %s:%s: whoever reaches it can take its servers", host, self.port)


class Scheduler(ABC):
    """Who gets a free server."""

    @abstractmethod
    def put(self, value: list[Any]) -> None:
        """A server is free."""

    @abstractmethod
    def request(self, user: str, priority: int, callback: Answer) -> None:
        """Somebody wants a server."""

    @abstractmethod
    def remove(self, value: list[Any]) -> None:
        """A server is gone."""

    @abstractmethod
    def summary(self) -> dict[str, int]:
        """Numbers of free servers and of waiting requests."""


class PriorityScheduler(Scheduler):
    """Higher priorities first; of equal ones, who asked first."""

    def __init__(self, key: str) -> None:
        self.users = set[object]()
        self._key = key
        self._count = 0
        self._values: list[list[Any]] = []
        self._requests: list[tuple[int, int, Answer]] = []

    def _hand_out(self) -> None:
        while self._requests and self._values:
            value = self._values.pop(0)
            while self._requests:
                if heapq.heappop(self._requests)[2](value):
                    break
            else:
                self._values.insert(0, value)

    def put(self, value: list[Any]) -> None:
        self._values.append(value)
        self._hand_out()

    def request(self, user: str, priority: int, callback: Answer) -> None:
        heapq.heappush(self._requests, (-priority, self._count, callback))
        self._count += 1
        self._hand_out()

    def remove(self, value: list[Any]) -> None:
        if value in self._values:
            self._values.remove(value)

    def withdraw(self, callback: Answer) -> None:
        """Who asked is gone."""
        self._requests = [r for r in self._requests if r[2] is not callback]
        heapq.heapify(self._requests)

    def summary(self) -> dict[str, int]:
        return {"free": len(self._values), "pending": len(self._requests)}


class _Connection:
    """One server or client of a tracker."""

    def __init__(self, state: _State, stream: Stream) -> None:
        self.state, self.stream = state, stream
        self.addr = stream.peer
        self.info: dict[str, Any] = {}
        self.put: dict[str, tuple[PriorityScheduler, list[Any]]] = {}  # by match key
        self.asked: list[tuple[PriorityScheduler, Answer]] = []

    def _scheduler(self, key: str) -> PriorityScheduler:
        if len(self.put) + len(self.asked) >= MOST_KEYS:
            raise ValueError(f"a connection may have {MOST_KEYS} servers and requests that wait")
        found = self.state.schedulers.setdefault(key, PriorityScheduler(key))
        found.users.add(self)
        return found

    async def run(self) -> None:
        limits = self.state.limits
        async with asyncio.timeout(GREETED_IN):
            await handshake.arun(self.stream, handshake.admit_tracker(self.state.secret))
        while not self.state.stopped.is_set():
            head = await self.stream.exactly(1)
            async with asyncio.timeout(limits.silence):
                (size,) = struct.unpack("<i", head + await self.stream.exactly(3))
                if not 0 < size <= limits.message:
                    raise RPCError(f"it sent a message of {size} bytes, where at most {limits.message} are taken")
                text = await self.stream.exactly(size)
            try:
                answer = self._answered(json.loads(text))
            except Exception as error:  # whatever a message of any form leads to
                answer = [int(TrackerCode.FAIL), f"the message is not understood: {error}"]
            if answer is not None:
                await self.stream.write(base.json_message(answer))

    def _answered(self, message: list[Any]) -> Any:
        code, *args = message
        if code == TrackerCode.PUT:
            key, (port, matchkey), custom = str(args[0]), args[1], args[2] if len(args) > 2 else None
            matchkey = str(matchkey)
            value = [str(custom or self.addr[0]), int(port), matchkey]
            scheduler = self._scheduler(key)
            self.put[matchkey] = (scheduler, value)
            self.state.owners[matchkey] = self
            scheduler.put(value)
            return int(TrackerCode.SUCCESS)
        if code == TrackerCode.REQUEST:
            key, user, priority = str(args[0]), str(args[1]), int(args[2])
            scheduler = self._scheduler(key)

            def hand_over(value: list[Any]) -> bool:
                self.asked = [a for a in self.asked if a[1] is not hand_over]
                if self.stream.writer.is_closing():
                    return False
                owner = self.state.owners.pop(value[2], None)
                if owner is not None:
                    owner.put.pop(value[2], None)
                self.stream.writer.write(base.json_message([int(TrackerCode.SUCCESS), value]))
                return True

            self.asked.append((scheduler, hand_over))
            scheduler.request(user, priority, hand_over)
            return None
        if code == TrackerCode.UPDATE_INFO:
            info = dict(args[0])
            host, port = info.get("addr") or (None, None)
            self.info = {**info, "addr": [host or self.addr[0], port]}
            return int(TrackerCode.SUCCESS)
        if code == TrackerCode.SUMMARY:
            return [int(TrackerCode.SUCCESS), self.state.summary()]
        if code == TrackerCode.GET_PENDING_MATCHKEYS:
            return list(self.put)
        if code == TrackerCode.PING:
            return int(TrackerCode.SUCCESS)
        if code == TrackerCode.STOP:
            if args != [self.state.stop_key]:
                return int(TrackerCode.FAIL)
            self.state.stopped.set()
            return int(TrackerCode.SUCCESS)
        return [int(TrackerCode.FAIL), f"there is no message {code!r}"]

    def leave(self) -> None:
        """Take back what it offered and asked for."""
        for matchkey, (scheduler, value) in self.put.items():
            self.state.owners.pop(matchkey, None)
            scheduler.remove(value)
        for scheduler, callback in self.asked:
            scheduler.withdraw(callback)
        self.state.connections.discard(self)
        for key, scheduler in list(self.state.schedulers.items()):
            scheduler.users.discard(self)
            if not scheduler.users:
                del self.state.schedulers[key]


class _State:
    """All connections of a tracker, and the servers and requests by key."""

    def __init__(self, stop_key: str, secret: bytes | None, limits: Limits) -> None:
        self.stop_key, self.secret, self.limits = stop_key, secret, limits
        self.stopped = asyncio.Event()
        self.connections: set[_Connection] = set()
        self.schedulers: dict[str, PriorityScheduler] = {}
        self.owners: dict[str, _Connection] = {}

    def summary(self) -> dict[str, Any]:
        servers = [c.info for c in self.connections if c.info.get("key")]
        return {"queue_info": {k: s.summary() for k, s in self.schedulers.items()}, "server_info": servers}

    async def connected(self, stream: Stream) -> None:
        connection = _Connection(self, stream)
        self.connections.add(connection)
        try:
            await connection.run()
        finally:
            connection.leave()
