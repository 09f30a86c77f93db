"""A connection to a debugger's stub over GDB's remote serial protocol: memory, registers, breakpoints, runs."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import time
from collections.abc import Sequence
from typing import NamedTuple

from tilewright.micro.debug.packets import PacketReader, packet
from tilewright.micro.errors import ConnectionLost, DeviceTimeout, MicroError

ANSWERS_IN = 5.0
"""Seconds that a stub has for an answer that needs no run of the device."""
LEAST_PACKET = 400
"""Bytes of packets for stubs that do not tell how long theirs may be."""


class Register(NamedTuple):
    """A register by its number in the protocol."""

    number: int
    bits: int


class Stop(NamedTuple):
    """Why the device stopped: a signal's number, and the words of the stub."""

    signal: int
    said: str


class Remote:
    """A connection to a stub.

    features: what the stub said that it can do. pipelined: whether packets are sent before earlier ones are answered; QEMU takes that, and
    so does every stub once acknowledgements are off.
    """

    def __init__(self, sock: socket.socket, where: str) -> None:
        self.sock, self.where = sock, where
        self.reader = PacketReader()
        self.waiting: list[tuple[str, bytes]] = []
        self.acknowledges = True
        self.features: dict[str, str] = {}
        self.registers: dict[str, Register] = {}
        self.packet_bytes = LEAST_PACKET
        self.pipelined = self.binary = False
        self.exchanges = 0
        """How often this side waited for an answer."""

    @staticmethod
    def connect(address: tuple[str, int], patience: float = ANSWERS_IN) -> Remote:
        """Connects to a stub and asks what it can do. Raises ConnectionLost where nobody listens in time, or where it is no stub."""
        where = f"{address[0]}:{address[1]}"
        last, until = "", time.monotonic() + patience
        while True:
            try:
                sock = socket.create_connection(address, timeout=max(0.1, until - time.monotonic()))
                break
            except OSError as error:
                last = str(error)
                if time.monotonic() >= until:
                    raise ConnectionLost(
                        f"no debugger answers at {where}: {last}; start it, or give its address"
                    ) from error
                time.sleep(0.01)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found = Remote(sock, where)
        try:
            found.probe()
        except DeviceTimeout as error:
            found.close()
            raise ConnectionLost(f"what listens at {where} does not speak GDB's remote protocol: {error}") from error
        except BaseException:
            found.close()
            raise
        return found

    def close(self) -> None:
        """Ends the connection; the device stays as it is."""
        with contextlib.suppress(OSError):
            self.sock.close()

    def probe(self) -> None:
        """Asks for features, turns acknowledgements off where that is possible, and reads the names of registers."""
        said = self.ask(b"qSupported:xmlRegisters=arm,riscv;hwbreak+;swbreak+").decode(errors="replace")
        for item in said.split(";"):
            name, equal, value = item.partition("=")
            self.features[name.rstrip("+-?") if not equal else name] = (
                value if equal else item[len(name.rstrip("+-?")) :]
            )
        with contextlib.suppress(ValueError):
            self.packet_bytes = max(LEAST_PACKET, int(self.features.get("PacketSize", ""), 16))
        if self.features.get("QStartNoAckMode") == "+" and self.ask(b"QStartNoAckMode") == b"OK":
            self.acknowledges = False
        # QEMU's stub takes the next packet for an acknowledgement of its answer.
        self.pipelined = (
            not self.acknowledges or "ConditionalBreakpoints" not in self.features and "multiprocess" in self.features
        )
        if self.features.get("qXfer:features:read") == "+":
            self._read_registers()
        self.binary = self.ask(b"X0,0:") == b"OK"

    def _read_registers(self) -> None:
        """Register names and numbers, from the stub's description of its target. QEMU answers `p` only after it was read."""
        number = 0
        text = self._document("target.xml")
        parts = re.findall(r'<xi:include\s+href="([^"]+)"', text)
        for part in [text, *[self._document(name) for name in parts]]:
            for tag in re.findall(r"<reg\s[^>]*>", part):
                facts = dict(re.findall(r'(\w+)\s*=\s*"([^"]*)"', tag))
                number = int(facts.get("regnum", number))
                if "name" in facts:
                    self.registers.setdefault(facts["name"].lower(), Register(number, int(facts.get("bitsize", 32))))
                number += 1

    def _document(self, name: str) -> str:
        """A description of the stub's, in as many pieces as it takes."""
        found, size = b"", max(64, min(self.packet_bytes - 16, 2000))
        while True:
            piece = self.ask(b"qXfer:features:read:%b:%x,%x" % (name.encode(), len(found), size))
            if piece[:1] not in (b"m", b"l"):
                raise ConnectionLost(f"{self.where}: the debugger does not give {name}: {piece[:40]!r}")
            found += piece[1:]
            if piece[:1] == b"l" or len(piece) == 1:
                return found.decode(errors="replace")

    # --- packets

    def send(self, requests: Sequence[bytes]) -> None:
        """Sends packets, all at once."""
        try:
            self.sock.settimeout(ANSWERS_IN)
            self.sock.sendall(b"".join([packet(r) for r in requests]))
        except OSError as error:
            raise ConnectionLost(f"{self.where}: the connection to the debugger broke: {error}") from error

    def receive(self, seconds: float, requested: bytes = b"") -> bytes:
        """The next answer. Raises DeviceTimeout where none comes in time, ConnectionLost where the connection ends."""
        until = time.monotonic() + seconds
        self.exchanges += 1
        while True:
            while self.waiting:
                kind, data = self.waiting.pop(0)
                if kind == "packet":
                    if self.acknowledges and not self.pipelined:
                        self._write(b"+")
                    return data
                if kind == "damaged":
                    self._write(b"-")
                elif kind == "nak" and requested:
                    self._write(packet(requested))
            left = until - time.monotonic()
            if left <= 0:
                raise DeviceTimeout(
                    f"{self.where}: no answer in {seconds:g} s{f' to {requested[:40]!r}' if requested else ''}"
                )
            try:
                self.sock.settimeout(left)
                data = self.sock.recv(1 << 16)
            except TimeoutError:
                continue
            except OSError as error:
                raise ConnectionLost(f"{self.where}: the connection to the debugger broke: {error}") from error
            if not data:
                raise ConnectionLost(f"{self.where}: the debugger ended the connection")
            self.waiting += self.reader.feed(data)

    def _write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self.sock.sendall(data)

    def ask(self, request: bytes, seconds: float = ANSWERS_IN) -> bytes:
        """The answer to one packet."""
        self.send([request])
        return self.receive(seconds, request)

    def ask_all(self, requests: Sequence[bytes], seconds: float = ANSWERS_IN) -> list[bytes]:
        """The answers to several packets, in their order."""
        if not self.pipelined:
            return [self.ask(r, seconds) for r in requests]
        found = []
        # As much as the other side's buffers hold, so that neither waits for the other.
        for first in range(0, len(requests), 16):
            some = requests[first : first + 16]
            self.send(some)
            found += [self.receive(seconds) for _ in some]
        return found

    def _need_ok(self, answers: Sequence[bytes], what: str) -> None:
        refused = next((a for a in answers if a != b"OK"), None)
        if refused is not None:
            raise MicroError(f"{self.where}: the debugger refuses {what}: {_said(refused)}")

    # --- memory and registers

    def writing(self, address: int, data: bytes) -> list[bytes]:
        """The packets that write memory."""
        if self.binary:
            # Escapes double a byte at most.
            step = (self.packet_bytes - 32) // 2
            return [
                b"X%x,%x:%b" % (address + k, len(data[k : k + step]), data[k : k + step])
                for k in range(0, len(data), step)
            ]
        step = (self.packet_bytes - 32) // 2
        return [
            b"M%x,%x:%b" % (address + k, len(data[k : k + step]), data[k : k + step].hex().encode())
            for k in range(0, len(data), step)
        ]

    def write(self, address: int, data: bytes) -> None:
        """Writes memory. Raises MicroError where the stub refuses the address."""
        if data:
            self._need_ok(self.ask_all(self.writing(address, data)), f"to write {len(data)} bytes at {address:#x}")

    def read(self, address: int, size: int) -> bytes:
        """Reads memory. Raises MicroError where the stub refuses the address."""
        return self.read_all([(address, size)])[0]

    def read_all(self, places: Sequence[tuple[int, int]]) -> list[bytes]:
        """Reads several places (address, bytes) of memory, in one exchange where the stub takes that. Raises MicroError where it refuses
        one."""
        step = max(16, (self.packet_bytes - 16) // 2)
        asked = [(a + k, min(step, size - k)) for a, size in places for k in range(0, size, step)]
        answers = iter(self.ask_all([b"m%x,%x" % piece for piece in asked]))
        found = []
        for address, size in places:
            data = bytearray()
            for _ in range(0, size, step):
                answer = next(answers)
                try:
                    data += bytes.fromhex(answer.decode())
                except ValueError:
                    raise MicroError(
                        f"{self.where}: the debugger refuses to read {size} bytes at {address:#x}: {_said(answer)}"
                    ) from None
            if len(data) != size:
                raise MicroError(f"{self.where}: the debugger gave {len(data)} of {size} bytes at {address:#x}")
            found.append(bytes(data))
        return found

    def register(self, name: str) -> int:
        """The value of a register."""
        answer = self.ask(b"p%x" % self._number(name).number)
        try:
            return int.from_bytes(bytes.fromhex(answer.decode()), "little")
        except ValueError:
            raise MicroError(
                f"{self.where}: the debugger refuses to read the register {name}: {_said(answer)}"
            ) from None

    def setting(self, name: str, value: int) -> bytes:
        """The packet that sets a register."""
        register = self._number(name)
        return b"P%x=%b" % (register.number, value.to_bytes(register.bits // 8, "little").hex().encode())

    def set_register(self, name: str, value: int) -> None:
        """Sets a register."""
        self._need_ok([self.ask(self.setting(name, value))], f"to set the register {name}")

    def _number(self, name: str) -> Register:
        found = self.registers.get(name)
        if found is None:
            raise MicroError(
                f"{self.where}: the debugger names no register {name!r}; it has {', '.join(self.registers) or 'none'}"
            )
        return found

    # --- runs

    def set_breakpoint(self, address: int, size: int = 2) -> None:
        """Stops runs before the instruction at an address. Software breakpoints where the stub has none of the hardware's."""
        for kind in (b"Z1", b"Z0"):
            if self.ask(kind + b",%x,%d" % (address, size)) == b"OK":
                return
        raise MicroError(f"{self.where}: the debugger sets no breakpoint at {address:#x}")

    def clear_breakpoint(self, address: int, size: int = 2) -> None:
        """Takes a breakpoint away."""
        for kind in (b"z1", b"z0"):
            self.ask(kind + b",%x,%d" % (address, size))

    def run(self, before: Sequence[bytes], seconds: float) -> Stop:
        """Sends packets, lets the device run, and waits until it stops. Raises DeviceTimeout where it does not stop in time."""
        if self.pipelined and len(before) < 16:
            self.send([*before, b"c"])
            self._need_ok([self.receive(ANSWERS_IN) for _ in before], "what comes before a run")
        else:
            if before:
                self._need_ok(self.ask_all(before), "what comes before a run")
            self.send([b"c"])
        return self.wait(seconds)

    def wait(self, seconds: float) -> Stop:
        """Waits for the stop of a device that runs."""
        while True:
            answer = self.receive(seconds)
            if answer[:1] in (b"T", b"S"):
                return Stop(int(answer[1:3], 16), answer.decode(errors="replace"))
            if answer[:1] in (b"W", b"X"):
                raise ConnectionLost(f"{self.where}: the debugger says that the device ended: {_said(answer)}")
            if answer[:1] != b"O":  # O: what the stub has to say meanwhile
                raise MicroError(f"{self.where}: the debugger does not let the device run: {_said(answer)}")

    def interrupt(self, seconds: float = 1.0) -> Stop:
        """Stops a device that runs."""
        self._write(b"\x03")
        return self.wait(seconds)

    def monitor(self, command: str) -> str:
        """What the stub's own command line answers."""
        self.send([b"qRcmd," + command.encode().hex().encode()])
        said = ""
        while True:
            answer = self.receive(ANSWERS_IN)
            if answer == b"OK":
                return said
            if answer[:1] != b"O":
                raise MicroError(f"{self.where}: the debugger refuses {command!r}: {_said(answer)}")
            with contextlib.suppress(ValueError):
                said += bytes.fromhex(answer[1:].decode()).decode(errors="replace")


def _said(answer: bytes) -> str:
    """A stub's answer in words."""
    if not answer:
        return "it does not know the command"
    return f"it answers {answer[:60].decode(errors='replace')!r}"


def words(data: bytes) -> tuple[int, ...]:
    """The words of 32 bits of memory."""
    return struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])


__all__ = ["ANSWERS_IN", "Register", "Remote", "Stop", "words"]
