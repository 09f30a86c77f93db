"""Sessions with programs: they are run for the session, and it is on their standard input and output."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from tilewright.runtime import Module
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
    except OSError as error:
        ours.close()
        raise RPCError(
            f"the program of the session, {command[0]!r}, cannot be run: {error.strerror or error}"
        ) from error
    finally:
        theirs.close()

    def reap() -> None:
        process.wait()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    threading.Thread(target=reap, daemon=True).start()
    session: Module = global_func("rpc.OpenSession")(ours.detach(), f"the program {command[0]}")
    return session
