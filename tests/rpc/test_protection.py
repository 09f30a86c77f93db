"""TLS, and the limits of what others may use up."""

from __future__ import annotations

import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tilewright as tvm
from tests.rpc.test_servers import until
from tests.rpc.test_sessions import functions
from tilewright import rpc
from tilewright.exec import rpc_server
from tilewright.rpc import base, client, limits
from tilewright.support.errors import RPCError

FARM, OTHER = (Path(__file__).parent / "certificates" / name for name in ("farm.pem", "other.pem"))
LOOPBACK = "127.0.0.1"


@pytest.fixture
def ended() -> Iterator[list[rpc.Server | rpc.Tracker | rpc.Proxy]]:
    """What is to be terminated after the test."""
    functions()
    found: list[rpc.Server | rpc.Tracker | rpc.Proxy] = []
    yield found
    for each in found:
        each.terminate()


def test_sessions_over_tls(ended: list[rpc.Server]) -> None:
    server = rpc.Server(LOOPBACK, 0, silent=True, tls_cert=FARM)
    ended.append(server)
    for _ in range(2):
        remote = rpc.connect(LOOPBACK, server.port, session_timeout=60, tls_ca=FARM)
        assert remote.get_function("tests.rpc.apply")(lambda x: x + 1, 2) == 3
        data = np.random.default_rng(0).integers(0, 255, 5_000_000, np.uint8)
        assert (tvm.nd.array(data, remote.cpu(0)).numpy() == data).all()
        pid = remote.get_function("tests.rpc.process")()
        del remote
    os.kill(pid, 0)
    until(lambda: not Path(f"/proc/{pid}").exists())


def test_who_does_not_trust_or_does_not_speak_tls(ended: list[rpc.Server]) -> None:
    plain, secure = rpc.Server(LOOPBACK, 0, silent=True), rpc.Server(LOOPBACK, 0, silent=True, tls_cert=FARM)
    ended += [plain, secure]
    with pytest.raises(
        RPCError, match="the certificate of 127.0.0.1:.* is not trusted .*: it is none of the file tls_ca"
    ):
        rpc.connect(LOOPBACK, secure.port, tls_ca=OTHER)
    with pytest.raises(RPCError, match="does not speak TLS .*: was it started with a certificate"):
        rpc.connect(LOOPBACK, plain.port, tls_ca=FARM)
    with pytest.raises(RPCError, match="does not answer the handshake: .*, or has a certificate .tls_ca="):
        rpc.connect(LOOPBACK, secure.port)
    for server in (plain, secure):
        assert rpc.connect(LOOPBACK, server.port, tls_ca=FARM if server is secure else None).cpu(0).exist


def test_files_of_tls(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(RPCError, match="no certificate and private key can be read from '.*none': No such file"):
        rpc.Server(LOOPBACK, 0, tls_cert=tmp_path / "none")
    with pytest.raises(RPCError, match="no certificate and private key can be read from '.*empty' and '.*farm.pem'"):
        rpc.Server(LOOPBACK, 0, tls_cert=empty, tls_key=FARM)
    with pytest.raises(RPCError, match="a private key .* needs its certificate"):
        rpc.Tracker(LOOPBACK, 0, tls_key=FARM)
    with pytest.raises(RPCError, match="no certificates can be read from '.*empty'"):
        rpc.connect(LOOPBACK, 1, tls_ca=empty)


@pytest.mark.parametrize("proxied", [False, True])
def test_a_farm_over_tls(ended: list[rpc.Server | rpc.Tracker | rpc.Proxy], proxied: bool, tmp_path: Path) -> None:
    """Tracker, proxy, server and client have one certificate and one secret."""
    key = tmp_path / "key"
    key.write_text("a secret of this farm")
    tracker = rpc.Tracker(LOOPBACK, 0, silent=True, key_file=key, tls_cert=FARM)
    place = (LOOPBACK, tracker.port)
    ended.append(tracker)
    if proxied:
        proxy = rpc.Proxy(LOOPBACK, 0, tracker_addr=place, silent=True, key_file=key, tls_cert=FARM, tls_ca=FARM)
        ended.append(proxy)
        ended.append(
            rpc.Server(LOOPBACK, proxy.port, is_proxy=True, key="board", silent=True, key_file=key, tls_ca=FARM)
        )
    else:
        ended.append(
            rpc.Server(
                LOOPBACK, 0, key="board", tracker_addr=place, silent=True, key_file=key, tls_cert=FARM, tls_ca=FARM
            )
        )
    client = rpc.connect_tracker(*place, key_file=key, tls_ca=FARM)
    for _ in range(2):
        assert client.request("board", session_timeout=60).get_function("tests.rpc.add")(1, 2) == 3
    with pytest.raises(RPCError, match="demands a key file"):
        rpc.connect_tracker(*place, tls_ca=FARM)


def test_half_open_connections_delay_nobody(ended: list[rpc.Server]) -> None:
    """Clients that say nothing, or half of what they are to say, while another comes."""
    server = rpc.Server(LOOPBACK, 0, silent=True)
    ended.append(server)
    slow = [socket.create_connection((LOOPBACK, server.port)) for _ in range(30)]
    for n, sock in enumerate(slow):
        sock.sendall(struct.pack("<ii", base.RPC_MAGIC, 7)[: n % 9] + b"cli"[: max(n % 12 - 8, 0)])
    start = time.monotonic()
    assert rpc.connect(LOOPBACK, server.port).get_function("tests.rpc.add")(1, 2) == 3
    assert time.monotonic() - start < 2
    for sock in slow:
        sock.settimeout(20)
        assert sock.recv(1) == b""
        sock.close()


def test_connections_beyond_the_limit_are_refused(ended: list[rpc.Server | rpc.Tracker]) -> None:
    few = rpc.Limits(connections=2)
    for served in (rpc.Server(LOOPBACK, 0, silent=True, limits=few), rpc.Tracker(LOOPBACK, 0, silent=True, limits=few)):
        ended.append(served)
        held = [socket.create_connection((LOOPBACK, served.port)) for _ in range(2)]
        time.sleep(0.2)
        with socket.create_connection((LOOPBACK, served.port)) as third:
            third.settimeout(3)
            assert third.recv(1) == b""
        for sock in held:
            sock.close()
    until(lambda: rpc.connect_tracker(LOOPBACK, ended[1].port).summary()["server_info"] == [])
    assert rpc.connect(LOOPBACK, ended[0].port).cpu(0).exist


def test_sessions_at_once(ended: list[rpc.Server | rpc.Tracker]) -> None:
    """Two at a time; the third client gets its turn when one has ended."""
    tracker = rpc.Tracker(LOOPBACK, 0, silent=True)
    place = (LOOPBACK, tracker.port)
    two = rpc.Limits(sessions=2)
    ended += [tracker, rpc.Server(LOOPBACK, 0, key="board", tracker_addr=place, silent=True, limits=two)]
    client = rpc.connect_tracker(*place)
    sessions = [client.request("board", session_timeout=60) for _ in range(2)]
    assert len({s.get_function("tests.rpc.process")() for s in sessions}) == 2
    with pytest.raises(
        RPCError,
        match="no server with the key 'board' became free within 1 s; the tracker has 1 with this key, and all are in",
    ):
        client.request("board", session_timeout=1)
    del sessions[0]
    assert client.request("board", session_timeout=60).get_function("tests.rpc.add")(1, 2) == 3


def test_clients_wait_for_their_turn(ended: list[rpc.Server]) -> None:
    """One that goes away meanwhile is left out."""
    server = rpc.Server(LOOPBACK, 0, silent=True)
    ended.append(server)
    first = rpc.connect(LOOPBACK, server.port)
    with socket.create_connection((LOOPBACK, server.port)) as gone:
        gone.sendall(struct.pack("<ii", base.RPC_MAGIC, 7) + b"client:")
        time.sleep(0.2)
    found: list[int] = []
    waits = threading.Thread(
        target=lambda: found.append(rpc.connect(LOOPBACK, server.port).get_function("tests.rpc.add")(1, 2))
    )
    waits.start()
    time.sleep(0.3)
    assert not found
    del first
    waits.join(10)
    assert found == [3]


@pytest.mark.parametrize("proxied", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_client_of_a_busy_server_is_told(
    ended: list[rpc.Server | rpc.Proxy],
    proxied: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It waits for its turn, at least as long as a session may last, and says so."""
    place: rpc.Server | rpc.Proxy
    if proxied:
        place = rpc.Proxy(LOOPBACK, 0, silent=True)
        ended += [place, rpc.Server(LOOPBACK, place.port, is_proxy=True, key="board", silent=True)]
        reason = "no server with the key 'board' is free there"
    else:
        place = rpc.Server(LOOPBACK, 0, key="board", silent=True)
        ended.append(place)
        reason = r"it serves other clients \(--max-sessions 1\)"
    first = rpc.connect(LOOPBACK, place.port, "board")
    monkeypatch.setattr(client, "ANSWERS_IN", 1.5)
    with pytest.raises(
        RPCError, match=f":{place.port} is busy: {reason}, and this client had no turn in 1.5 s; try again"
    ):
        rpc.connect(LOOPBACK, place.port, "board")
    threading.Timer(2, os.kill, (first.get_function("tests.rpc.process")(), signal.SIGKILL)).start()
    second = rpc.connect(LOOPBACK, place.port, "board", session_timeout=60)
    assert second.get_function("tests.rpc.add")(1, 2) == 3
    assert "this client waits 60 s for its turn" in caplog.text


def test_who_is_silent_loses_its_session(ended: list[rpc.Server]) -> None:
    server = rpc.Server(LOOPBACK, 0, silent=True, limits=rpc.Limits(idle=1))
    ended.append(server)
    remote = rpc.connect(LOOPBACK, server.port)
    add = remote.get_function("tests.rpc.add")
    time.sleep(0.5)
    assert add(1, 2) == 3
    time.sleep(1.5)
    with pytest.raises(RPCError, match="closed the connection|is lost"):
        add(1, 2)


def test_large_messages_and_files(ended: list[rpc.Server]) -> None:
    server = rpc.Server(LOOPBACK, 0, silent=True, limits=rpc.Limits(message=1 << 20, disk=3000))
    ended.append(server)
    remote = rpc.connect(LOOPBACK, server.port, session_timeout=60)
    with pytest.raises(RPCError, match="sent a message of 20000.* bytes, and this side takes 1048576 at most"):
        remote.get_function("tests.rpc.echo")(b"x" * 2_000_000)
    remote.upload(b"x" * 2000, "one")
    with pytest.raises(RPCError, match=r"no room for 2000 bytes of 'two': .* may take 3000 bytes, and 2000 are in use"):
        remote.upload(b"x" * 2000, "two")
    remote.remove("one")
    remote.upload(b"x" * 2000, "two")
    data = np.zeros(3_000_000, np.uint8)  # a copy is no message that memory holds
    assert (tvm.nd.array(data, remote.cpu(0)).numpy() == data).all()


def test_a_full_disk(ended: list[rpc.Server]) -> None:
    """The system refuses to let files grow; the session goes on."""

    def small_files() -> None:
        limits.resource.setrlimit(limits.resource.RLIMIT_FSIZE, (5000, 5000))

    server = rpc.Server(LOOPBACK, 0, silent=True, server_init_callback=small_files)
    ended.append(server)
    remote = rpc.connect(LOOPBACK, server.port, session_timeout=60)
    remote.upload(b"x" * 4000, "one")
    with pytest.raises(
        RPCError, match=r"the disk of the server is full: 'two' is not written, .* let TMPDIR name a larger"
    ):
        remote.upload(b"x" * 9000, "two")
    assert remote.listdir(".") == ["one"] and len(remote.download("one")) == 4000


def test_limits_are_numbers() -> None:
    options = rpc_server.parser().parse_args(["--max-message", "16M", "--max-disk", "2g", "--idle", "30"])
    found = limits.of_options(options, limits.SERVER)
    assert found == rpc.Limits(message=16 << 20, disk=2 << 30, idle=30)
    with pytest.raises(ValueError, match="the limit `sessions` is at least 1, but 0 was given"):
        rpc.Limits(sessions=0)


def test_only_this_machine_connects_by_default(
    ended: list[rpc.Server | rpc.Tracker], caplog: pytest.LogCaptureFixture
) -> None:
    for served in (rpc.Server(port=0), rpc.Tracker(port=0)):
        ended.append(served)
        assert served.host == LOOPBACK and caplog.text == ""
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", served.port))  # an address of this machine that 0.0.0.0 has too
    ended.append(rpc.Server("0.0.0.0", 0))
    assert f"0.0.0.0:{ended[2].port}: whoever reaches it can run code on this machine" in caplog.text
    ended.append(rpc.Server(port=0, key="board", tracker_addr=("192.0.2.1", 9190)))
    assert "the server listens on 127.0.0.1, where they cannot connect (--host 0.0.0.0 lets them)" in caplog.text
