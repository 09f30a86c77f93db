"""Damaged messages, and messages in another order: a session ends, or answers with an error; nothing crashes."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from tests.fuzz import rpc_doors, rpc_messages
from tilewright.runtime.packed_func import global_func
from tilewright.support.errors import RPCError


def test_damaged_messages_end_no_server() -> None:
    assert rpc_messages.run(600, 3) == []


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "closed the connection"),
        (struct.pack("<Q", 2) + b"xx", "a message of 2 bytes, which is none"),
        (struct.pack("<Qi", 4, 4), "ends too early"),
        (struct.pack("<Qiii", 12, 4, 1, 9999), "a value of a type that this side does not know"),
        (struct.pack("<Qii", 8, 4, 0), "answered with 0 values"),
        (struct.pack("<Qi", 4, 1), "has ended the session"),
        (struct.pack("<QiiiQ", 23, 5, 1, 8, 3) + b"why", "Error caught from RPC call"),
    ],
)
def test_a_server_that_answers_nonsense(answer: bytes, message: str) -> None:
    ours, theirs = socket.socketpair()

    def nonsense() -> None:
        theirs.recv(100)
        theirs.sendall(answer)
        theirs.close()

    threading.Thread(target=nonsense, daemon=True).start()
    with pytest.raises(RPCError, match=message):
        global_func("rpc.OpenSession")(ours.detach(), "the server")


def served(*limits: int) -> socket.socket:
    """A session of this process, answered by a thread; the client's end of its connection."""
    ours, theirs = socket.socketpair()
    ours.settimeout(20)
    serve = global_func("rpc.Serve")
    threading.Thread(target=serve, args=(theirs.detach(), "the client", *limits), daemon=True).start()
    return ours


def call(sock: socket.socket, message: bytes) -> bytes:
    """The other side's answer to a message."""
    sock.sendall(struct.pack("<Q", len(message)) + message)
    return sock.recv(struct.unpack("<Q", sock.recv(8, socket.MSG_WAITALL))[0], socket.MSG_WAITALL)


INIT = struct.pack("<iQ", 2, 5) + b"0.8.0" + struct.pack("<i", 0)


def test_messages_have_a_size() -> None:
    """A larger one is dropped, and answered with an error; the session goes on."""
    with served(1000, 60, 0) as sock:
        answer = call(sock, struct.pack("<ii", 3, 0) + bytes(2000))
        assert b"sent a message of 2004 bytes, and this side takes 1000 at most (--max-message)" in answer
        assert call(sock, INIT) == struct.pack("<iii", 4, 1, 0)


@pytest.mark.parametrize("sent", [b"\0\0", INIT[:6], struct.pack("<Q", 30) + INIT[:20], b""])
def test_silence_ends_a_session(sent: bytes) -> None:
    with served(1000, 1, 2) as sock:
        sock.sendall(sent)
        assert sock.recv(100) == b""


def test_who_takes_nothing_is_not_waited_for() -> None:
    """A client that asks and never reads the answers."""
    with served(1000, 1, 0) as sock:
        sock.settimeout(0.1)
        message = struct.pack("<Q", len(INIT)) + INIT
        with pytest.raises(ConnectionError):
            while True:
                try:
                    sock.send(message * 100)
                except TimeoutError:
                    continue


@pytest.mark.parametrize("kind", list(rpc_doors.DOORS))
def test_damaged_messages_keep_nobody_out(kind: str) -> None:
    assert rpc_doors.run(kind, rpc_messages.damaged, 1500, 4) == []
