"""Damaged beginnings of connections, and damaged messages to trackers and proxies: who comes after them is served all the same.

`python -m tests.fuzz.rpc_messages --against tracker` runs this.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.fuzz.progress import Progress
from tests.fuzz.rpc_cuts import Held
from tests.rpc.test_sessions import functions
from tilewright import rpc
from tilewright.rpc import base
from tilewright.support.errors import RPCError

LOOPBACK = "127.0.0.1"
SERVED_IN = 10.0
CHECKED = 40
"""Connections between two looks, whether others are served."""
Damage = Callable[[bytes, random.Random], bytes]

GREETINGS = [
    struct.pack("<ii", base.RPC_MAGIC, len(text)) + text
    for text in (b"client:board", b"client:board -timeout=60", b"server:board", b"server:", b"client:")
]
STRANGE: list[Any] = [
    None,
    True,
    -1,
    1 << 40,
    1.5,
    "",
    "x" * 5000,
    [],
    {},
    [[[[[]]]]],
    {"key": {}},
    ["a", 1],
    float("inf"),
]
TRACKED: list[list[Any]] = [
    [3, "board", [9090, "board:0.1"], None],
    [3, "board", [9091, "board:0.2"], "192.0.2.1"],
    [4, "board", "", 1],
    [4, "none", "user", 5],
    [5, {"key": "server:board", "addr": [None, 9090]}],
    [6],
    [7],
    [1],
    [2, "no key"],
]
HEAD = (
    b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def tracked(rng: random.Random, damaged: Damage) -> bytes:
    """A message to a tracker, with other values or other bytes."""
    message = list(rng.choice(TRACKED))
    for _ in range(rng.choice([0, 0, 1, 2])):
        message[rng.randrange(len(message)) :][:1] = [rng.choice(STRANGE)]
        if rng.random() < 0.5:
            message[rng.randrange(len(message))] = rng.choice(STRANGE)
    text = json.dumps(message).encode()
    text = damaged(text, rng) if rng.random() < 0.3 else text
    size = len(text) if rng.random() < 0.97 else rng.choice([0, -1, 3, len(text) + 7, 1 << 30])
    return struct.pack("<i", size) + text


def frame(rng: random.Random, damaged: Damage) -> bytes:
    """A frame of a WebSocket from a client."""
    content = damaged(rng.choice(GREETINGS), rng)
    mask = rng.randbytes(4)
    masked = bytes(b ^ mask[i % 4] for i, b in enumerate(content))
    kind = rng.choice([0x82, 0x82, 0x82, 0x02, 0x80, 0x89, 0x8A, 0x88, 0x81, rng.randrange(256)])
    size = len(content) if rng.random() < 0.95 else rng.choice([126, 127, 0, 300])
    long = struct.pack(">BBH", kind, 0x80 | 126, size) if size > 125 else struct.pack(">BB", kind, 0x80 | size)
    return long + mask + masked


class Door:
    """Something that listens, what is sent to it, and who is served by it all the same."""

    def __init__(self, damaged: Damage) -> None:
        self.damaged, self.control = damaged, 0
        self.served: rpc.Server | rpc.Tracker | rpc.Proxy = self.start()

    def start(self) -> rpc.Server | rpc.Tracker | rpc.Proxy:
        raise NotImplementedError

    def port(self, rng: random.Random) -> int:
        return self.served.port

    def begin(self, rng: random.Random) -> bytes:
        """How a connection begins."""
        raise NotImplementedError

    def more(self, rng: random.Random) -> bytes:
        """What follows."""
        return self.damaged(rng.choice(GREETINGS), rng)

    def serves(self) -> None:
        """Raises where another one is not served."""
        raise NotImplementedError


class ServerDoor(Door):
    def start(self) -> rpc.Server:
        functions()
        return rpc.Server(LOOPBACK, 0, key="board", silent=True)

    def begin(self, rng: random.Random) -> bytes:
        return self.damaged(rng.choice(GREETINGS), rng)

    def serves(self) -> None:
        remote = rpc.connect(LOOPBACK, self.served.port, "board", session_timeout=60)
        if remote.get_function("tests.rpc.add")(1, 2) != 3:
            raise RPCError("a wrong result")


class TrackerDoor(Door):
    def start(self) -> rpc.Tracker:
        return rpc.Tracker(LOOPBACK, 0, silent=True)

    def begin(self, rng: random.Random) -> bytes:
        magic = struct.pack("<i", base.RPC_TRACKER_MAGIC)
        return self.damaged(magic, rng) if rng.random() < 0.2 else magic

    def more(self, rng: random.Random) -> bytes:
        return tracked(rng, self.damaged)

    def serves(self) -> None:
        self.control += 1
        key = f"control {self.control}"
        with socket.create_connection((LOOPBACK, self.served.port), 5) as server:
            server.sendall(struct.pack("<i", base.RPC_TRACKER_MAGIC) + base.json_message([3, key, [1, key], None]))
            if struct.unpack("<i", base.recvall(server, 4))[0] != base.RPC_TRACKER_MAGIC or base.recvjson(server) != 0:
                raise RPCError("a server is not taken")
            found = rpc.connect_tracker(LOOPBACK, self.served.port)._ask(4, key, "", 1, timeout=5)
            if found != [LOOPBACK, 1, key]:
                raise RPCError(f"another server was handed out: {found}")


class ProxyDoor(Door):
    def start(self) -> rpc.Proxy:
        with socket.create_server((LOOPBACK, 0)) as listener:
            port = listener.getsockname()[1]
        return rpc.Proxy(LOOPBACK, 0, web_port=port, silent=True)

    def port(self, rng: random.Random) -> int:
        assert isinstance(self.served, rpc.Proxy)
        self.web = rng.random() < 0.5
        return self.served.web_port if self.web else self.served.port

    def begin(self, rng: random.Random) -> bytes:
        if not self.web:
            return self.damaged(rng.choice(GREETINGS), rng)
        return self.damaged(HEAD, rng) if rng.random() < 0.2 else HEAD

    def more(self, rng: random.Random) -> bytes:
        return frame(rng, self.damaged) if self.web else super().more(rng)

    def serves(self) -> None:
        self.control += 1
        ends = []
        for side in ("server", "client"):
            text = f"{side}:control{self.control}".encode()
            ends.append(socket.create_connection((LOOPBACK, self.served.port), 5))
            ends[-1].sendall(struct.pack("<ii", base.RPC_MAGIC, len(text)) + text)
        with ends[0], ends[1]:
            for end in ends:
                code, size = struct.unpack("<ii", base.recvall(end, 8))
                if code != base.RPC_CODE_SUCCESS or len(base.recvall(end, size)) != size:
                    raise RPCError(f"a pair is not joined: {code:#x}")
            ends[0].sendall(b"hello")
            if base.recvall(ends[1], 5) != b"hello":
                raise RPCError("bytes are not passed on")


DOORS: dict[str, type[Door]] = {"server": ServerDoor, "tracker": TrackerDoor, "proxy": ProxyDoor}


def run(name: str, damaged: Damage, count: int, seed: int, progress: bool = False) -> list[str]:
    """Send so many messages to one of the doors; what was wrong."""
    rng, found, sent, connections = random.Random(seed), list[str](), 0, 0
    with tempfile.TemporaryFile() as said, said_to(said.fileno()):
        door = DOORS[name](damaged)
        errors = os.dup(said.fileno())
    door.serves()
    time.sleep(0.5)
    before = Held(door.served)
    bar = Progress(count, "messages") if progress else None
    while sent < count and not found:
        connections += 1
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, door.port(rng)), 5) as sock:
            sock.settimeout(5)
            sock.sendall(door.begin(rng))
            sent += 1
            for _ in range(rng.choice([0, 1, 5, 50])):
                sock.sendall(door.more(rng))
                sent += 1
            if rng.random() < 0.5:  # half of them read what is answered, the others leave
                sock.shutdown(socket.SHUT_WR)
                with contextlib.suppress(TimeoutError):
                    sock.settimeout(0.05)
                    sock.recv(1 << 16)
        if connections % CHECKED == 0:
            start = time.monotonic()
            try:
                door.serves()
            except (OSError, RPCError, ValueError) as error:
                found.append(f"after {sent} messages of seed {seed} the {name} does not serve: {error}")
            if time.monotonic() - start > SERVED_IN:
                found.append(f"after {sent} messages of seed {seed} the {name} took {time.monotonic() - start:.0f} s")
        if bar is not None:
            bar.done, bar.failures = sent, len(found)
            bar.show()
    if bar is not None:
        bar.clear()
    end = time.monotonic() + SERVED_IN
    while not found and (left := Held(door.served).more_than(before, 20_000)):
        if time.monotonic() > end:
            found += [f"left in the {name}: {each}" for each in left]
        time.sleep(0.2)
    door.served.terminate()
    os.lseek(errors, 0, os.SEEK_SET)
    if (text := os.read(errors, 1 << 16).decode(errors="replace")).strip():
        found.append(f"the {name} wrote: {text[:2000]}")
    os.close(errors)
    return found


@contextlib.contextmanager
def said_to(file: int) -> Iterator[None]:
    """Processes that begin now write their errors to this file."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(file, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
