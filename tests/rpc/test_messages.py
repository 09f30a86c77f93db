"""Damaged messages, and messages in another order: a session ends, or answers with an error; nothing crashes."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from tests.fuzz import rpc_messages
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
