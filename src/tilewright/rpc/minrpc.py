"""Sessions with programs: they are run for the session, and it is on their standard input and output.

server = rpc.with_minrpc(cc.create_executable)
relay.build(mod, "llvm -system-lib").export_library("program", fcompile=server)
remote = rpc.PopenSession(["./program"])
module = remote.system_lib()
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tilewright.runtime import Module, libinfo
from tilewright.runtime.packed_func import global_func
from tilewright.support.errors import RPCError


def popen(binary: Sequence[str | os.PathLike[str]] | bytes) -> Module:
    """The session of a program that is run for it."""
    folder = None
    if isinstance(binary, (bytes, bytearray)):
        folder = tempfile.mkdtemp(prefix="tilewright-popen-")
        program = Path(folder) / "server"
        program.write_bytes(binary)
        program.chmod(0o700)
        command = [str(program)]
    else:
        command = [os.fspath(part) for part in binary]
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=theirs.fileno())
        theirs.close()
        threading.Thread(target=process.wait, daemon=True).start()
        session: Module = global_func("rpc.OpenSession")(ours.detach(), f"the program {command[0]}")
    except OSError as error:
        raise RPCError(
            f"the program of the session, {command[0]!r}, cannot be run: {error.strerror or error}"
        ) from error
    finally:
        for sock in (ours, theirs):
            sock.close()
        if folder is not None:  # once it has answered, its file is needed no more
            shutil.rmtree(folder, ignore_errors=True)
    return session


def find_minrpc_server_libpath(server: str = "posix_popen_server") -> str:
    """The source of a program that serves a client. Raises RuntimeError for a name of none."""
    folder = Path(libinfo.find_source_path(), "server")
    path = folder / f"{server}.cc"
    if not path.is_file():
        raise RuntimeError(f"there is no server {server!r}: {path} does not exist; posix_popen_server.cc does")
    return os.fspath(path)


def with_minrpc(
    compile_func: Callable[..., None], server: str = "posix_popen_server", runtime: str = "libtilewright_runtime"
) -> Callable[..., None]:
    """For `export_library(path, fcompile=with_minrpc(cc.create_executable))`: makes a program of the library's objects and a server. It
    serves the one who runs it (`PopenSession`), with the library as `system_lib()`. runtime: the runtime library that it is linked to,
    where it lies now. Raises RuntimeError for a server or a runtime that does not exist."""
    source, (library, *_) = find_minrpc_server_libpath(server), libinfo.find_lib_path(f"{runtime}.so")

    def fcompile(
        output: str, objects: str | Sequence[str], options: Sequence[str] | None = None, **kwargs: Any
    ) -> None:
        files = [objects] if isinstance(objects, str) else list(objects)
        linked = [*libinfo.host_options(library), *(options or ())]
        compile_func(output, [*files, source], options=linked, **kwargs)

    fcompile.need_system_lib = True  # type: ignore[attr-defined]
    for name in ("object_format", "get_target_triple"):
        if hasattr(compile_func, name):
            setattr(fcompile, name, getattr(compile_func, name))
    return fcompile
