"""Sessions on other machines, directly or by way of a tracker; with programs, and with this process itself."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tilewright.rpc import base, files, handshake, minrpc, tls
from tilewright.rpc.base import RPC_SESS_MASK, TrackerCode
from tilewright.runtime import Device, Module
from tilewright.runtime import device as local_device
from tilewright.runtime.packed_func import PackedFunc, global_func, register_func
from tilewright.support.errors import RPCError
from tilewright.support.near import did_you_mean

PIECE = 4 << 20
"""Bytes of a file that go in one message, where the server takes files in pieces."""
ANSWERS_IN = 30.0
"""Seconds that a server has to answer the handshake, and that a client without a session_timeout waits for its turn."""
EXPLAINS_IN = 3.0
"""Seconds that a tracker has to tell why no server became free."""
ENDS_IN = 10.0
"""Seconds after the end of a session's time, in which the server ends it."""


class RPCSession:
    """A session with a server. Its functions, modules, devices and the arrays on them belong to the server. It ends with the last reference
    to it and to them."""

    def __init__(self, sess: Module) -> None:
        self._sess = sess
        self._tbl_index: int = global_func("rpc.SessTableIndex")(sess)
        self._remote_funcs: dict[str, PackedFunc] = {}

    def get_function(self, name: str) -> PackedFunc:
        """A function that is registered on the server. Raises AttributeError if there is none of that name."""
        found: PackedFunc | None = global_func("runtime.ModuleGetFunction")(self._sess, name, False)
        if found is None:
            raise AttributeError(f"the server has no function `{name}`{did_you_mean(name, self._names())}")
        return found

    def _names(self) -> list[str]:
        """The server's functions; none where it does not list them."""
        names = global_func("runtime.ModuleGetFunction")(self._sess, "ffi.FunctionListGlobalNames", False)
        with contextlib.suppress(TypeError, RPCError):
            return list(names())
        return []

    def _function(self, *names: str) -> PackedFunc:
        """The first of these functions that the server has; asked for once."""
        for name in names:
            if name not in self._remote_funcs:
                found = global_func("runtime.ModuleGetFunction")(self._sess, name, False)
                if found is None:
                    continue
                self._remote_funcs[name] = found
            return self._remote_funcs[name]
        raise AttributeError(f"the server has no function `{names[0]}`")

    def _has(self, name: str) -> bool:
        try:
            self._function(name)
        except AttributeError:
            return False
        return True

    def system_lib(self) -> Module:
        """The code that is linked into the server."""
        found: Module = self._function("runtime.SystemLib", "ffi.SystemLib")()
        return found

    def device(self, dev_type: int | str, dev_id: int = 0) -> Device:
        """A device of the server."""
        dev = local_device(dev_type, dev_id)
        if dev.device_type >= RPC_SESS_MASK:
            raise ValueError(f"{dev} is a device of a session already")
        found = Device(dev.device_type + RPC_SESS_MASK * (self._tbl_index + 1), dev.device_id)
        found.session = self
        return found

    def upload(self, data: bytes | bytearray | str | os.PathLike[str], target: str | None = None) -> None:
        """Copy a file, or bytes, into the session's folder on the server. target: the path there; default: the name of the file. A large
        file goes in pieces. Raises ValueError for bytes without a target."""
        if isinstance(data, (bytes, bytearray, memoryview)):
            if not target:
                raise ValueError("bytes are uploaded to a path: upload(data, target=...)")
            self._send_file(target, [memoryview(data)[i : i + PIECE] for i in range(0, max(len(data), 1), PIECE)])
            return
        path = Path(data)
        with path.open("rb") as file:
            self._send_file(target or path.name, iter(lambda: file.read(PIECE), b""))

    def _send_file(self, target: str, pieces: Any) -> None:
        pieces = iter(pieces)
        first = bytes(next(pieces, b""))
        if not self._has(files.PREFIX + "append"):  # a server of classic TVM takes a file as one message
            first = b"".join([first, *map(bytes, pieces)])
        self._function(files.PREFIX + "upload")(target, first)
        for piece in pieces:
            self._function(files.PREFIX + "append")(target, bytes(piece))

    def download(self, path: str) -> bytearray:
        """A file of the session's folder. Raises RPCError if there is none."""
        if not self._has(files.PREFIX + "read"):
            return bytearray(self._function(files.PREFIX + "download")(path))
        size, found = int(self._function(files.PREFIX + "size")(path)), bytearray()
        while len(found) < size:
            piece = self._function(files.PREFIX + "read")(path, len(found), PIECE)
            if not piece:
                raise RPCError(f"the file {path!r} became shorter while it was downloaded")
            found += piece
        return found

    def download_linked_module(self, path: str) -> bytearray:
        """A library that the server links of a file of the session's folder: an object, or an archive of some (.tar). Raises RPCError."""
        return bytearray(self._function(files.PREFIX + "download_linked_module")(path))

    def remove(self, path: str) -> None:
        """Remove a file or a folder from the session's folder."""
        self._function(files.PREFIX + "remove")(path)

    def listdir(self, path: str) -> list[str]:
        """The names in a folder of the session's."""
        names: str = self._function(files.PREFIX + "listdir")(path)
        return names.split(",") if names else []

    def load_module(self, path: str) -> Module:
        """The module of a library that was uploaded."""
        found: Module = self._function(files.PREFIX + "load_module")(path)
        return found

    def cpu(self, dev_id: int = 0) -> Device:
        """A CPU of the server."""
        return self.device("cpu", dev_id)

    def cuda(self, dev_id: int = 0) -> Device:
        """A CUDA device of the server."""
        return self.device("cuda", dev_id)

    def cl(self, dev_id: int = 0) -> Device:
        """An OpenCL device of the server."""
        return self.device("opencl", dev_id)

    def vulkan(self, dev_id: int = 0) -> Device:
        """A Vulkan device of the server."""
        return self.device("vulkan", dev_id)

    def metal(self, dev_id: int = 0) -> Device:
        """A Metal device of the server."""
        return self.device("metal", dev_id)

    def rocm(self, dev_id: int = 0) -> Device:
        """A ROCm device of the server."""
        return self.device("rocm", dev_id)

    def ext_dev(self, dev_id: int = 0) -> Device:
        """An extension device of the server."""
        return self.device("ext_dev", dev_id)

    def hexagon(self, dev_id: int = 0) -> Device:
        """A Hexagon device of the server."""
        return self.device("hexagon", dev_id)

    def webgpu(self, dev_id: int = 0) -> Device:
        """A WebGPU device of the server."""
        return self.device("webgpu", dev_id)


class LocalSession(RPCSession):
    """A session with this process itself, over the same messages as with another machine: for programs that are to run on both."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tilewright-local-")
        files.offer(Path(self._folder.name))
        client, server = socket.socketpair()
        threading.Thread(target=global_func("rpc.Serve"), args=(server.detach(), "the client"), daemon=True).start()
        super().__init__(global_func("rpc.OpenSession")(client.detach(), "the local session"))


class PopenSession(RPCSession):
    """A session with a program of this machine, which is run for it: `binary` is its command line, or the bytes of the program. It
    reads messages from its standard input and writes answers to its standard output; both are one socket. Raises RPCError."""

    def __init__(self, binary: Sequence[str | os.PathLike[str]] | bytes) -> None:
        super().__init__(minrpc.popen(binary))


def connect(
    url: str,
    port: int,
    key: str = "",
    session_timeout: int = 0,
    session_constructor_args: Sequence[Any] | None = None,
    enable_logging: bool = False,
    key_file: str | os.PathLike[str] | None = None,
    tls_ca: str | os.PathLike[str] | None = None,
) -> RPCSession:
    """A session with a server. key: that of the server. session_timeout: seconds after which the server ends the session; 0: never.
    session_constructor_args: the name of a function of the server, and its arguments, which opens the session in its place: ["rpc.Connect",
    url, port, key, enable_logging, ...] for a server that only the first one reaches, ["rpc.PopenSession", program] for a program.
    key_file: a file with a secret that both sides must know. tls_ca: a file of certificates; the server must have one of them, or one that
    they have signed. If the server is busy, this call waits for its turn: 30 s, or session_timeout if that is longer. Raises RPCError if
    there is no server, or one with another key, or one that stays busy."""
    secret, context = handshake.read_secret(key_file), tls.connecting(tls_ca)
    found = open_session((url, port), key, session_timeout, session_constructor_args or (), secret, context)
    if enable_logging:
        base.logger.info("connected to %s:%s", url, port)
    return RPCSession(found)


def open_session(
    addr: tuple[str, int],
    key: str,
    session_timeout: int,
    constructor_args: Sequence[Any],
    secret: bytes | None,
    context: ssl.SSLContext | None,
) -> Module:
    """The session of `connect`, as the runtime has it. Raises RPCError."""
    where = f"{addr[0]}:{addr[1]}"
    sock = _connected(addr, "the server", context)
    try:
        _greet(sock, key, int(session_timeout), where, secret)
        open_it = global_func("rpc.OpenSession")
        found: Module = open_it(sock.detach(), where, _allowed(session_timeout), *constructor_args)
    except BaseException:
        sock.close()
        raise
    return found


def offer_constructors(secret: bytes | None, context: ssl.SSLContext | None) -> None:
    """Register what opens sessions with third parties for the clients of this process. They prove the secret of this server."""

    def connected(url: str, port: int, key: str, _enable_logging: bool = False, *args: Any) -> Module:
        return open_session((url, port), key, 0, args, secret, context)

    register_func("rpc.Connect", connected, override=True)
    register_func("rpc.PopenSession", minrpc.popen, override=True)


def _allowed(session_timeout: float) -> int:
    """Seconds after which a session's client waits no more for its server, which should have ended it before."""
    return int(session_timeout + ENDS_IN) if session_timeout else 0


def _connected(addr: tuple[str, int], what: str, context: ssl.SSLContext | None) -> socket.socket:
    """A connection, with TLS if there is a context. Raises RPCError."""
    where = f"{addr[0]}:{addr[1]}"
    try:
        sock = base.connect_once(addr, ANSWERS_IN)
    except OSError as error:
        raise RPCError(f"cannot connect to {what} {where}: {base.why_not(error)}") from error
    return sock if context is None else tls.over(sock, context, addr[0], where, ANSWERS_IN)


def _greet(sock: socket.socket, key: str, session_timeout: int, where: str, secret: bytes | None) -> None:
    """The client's half of the handshake."""
    seconds, busy = max(ANSWERS_IN, session_timeout), ""

    def waits(reason: str) -> None:
        nonlocal busy
        busy = reason
        sock.settimeout(seconds)
        base.logger.warning("%s is busy: %s; this client waits %g s for its turn", where, reason, seconds)

    options = f" -timeout={session_timeout}" if session_timeout else ""
    sock.settimeout(ANSWERS_IN)
    try:
        greeting = f"client:{key}{options} {handshake.WAITS}"
        code, _ = handshake.run(sock, handshake.enter(greeting, secret, where, waits))
    except TimeoutError as error:
        if busy:
            raise RPCError(
                f"{where} is busy: {busy}, and this client had no turn in {seconds:g} s; try again later, or wait longer (session_timeout=)"
            ) from error
        raise RPCError(
            f"the server {where} does not answer the handshake for {ANSWERS_IN:g} s: it hangs, or is no RPC server, or is one of classic"
            " TVM that serves another client"
        ) from error
    except OSError as error:
        raise RPCError(
            f"the server {where} does not answer the handshake: {error}; it is no RPC server, has too many connections, or has a"
            " certificate (tls_ca=)"
        ) from error
    if code == base.RPC_CODE_DUPLICATE:
        raise RPCError(f"the key {key!r} is in use already at the proxy {where}")
    if code == base.RPC_CODE_MISMATCH:
        raise RPCError(f"the server {where} has another key than {key!r}")
    if code != base.RPC_CODE_SUCCESS:
        raise RPCError(f"{where} is no RPC server: it answered {code:#x}")
    sock.settimeout(None)


class TrackerSession:
    """A connection to a tracker, which hands out servers by their keys."""

    def __init__(
        self,
        addr: tuple[str, int],
        key_file: str | os.PathLike[str] | None = None,
        tls_ca: str | os.PathLike[str] | None = None,
        up_in: float = 60,
    ) -> None:
        self._addr, self._key_file, self._tls_ca = addr, key_file, tls_ca
        self._sock: socket.socket | None = None
        self._secret, self._context = handshake.read_secret(key_file), tls.connecting(tls_ca)
        self._connect(up_in)

    def __del__(self) -> None:
        self.close()

    def _connect(self, up_in: float = 60, answers: float | None = None) -> None:
        """up_in: seconds in which the tracker may come up. answers: seconds that it has for the handshake; default: ANSWERS_IN."""
        where, answers = f"{self._addr[0]}:{self._addr[1]}", answers or ANSWERS_IN
        sock = base.connect_with_retry(self._addr, up_in)
        if self._context is not None:
            sock = tls.over(sock, self._context, self._addr[0], f"the tracker {where}", answers)
        self._sock = sock
        base.keep_alive(sock)
        sock.settimeout(answers)
        try:
            handshake.run(sock, handshake.enter_tracker(self._secret, where))
        except RPCError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise RPCError(
                f"the tracker {where} does not answer: {error}; it is no tracker, has too many connections, or has a certificate (tls_ca=)"
            ) from error
        sock.settimeout(None)

    def close(self) -> None:
        """End the connection."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def _ask(self, *message: Any, timeout: float | None = None) -> Any:
        if self._sock is None:
            raise RPCError("the connection to the tracker is closed")
        self._sock.settimeout(timeout)
        try:
            base.sendjson(self._sock, message)
            code, value = base.recvjson(self._sock)
        except TimeoutError:
            self.close()  # what the tracker sends later would be taken for another answer
            raise
        except OSError as error:
            raise RPCError(f"the connection to the tracker {self._addr[0]}:{self._addr[1]} is lost: {error}") from error
        self._sock.settimeout(None)
        if code != TrackerCode.SUCCESS:
            raise RPCError(f"the tracker refused: {value}")
        return value

    def summary(self) -> dict[str, Any]:
        """{"queue_info": {key: {"free": n, "pending": n}}, "server_info": [{"key": ..., "addr": [host, port]}]}

        Raises RPCError if the tracker is lost, or does not answer."""
        try:
            found: dict[str, Any] = self._ask(TrackerCode.SUMMARY, timeout=ANSWERS_IN)
        except TimeoutError as error:
            where = f"{self._addr[0]}:{self._addr[1]}"
            raise RPCError(f"the tracker {where} does not answer for {ANSWERS_IN:g} s") from error
        return found

    def _known(self, key: str) -> str:
        """Whether the tracker has servers with this key."""
        try:
            self._connect(0, EXPLAINS_IN)
            servers = self._ask(TrackerCode.SUMMARY, timeout=EXPLAINS_IN)["server_info"]
        except (OSError, RPCError) as error:
            return f"the tracker is lost: {error}"
        keys = [str(server["key"]).removeprefix("server:") for server in servers]
        if key in keys:
            return f"the tracker has {keys.count(key)} with this key, and all are in use"
        return f"the tracker has none with this key{did_you_mean(key, sorted(set(keys)))}"

    def text_summary(self) -> str:
        """The summary as two tables."""
        data = self.summary()
        servers = sorted((f"{':'.join(map(str, s['addr']))}", s["key"]) for s in data["server_info"])
        total: dict[str, int] = {}
        for _, key in servers:
            name = key.removeprefix("server:")
            total[name] = total.get(name, 0) + 1
        queues = [
            (key, str(total.get(key, 0)), str(state["free"]), str(state["pending"]))
            for key, state in sorted(data["queue_info"].items())
        ]
        return "\n".join(
            ["Server List", *_table(("server-address", "key"), servers), "", "Queue Status"]
            + _table(("key", "total", "free", "pending"), queues)
            + [""]
        )

    def request(
        self,
        key: str,
        priority: int = 1,
        session_timeout: int = 0,
        max_retry: int = 5,
        session_constructor_args: Sequence[Any] | None = None,
    ) -> RPCSession:
        """A session with a free server of this key; waits until there is one. priority: higher ones are served first. session_timeout:
        seconds after which the server ends the session, and that this call waits for a server; 0: no limit. Raises RPCError."""
        failed: Exception | None = None
        for attempt in range(max_retry):
            try:
                if self._sock is None:
                    self._connect()
                url, port, matchkey = self._ask(TrackerCode.REQUEST, key, "", priority, timeout=session_timeout or None)
                return connect(
                    url,
                    port,
                    matchkey,
                    session_timeout,
                    session_constructor_args,
                    key_file=self._key_file,
                    tls_ca=self._tls_ca,
                )
            except TimeoutError as error:
                raise RPCError(
                    f"no server with the key {key!r} became free within {session_timeout} s; {self._known(key)}"
                ) from error
            except (OSError, RPCError) as error:
                failed = error
                self.close()
                if attempt + 1 < max_retry:
                    time.sleep(min(0.1 * 2**attempt, 2.0))
        raise RPCError(f"cannot get a server with the key {key!r} in {max_retry} tries; the last one failed: {failed}")

    def request_and_run(
        self,
        key: str,
        func: Callable[[RPCSession], Any],
        priority: int = 1,
        session_timeout: int = 0,
        max_retry: int = 2,
    ) -> Any:
        """What `func` returns for a session with a server of this key; if the session is lost, another one is asked for."""
        failed: Exception | None = None
        for _ in range(max_retry):
            try:
                return func(self.request(key, priority, session_timeout))
            except (OSError, RPCError) as error:
                failed = error
        raise RPCError(f"the function failed on {max_retry} servers with the key {key!r}; the last one: {failed}")


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(str(row[i])) for row in [titles, *rows]) + 2 for i in range(len(titles))]
    rule = "-" * (sum(widths) + 2)
    lines = [
        "".join(str(cell).ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in [titles, *rows]
    ]
    return [rule, lines[0], rule, *lines[1:], rule]


def connect_tracker(
    url: str,
    port: int,
    key_file: str | os.PathLike[str] | None = None,
    tls_ca: str | os.PathLike[str] | None = None,
    up_in: float = 60,
) -> TrackerSession:
    """A connection to a tracker. key_file: a file with the secret of the tracker and of its servers. tls_ca: a file of certificates; the
    tracker and its servers must have one of them, or one that they have signed. up_in: seconds in which the tracker may come up. Raises
    RPCError if there is no tracker."""
    return TrackerSession((url, port), key_file, tls_ca, up_in)
