"""The side of a project: its program `microtvm_api_server.py` has a handler, and answers requests about it (JSON-RPC 2.0, a line each).

class Handler(server.ProjectAPIHandler): ...
if __name__ == "__main__":
    server.main(Handler())
"""

from __future__ import annotations

import abc
import argparse
import base64
import enum
import inspect
import json
import logging
import os
import select
import sys
import time
import traceback
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, get_type_hints

from tilewright.support.errors import TVMError
from tilewright.support.version import VERSION

logger = logging.getLogger("tilewright.micro.project_api")
OPTION_METHODS = ("generate_project", "build", "flash", "open_transport")
"""What takes options of a project."""
MADE = ("generate_project",)
"""The methods of options that a project is made with."""


class ProjectOption(
    NamedTuple(
        "ProjectOption",
        [
            ("name", str),
            ("choices", tuple[str, ...] | None),
            ("default", Any),
            ("type", str),
            ("required", tuple[str, ...] | None),
            ("optional", tuple[str, ...] | None),
            ("help", str),
        ],
    )
):
    """An option of a project.

    choices: its values, where only some are taken. type: "str", "int", "bool" or "path". required, optional: the methods that need it, and
    those that take it (OPTION_METHODS).
    """

    def __new__(
        cls,
        name: str,
        choices: Sequence[str] | None = None,
        default: Any = None,
        type: str = "str",
        required: Sequence[str] | None = None,
        optional: Sequence[str] | None = None,
        help: str = "",
    ) -> ProjectOption:
        methods = [*(required or ()), *(optional or ())]
        if not methods:
            raise ValueError(f"the option {name}: at least one of required and optional names a method")
        unknown = [m for m in methods if m not in OPTION_METHODS]
        if unknown:
            raise ValueError(f"the option {name}: {unknown[0]!r} takes no options; {', '.join(OPTION_METHODS)} do")
        if not name or name.strip() != name:
            raise ValueError(f"{name!r} is no name of an option")

        def listed(values: Sequence[str] | None) -> tuple[str, ...] | None:
            return tuple(values) if values is not None else None

        return super().__new__(cls, name, listed(choices), default, type, listed(required), listed(optional), help)

    def replace(self, attributes: Mapping[str, Any]) -> ProjectOption:
        """The option with other attributes."""
        return ProjectOption(**{**self._asdict(), **attributes})


class ServerInfo(NamedTuple):
    """What a project is. model_library_format_path: its model; None of a template."""

    platform_name: str
    is_template: bool
    model_library_format_path: str | os.PathLike[str] | None
    project_options: Sequence[ProjectOption]


class TransportTimeouts(NamedTuple):
    """Seconds of a session over a transport: after which its first frame is sent again; that the device has to answer it; and that the
    device has to answer any other. 0: no limit."""

    session_start_retry_timeout_sec: float
    session_start_timeout_sec: float
    session_established_timeout_sec: float


class ErrorCode(enum.IntEnum):
    """Codes of JSON-RPC."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    SERVER_ERROR = -32000


class JSONRPCError(TVMError):
    """A request that failed. data: what else is known. client_context: where the client was; None at the server."""

    def __init__(self, code: int, message: str, data: Any = None, client_context: str | None = None) -> None:
        self.code, self.message, self.data, self.client_context = code, message, data, client_context
        super().__init__(message if client_context is None else f"{client_context}: {message}")

    def to_json(self) -> dict[str, Any]:
        """The error as an answer holds it."""
        return {"code": int(self.code), "message": self.message, "data": self.data}

    @classmethod
    def from_json(cls, client_context: str, json_error: Mapping[str, Any]) -> JSONRPCError:
        """The error of an answer."""
        known = {c.__name__: c for c in (ServerError, IoTimeoutError, TransportClosedError, UnsupportedTVMVersionError)}
        data = json_error.get("data")
        kind = known.get(data["kind"]) if isinstance(data, dict) and data.get("kind") in known else None
        message = str(json_error.get("message", "no reason was given"))
        if kind is not None:
            return kind(message, data, client_context)
        return JSONRPCError(int(json_error.get("code", ErrorCode.SERVER_ERROR)), message, data, client_context)


class ServerError(JSONRPCError):
    """What a handler raises, or any other error in it; data: {"kind": its class, "traceback": lines}."""

    def __init__(self, message: str = "", data: Any = None, client_context: str | None = None) -> None:
        super().__init__(ErrorCode.SERVER_ERROR, message, data or {"kind": type(self).__name__}, client_context)

    @classmethod
    def from_exception(cls, exc: BaseException, **kw: Any) -> ServerError:
        """The error that tells of an exception."""
        made = cls(f"{type(exc).__name__}: {exc}", **kw)
        made.set_traceback(traceback.format_exception(exc))
        return made

    def set_traceback(self, traceback: Sequence[str]) -> None:
        """Adds where it happened."""
        self.data = {**self.data, "traceback": list(traceback)}


class TransportClosedError(ServerError):
    """The transport is not open, or the other side has closed it."""


class IoTimeoutError(ServerError):
    """Nothing could be read, or not all written, in time."""


class UnsupportedTVMVersionError(ServerError):
    """The project was made for another version."""


class ProjectAPIHandler(abc.ABC):
    """What a project can do. Options are values by name."""

    @abc.abstractmethod
    def server_info_query(self, tvm_version: str) -> ServerInfo:
        """What the project is. tvm_version: that of the client. Raises UnsupportedTVMVersionError."""

    @abc.abstractmethod
    def generate_project(
        self,
        model_library_format_path: Path,
        standalone_crt_dir: Path,
        project_dir: Path,
        options: Mapping[str, Any],
    ) -> None:
        """Makes a project of a model and of the runtime's sources in a new folder. Templates do that."""

    @abc.abstractmethod
    def build(self, options: Mapping[str, Any]) -> None:
        """Compiles the project's firmware."""

    @abc.abstractmethod
    def flash(self, options: Mapping[str, Any]) -> None:
        """Brings the firmware to the device."""

    @abc.abstractmethod
    def open_transport(self, options: Mapping[str, Any]) -> TransportTimeouts:
        """Begins to talk to the device."""

    @abc.abstractmethod
    def close_transport(self) -> None:
        """Ends it."""

    @abc.abstractmethod
    def read_transport(self, n: int, timeout_sec: float | None) -> bytes:
        """Bytes of the device: one at least, n at most. Raises IoTimeoutError, TransportClosedError."""

    @abc.abstractmethod
    def write_transport(self, data: bytes, timeout_sec: float | None) -> None:
        """Sends all bytes to the device. Raises IoTimeoutError, TransportClosedError."""


_METHODS = {
    name: get_type_hints(member)
    for name, member in inspect.getmembers(ProjectAPIHandler, inspect.isfunction)
    if not name.startswith("_")
}


def _decoded(kind: Any, value: Any) -> Any:
    """A value of JSON as a method takes it. Raises TypeError, ValueError."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in typing.get_args(kind):
            return None
        return _decoded(next(k for k in typing.get_args(kind) if k is not type(None)), value)
    if kind is bytes:
        return base64.b64decode(value, validate=True)
    if kind is Path:
        return Path(value)
    wanted = {int: int, float: (int, float), str: str, Mapping: dict}[origin or kind]
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):  # type: ignore[arg-type]
        raise TypeError(f"{value!r} is no {getattr(origin or kind, '__name__', kind)}")
    return value


def _encoded(value: Any) -> Any:
    """A result as JSON."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, ServerInfo):
        path = value.model_library_format_path
        return {
            **value._asdict(),
            "model_library_format_path": os.fspath(path) if path is not None else None,
            "project_options": [o._asdict() for o in value.project_options],
        }
    return value._asdict() if isinstance(value, TransportTimeouts) else value


class ProjectAPIServer:
    """Answers requests, one after the other, on two files."""

    def __init__(self, read_file: IO[bytes], write_file: IO[bytes], handler: ProjectAPIHandler) -> None:
        self.read_file, self.write_file, self.handler = read_file, write_file, handler

    def serve_forever(self) -> None:
        """Answers until the client is gone."""
        while self.serve_one_request():
            pass

    def serve_one_request(self) -> bool:
        """Answers one request; False where the client is gone."""
        line = self.read_file.readline()
        if not line:
            return False
        number: Any = None
        try:
            request = _request(line)
            number = request.get("id")
            answer = {"result": self._carried_out(request)}
        except JSONRPCError as error:
            answer = {"error": error.to_json()}
        except Exception as error:
            # A handler is a program of the user: the client is told whatever it raises.
            logger.debug("a request failed", exc_info=True)
            answer = {"error": ServerError.from_exception(error).to_json()}
        text = json.dumps({"jsonrpc": "2.0", "id": number, **answer})
        self.write_file.write(text.encode() + b"\n")
        self.write_file.flush()
        return True

    def _carried_out(self, request: Mapping[str, Any]) -> Any:
        name, given = request["method"], request["params"]
        hints = _METHODS.get(name)
        if hints is None:
            raise JSONRPCError(
                ErrorCode.METHOD_NOT_FOUND, f"there is no method {name!r}; there are {', '.join(_METHODS)}"
            )
        wanted = {key: kind for key, kind in hints.items() if key != "return"}
        wrong = sorted(given.keys() ^ wanted.keys())
        if wrong:
            raise JSONRPCError(
                ErrorCode.INVALID_PARAMS,
                f"{name} takes {', '.join(wanted) or 'nothing'}; wrong or missing: {', '.join(wrong)}",
            )
        try:
            params = {key: _decoded(wanted[key], value) for key, value in given.items()}
        except (TypeError, ValueError) as error:
            raise JSONRPCError(ErrorCode.INVALID_PARAMS, f"{name}: {error}") from error
        return _encoded(getattr(self.handler, name)(**params))


def _request(line: bytes) -> dict[str, Any]:
    """A request. Raises JSONRPCError for lines that are none."""
    try:
        request: Any = json.loads(line)
    except ValueError as error:
        raise JSONRPCError(ErrorCode.PARSE_ERROR, f"the request is no JSON: {error}") from error
    kinds = {"jsonrpc": str, "method": str, "params": dict}
    right = isinstance(request, dict) and all([isinstance(request.get(key), kind) for key, kind in kinds.items()])
    if not right or request["jsonrpc"] != "2.0":
        raise JSONRPCError(
            ErrorCode.INVALID_REQUEST, 'a request has "jsonrpc": "2.0", a "method", "params" by name and an "id"'
        )
    found: dict[str, Any] = request
    return found


def read_with_timeout(fd: int, n: int, timeout_sec: float | None) -> bytes:
    """Bytes of a file that does not block: one at least, n at most. timeout_sec: None: no limit. Raises IoTimeoutError,
    TransportClosedError."""
    until = None if timeout_sec is None else time.monotonic() + timeout_sec
    while True:
        _await(fd, until, False)
        try:
            data = os.read(fd, n)
        except BlockingIOError:
            continue
        except OSError as error:
            raise TransportClosedError(f"the transport cannot be read: {error.strerror or error}") from error
        if not data:
            raise TransportClosedError("the other side has closed the transport")
        return data


def write_with_timeout(fd: int, data: bytes, timeout_sec: float | None) -> None:
    """Writes all bytes to a file that does not block. Raises IoTimeoutError, TransportClosedError."""
    until = None if timeout_sec is None else time.monotonic() + timeout_sec
    left = memoryview(data)
    while left:
        _await(fd, until, True)
        try:
            left = left[os.write(fd, left) :]
        except BlockingIOError:
            continue
        except OSError as error:
            raise TransportClosedError(f"the transport cannot be written: {error.strerror or error}") from error


def _await(fd: int, until: float | None, writes: bool) -> None:
    left = None if until is None else max(until - time.monotonic(), 0)
    ready = select.select([] if writes else [fd], [fd] if writes else [], [], left)
    if not ready[writes]:
        raise IoTimeoutError(f"nothing could be {'written to' if writes else 'read from'} the transport in time")


def default_project_options(**kw: Mapping[str, Any]) -> list[ProjectOption]:
    """The options that most projects have. kw: by name of one, attributes to replace."""
    options = [
        ProjectOption("verbose", None, False, "bool", None, ("generate_project", "build", "flash"), "Print what the build says."),
        ProjectOption("project_type", ("host_driven", "aot_standalone"), "host_driven", "str", None, MADE,
            "What the firmware does: it serves sessions, or runs its model when a line of words asks for it."),
        ProjectOption("board", required=MADE, help="The board."),
        ProjectOption("workspace_size_bytes", None, None, "int", None, MADE, "Memory for temporaries of kernels, in bytes."),
        ProjectOption("warning_as_error", None, True, "bool", None, MADE, "Whether warnings are errors."),
        ProjectOption("compile_definitions", None, None, "str", None, MADE, "Macros: -DNAME=VALUE, a list, or separated by spaces."),
        ProjectOption("extra_files_tar", None, None, "path", None, MADE,
            "An archive of files for the project; of its input_data.h firmware without a client takes the input."),
    ]  # fmt: skip
    unknown = kw.keys() - {o.name for o in options}
    if unknown:
        raise ValueError(f"there is no option {sorted(unknown)[0]!r}; there are {', '.join([o.name for o in options])}")
    return [o.replace(kw.get(o.name, {})) for o in options]


def check_version(tvm_version: str) -> None:
    """Raises UnsupportedTVMVersionError where the client is of another version."""
    if tvm_version != VERSION:
        raise UnsupportedTVMVersionError(
            f"the project is of version {VERSION}, but was asked by {tvm_version}; make it again"
        )


def main(handler: ProjectAPIHandler, argv: Sequence[str] | None = None) -> None:
    """Serves a handler on the files that the client's command line names, and closes the transport in the end."""
    parser = argparse.ArgumentParser(description="Answers requests about this project.")
    parser.add_argument("--read-fd", type=int, required=True, help="the number of the file that requests come from")
    parser.add_argument("--write-fd", type=int, required=True, help="the number of the file that answers go to")
    parser.add_argument("--debug", action="store_true", help="tell of requests that fail")
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=logging.DEBUG if args.debug else logging.INFO, stream=sys.stderr)
    with open(args.read_fd, "rb") as read, open(args.write_fd, "wb") as write:
        try:
            ProjectAPIServer(read, write, handler).serve_forever()
        finally:
            # A client that is gone has not closed what it opened, such as an emulator.
            handler.close_transport()


__all__ = [
    "MADE", "ErrorCode", "IoTimeoutError", "JSONRPCError", "ProjectAPIHandler", "ProjectAPIServer", "ProjectOption", "ServerError",
    "ServerInfo", "TransportClosedError", "TransportTimeouts", "UnsupportedTVMVersionError", "check_version",
    "default_project_options", "main", "read_with_timeout", "write_with_timeout",
]  # fmt: skip
