"""A tracker: servers register under keys, and clients that ask for a key get the next free server, by priority and order of asking."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import json
import os
import signal
import socket
import struct
from collections.abc import Callable
from typing import Any

from tilewright.rpc import base
from tilewright.rpc.base import TrackerCode, logger
from tilewright.rpc.process import Child, Served

Answer = Callable[[list[Any]], bool]
"""Sends a server's address to who asked for it; False if that one is gone."""


class Tracker(Served):
    """A tracker in a process of its own, which ends with this object and with this process.

    host: the address to listen on. port, port_end: the first free port of [port, port_end). timeout: ignored, as connections are watched.
    key_file: a file with a secret of at least 16 bytes, which servers, clients and the tracker prove to each other that they know.
    """

    def __init__(
        self,
        host: str = "0.0.0.0",
        port: int = 9190,
        port_end: int = 9199,
        silent: bool = False,
        reuse_addr: bool = True,
        timeout: float | None = None,
        key_file: str | os.PathLike[str] | None = None,
    ) -> None:
        secret = base.read_secret(key_file)
        listener, self.port = base.listen(host, port, port_end, reuse_addr)
        self.host, self.stop_key = host, base.random_key("tracker")
        parent = os.getpid()
        self._process = Child(lambda: _serve(listener, self.stop_key, secret, parent))
        listener.close()
        if not silent and secret is None and not base.is_loopback(host):
            logger.warning("the tracker listens on %s:%s: whoever reaches it can take its servers", host, self.port)


class Scheduler:
    """Who gets a free server."""

    def put(self, value: list[Any]) -> None:
        """A server is free."""
        raise NotImplementedError

    def request(self, user: str, priority: int, callback: Answer) -> None:
        """Somebody wants a server."""
        raise NotImplementedError

    def remove(self, value: list[Any]) -> None:
        """A server is gone."""
        raise NotImplementedError

    def summary(self) -> dict[str, int]:
        """Numbers of free servers and of waiting requests."""
        raise NotImplementedError


class PriorityScheduler(Scheduler):
    """Higher priorities first; of equal ones, who asked first."""

    def __init__(self, key: str) -> None:
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

    def __init__(self, state: _State, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.state, self.reader, self.writer = state, reader, writer
        host, port, *_ = writer.get_extra_info("peername") or ("?", 0)
        self.addr = (host, port)
        self.info: dict[str, Any] = {}
        self.put: dict[str, tuple[PriorityScheduler, list[Any]]] = {}  # by match key
        self.asked: list[tuple[PriorityScheduler, Answer]] = []

    async def run(self) -> None:
        head = await asyncio.wait_for(self.reader.readexactly(4), 10)
        if struct.unpack("<i", head)[0] != base.RPC_TRACKER_MAGIC:
            return
        if self.state.secret is not None and not await self._demand_proof(self.state.secret):
            logger.warning("%s:%s does not know the secret of the key file", *self.addr)
            return
        self.writer.write(struct.pack("<i", base.RPC_TRACKER_MAGIC))
        while not self.state.stopped.is_set():
            (size,) = struct.unpack("<i", await self.reader.readexactly(4))
            if not 0 < size <= base.LONGEST_JSON:
                logger.warning("%s:%s sent a message of %d bytes; its connection is closed", *self.addr, size)
                return
            try:
                answer = self._answered(json.loads(await self.reader.readexactly(size)))
            except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
                answer = [int(TrackerCode.FAIL), f"the message is not understood: {error}"]
            if answer is not None:
                self.send(answer)
                await self.writer.drain()

    async def _demand_proof(self, secret: bytes) -> bool:
        ours = base.challenge()
        self.writer.write(struct.pack("<i", base.RPC_TRACKER_PROVE) + ours)
        answer = await asyncio.wait_for(self.reader.readexactly(base.PROOF_BYTES), 10)
        proof = base.checked_proof(secret, ours, answer)
        self.writer.write(proof or b"")
        return proof is not None

    def send(self, data: Any) -> None:
        text = json.dumps(data).encode()
        self.writer.write(struct.pack("<i", len(text)) + text)

    def _answered(self, message: list[Any]) -> Any:
        code, *args = message
        if code == TrackerCode.PUT:
            key, (port, matchkey), custom = str(args[0]), args[1], args[2] if len(args) > 2 else None
            matchkey = str(matchkey)
            value = [str(custom or self.addr[0]), int(port), matchkey]
            scheduler = self.state.scheduler(key)
            self.put[matchkey] = (scheduler, value)
            self.state.owners[matchkey] = self
            scheduler.put(value)
            return int(TrackerCode.SUCCESS)
        if code == TrackerCode.REQUEST:
            key, user, priority = str(args[0]), str(args[1]), int(args[2])
            scheduler = self.state.scheduler(key)

            def hand_over(value: list[Any]) -> bool:
                self.asked = [a for a in self.asked if a[1] is not hand_over]
                if self.writer.is_closing():
                    return False
                owner = self.state.owners.pop(value[2], None)
                if owner is not None:
                    owner.put.pop(value[2], None)
                self.send([int(TrackerCode.SUCCESS), value])
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
        self.writer.close()


class _State:
    """All connections of a tracker, and the servers and requests by key."""

    def __init__(self, stop_key: str, secret: bytes | None) -> None:
        self.stop_key, self.secret, self.stopped = stop_key, secret, asyncio.Event()
        self.connections: set[_Connection] = set()
        self.schedulers: dict[str, PriorityScheduler] = {}
        self.owners: dict[str, _Connection] = {}

    def scheduler(self, key: str) -> PriorityScheduler:
        return self.schedulers.setdefault(key, PriorityScheduler(key))

    def summary(self) -> dict[str, Any]:
        servers = [c.info for c in self.connections if c.info.get("key")]
        return {"queue_info": {k: s.summary() for k, s in self.schedulers.items()}, "server_info": servers}

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(self, reader, writer)
        self.connections.add(connection)
        try:
            await connection.run()
        except (OSError, asyncio.IncompleteReadError, TimeoutError, asyncio.CancelledError):
            pass  # it is gone, or the tracker ends
        finally:
            connection.leave()


def _serve(listener: socket.socket, stop_key: str, secret: bytes | None, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    async def run() -> None:
        state = _State(stop_key, secret)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, state.stopped.set)
        server = await asyncio.start_server(state.connected, sock=listener)
        while not state.stopped.is_set() and os.getppid() == parent:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(state.stopped.wait(), 0.5)
        server.close()
        for connection in list(state.connections):
            connection.writer.close()

    asyncio.run(run())
