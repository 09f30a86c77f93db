"""What the servers of all template projects share: options, the files of a project, builds, and lines to programs and serial ports."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from tilewright.micro.project_api import server
from tilewright.micro.project_api.server import ProjectOption, ServerError, ServerInfo, TransportTimeouts
from tilewright.micro.templates.program import INPUT_DATA, Program, read_program
from tilewright.micro.transport.base import Transport

MODEL, OPTIONS, SCRIPT = "model.tar", "options.json", "microtvm_api_server.py"
"""Files of a project: the package that it was made of, the options that it was made with, its server."""
TIMEOUTS = TransportTimeouts(0.5, 10.0, 60.0)
HOST_DRIVEN, STANDALONE = "host_driven", "aot_standalone"
"""What firmware does (the option project_type): it serves sessions, or runs its model when a line of words asks for it."""
RPC = ("src/runtime.c", "src/pages.c", "src/platform.c", "src/wire.c", "src/rpc.c", "src/rpc_functions.c", "src/tell.c")
SOURCES = {HOST_DRIVEN: RPC, STANDALONE: ("src/runtime.c", "src/platform.c", "src/tell.c", "src/standalone.c")}
"""The sources of the runtime that firmware needs, besides the functions of string.h."""

SERIAL_OPTIONS = (
    ProjectOption("serial_port", None, None, "str", None, ("flash", "open_transport"), "The port that the board is at: /dev/ttyACM0."),
    ProjectOption("serial_speed", None, 115200, "int", None, ("generate_project", "open_transport"), "Bits a second of the port."),
)  # fmt: skip
"""Options of projects for boards at a serial port."""


class TemplateHandler(server.ProjectAPIHandler):
    """A handler of a template, and of the projects made of it. script: the path of the program that has it."""

    platform_name = ""
    options: Sequence[ProjectOption] = ()
    to_root = ""
    """The path from the file with the program's tables to the project's folder."""

    def __init__(self, script: str | os.PathLike[str]) -> None:
        self.folder = Path(script).resolve().parent
        self.script = Path(script).resolve()
        self.is_template = not (self.folder / MODEL).is_file()
        self.transport: Transport | None = None

    def server_info_query(self, tvm_version: str) -> ServerInfo:
        server.check_version(tvm_version)
        model = None if self.is_template else self.folder / MODEL
        return ServerInfo(self.platform_name, self.is_template, model, self.options)

    # --- options

    def checked(self, method: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a request, with those that the project was made with, and defaults. Raises ServerError for wrong ones."""
        made = json.loads((self.folder / OPTIONS).read_text()) if not self.is_template else {}
        found = {o.name: o.default for o in self.options} | made
        for name, value in options.items():
            option = next((o for o in self.options if o.name == name), None)
            if option is None:
                raise ServerError(
                    f"the project has no option {name!r}; it has {', '.join([o.name for o in self.options])}"
                )
            if value is not None:
                found[name] = _value(option, value)
        for option in self.options:
            if method in (option.required or ()) and found[option.name] is None:
                raise ServerError(f"{method} needs the option {option.name!r}: {option.help}")
        return found

    # --- projects

    def generate_project(
        self, model_library_format_path: Path, standalone_crt_dir: Path, project_dir: Path, options: Mapping[str, Any]
    ) -> None:
        if not self.is_template:
            raise ServerError(f"{self.folder} is a project already; a template makes projects")
        if project_dir.exists():
            raise ServerError(f"{project_dir} is there already; a project is made in a new folder")
        chosen = self.checked("generate_project", options)
        extra = extra_files(chosen["extra_files_tar"])
        header = next((path for path in extra if PurePosixPath(path).name == INPUT_DATA), None)
        standalone = chosen["project_type"] == STANDALONE
        program = read_program(
            model_library_format_path, standalone, f"{self.to_root}{header}" if header and standalone else ""
        )
        files = self.files(program, standalone_crt_dir, chosen)
        both = sorted(extra.keys() & files.keys())
        if both:
            raise ServerError(f"{chosen['extra_files_tar']} has {both[0]}, which is a file of the project")
        files |= extra
        project_dir.mkdir(parents=True)
        shutil.copy(model_library_format_path, project_dir / MODEL)
        shutil.copy(self.script, project_dir / SCRIPT)
        (project_dir / OPTIONS).write_text(
            json.dumps({k: v for k, v in chosen.items() if v is not None}, indent=1) + "\n"
        )
        for path, data in files.items():
            target = project_dir / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data if isinstance(data, bytes) else data.encode())

    def files(self, program: Program, runtime: Path, options: Mapping[str, Any]) -> dict[str, str | bytes]:
        """The files of a project, by path. runtime: the folder of the runtime's sources."""
        raise NotImplementedError

    def run(self, command: Sequence[str], options: Mapping[str, Any], package: str) -> None:
        """Runs a program in the project's folder. Raises ServerError, with its last words, where it fails or is missing."""
        if self.is_template:
            raise ServerError(f"{self.folder} is a template; make a project of it first (generate_project)")
        try:
            done = subprocess.run(
                command, cwd=self.folder, capture_output=True, text=True, errors="replace", check=False
            )
        except OSError as error:
            raise ServerError(
                f"{command[0]} cannot be run: {error.strerror or error}; install it ({package})"
            ) from error
        if options.get("verbose"):
            print(done.stdout, done.stderr, sep="", flush=True)
        if done.returncode:
            words = (done.stdout + done.stderr).strip()[-4000:]
            raise ServerError(f"{' '.join(command)} ended with status {done.returncode} in {self.folder}:\n{words}")

    def flash(self, options: Mapping[str, Any]) -> None:
        self.checked("flash", options)

    # --- the line

    def line(self, options: Mapping[str, Any]) -> Transport:
        """The line to the device. Raises ServerError where it cannot be reached."""
        raise NotImplementedError

    def open_transport(self, options: Mapping[str, Any]) -> TransportTimeouts:
        if self.is_template:
            raise ServerError(f"{self.folder} is a template; it has no device to talk to")
        if self.transport is not None:
            raise ServerError("the transport is open already")
        transport = self.line(self.checked("open_transport", options))
        transport.open()
        self.transport = transport
        return transport.timeouts()

    def close_transport(self) -> None:
        transport, self.transport = self.transport, None
        if transport is not None:
            transport.close()

    def _open(self) -> Transport:
        if self.transport is None:
            raise server.TransportClosedError("the transport is not open")
        return self.transport

    def read_transport(self, n: int, timeout_sec: float | None) -> bytes:
        return self._open().read(n, timeout_sec)

    def write_transport(self, data: bytes, timeout_sec: float | None) -> None:
        self._open().write(data, timeout_sec)


def extra_files(archive: str | None) -> dict[str, str | bytes]:
    """The files of an archive, by their paths in the project. Raises ServerError where it cannot be read, and for paths outside."""
    if archive is None:
        return {}
    try:
        with tarfile.open(archive) as tar:
            opened = {os.path.normpath(m.name): tar.extractfile(m) for m in tar if m.isfile()}
            found: dict[str, str | bytes] = {path: file.read() for path, file in opened.items() if file is not None}
    except (OSError, tarfile.TarError) as error:
        raise ServerError(f"extra_files_tar: {archive} cannot be read: {error}") from error
    outside = [path for path in found if path.startswith((os.sep, os.pardir))]
    if outside:
        raise ServerError(f"extra_files_tar: {archive} has {outside[0]}, which is outside of the project")
    return found


def serial_line(options: Mapping[str, Any]) -> Transport:
    """The serial port that the options name. Raises ServerError where they name none."""
    from tilewright.micro.transport.serial import SerialTransport

    port = options["serial_port"]
    if port is None:
        raise ServerError("open_transport needs the option 'serial_port': the port that the board is at")
    return SerialTransport(port, options["serial_speed"], TIMEOUTS)


def _value(option: ProjectOption, value: Any) -> Any:
    """A value of an option; text, as command lines have it, becomes a number or a truth value. Raises ServerError."""
    given = value
    if option.type == "str" and isinstance(value, list):
        value = " ".join(map(str, value))
    if option.type == "bool" and isinstance(value, str):
        value = {"true": True, "1": True, "false": False, "0": False}.get(value.lower(), value)
    if option.type == "int" and isinstance(value, str) and value.lstrip("-").isdecimal():
        value = int(value)
    kind = {"bool": bool, "int": int}.get(option.type, str)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ServerError(f"the option {option.name!r} is of the type {option.type}, but was given {given!r}")
    if option.choices is not None and value not in option.choices:
        raise ServerError(f"the option {option.name!r} is one of {', '.join(option.choices)}, but was given {given!r}")
    return value


def runtime_texts(folder: Path, sources: Sequence[str]) -> dict[str, str | bytes]:
    """Sources of the runtime, and all of its headers, by their paths in a project."""
    headers = [str(p.relative_to(folder)) for p in sorted(folder.rglob("*.h"))]
    return {f"runtime/{path}": (folder / path).read_bytes() for path in [*sources, *headers]}


def model_texts(program: Program) -> dict[str, str | bytes]:
    """The files of the model, by their paths in a project."""
    return {f"model/{path}": data for path, data in program.files.items()}


def macros(options: Mapping[str, Any], own: Sequence[str] = ()) -> list[str]:
    """The macros that the options of a project are, with a template's own, which they come before."""
    size = options.get("workspace_size_bytes")
    given = str(options.get("compile_definitions") or "").split()
    all_of_them = [*own, *([f"-DTW_TEMPORARIES={size}u"] if size is not None else []), *given]
    return [*{m.partition("=")[0]: m for m in all_of_them}.values()]


__all__ = [
    "HOST_DRIVEN",
    "RPC",
    "SERIAL_OPTIONS",
    "SOURCES",
    "STANDALONE",
    "TIMEOUTS",
    "TemplateHandler",
    "extra_files",
    "macros",
    "model_texts",
    "runtime_texts",
    "serial_line",
]
