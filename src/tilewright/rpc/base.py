"""Numbers, keys and addresses of the protocol, sockets, and the messages of trackers: JSON with its length before it, little-endian."""

from __future__ import annotations

import errno
import json
import logging
import random
import socket
import struct
import time
from enum import IntEnum
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

MOST_PORTS = 1 << 16
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


def recvjson(sock: socket.socket) -> Any:
    """A message of JSON."""
    (size,) = struct.unpack("<i", recvall(sock, 4))
    if not 0 <= size <= LONGEST_JSON:
        raise RPCError(f"the other side sent a message of {size} bytes, where at most {LONGEST_JSON} are taken")
    try:
        return json.loads(recvall(sock, size))
    except ValueError as error:
        raise RPCError(f"the other side sent a message that is no JSON ({error})") from None


def json_message(data: Any) -> bytes:
    """A message of JSON with its length."""
    text = json.dumps(data).encode()
    return struct.pack("<i", len(text)) + text


def sendjson(sock: socket.socket, data: Any) -> None:
    """A message of JSON."""
    sock.sendall(json_message(data))


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


def why_not(error: OSError) -> str:
    """Why a connection failed, and what to look at."""
    reason = error.strerror or str(error)
    if error.errno != errno.ECONNREFUSED:
        return reason
    return f"{reason}: nothing listens there; one on another machine must be started with --host 0.0.0.0"


def connect_with_retry(addr: tuple[str, int], timeout: float = 60, retry_period: float = 5) -> socket.socket:
    """A connection to a host that may not be up yet: tried every `retry_period` seconds. Raises RPCError after `timeout` seconds."""
    start = time.monotonic()
    while True:
        try:
            return connect_once(addr)
        except OSError as error:
            if error.errno not in (errno.ECONNREFUSED, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH):
                raise RPCError(f"cannot connect to {addr[0]}:{addr[1]}: {why_not(error)}") from error
            waited = time.monotonic() - start
            if waited + retry_period > timeout:
                tried = f" for {waited:.0f} s" if waited > 1 else ""
                raise RPCError(f"cannot connect to {addr[0]}:{addr[1]}{tried}: {why_not(error)}") from error
            logger.warning("cannot connect to %s:%s yet; next try in %g s", *addr[:2], retry_period)
            time.sleep(retry_period)


def check_port(port: int) -> None:
    """Raises RPCError for a number that is no port."""
    if not 0 <= port < MOST_PORTS:
        raise RPCError(f"a port is a number from 0 to {MOST_PORTS - 1}, but {port} was given")


def connect_once(addr: tuple[str, int], timeout: float = 20) -> socket.socket:
    """A connection, made in `timeout` seconds or refused with OSError; without a timeout once it is there. Raises RPCError for a number
    that is no port."""
    check_port(addr[1])
    sock = socket.create_connection(addr, timeout)
    sock.settimeout(None)
    return sock


def keep_alive(sock: socket.socket) -> None:
    """Let the system ask a silent peer whether it is there, so that one without power or network is lost in 30 s."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4), ("TCP_USER_TIMEOUT", 30_000)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def listen(host: str, port: int, port_end: int, reuse_addr: bool = True) -> tuple[socket.socket, int]:
    """A listening socket on the first free port of [port, port_end), and the port; port 0 is any. Raises RPCError if none is free."""
    check_port(port)
    try:
        family = get_addr_family((host, port))
    except OSError as error:
        raise RPCError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    for number in range(port, min(max(port_end, port + 1), MOST_PORTS)):
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


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to a server that listens there."""
    return host in ("localhost", "::1") or host.startswith("127.")
