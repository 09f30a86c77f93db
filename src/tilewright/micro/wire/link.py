"""Sessions over a line of bytes: a message is sent in frames, each again until it is answered, and its answer is fetched the same way."""

from __future__ import annotations

import contextlib
import os
import struct
import time
from collections.abc import Callable

from tilewright.micro.errors import MicroError, SessionTerminatedError
from tilewright.micro.project_api.server import IoTimeoutError, TransportClosedError, TransportTimeouts
from tilewright.micro.transport.base import Transport
from tilewright.micro.wire.frames import Decoder, Frame, Kind, encode

AGAIN, SLOWEST = 0.5, 2.0
"""Seconds after which a frame is sent again for the first time; each further wait is twice as long, up to SLOWEST."""
READ = 1 << 14
_ANSWERS = (Kind.GOT, Kind.MORE, Kind.DONE)


class Link:
    """A session with a device at the other end of a transport that is open. log: is given what the device says.

    resent: frames that were sent again; `decoder.damaged`: those that came and were damaged.
    """

    def __init__(
        self, transport: Transport, timeouts: TransportTimeouts, log: Callable[[str], None] = lambda text: None
    ) -> None:
        self.transport, self.timeouts, self.log = transport, timeouts, log
        self.decoder = Decoder()
        self.resent = 0
        self.piece = 0
        self._host = self._device = self._number = 0
        self._frames: list[Frame] = []
        self._text = bytearray()
        self.is_open = False

    # --- sessions

    def start(self) -> None:
        """Begins a session. Raises SessionTerminatedError where the device does not answer in session_start_timeout_sec."""
        self._host, self._device, self._number = os.urandom(1)[0], 0, 0
        again = self.timeouts.session_start_retry_timeout_sec or AGAIN
        limit = self.timeouts.session_start_timeout_sec or None
        found = self._asked(
            Frame(self._host, 0, Kind.START, 0), (Kind.STARTED,), again, again, limit, "begin a session"
        )
        if len(found.data) != 2:
            raise SessionTerminatedError(
                f"the device begins a session with {len(found.data)} bytes, not 2; its server is another one"
            )
        self._device, self.piece, self.is_open = found.device, struct.unpack("<H", found.data)[0], True

    def end(self) -> None:
        """Ends the session, if the device still answers."""
        if self.is_open:
            self.is_open = False
            self._number = self._number + 1 & 0xFF
            frame = Frame(self._host, self._device, Kind.END, self._number)
            # A device that is gone has ended the session, too.
            with contextlib.suppress(MicroError, IoTimeoutError, TransportClosedError, OSError):
                self._asked(frame, (Kind.GOT,), AGAIN, AGAIN, 2 * AGAIN, "end the session")

    # --- messages

    def exchange(self, message: bytes) -> bytes:
        """The answer to a message. Raises SessionTerminatedError where the device does not answer in session_established_timeout_sec,
        was reset, or stopped; what the transport raises where it is lost."""
        if not self.is_open:
            raise SessionTerminatedError("the session has ended; open another one")
        pieces = [message[k : k + self.piece] for k in range(0, len(message), self.piece)] or [b""]
        for data in pieces[:-1]:
            self._ask(Kind.PIECE, data, (Kind.GOT,))
        answer = [self._ask(Kind.LAST, pieces[-1], (Kind.MORE, Kind.DONE))]
        while answer[-1].kind == Kind.MORE:
            answer.append(self._ask(Kind.NEXT, b"", (Kind.MORE, Kind.DONE)))
        return b"".join([a.data for a in answer])

    def _ask(self, kind: Kind, data: bytes, wanted: tuple[Kind, ...]) -> Frame:
        self._number = self._number + 1 & 0xFF
        frame = Frame(self._host, self._device, kind, self._number, data)
        limit = self.timeouts.session_established_timeout_sec or None
        try:
            return self._asked(frame, wanted, AGAIN, SLOWEST, limit, "answer")
        except BaseException:
            self.is_open = False
            raise

    def _asked(
        self, frame: Frame, wanted: tuple[Kind, ...], again: float, slowest: float, limit: float | None, what: str
    ) -> Frame:
        """The answer to a frame, which is sent again after `again` seconds, and then less often."""
        begun, data, sent = time.monotonic(), encode(frame), 0
        while True:
            now = time.monotonic()
            if limit is not None and now - begun >= limit:
                raise SessionTerminatedError(self._silent(what, limit))
            self._write(data, limit)
            self.resent += sent > 0
            sent += 1
            until = now + again if limit is None else min(now + again, begun + limit)
            found = self._answer(frame, wanted, until)
            if found is not None:
                return found
            again = min(2 * again, slowest)

    def _silent(self, what: str, limit: float) -> str:
        said = f"; {self.decoder.damaged} damaged frames have come" if self.decoder.damaged else ""
        return (
            f"the device does not {what} for {limit:g} s{said}. Is it on, is its firmware this project's, is the line the right one? A"
            " function that runs longer needs a longer session_established_timeout_sec"
        )

    def _answer(self, frame: Frame, wanted: tuple[Kind, ...], until: float) -> Frame | None:
        """The frame that answers another one; None where none came in time."""
        while True:
            while self._frames:
                found = self._frames.pop(0)
                if self._answers(found, frame, wanted):
                    return found
            left = until - time.monotonic()
            if left <= 0:
                return None
            try:
                data = self.transport.read(READ, left)
            except IoTimeoutError:
                return None
            self._frames += self.decoder.feed(data)

    def _answers(self, found: Frame, frame: Frame, wanted: tuple[Kind, ...]) -> bool:
        """Whether a frame answers another one. Raises SessionTerminatedError where it tells of an end."""
        if found.host != self._host or (frame.kind != Kind.START and found.device != self._device):
            return False
        if found.kind == Kind.LOG:
            self._say(found.data)
            return False
        if found.kind == Kind.STOPPED:
            said = self.transport.explain(found.data.decode(errors="replace"))
            raise SessionTerminatedError(f"the device stopped: {said}")
        if found.number != frame.number:
            return False
        if found.kind == Kind.STRANGE:
            raise SessionTerminatedError(
                "the device knows nothing of this session: it was reset, or another program has begun a session with it"
            )
        if found.kind not in wanted:
            raise SessionTerminatedError(
                f"the device answers with a frame of the kind {found.kind:#x} where {wanted[0].name} was expected"
            )
        return True

    def _say(self, data: bytes) -> None:
        """Passes what the device said on, line by line."""
        self._text += data
        *lines, rest = self._text.split(b"\n")
        self._text = bytearray(rest)
        for line in lines:
            self.log(line.decode(errors="replace"))

    def _write(self, data: bytes, limit: float | None) -> None:
        self.transport.write(data, limit)


__all__ = ["AGAIN", "SLOWEST", "Link"]
