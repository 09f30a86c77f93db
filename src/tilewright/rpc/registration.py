"""What a tracker knows of a server: the key under which it waits for its next client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
from typing import Any

from tilewright.rpc import base, handshake, streams
from tilewright.rpc.base import TrackerCode, logger
from tilewright.support.errors import RPCError

ANSWERS_IN = 5.0
"""Seconds that a tracker has to answer."""
ASKED = 1.0
"""Seconds between two questions, whether the key is still free; and between two tries to reach a tracker."""
COMES_IN = 3
"""Questions that find the key handed out, after which its client is given up: it connects at once, or is gone."""


class Registration:
    """A server at a tracker, as long as `run` goes on: free, until `take` finds the client to whom the tracker gave it, and again after
    `free`. port, custom_addr: where the tracker sends clients."""

    def __init__(
        self,
        addr: tuple[str, int],
        key: str,
        port: int,
        custom_addr: str | None = None,
        secret: bytes | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.addr, self.key, self.port, self.custom_addr = addr, key, port, custom_addr
        self.secret, self.context = secret, context
        self.matchkey: str | None = None
        self.room = 1  # sessions that can begin
        self.socket: socket.socket | None = None
        self._changed = asyncio.Event()
        self._heard = True

    def take(self, matchkey: str) -> bool:
        """Whether a client has the key of this server. No other will."""
        if matchkey != self.matchkey:
            return False
        self.matchkey, self.room = None, self.room - 1
        self._changed.set()
        return True

    def free(self) -> None:
        """A session is over."""
        self.room += 1
        self._changed.set()

    async def run(self) -> None:
        """Keep the server registered; a tracker that is lost is tried again."""
        while True:
            stream = None
            try:
                stream = await self._connect()
                await self._register(stream)
            except (OSError, RPCError, ValueError) as error:
                if self._heard:
                    logger.warning("the tracker %s:%s does not answer (%s); it is tried again", *self.addr, error)
                self._heard = False
            finally:
                self.socket = None
                if stream is not None:
                    await stream.close()
            await asyncio.sleep(ASKED)

    async def _connect(self) -> streams.Stream:
        async with asyncio.timeout(ANSWERS_IN):
            reader, writer = await asyncio.open_connection(
                *self.addr, ssl=self.context, server_hostname=self.context and self.addr[0]
            )
            stream = streams.Stream(reader, writer, ANSWERS_IN)
            self.socket = stream.socket
            await handshake.arun(stream, handshake.enter_tracker(self.secret, f"{self.addr[0]}:{self.addr[1]}"))
        return stream

    async def _register(self, stream: streams.Stream) -> None:
        await self._ask(
            stream, TrackerCode.UPDATE_INFO, {"key": "server:" + self.key, "addr": [self.custom_addr, self.port]}
        )
        self._heard, offered, missed = True, None, 0
        while True:
            self._changed.clear()
            if self.room > 0 and (offered is None or self.matchkey != offered or missed >= COMES_IN):
                self.matchkey = offered = base.random_key(self.key)
                missed = 0
                await self._ask(stream, TrackerCode.PUT, self.key, [self.port, offered], self.custom_addr)
            elif self.matchkey in await self._ask(stream, TrackerCode.GET_PENDING_MATCHKEYS):
                missed = 0
            elif self.matchkey is not None:
                missed += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), ASKED)

    async def _ask(self, stream: streams.Stream, *message: Any) -> Any:
        async with asyncio.timeout(ANSWERS_IN):
            await stream.write(base.json_message(message))
            (size,) = struct.unpack("<i", await stream.exactly(4))
            if not 0 < size <= base.LONGEST_JSON:
                raise RPCError(f"it sent a message of {size} bytes")
            return json.loads(await stream.exactly(size))
