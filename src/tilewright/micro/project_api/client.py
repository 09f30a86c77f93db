"""The side of a program that uses a project: it starts the project's server, and asks it on two pipes."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from tilewright.micro.project_api.server import (
    JSONRPCError,
    ProjectOption,
    ServerInfo,
    TransportTimeouts,
)
from tilewright.support.errors import TVMError
from tilewright.support.version import VERSION

SERVER_LAUNCH_SCRIPT_FILENAME = "launch_microtvm_api_server.sh"
SERVER_PYTHON_FILENAME = "microtvm_api_server.py"
ENDS_IN = 5.0
"""Seconds that a server has to end, once its client has gone."""


class ProjectAPIErrorBase(TVMError):
    """A server of a project is not there, or does not speak the protocol."""


class ConnectionShutdownError(ProjectAPIErrorBase):
    """The server has ended, or was shut down."""


class MalformedReplyError(ProjectAPIErrorBase):
    """An answer that is none."""


class MismatchedIdError(ProjectAPIErrorBase):
    """An answer to another question."""


class ProjectAPIServerNotFoundError(ProjectAPIErrorBase):
    """A folder without a server: no project, and no template."""


class UnsupportedProtocolVersionError(ProjectAPIErrorBase):
    """The server speaks another version of the protocol."""


RPCError = JSONRPCError


class ProjectAPIClient:
    """Asks the server of a project. read_file, write_file: of its answers, and to it. Errors of the server are raised as JSONRPCError, or
    as one of its subclasses (TransportClosedError, ...)."""

    def __init__(
        self,
        read_file: IO[bytes],
        write_file: IO[bytes],
        testonly_did_write_request: Callable[[], None] | None = None,
        ended: Callable[[], str] = lambda: "",
    ) -> None:
        self.read_file: IO[bytes] | None = read_file
        self.write_file: IO[bytes] | None = write_file
        self._did_write, self._ended = testonly_did_write_request, ended
        self._number = 0
        self._lock = threading.Lock()

    @property
    def is_shutdown(self) -> bool:
        """Whether it has ended."""
        return self.read_file is None

    def shutdown(self) -> None:
        """Ends the server: what it reads from is closed."""
        with self._lock:
            self._close()
        self._ended()

    def _close(self) -> None:
        for file in (self.write_file, self.read_file):
            if file is not None:
                # The server may be gone, and with it what was not sent yet.
                with contextlib.suppress(OSError):
                    file.close()
        self.read_file = self.write_file = None

    def _asked(self, method: str, **params: Any) -> Any:
        with self._lock:
            if self.read_file is None or self.write_file is None:
                raise ConnectionShutdownError("the server of the project was shut down")
            self._number += 1
            request = {"jsonrpc": "2.0", "method": method, "params": params, "id": self._number}
            try:
                self.write_file.write(json.dumps(request).encode() + b"\n")
                self.write_file.flush()
                if self._did_write is not None:
                    self._did_write()
                line = self.read_file.readline()
            except OSError as error:
                line, why = b"", f": {error.strerror or error}"
            else:
                why = ""
            if not line:
                self._close()
                raise ConnectionShutdownError(f"the server of the project ended during {method}{why}{self._ended()}")
            return self._result(method, request, line)

    def _result(self, method: str, request: Mapping[str, Any], line: bytes) -> Any:
        try:
            answer = json.loads(line)
        except ValueError as error:
            raise MalformedReplyError(f"{method}: the server answered what is no JSON: {line[:200]!r}") from error
        if not isinstance(answer, dict) or ("result" in answer) == ("error" in answer):
            raise MalformedReplyError(f"{method}: the server answered without a result: {line[:200]!r}")
        if answer.get("jsonrpc") != "2.0":
            raise UnsupportedProtocolVersionError(
                f"{method}: the server speaks JSON-RPC {answer.get('jsonrpc')!r}, not 2.0"
            )
        if "error" in answer and isinstance(answer["error"], dict):
            raise JSONRPCError.from_json(method, answer["error"])
        if answer.get("id") != request["id"]:
            raise MismatchedIdError(f"{method}: the server answered {answer.get('id')!r}, not {request['id']}")
        return answer.get("result")

    def server_info_query(self, tvm_version: str = VERSION) -> ServerInfo:
        """What the project is."""
        found = self._asked("server_info_query", tvm_version=tvm_version)
        try:
            path = found["model_library_format_path"]
            return ServerInfo(
                str(found["platform_name"]),
                bool(found["is_template"]),
                Path(path) if path is not None else None,
                [ProjectOption(**o) for o in found["project_options"]],
            )
        except (TypeError, KeyError, ValueError) as error:
            raise MalformedReplyError(
                f"server_info_query: the server does not tell what the project is: {error!r}"
            ) from error

    def generate_project(
        self,
        model_library_format_path: str | os.PathLike[str],
        standalone_crt_dir: str | os.PathLike[str],
        project_dir: str | os.PathLike[str],
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Makes a project of a template."""
        self._asked(
            "generate_project",
            model_library_format_path=os.fspath(model_library_format_path),
            standalone_crt_dir=os.fspath(standalone_crt_dir),
            project_dir=os.fspath(project_dir),
            options=dict(options or {}),
        )

    def build(self, options: Mapping[str, Any] | None = None) -> None:
        """Compiles the project."""
        self._asked("build", options=dict(options or {}))

    def flash(self, options: Mapping[str, Any] | None = None) -> None:
        """Brings the firmware to the device."""
        self._asked("flash", options=dict(options or {}))

    def open_transport(self, options: Mapping[str, Any] | None = None) -> TransportTimeouts:
        """Begins to talk to the device."""
        return TransportTimeouts(**self._asked("open_transport", options=dict(options or {})))

    def close_transport(self) -> None:
        """Ends it."""
        self._asked("close_transport")

    def read_transport(self, n: int, timeout_sec: float | None) -> bytes:
        """Bytes of the device."""
        return base64.b64decode(self._asked("read_transport", n=n, timeout_sec=timeout_sec))

    def write_transport(self, data: bytes, timeout_sec: float | None) -> None:
        """Sends bytes to the device."""
        self._asked("write_transport", data=base64.b64encode(data).decode(), timeout_sec=timeout_sec)


def instantiate_from_dir(project_dir: str | os.PathLike[str], debug: bool = False) -> ProjectAPIClient:
    """Starts the server of a folder: launch_microtvm_api_server.sh where it has one, else microtvm_api_server.py. debug: the server tells
    of requests that fail. Raises ProjectAPIServerNotFoundError."""
    folder = Path(project_dir).resolve()
    script, program = folder / SERVER_LAUNCH_SCRIPT_FILENAME, folder / SERVER_PYTHON_FILENAME
    if os.name == "posix" and script.is_file() and os.access(script, os.X_OK):
        command = [str(script)]
    elif program.is_file():
        command = [sys.executable, str(program)]
    else:
        raise ProjectAPIServerNotFoundError(
            f"{folder} is no project, and no template: it has neither {SERVER_LAUNCH_SCRIPT_FILENAME} nor {SERVER_PYTHON_FILENAME}"
        )
    its_read, our_write = os.pipe()
    our_read, its_write = os.pipe()
    command += ["--read-fd", str(its_read), "--write-fd", str(its_write), *(["--debug"] if debug else [])]
    try:
        process = subprocess.Popen(command, cwd=folder, pass_fds=(its_read, its_write), stdin=subprocess.DEVNULL)
    except OSError as error:
        os.close(our_read)
        os.close(our_write)
        raise ProjectAPIServerNotFoundError(f"{command[0]} cannot be run: {error.strerror or error}") from error
    finally:
        os.close(its_read)
        os.close(its_write)

    def ended() -> str:
        try:
            status = process.wait(ENDS_IN)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        return f"; it ended with status {status}"

    return ProjectAPIClient(os.fdopen(our_read, "rb"), os.fdopen(our_write, "wb"), ended=ended)


__all__ = [
    "SERVER_LAUNCH_SCRIPT_FILENAME", "SERVER_PYTHON_FILENAME", "ConnectionShutdownError", "MalformedReplyError", "MismatchedIdError",
    "ProjectAPIClient", "ProjectAPIErrorBase", "ProjectAPIServerNotFoundError", "RPCError", "UnsupportedProtocolVersionError",
    "instantiate_from_dir",
]  # fmt: skip
