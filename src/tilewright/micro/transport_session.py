"""Sessions over a transport: the device's own server answers them (native/c99/src/rpc.c)."""

from __future__ import annotations

import contextlib
import json
import logging
import shutil
import socket
import struct
import tempfile
import threading
from pathlib import Path
from typing import Any

from tilewright.micro.errors import SessionTerminatedError
from tilewright.micro.project import generate_project_from_mlf
from tilewright.micro.project_api.server import TransportTimeouts
from tilewright.micro.transport.base import TransportContextManager
from tilewright.micro.wire.link import Link
from tilewright.rpc.client import RPCSession
from tilewright.runtime import Device, Module
from tilewright.runtime.executor import AotModule
from tilewright.runtime.packed_func import global_func
from tilewright.support.errors import TVMError

logger = logging.getLogger("tilewright.micro")
"""What devices log comes here, at the level INFO."""
SHUTDOWN, EXCEPTION, TEXT = 1, 5, 8
LONGEST = 1 << 30
"""Bytes of a message, at most."""


class TransportSession:
    """A session with a device at the other end of a transport: `with micro.Session(transport) as session`.

    transport_context_manager: what opens the transport. session_name: in the log and in errors. timeout_override: times in the place of
    the transport's. `device` is the board's processor as a device of the runtime. Raises SessionTerminatedError where the device does
    not answer.
    """

    def __init__(
        self,
        transport_context_manager: TransportContextManager,
        session_name: str = "micro-rpc",
        timeout_override: TransportTimeouts | None = None,
    ) -> None:
        self.transport_context_manager, self.session_name = transport_context_manager, session_name
        self.timeout_override = timeout_override
        self._exits = contextlib.ExitStack()
        self.link: Link | None = None
        self._rpc: RPCSession | None = None

    def __enter__(self) -> TransportSession:
        if self.link is not None:
            raise SessionTerminatedError(f"{self.session_name}: the session was opened already")
        with contextlib.ExitStack() as exits:
            transport = exits.enter_context(self.transport_context_manager)
            self.link = Link(transport, self.timeout_override or transport.timeouts(), self._log)
            self.link.start()
            ours, theirs = socket.socketpair()
            exits.callback(self.link.end)
            self._ended: BaseException | None = None
            pump = threading.Thread(target=self._pump, args=(theirs, self.link), name="tilewright-micro", daemon=True)
            pump.start()
            exits.callback(pump.join)
            exits.callback(_shut, theirs)
            self._rpc = RPCSession(global_func("rpc.OpenSession")(ours.detach(), self.session_name))
            self.device: Device = self._rpc.cpu(0)
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._rpc = None
        self._exits.close()

    def _log(self, line: str) -> None:
        logger.info("%s: %s", self.session_name, line)

    def rpc(self) -> RPCSession:
        """The session's functions. Raises SessionTerminatedError where it is closed."""
        if self._rpc is None:
            raise SessionTerminatedError(f"{self.session_name}: the session is closed, or was never opened")
        return self._rpc

    def get_system_lib(self) -> Module:
        """The functions that are linked into the firmware."""
        return self.rpc().system_lib()

    def create_aot_executor(self) -> Module:
        """The model of the firmware that was compiled ahead of time."""
        found: Module = self.rpc().get_function("tvm.aot_executor.create")(
            self.get_system_lib(), self.device, "default"
        )
        return found

    def _pump(self, sock: socket.socket, link: Link) -> None:
        """Passes the messages of this process to the device, and its answers back. What goes wrong is the answer to the message."""
        try:
            while True:
                head = _exactly(sock, 8)
                (size,) = struct.unpack("<Q", head)
                body = _exactly(sock, min(size, LONGEST))
                if struct.unpack_from("<i", body)[0] == SHUTDOWN:
                    return
                try:
                    answer = link.exchange(head + body)
                except (TVMError, OSError) as error:
                    sock.sendall(_failure(f"{type(error).__name__}: {self.session_name}: {error}"))
                else:
                    sock.sendall(answer)
        except OSError:
            pass  # this process has closed the session
        finally:
            sock.close()


def create_local_aot_executor(session: TransportSession) -> AotModule:
    """The model of a session's firmware that was compiled ahead of time, as its executor."""
    return AotModule(session.create_aot_executor())


_served: list[tuple[TransportSession, Any]] = []
"""Sessions of this process that belong to clients of its server, and what they need; they end with the process."""


def compile_and_create_micro_session(
    mod_src_bytes: bytes,
    template_project_dir: str,
    project_options: str = "{}",
    project_dir: str = "",
    use_existing: bool = False,
) -> Module:
    """What a server does for a client: it makes a project of a package in the model library format, builds and flashes it, and opens a
    session, to which all that the client asks is passed on. project_options: JSON. project_dir: where the project is made; "": in a
    temporary folder. use_existing: whether a project that is there gives way to the new one."""
    place = Path(project_dir) if project_dir else Path(tempfile.mkdtemp(prefix="tilewright-project-"))
    place.mkdir(parents=True, exist_ok=True)
    package, folder = place / "model.tar", place / "project"
    if use_existing:
        shutil.rmtree(folder, ignore_errors=True)
    package.write_bytes(mod_src_bytes)
    project = generate_project_from_mlf(template_project_dir, folder, package, json.loads(project_options or "{}"))
    with contextlib.ExitStack() as exits:
        exits.callback(project.close)
        project.build()
        project.flash()
        session = exits.enter_context(TransportSession(project.transport(), "a session of the server"))
        _served.append((session, exits.pop_all()))
    return session.rpc()._sess


def _exactly(sock: socket.socket, size: int) -> bytes:
    parts, left = [], size
    while left:
        part = sock.recv(min(left, 1 << 20))
        if not part:
            raise ConnectionError
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _failure(text: str) -> bytes:
    """The answer that raises an error where a message was sent."""
    data = text.encode()
    body = struct.pack("<iiiQ", EXCEPTION, 1, TEXT, len(data)) + data
    return struct.pack("<Q", len(body)) + body


__all__ = ["TransportSession", "compile_and_create_micro_session", "create_local_aot_executor"]
