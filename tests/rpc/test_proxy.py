"""Servers and clients by way of a proxy, and browsers' side of it."""

from __future__ import annotations

import http.client
import socket
import struct
import subprocess
import sys
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
from tilewright.rpc import base, websocket
from tilewright.support.errors import RPCError


@pytest.fixture
def proxy() -> Iterator[rpc.Proxy]:
    functions()
    found = rpc.Proxy("127.0.0.1", 0, web_port=free_port(), silent=True)
    yield found
    found.terminate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def behind(proxy: rpc.Proxy, key: str = "board") -> rpc.Server:
    return rpc.Server("127.0.0.1", proxy.port, is_proxy=True, key=key, silent=True)


def test_sessions_by_way_of_a_proxy(proxy: rpc.Proxy) -> None:
    """Whoever comes first waits for the other; the server comes again after each session."""
    server = behind(proxy)
    for n in range(3):
        remote = rpc.connect("127.0.0.1", proxy.port, "board", session_timeout=60)
        assert remote.get_function("tests.rpc.add")(1, n) == 1 + n
        data = np.random.default_rng(0).integers(0, 255, 3_000_000, np.uint8)
        assert (tvm.nd.array(data, remote.cpu(0)).numpy() == data).all()
        del remote
    server.terminate()
    with pytest.raises(RPCError, match="does not answer the handshake|closed the connection"):
        rpc.client.ANSWERS_IN, seconds = 0.5, rpc.client.ANSWERS_IN
        try:
            rpc.connect("127.0.0.1", proxy.port, "board")
        finally:
            rpc.client.ANSWERS_IN = seconds


def test_a_session_by_way_of_a_proxy_has_its_time(proxy: rpc.Proxy) -> None:
    server = behind(proxy)
    remote = rpc.connect("127.0.0.1", proxy.port, "board", session_timeout=1)
    apply = remote.get_function("tests.rpc.apply")
    start = time.monotonic()
    with pytest.raises(RPCError, match="closed the connection|is lost"):
        while True:
            apply(lambda: time.sleep(0.05))
    assert 0.8 < time.monotonic() - start < 10
    server.terminate()


def test_keys_meet_once(proxy: rpc.Proxy) -> None:
    """Another server with a key that waits already is told so, as is one whose time is over."""
    with socket.create_connection(("127.0.0.1", proxy.port)) as one:
        one.sendall(struct.pack("<ii", base.RPC_MAGIC, 10) + b"server:key")
        time.sleep(0.2)
        with socket.create_connection(("127.0.0.1", proxy.port)) as two:
            two.sendall(struct.pack("<ii", base.RPC_MAGIC, 10) + b"server:key")
            assert struct.unpack("<i", two.recv(4))[0] == base.RPC_CODE_DUPLICATE
    short = rpc.Proxy("127.0.0.1", 0, timeout_client=0.2, silent=True)
    with pytest.raises(RPCError, match="has another key than 'nobody'"):
        rpc.connect("127.0.0.1", short.port, "nobody")
    short.terminate()


def test_a_server_that_left_is_not_waited_for(proxy: rpc.Proxy) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port)) as gone:
        gone.sendall(struct.pack("<ii", base.RPC_MAGIC, 12) + b"server:board")
        time.sleep(0.2)
    time.sleep(0.2)
    server = behind(proxy)
    assert rpc.connect("127.0.0.1", proxy.port, "board").get_function("tests.rpc.add")(1, 2) == 3
    server.terminate()


def test_a_proxy_and_a_tracker() -> None:
    """Two servers with one key behind a proxy are two at the tracker; a server that left is none."""
    functions()
    tracker = rpc.Tracker("127.0.0.1", 0, silent=True)
    place = ("127.0.0.1", tracker.port)
    proxy = rpc.Proxy("127.0.0.1", 0, tracker_addr=place, silent=True)
    servers = [behind(proxy), behind(proxy)]
    client = rpc.connect_tracker(*place)

    def free() -> int | None:
        return client.summary()["queue_info"].get("board", {}).get("free")

    until(lambda: free() == 2)
    one, two = client.request("board", session_timeout=60), client.request("board", session_timeout=60)
    assert one.get_function("tests.rpc.process")() != two.get_function("tests.rpc.process")()
    start = time.monotonic()
    del one, two
    assert client.request("board", session_timeout=60).get_function("tests.rpc.add")(1, 2) == 3
    assert time.monotonic() - start < 5
    until(lambda: free() == 2)
    servers[0].terminate()
    until(lambda: free() == 1)
    for each in (servers[1], proxy, tracker):
        each.terminate()


def test_web_sockets(proxy: rpc.Proxy) -> None:
    """A server that speaks as a browser does."""
    address = f"ws://127.0.0.1:{proxy.web_port}/ws"
    program = f"from tilewright.rpc.proxy import websocket_proxy_server as serve; serve({address!r}, 'page')"
    with subprocess.Popen([sys.executable, "-c", program]) as page:
        for _ in range(2):
            remote = rpc.connect("127.0.0.1", proxy.port, "page")
            data = np.random.default_rng(0).integers(0, 255, 1_000_003, np.uint8)
            remote.upload(b"content", "x")
            assert remote.download("x") == b"content"
            for size in (1, 200, 70_000, len(data)):
                assert (tvm.nd.array(data[:size], remote.cpu(0)).numpy() == data[:size]).all()
            del remote
        page.terminate()


@pytest.mark.parametrize("at", [0, 1, 6])
@pytest.mark.parametrize("size", [1, 4, 7, 1000])
def test_masks_of_frames(size: int, at: int) -> None:
    """RFC 6455, section 5.3: byte i of a frame is combined with byte i mod 4 of its mask."""
    data, mask = bytes(i % 251 for i in range(size)), b"\x01\x20\x83\xf4"
    wanted = bytes(byte ^ mask[(at + i) % 4] for i, byte in enumerate(data))
    assert websocket._masked(data, mask, at) == wanted
    assert websocket._masked(wanted, mask, at) == data


def get(proxy: rpc.Proxy, path: str, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.web_port, timeout=10)
    connection.request("GET", path, headers=headers)
    return connection.getresponse()


UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


def test_pages(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>page</p>")
    (tmp_path / "code.wasm").write_bytes(b"\0asm")
    files = [tmp_path / "code.wasm", ("lib", tmp_path / "code.wasm")]
    origins = ["https://example.org"]
    proxy = rpc.Proxy(
        "127.0.0.1",
        0,
        web_port=free_port(),
        index_page=tmp_path / "index.html",
        resource_files=files,
        web_origins=origins,
        silent=True,
    )
    page = get(proxy, "/")
    assert page.read() == b"<p>page</p>" and page.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    for path in ("/code.wasm", "/lib/code.wasm?version=1"):
        found = get(proxy, path)
        assert found.headers["Content-Type"] == "application/wasm" and found.read() == b"\0asm"
    missing = get(proxy, "/../secret")
    assert missing.status == 404 and b"pages are: /, /code.wasm, /lib/code.wasm" in missing.read()
    # The answer is that of the example in RFC 6455, section 1.3.
    assert get(proxy, "/ws", **UPGRADE).headers["Sec-WebSocket-Accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert get(proxy, "/ws").status == 426
    for origin, status in (
        ("https://evil.example", 403),
        ("https://example.org", 101),
        (f"http://127.0.0.1:{proxy.web_port}", 101),
    ):
        assert get(proxy, "/ws", Origin=origin, **UPGRADE).status == status
    for host in ("evil.example", "[::", ""):
        assert get(proxy, "/ws", Host=host, **UPGRADE).status == 403
    assert get(proxy, "/ws", Origin="http://[::", **UPGRADE).status == 403
    proxy.terminate()
    with pytest.raises(RPCError, match="none.html', which the proxy is to serve to browsers, does not exist"):
        rpc.Proxy("127.0.0.1", 0, index_page=tmp_path / "none.html")


def test_strange_frames_end_their_connection(proxy: rpc.Proxy) -> None:
    """Masked by the wrong side, of text, too long for what they are, cut off."""
    opening = "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in UPGRADE.items()) + "\r\n"
    for frame in (
        b"\x82\x04abcd",
        b"\x81\x84maskabcd",
        b"\x88\xfe\xff\xffmask",
        b"\x89\xfe\x00\xffmask",
        b"\x82\x84",
        b"\x8f\x80mask",
    ):
        with socket.create_connection(("127.0.0.1", proxy.web_port)) as sock:
            sock.settimeout(5)
            sock.sendall(opening.encode())
            assert b" 101 " in sock.recv(1000)
            sock.sendall(frame)
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(1000):
                pass
    with socket.create_connection(("127.0.0.1", proxy.web_port)) as sock:
        sock.settimeout(5)
        sock.sendall(opening.encode())
        sock.recv(1000)
        sock.sendall(b"\x89\x82\0\0\0\0hi")
        assert sock.recv(100) == b"\x8a\x02hi"
    server = behind(proxy)
    assert rpc.connect("127.0.0.1", proxy.port, "board").get_function("tests.rpc.add")(1, 2) == 3
    server.terminate()


def test_a_proxy_that_is_killed_and_back(proxy: rpc.Proxy) -> None:
    server = behind(proxy)
    remote = rpc.connect("127.0.0.1", proxy.port, "board")
    add = remote.get_function("tests.rpc.add")
    assert proxy.proc is not None
    proxy.proc.kill()
    with pytest.raises(RPCError, match="closed the connection|is lost"):
        add(1, 2)
    again = rpc.Proxy("127.0.0.1", proxy.port, silent=True)
    assert rpc.connect("127.0.0.1", again.port, "board").get_function("tests.rpc.add")(1, 2) == 3
    server.terminate()
    again.terminate()


def test_a_server_says_what_is_wrong_with_its_proxy() -> None:
    with pytest.raises(RPCError, match="registers with a proxy needs a key"):
        rpc.Server("127.0.0.1", 1, is_proxy=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        threading.Thread(target=lambda: listener.accept()[0].sendall(b"HTTP/1.1 400\r\n"), daemon=True).start()
        program = f"from tilewright import rpc; s = rpc.Server('127.0.0.1', {port}, is_proxy=True, key='k'); input()"
        with subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            assert (
                "takes no server with the key 'k' (it is no proxy: it answered 0x50545448)" in process.stderr.readline()
            )
            process.kill()
