"""How a connection begins: magic numbers, keys, and proofs that both sides know the secret of a key file.

Each function is one side's half, as a generator: it yields bytes to send, or the number of bytes that it needs next. So the same text
serves sockets that block (`run`) and those of asyncio (`arun`).
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import struct
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Protocol, TypeVar

from tilewright.rpc import base
from tilewright.support.errors import RPCError

RPC_CODE_PROVE = base.RPC_MAGIC + 3
"""Both sides must prove that they know the secret of the key file: our addition."""
RPC_CODE_WAITS = base.RPC_MAGIC + 4
"""The client waits for its turn, and a string says why: our addition, for clients that send the option WAITS."""
WAITS = "-waits"
TOLD_IN = 1.0
"""Seconds that a client waits before it is told so."""
RPC_TRACKER_PROVE = base.RPC_TRACKER_MAGIC + 3
SHORTEST_SECRET = 16
CHALLENGE_BYTES = 32
PROOF_BYTES = 32
"""Bytes of an HMAC with SHA-256."""
LONGEST_KEY = 4096

T = TypeVar("T")
Steps = Generator[int | bytes, bytes, T]


class Link(Protocol):
    """A connection of asyncio."""

    async def exactly(self, count: int) -> bytes:
        """So many bytes. Raises ConnectionError if the other side closes the connection first."""

    async def write(self, data: bytes) -> None:
        """Send these."""


def run(sock: socket.socket, steps: Steps[T]) -> T:
    """Carry the steps out on a socket."""
    try:
        step = next(steps)
        while True:
            try:
                got = b""
                if isinstance(step, bytes):
                    sock.sendall(step)
                else:
                    got = base.recvall(sock, step)
            except OSError as error:
                step = steps.throw(error)
            else:
                step = steps.send(got)
    except StopIteration as end:
        found: T = end.value
        return found


async def arun(link: Link, steps: Steps[T]) -> T:
    """Carry the steps out on a connection of asyncio."""
    try:
        step = next(steps)
        while True:
            try:
                got = b""
                if isinstance(step, bytes):
                    await link.write(step)
                else:
                    got = await link.exactly(step)
            except OSError as error:
                step = steps.throw(error)
            else:
                step = steps.send(got)
    except StopIteration as end:
        found: T = end.value
        return found


def _int() -> Steps[int]:
    value: int = struct.unpack("<i", (yield 4))[0]
    return value


def _text(most: int) -> Steps[str]:
    size = yield from _int()
    if not 0 <= size <= most:
        raise RPCError(f"it sent a string of {size} bytes, where at most {most} are taken: it speaks another protocol")
    try:
        return (yield size).decode() if size else ""
    except UnicodeDecodeError:
        raise RPCError("it sent a string that is no UTF-8: it speaks another protocol") from None


def code_and_text(code: int, text: str = "") -> bytes:
    """A code, and a string with its length."""
    data = text.encode()
    return struct.pack("<ii", code, len(data)) + data


def enter(
    key: str, secret: bytes | None, where: str, waits: Callable[[str], None] | None = None
) -> Steps[tuple[int, str]]:
    """The half of who connects to a server or to a proxy, with "client:<key> <options>" or "server:<key>": the code that answers, and the
    other side's key. waits: gets the reason if the other side lets this one wait for its turn. Raises RPCError where the other side does
    not know the secret, or this one does not."""
    yield code_and_text(base.RPC_MAGIC, key)
    code = yield from _int()
    if code == RPC_CODE_PROVE:
        yield from _prove(secret, where)
        code = yield from _int()
    elif secret is not None:
        raise RPCError(f"{where} demands no key file, so that it may be another server than it claims to be")
    if code == RPC_CODE_WAITS and waits is not None:
        waits((yield from _text(LONGEST_KEY)))
        code = yield from _int()
    return code, (yield from _text(LONGEST_KEY)) if code == base.RPC_CODE_SUCCESS else ""


def admit(secret: bytes | None) -> Steps[str]:
    """The half of who listens: the key of who connects. The code that lets it in or not remains to be sent. Raises RPCError for
    another protocol, and for who does not know the secret."""
    if (yield from _int()) != base.RPC_MAGIC:
        raise RPCError("it speaks another protocol")
    key = yield from _text(LONGEST_KEY)
    if secret is not None:
        yield from _demand(secret, RPC_CODE_PROVE)
    return key


def enter_tracker(secret: bytes | None, where: str) -> Steps[None]:
    """The half of who connects to a tracker. Raises RPCError."""
    yield struct.pack("<i", base.RPC_TRACKER_MAGIC)
    magic = yield from _int()
    if magic == RPC_TRACKER_PROVE:
        yield from _prove(secret, f"the tracker {where}")
        magic = yield from _int()
    elif secret is not None:
        raise RPCError(f"the tracker {where} demands no key file, so that it may be another one than it claims to be")
    if magic != base.RPC_TRACKER_MAGIC:
        raise RPCError(f"{where} is no tracker: it answered {magic:#x}")


def admit_tracker(secret: bytes | None) -> Steps[None]:
    """The tracker's half. Raises RPCError."""
    if (yield from _int()) != base.RPC_TRACKER_MAGIC:
        raise RPCError("it speaks another protocol")
    if secret is not None:
        yield from _demand(secret, RPC_TRACKER_PROVE)
    yield struct.pack("<i", base.RPC_TRACKER_MAGIC)


def read_secret(path: str | os.PathLike[str] | None) -> bytes | None:
    """The secret in a key file, without spaces around it; None for no file. Raises RPCError if it is shorter than 16 bytes, or cannot be
    read."""
    if path is None:
        return None
    try:
        secret = Path(path).read_bytes().strip()
    except OSError as error:
        raise RPCError(f"the key file {os.fspath(path)!r} cannot be read: {error.strerror or error}") from error
    if len(secret) < SHORTEST_SECRET:
        raise RPCError(
            f"the key file {os.fspath(path)!r} holds {len(secret)} bytes, where at least {SHORTEST_SECRET} are needed; make one with:"
            " head -c 32 /dev/urandom | base64"
        )
    return secret


def _proof(secret: bytes, side: bytes, first: bytes, second: bytes) -> bytes:
    return hmac.digest(secret, side + first + second, "sha256")


def _demand(secret: bytes, code: int) -> Steps[None]:
    """Challenge who connects. The secret is not sent, and what is sent proves nothing in another session."""
    ours = secrets.token_bytes(CHALLENGE_BYTES)
    yield struct.pack("<i", code) + ours
    answer = yield CHALLENGE_BYTES + PROOF_BYTES
    theirs, proof = answer[:CHALLENGE_BYTES], answer[CHALLENGE_BYTES:]
    if not hmac.compare_digest(proof, _proof(secret, b"client", ours, theirs)):
        raise RPCError("it does not know the secret of the key file")
    yield _proof(secret, b"server", theirs, ours)


def _prove(secret: bytes | None, where: str) -> Steps[None]:
    theirs = yield CHALLENGE_BYTES
    if secret is None:
        raise RPCError(f"{where} demands a key file: give the one that it was started with (key_file=, --key-file)")
    ours = secrets.token_bytes(CHALLENGE_BYTES)
    yield ours + _proof(secret, b"client", theirs, ours)
    try:
        proof = yield PROOF_BYTES
    except ConnectionError:
        raise RPCError(f"{where} has another key file") from None
    if not hmac.compare_digest(proof, _proof(secret, b"server", ours, theirs)):
        raise RPCError(f"{where} does not know the secret of the key file: it is another server than it claims to be")
