"""The debug connection against a stub in this process: features, memory, registers, runs, and a wire that goes wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.micro.fake_stub import BASE, FakeStub, noise
from tilewright import micro
from tilewright.micro.board import board
from tilewright.micro.debug.packets import MOST_BYTES, PacketReader, packet
from tilewright.micro.debug.remote import Remote
from tilewright.micro.debug.servers import free_port, start
from tilewright.micro.errors import ConnectionLost, DeviceTimeout, MicroError

QEMU = "PacketSize=1000;qXfer:features:read+;vContSupported+;multiprocess+"
OPENOCD = "PacketSize=400;qXfer:features:read+;QStartNoAckMode+"
STUBS = {
    "plain": ("PacketSize=200;qXfer:features:read+", False),
    "QEMU": (QEMU, False),
    "OpenOCD": (OPENOCD, False),
    "pyOCD": (OPENOCD, True),
}


@pytest.fixture
def stub() -> Iterator[Callable[..., FakeStub]]:
    made = []

    def make(*args: object, **options: object) -> FakeStub:
        made.append(FakeStub(*args, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("name", STUBS)
def test_stubs(name: str, stub: Callable[..., FakeStub]) -> None:
    features, binary = STUBS[name]
    device = stub(features, binary=binary)
    remote = Remote.connect(device.address)
    assert (remote.binary, remote.acknowledges, remote.pipelined) == (
        binary,
        name in ("plain", "QEMU"),
        name != "plain",
    )
    data = random.Random(1).randbytes(5000)
    remote.write(BASE + 3, data)
    assert device.memory[3:5003] == data and remote.read(BASE + 3, 5000) == data
    assert max(len(r) for r in device.asked) <= int(features[11:14], 16) * 16
    remote.set_register("xpsr", 0x01000000)
    assert remote.register("xpsr") == device.registers[25] == 0x01000000
    remote.set_breakpoint(BASE + 8)
    stop = remote.run([remote.setting("pc", BASE)], 1)
    assert stop.signal == 5 and remote.register("pc") == BASE + 8
    remote.close()


def test_what_a_stub_refuses(stub: Callable[..., FakeStub]) -> None:
    remote = Remote.connect(stub().address)
    with pytest.raises(MicroError, match="refuses to write 4 bytes at 0x10: it answers 'E14'"):
        remote.write(0x10, b"abcd")
    with pytest.raises(MicroError, match="refuses to read 4 bytes at 0x10"):
        remote.read(0x10, 4)
    with pytest.raises(MicroError, match="names no register 'x9'; it has r0, r1, pc, xpsr"):
        remote.register("x9")
    device = stub(answer=lambda r: packet(b"E01") if r[:1] in b"Z" else None)
    with pytest.raises(MicroError, match="sets no breakpoint at 0x20000000"):
        Remote.connect(device.address).set_breakpoint(BASE)
    device = stub(answer=lambda r: packet(b"X09") if r == b"c" else None)
    with pytest.raises(ConnectionLost, match="the device ended: it answers 'X09'"):
        Remote.connect(device.address).run([], 1)


def test_a_damaged_answer_is_asked_for_again(stub: Callable[..., FakeStub]) -> None:
    answers: list[bytes] = []

    def once(request: bytes) -> bytes | None:
        if request[:1] != b"p" or answers:
            return None
        answers.append(request)
        return b"+$12345678#00" + b"noise" + packet(bytes.fromhex("00").hex().encode() * 4)

    assert Remote.connect(stub(answer=once).address).register("pc") == 0


def test_runs_of_a_stub_that_compresses() -> None:
    reader = PacketReader()
    body = b"0* "
    told = b"$%b#%02x" % (body, sum(body) & 255)
    assert [*reader.feed(told[:3])] == [] and [*reader.feed(told[3:])] == [("packet", b"0000")]
    assert [*reader.feed(packet(b"a#b$c}d*"))] == [("packet", b"a#b$c}d*")]


def test_a_stub_that_says_nothing(stub: Callable[..., FakeStub]) -> None:
    remote = Remote.connect(stub(answer=lambda r: b"" if r[:1] == b"c" else None).address)
    with pytest.raises(DeviceTimeout, match="no answer in 0.1 s"):
        remote.run([], 0.1)


def test_connections_that_break(stub: Callable[..., FakeStub]) -> None:
    device = stub()
    remote = Remote.connect(device.address)
    remote.sock.shutdown(2)
    with pytest.raises(ConnectionLost, match="connection to the debugger broke|ended the connection"):
        remote.read(BASE, 4)
    address = device.address
    device.close()
    device.thread.join(5)
    with pytest.raises(ConnectionLost, match=f"no debugger answers at 127.0.0.1:{address[1]}"):
        Remote.connect(address, 0.05)


def test_ten_thousand_malformed_packets() -> None:
    """None of them is taken for a packet whose checksum is wrong; the next good packet is read, whatever came before it."""
    rng, reader = random.Random(23), PacketReader()
    for k in range(10000):
        good = b"good %d" % k
        found = [*reader.feed(noise(rng))]
        found += reader.feed(packet(good))
        assert found[-1] == ("packet", good) and not reader.left


def test_malformed_packets_do_not_end_a_connection(stub: Callable[..., FakeStub]) -> None:
    rng = random.Random(5)

    def between(request: bytes) -> bytes | None:
        junk = bytes([b for b in noise(rng) if b not in b"$%-"])
        return junk + b"+" + packet(b"%08x" % 7) if request[:1] == b"p" else None

    remote = Remote.connect(stub(answer=between).address)
    assert {remote.register("r0") for _ in range(300)} == {7 << 24}


def test_a_packet_without_an_end() -> None:
    with pytest.raises(ConnectionLost, match="a packet that does not end"):
        [*PacketReader().feed(b"$" + b"0" * (MOST_BYTES + 1))]


def test_programs_that_serve_boards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(MicroError, match="the board mps2_an500 is not reached by 'openocd', but by qemu"):
        start(board("mps2_an500"), "openocd")
    monkeypatch.setenv("TILEWRIGHT_QEMU_SYSTEM", str(tmp_path))
    with pytest.raises(MicroError, match=r"there is no qemu-system-arm in .*; install it \(Debian: qemu-system-arm\)"):
        start(board("mps2_an500"), "qemu")
    monkeypatch.setenv("TILEWRIGHT_PYOCD", str(tmp_path / "pyocd"))
    with pytest.raises(
        MicroError, match=r"pyocd cannot be run: No such file or directory; install it \(pip install pyocd\)"
    ):
        start(board("microbit"), "pyocd")
    program = tmp_path / "openocd"
    program.write_text('#!/bin/sh\necho "no probe found: $@" >&2\nexit 3\n')
    program.chmod(0o755)
    monkeypatch.setenv("TILEWRIGHT_OPENOCD", str(program))
    server = start(board("stm32f746_disco"), "openocd")
    try:
        with pytest.raises(
            ConnectionLost,
            match=r"ended with status 3: no probe found: -f board/stm32f7discovery.cfg -c gdb_port \d+; .*reset halt",
        ):
            server.connect()
    finally:
        server.close()


def test_a_session_with_a_board_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWRIGHT_QEMU_SYSTEM", str(tmp_path))
    with pytest.raises(MicroError, match="there is no qemu-system-arm"), micro.Session("microbit"):
        pass
    config = micro.generate_config("microbit", server_port=free_port())
    with pytest.raises(ConnectionLost, match="no debugger answers at 127.0.0.1"), micro.Session(config):
        pass
