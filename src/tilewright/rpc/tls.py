"""TLS, by Python's ssl. The native runtime reads and writes plain sockets, so a socket pair and whoever passes its bytes on stand between.

The side that listens has a certificate. The side that connects trusts the certificates in a file, and those that they have signed, whatever
the host: boards have addresses, not names. Clients prove themselves by key files.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import threading
from concurrent.futures import Future
from dataclasses import dataclass

from tilewright.rpc import streams
from tilewright.support.errors import RPCError

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class TLS:
    """cert: the certificate of this side, for who connects to it; key: its private key, if that is in another file. ca: the
    certificates that this side trusts when it connects to others."""

    cert: Path | None = None
    key: Path | None = None
    ca: Path | None = None


def listening(tls: TLS) -> ssl.SSLContext | None:
    """What a server needs; None without a certificate. Raises RPCError for files that cannot be used."""
    if tls.cert is None:
        if tls.key is not None:
            raise RPCError("a private key (tls_key, --tls-key) needs its certificate (tls_cert, --tls-cert)")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(tls.cert, tls.key)
    except OSError as error:
        files = f"{os.fspath(tls.cert)!r}" + (f" and {os.fspath(tls.key)!r}" if tls.key else "")
        raise RPCError(f"no certificate and private key can be read from {files}: {_reason(error)}") from error
    return context


def connecting(ca: Path | None) -> ssl.SSLContext | None:
    """What a client needs; None without trusted certificates. Raises RPCError for a file that cannot be used."""
    if ca is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    try:
        context.load_verify_locations(ca)
    except OSError as error:
        raise RPCError(f"no certificates can be read from {os.fspath(ca)!r}: {_reason(error)}") from error
    return context


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def refused(error: Exception, where: str) -> RPCError:
    """Why no TLS session came about with who listens at `where`."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return RPCError(
            f"the certificate of {where} is not trusted ({error.verify_message}): it is none of the file tls_ca, --tls-ca"
        )
    return RPCError(
        f"{where} does not speak TLS ({error or type(error).__name__}): was it started with a certificate (--tls-cert)?"
    )


def over(sock: socket.socket, context: ssl.SSLContext, host: str, where: str, seconds: float) -> socket.socket:
    """A plain socket whose bytes a thread sends and receives by TLS over `sock`. Raises RPCError if the other side is not trusted."""
    ours, theirs = socket.socketpair()
    ready: Future[None] = Future()

    async def relay() -> None:
        try:
            secure = await streams.secure(sock, context, host, seconds)
        except (TimeoutError, OSError) as error:
            theirs.close()
            ready.set_exception(refused(error, where))
            return
        ready.set_result(None)
        await streams.join(secure, await streams.of_socket(theirs))

    def run() -> None:
        with contextlib.suppress(OSError):
            asyncio.run(relay())

    threading.Thread(target=run, daemon=True, name=f"TLS with {where}").start()
    try:
        ready.result(seconds + 5)
    except BaseException:
        ours.close()
        raise
    return ours
