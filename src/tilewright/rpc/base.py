"""The handshake of sessions and the messages of trackers: magic numbers, keys, JSON with its length before it.

A session begins with the client's magic number and key, each key with its length before it; the server answers with a code and its own key.
After that the native runtime exchanges messages (native/src/rpc). A tracker's messages are JSON. All integers are little-endian.
"""

from __future__ import annotations

import errno
import hmac
import json
import logging
import os
import random
import secrets
import socket
import struct
import time
from enum import IntEnum
from pathlib import Path
from typing import Any

from tilewright.runtime.device import DEVICES_OF_A_SESSION
from tilewright.support.errors import RPCError

RPC_MAGIC = 0xFF271
RPC_TRACKER_MAGIC = 0x2F271
RPC_SESS_MASK = DEVICES_OF_A_SESSION
"""A device of session n has the type (n + 1) * RPC_SESS_MASK + its type on the server."""

RPC_CODE_SUCCESS = RPC_MAGIC
RPC_CODE_DUPLICATE = RPC_MAGIC + 1
RPC_CODE_MISMATCH = RPC_MAGIC + 2
RPC_CODE_PROVE = RPC_MAGIC + 3
"""Both sides must prove that they know the secret of the key file: our addition."""
RPC_TRACKER_PROVE = RPC_TRACKER_MAGIC + 3

SHORTEST_SECRET = 16
CHALLENGE_BYTES = 32
PROOF_BYTES = CHALLENGE_BYTES + 32
"""Bytes of a challenge and an HMAC with SHA-256."""
LONGEST_KEY = 4096
LONGEST_JSON = 1 << 20
"""Bytes of a message of a tracker, at most."""

logger = logging.getLogger("tilewright.rpc")


class TrackerCode(IntEnum):
    """Kinds of messages to a tracker, and how it answers them."""

    FAIL = -1
    SUCCESS = 0
    PING = 1
    STOP = 2
    PUT = 3
    REQUEST = 4
    UPDATE_INFO = 5
    SUMMARY = 6
    GET_PENDING_MATCHKEYS = 7


def get_addr_family(addr: tuple[str, int]) -> socket.AddressFamily:
    """The family of a host's first address."""
    return socket.getaddrinfo(addr[0], addr[1], 0, 0, socket.IPPROTO_TCP)[0][0]


def recvall(sock: socket.socket, nbytes: int) -> bytes:
    """Exactly `nbytes` bytes. Raises ConnectionError if the other side closes the connection first, TimeoutError as the socket does."""
    parts: list[bytes] = []
    while nbytes > 0:
        part = sock.recv(min(nbytes, 1 << 16))
        if not part:
            raise ConnectionError("the other side has closed the connection")
        parts.append(part)
        nbytes -= len(part)
    return b"".join(parts)


def recv_int(sock: socket.socket) -> int:
    """A 32-bit integer."""
    value: int = struct.unpack("<i", recvall(sock, 4))[0]
    return value


def recv_text(sock: socket.socket, most: int) -> str:
    """A string with its length before it. Raises RPCError if it is longer than `most` bytes, or no UTF-8."""
    size = recv_int(sock)
    if not 0 <= size <= most:
        raise RPCError(
            f"the other side sent a string of {size} bytes, where at most {most} are taken: it speaks another protocol"
        )
    try:
        return recvall(sock, size).decode()
    except UnicodeDecodeError:
        raise RPCError("the other side sent a string that is no UTF-8: it speaks another protocol") from None


def send_text(sock: socket.socket, text: str, before: bytes = b"") -> None:
    """A string with its length before it; `before` goes first."""
    data = text.encode()
    sock.sendall(before + struct.pack("<i", len(data)) + data)


def recvjson(sock: socket.socket) -> Any:
    """A message of JSON."""
    text = recv_text(sock, LONGEST_JSON)
    try:
        return json.loads(text)
    except ValueError as error:
        raise RPCError(f"the other side sent a message that is no JSON ({error})") from None


def sendjson(sock: socket.socket, data: Any) -> None:
    """A message of JSON."""
    send_text(sock, json.dumps(data))


def random_key(prefix: str, delimiter: str = ":", cmap: Any = None) -> str:
    """A key that is not in `cmap`: the prefix and a random number."""
    while True:
        key = f"{prefix}{delimiter}{random.SystemRandom().random()}"
        if not cmap or key not in cmap:
            return key


def split_random_key(key: str, delimiter: str = ":") -> tuple[str, str]:
    """The prefix and the number of a key that `random_key` made."""
    prefix, _, number = key.rpartition(delimiter)
    return prefix, delimiter + number


def connect_with_retry(addr: tuple[str, int], timeout: float = 60, retry_period: float = 5) -> socket.socket:
    """A connection to a host that may not be up yet: tried every `retry_period` seconds. Raises RPCError after `timeout` seconds."""
    start = time.monotonic()
    while True:
        try:
            return connect_once(addr)
        except OSError as error:
            if error.errno not in (errno.ECONNREFUSED, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH):
                raise RPCError(f"cannot connect to {addr[0]}:{addr[1]}: {error.strerror or error}") from error
            waited = time.monotonic() - start
            if waited + retry_period > timeout:
                raise RPCError(
                    f"cannot connect to {addr[0]}:{addr[1]} for {waited:.0f} s: {error.strerror or error}"
                ) from error
            logger.warning("cannot connect to %s:%s yet; next try in %g s", *addr[:2], retry_period)
            time.sleep(retry_period)


def connect_once(addr: tuple[str, int], timeout: float = 20) -> socket.socket:
    """A connection, made in `timeout` seconds or refused with OSError; without a timeout once it is there."""
    sock = socket.create_connection(addr, timeout)
    sock.settimeout(None)
    return sock


def listen(host: str, port: int, port_end: int, reuse_addr: bool = True) -> tuple[socket.socket, int]:
    """A listening socket on the first free port of [port, port_end), and the port; port 0 is any. Raises RPCError if none is free."""
    family = get_addr_family((host, port))
    for number in range(port, max(port_end, port + 1)):
        sock = socket.socket(family, socket.SOCK_STREAM)
        if reuse_addr:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, number))
            sock.listen(64)
        except OSError as error:
            sock.close()
            if error.errno != errno.EADDRINUSE:
                raise RPCError(f"cannot listen on {host}:{number}: {error.strerror or error}") from error
        else:
            return sock, sock.getsockname()[1]
    raise RPCError(f"cannot listen on {host}: ports {port} to {port_end - 1} are all in use")


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


def challenge() -> bytes:
    """Random bytes, which the other side has not seen before."""
    return secrets.token_bytes(CHALLENGE_BYTES)


def checked_proof(secret: bytes, ours: bytes, answer: bytes) -> bytes | None:
    """The proof that this side knows the secret, if `answer`, the other side's challenge and proof, proves that it does; else None. The
    secret is not sent, and what is sent proves nothing in another session."""
    theirs, proof = answer[:CHALLENGE_BYTES], answer[CHALLENGE_BYTES:]
    known = hmac.compare_digest(proof, _proof(secret, b"client", ours, theirs))
    return _proof(secret, b"server", theirs, ours) if known else None


def demand_proof(sock: socket.socket, secret: bytes, code: int) -> bool:
    """The server's half: whether the client knows the secret. `code` tells the client that it is asked."""
    ours = challenge()
    sock.sendall(struct.pack("<i", code) + ours)
    proof = checked_proof(secret, ours, recvall(sock, PROOF_BYTES))
    sock.sendall(proof or b"")
    return proof is not None


def prove(sock: socket.socket, secret: bytes | None, where: str) -> None:
    """The client's half. Raises RPCError if this side has no secret, or either side's is not that of the other."""
    theirs = recvall(sock, CHALLENGE_BYTES)
    if secret is None:
        raise RPCError(f"{where} demands a key file: give the one that it was started with (key_file=, --key-file)")
    ours = challenge()
    sock.sendall(ours + _proof(secret, b"client", theirs, ours))
    try:
        proof = recvall(sock, 32)
    except ConnectionError:
        raise RPCError(f"{where} has another key file") from None
    if not hmac.compare_digest(proof, _proof(secret, b"server", ours, theirs)):
        raise RPCError(f"{where} does not know the secret of the key file: it is another server than it claims to be")


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to a server that listens there."""
    return host in ("localhost", "::1") or host.startswith("127.")
