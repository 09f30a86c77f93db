"""Frames, and sessions of them with a server that was compiled for this machine: lines that lose and change bytes, malformed packets,
devices that stop, are reset, or say nothing."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tests.micro.projects import QUICK, BadLine, host_project
from tilewright import micro
from tilewright.micro.errors import SessionTerminatedError
from tilewright.micro.project_api.server import IoTimeoutError, TransportClosedError, TransportTimeouts
from tilewright.micro.transport.base import Transport
from tilewright.micro.transport.subprocess import SubprocessTransport
from tilewright.micro.wire import link as links
from tilewright.micro.wire.frames import Decoder, Frame, Kind, check, encode
from tilewright.micro.wire.link import Link
from tilewright.support.errors import RPCError

INIT = struct.pack("<QiQ5si", 21, 2, 5, b"0.8.0", 0)
NONE = struct.pack("<Qiii", 12, 4, 1, 0)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A process that serves the function exp_plus."""
    folder = tmp_path_factory.mktemp("wire") / "project"
    project = host_project("functions", folder, memory_size_bytes=1 << 20, compile_definitions="-DTW_WIRE_PIECE=64u")
    project.close()
    return folder / "build" / "main"


@pytest.fixture
def line(program: Path) -> Any:
    with SubprocessTransport([program]) as transport:
        yield transport


def begun(transport: Transport) -> Link:
    link = Link(transport, QUICK)
    link.start()
    assert link.exchange(INIT) == NONE
    return link


def works(link: Link) -> None:
    """The device's server allocates memory, takes 100 numbers, gives them back, and frees them."""
    tensor = struct.pack("<QiiiBBHqQ", 0, 1, 0, 1, 0, 8, 1, 100, 0)
    answer = link.exchange(message(17, struct.pack("<ii", 2, 7) + tensor + struct.pack("<i", 0)))
    assert struct.unpack_from("<Qiii", answer) == (20, 4, 1, 4), answer
    (address,) = struct.unpack_from("<Q", answer, 20)
    tensor, data = struct.pack("<Q", address) + tensor[8:], random.Random(address).randbytes(100)
    assert link.exchange(message(7, tensor + struct.pack("<Q", 100) + data)) == NONE
    assert link.exchange(message(6, tensor + struct.pack("<Q", 100))) == message(8, data)
    assert link.exchange(message(14, struct.pack("<iiiiiQ", 2, 6, 1, 0, 4, address))) == NONE


def message(code: int, body: bytes) -> bytes:
    return struct.pack("<Qi", len(body) + 4, code) + body


def test_the_check_is_the_catalogued_one() -> None:
    # The check value of CRC-16/IBM-3740 ("CCITT-FALSE") for the digits 1 to 9.
    assert check(b"123456789") == 0x29B1


def test_frames() -> None:
    frames = [Frame(1, 255, kind, number, bytes([255, 253, 254]) * number) for number, kind in enumerate(Kind)]
    data = b"noise\xff" + b"".join([encode(f) for f in frames])
    for size in (1, 7, len(data)):
        decoder = Decoder()
        found = [f for k in range(0, len(data), size) for f in decoder.feed(data[k : k + size])]
        assert found == frames and decoder.damaged == 0


def test_damaged_frames_are_dropped() -> None:
    rng, good = random.Random(1), Frame(1, 2, Kind.LAST, 3, bytes(range(100)) + b"\xff\xfd")
    whole = encode(good)
    for _ in range(3000):
        at = rng.randrange(3, len(whole))
        harmed = whole[:at] + bytes([whole[at] ^ rng.randrange(1, 256)]) + whole[at + 1 :]
        decoder = Decoder()
        found = decoder.feed(harmed[: rng.randrange(len(harmed) + 1)] + whole)
        assert found[-1] == good and all([f == good for f in found])


def test_a_session(line: SubprocessTransport) -> None:
    link = begun(line)
    works(link)
    assert link.piece == 64 and link.resent == 0
    link.end()
    with pytest.raises(SessionTerminatedError, match="the session has ended; open another one"):
        link.exchange(INIT)
    works(begun(line))


def test_ten_thousand_malformed_packets(line: SubprocessTransport) -> None:
    """Frames that are damaged, of no session, of kinds that there are none of, and whole ones with senseless messages: the server drops or
    refuses them, writes nothing that is not its client's, and serves the next session."""
    rng, link = random.Random(5), begun(line)
    refused = 0
    for number in range(10_000):
        match number % 4:
            case 0:
                data = rng.randbytes(rng.randrange(1, 40))
            case 1:
                frame = encode(
                    Frame(
                        link._host,
                        link._device,
                        rng.choice([*Kind]),
                        rng.randrange(256),
                        rng.randbytes(rng.randrange(70)),
                    )
                )
                data = frame[: rng.randrange(len(frame))]
            case 2:
                at = rng.randrange(2, 8)
                frame = encode(
                    Frame(link._host ^ 1, link._device, rng.randrange(6, 256), rng.randrange(256), rng.randbytes(at))
                )
                data = frame[:at] + bytes([frame[at] ^ 1 << rng.randrange(8)]) + frame[at + 1 :]
            case _:
                answer = link.exchange(senseless(rng))
                refused += struct.unpack_from("<i", answer, 8)[0] == 5
                continue
        line.write(data, 1)
    assert refused > 1500
    works(link)
    works(begun(line))


def senseless(rng: random.Random) -> bytes:
    """A message with a code that there is, and a body that is random, or nearly right."""
    code = rng.choice([2, 3, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 99])
    address = rng.choice([0, 8, 1 << 20, rng.getrandbits(48), rng.getrandbits(64)])
    tensor = struct.pack(
        "<QiiiBBHqQ",
        address,
        1,
        0,
        rng.choice([1, 1, -1, 9, 1 << 30]),
        0,
        8,
        1,
        rng.choice([8, -1, 1 << 62]),
        rng.getrandbits(20),
    )
    bodies = [
        rng.randbytes(rng.randrange(60)),
        tensor + struct.pack("<Q", rng.choice([8, 1 << 40])) + rng.randbytes(8),
        struct.pack("<ii", 2, 7) + tensor + struct.pack("<i", 7) + tensor,
        struct.pack("<iiQ", 1, 8, rng.choice([3, 1 << 40])) + b"abc",
        struct.pack("<Qi", rng.choice([16, 17, 18, 64, 4096, rng.getrandbits(13)]), rng.choice([0, 1, 2, 50]))
        + struct.pack("<iQ", rng.choice([1, 4, 73]), rng.getrandbits(8)) * 2,
        struct.pack("<iiii", 2, 6, 1, 0) + struct.pack("<iQ", 4, address),
    ]
    body = rng.choice(bodies)
    return message(code, body)[: rng.choice([len(body) + 12, rng.randrange(12, len(body) + 13)])]


@pytest.mark.parametrize("rate", [0.02, 0.2])
def test_a_bad_line(program: Path, rate: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message is carried out once, whatever happens to its frames."""
    monkeypatch.setattr(links, "AGAIN", 0.01)
    monkeypatch.setattr(links, "SLOWEST", 0.01)
    with BadLine(program, rate, 3) as line:
        link = begun(line)
        for _ in range(40):
            works(link)
        assert line.damaged > 4 and link.resent >= line.damaged // 4


def test_a_session_on_a_bad_line(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "AGAIN", 0.01)
    monkeypatch.setattr(links, "SLOWEST", 0.01)
    values = np.random.default_rng(0).standard_normal(8).astype("float32")
    with micro.Session(BadLine(program, 0.05, 4)) as session:
        function = session.get_system_lib()["exp_plus"]
        a, c = tvm.nd.array(values, session.device), tvm.nd.array(values, session.device)
        for _ in range(20):
            function(a, c, c)
            np.testing.assert_allclose(c.numpy(), (values := 2 * np.exp(a.numpy()) + values), rtol=1e-5)


class Silent(Transport):
    """A line on which a device says what a function answers to each frame."""

    def __init__(self, answer: Callable[[Frame], bytes]) -> None:
        self.answer, self.coming, self.decoder = answer, b"", Decoder()

    def timeouts(self) -> TransportTimeouts:
        return TransportTimeouts(0.02, 0.1, 0.1)

    def open(self) -> None:
        self.coming = b""

    def close(self) -> None:
        pass

    def read(self, n: int, timeout_sec: float | None) -> bytes:
        if not self.coming:
            raise IoTimeoutError("nothing comes")
        data, self.coming = self.coming[:n], self.coming[n:]
        return data

    def write(self, data: bytes, timeout_sec: float | None) -> None:
        self.coming += b"".join([self.answer(f) for f in self.decoder.feed(data)])


def answers(then: Callable[[Frame], bytes]) -> Callable[[Frame], bytes]:
    """A device that begins sessions, and answers later frames as a function does."""
    return lambda f: encode(Frame(f.host, 7, Kind.STARTED, 0, b"\x40\x00")) if f.kind == Kind.START else then(f)


def test_a_device_that_does_not_answer() -> None:
    with (
        pytest.raises(SessionTerminatedError, match=r"does not begin a session for 0\.1 s\. Is it on, is its firmware"),
        micro.Session(Silent(lambda f: b"")),
    ):
        pass
    link = Link(silent := Silent(answers(lambda f: b"\xff\xfd\x09")), silent.timeouts())
    link.start()
    with pytest.raises(SessionTerminatedError, match="does not answer for 0.1 s; [0-9]+ damaged frames have come"):
        link.exchange(INIT)
    assert not link.is_open


@pytest.mark.parametrize(
    "then, said",
    [
        (lambda f: encode(Frame(f.host, 7, Kind.STRANGE, f.number)), "it was reset, or another program"),
        (lambda f: encode(Frame(f.host, 7, Kind.STOPPED, 9, b"fault at 0x10")), "the device stopped: fault at 0x10"),
        (lambda f: encode(Frame(f.host, 7, 0x77, f.number)), "a frame of the kind 0x77 where MORE was expected"),
    ],
)
def test_what_ends_a_session(then: Callable[[Frame], bytes], said: str) -> None:
    link = Link(silent := Silent(answers(then)), silent.timeouts())
    link.start()
    with pytest.raises(SessionTerminatedError, match=said):
        link.exchange(INIT)


def test_what_a_device_says() -> None:
    heard: list[str] = []

    def says(f: Frame) -> bytes:
        log = b"".join([encode(Frame(f.host, 7, Kind.LOG, 0, t)) for t in (b"one\ntw", b"o\nthree")])
        return log + encode(Frame(f.host, 7, Kind.DONE, f.number, NONE))

    link = Link(silent := Silent(answers(says)), silent.timeouts(), heard.append)
    link.start()
    assert link.exchange(INIT) == NONE and heard == ["one", "two"]


def test_a_program_that_ends(program: Path) -> None:
    transport = SubprocessTransport([program])
    with micro.Session(transport) as session:
        array = tvm.nd.array(np.zeros(4, "int8"), session.device)
        assert transport.process is not None
        transport.process.kill()
        with pytest.raises(RPCError, match="TransportClosedError: micro-rpc: .*ended with status -9"):
            array.numpy()
        with pytest.raises(
            RPCError, match="SessionTerminatedError: micro-rpc: the session has ended; open another one"
        ):
            array.numpy()


def test_a_reset_in_the_middle(program: Path) -> None:
    """The device comes back, and knows nothing of the session; another one works."""
    transport = SubprocessTransport([program])
    with micro.Session(transport) as session:
        array = tvm.nd.array(np.zeros(4, "int8"), session.device)
        transport.close()
        transport.open()
        with pytest.raises(RPCError, match="the device knows nothing of this session: it was reset"):
            array.numpy()
    with micro.Session(transport) as session:
        assert tvm.nd.array(np.arange(4, dtype="int8"), session.device).numpy().sum() == 6


def test_two_sessions_one_after_the_other(program: Path) -> None:
    """A client that begins a session ends that of the client before."""
    with SubprocessTransport([program]) as line:
        one, two = begun(line), begun(line)
        with pytest.raises(SessionTerminatedError, match="another program has begun a session"):
            one.exchange(INIT)
        works(two)


def test_addresses_that_a_client_makes_up(line: Any) -> None:
    link = begun(line)
    first_function, pointer = 4096, struct.pack("<iQ", 4, 1 << 40)
    answer = link.exchange(message(3, struct.pack("<Qi", first_function, 1) + pointer))
    assert b"TypeError: a function of a device takes no addresses; give it arrays" in answer
    tensor = struct.pack("<QiiiBBHqQ", 1 << 40, 1, 0, 1, 0, 8, 1, 100, 0)
    answer = link.exchange(message(6, tensor + struct.pack("<Q", 100)))
    assert b"an address that is not of the memory for arrays, and not of the model" in answer
    works(link)


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with (
        pytest.raises(TransportClosedError, match="nothing/main cannot be run: No such file"),
        micro.Session(SubprocessTransport(["/nothing/main"])),
    ):
        pass


def test_memory_that_is_full(program: Path) -> None:
    with micro.Session(SubprocessTransport([program])) as session:
        with pytest.raises(RPCError, match="MemoryError: the memory for arrays of this device has no room for it"):
            tvm.nd.empty((2 << 20,), "int8", session.device)
        arrays = [tvm.nd.empty((100_000,), "int8", session.device) for _ in range(9)]
        with pytest.raises(RPCError, match="no room for it"):
            tvm.nd.empty((200_000,), "int8", session.device)
        del arrays
        assert tvm.nd.empty((900_000,), "int8", session.device).shape == (900_000,)
