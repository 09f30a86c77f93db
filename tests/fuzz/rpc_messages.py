"""Damaged messages: none may end a process otherwise than by the end of its session.

    python -m tests.fuzz.rpc_messages --count 100000 --seed 0

The messages of a real session are recorded, then sent again to servers in damaged forms and in other orders: bytes changed, cut off,
inserted, numbers replaced by their extremes, lengths that do not fit, messages twice, half a message before the connection ends. Servers,
trackers and proxies get damaged handshakes and messages of theirs (`rpc_doors.py`).
"""

from __future__ import annotations

import argparse
import contextlib
import random
import socket
import struct
import subprocess
import sys
import threading
import time

import numpy as np

import tilewright as tvm
from tests.fuzz import rpc_doors
from tests.fuzz.progress import Progress
from tilewright import rpc
from tilewright.runtime.packed_func import global_func

EXTREMES = [
    0,
    1,
    -1,
    1 << 31,
    (1 << 31) - 1,
    1 << 32,
    1 << 47,
    (1 << 63) - 1,
    -(1 << 63),
    7,
    64,
    65,
    68,
    70,
    71,
    73,
    128,
    1 << 16,
]
SERVER = """
import resource, sys, tempfile, pathlib
import tilewright as tvm
from tilewright.rpc import files
from tilewright.runtime.packed_func import global_func
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
tvm.register_func("tests.rpc.echo", lambda *x: x[0] if x else None)
tvm.register_func("tests.rpc.apply", lambda f, *x: f(*x))
with tempfile.TemporaryDirectory() as folder:
    files.offer(pathlib.Path(folder))
    global_func("rpc.Serve")(int(sys.argv[1]), "the fuzzer")
print("ended")
"""


def start() -> tuple[socket.socket, subprocess.Popen[str]]:
    """A server's process, and the client's end of its connection."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(theirs.fileno())],
        pass_fds=[theirs.fileno()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    theirs.close()
    return ours, process


def recorded() -> list[bytes]:
    """The messages of a client in a session that uses all there is."""
    sock, process = start()
    client, middle = socket.socketpair()
    sent: list[bytes] = []

    def forward(source: socket.socket, target: socket.socket, keep: list[bytes] | None) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 20):
                if keep is not None:
                    keep.append(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    threads = [
        threading.Thread(target=forward, args=(middle, sock, sent), daemon=True),
        threading.Thread(target=forward, args=(sock, middle, None), daemon=True),
    ]
    for thread in threads:
        thread.start()
    remote = rpc.RPCSession(global_func("rpc.OpenSession")(client.detach(), "the recorded server"))
    echo, apply = remote.get_function("tests.rpc.echo"), remote.get_function("tests.rpc.apply")
    for value in (
        None,
        True,
        3,
        2.5,
        "text",
        b"bytes",
        "a longer text that is an object",
        [1, ["x"]],
        remote.cpu(0),
        echo,
    ):
        echo(value)
    apply(lambda x: x, 1)
    device = remote.cpu(0)
    a = tvm.nd.array(np.arange(12, dtype="float32").reshape(3, 4), device)
    b = tvm.nd.empty((3, 4), "float32", device)
    a.copyto(b)
    b.numpy()
    apply(echo, 1)
    device.sync()
    remote.upload(b"x" * 100, "file")
    remote.download("file")
    with contextlib.suppress(tvm.TVMError):
        remote.load_module("file")
    _ = device.exist, device.max_clock_rate
    del a, b
    echo(1)
    del echo, apply, value, remote, device
    process.wait(20)
    stream, messages = b"".join(sent), []
    while stream:
        (size,) = struct.unpack_from("<Q", stream)
        messages.append(stream[8 : 8 + size])
        stream = stream[8 + size :]
    return messages


def damaged(message: bytes, rng: random.Random) -> bytes:
    """A message in which something else stands."""
    data = bytearray(message)
    for _ in range(rng.choice([0, 1, 1, 2, 4])):
        if not data:
            break
        at = rng.randrange(len(data))
        kind = rng.randrange(5)
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            size = rng.choice([4, 8])
            at -= at % 4
            value = rng.choice(EXTREMES) & ((1 << 8 * size) - 1)
            data[at : at + size] = value.to_bytes(size, "little")
        elif kind == 2:
            del data[at : at + rng.choice([1, 4, 8, len(data)])]
        elif kind == 3:
            data[at:at] = rng.randbytes(rng.choice([1, 4, 8, 100]))
        else:
            data[0:4] = rng.choice([*range(22), 255]).to_bytes(4, "little")
    return bytes(data)


def framed(message: bytes, rng: random.Random) -> bytes:
    """A message with its length, which rarely does not fit."""
    size = (
        len(message)
        if rng.random() < 0.98
        else rng.choice([0, 1, 3, len(message) + 5, 1 << 20, 1 << 40, (1 << 64) - 1])
    )
    return struct.pack("<Q", size) + message


def run(count: int, seed: int, progress: bool = False) -> list[str]:
    """Send so many messages; what was wrong."""
    messages, rng, found = recorded(), random.Random(seed), []
    bar = Progress(count) if progress else None
    sent = 0
    while sent < count:
        sock, process = start()
        sock.settimeout(20)
        first, history = sent, []

        def drain(sock: socket.socket = sock) -> None:
            with contextlib.suppress(OSError):
                while sock.recv(1 << 16):
                    pass

        reader = threading.Thread(target=drain, daemon=True)
        reader.start()
        with contextlib.suppress(OSError):
            sock.sendall(framed(messages[0], random.Random(1)))
            for _ in range(rng.choice([20, 200, 1000])):
                if sent >= count:
                    break
                data = framed(damaged(rng.choice(messages), rng), rng)
                history.append(data)
                sock.sendall(data if rng.random() < 0.999 else data[: len(data) // 2])
                sent += 1
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_WR)
        try:
            out, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            found.append(
                f"messages {first} to {sent} of seed {seed}: the server did not end; the last was {history[-1][:80].hex()}"
            )
        else:
            if process.returncode != 0 or out != "ended\n":
                found.append(
                    f"messages {first} to {sent} of seed {seed}: the server ended with {process.returncode}: {err[-500:]}"
                )
        sock.close()
        sent = max(sent, first + 1)
        if bar is not None:
            if len(found) > bar.failures:
                bar.clear()
                print(found[-1], flush=True)
            bar.done, bar.failures = sent, len(found)
            bar.show()
    if bar is not None:
        bar.clear()
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.rpc_messages",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=10_000, help="messages to each (default: 10000)")
    parser.add_argument("--seed", type=int, default=0)
    kinds = ["session", *rpc_doors.DOORS]
    parser.add_argument("--against", action="append", choices=kinds, help="what gets the messages (default: all)")
    options = parser.parse_args(argv)
    wrong = False
    for kind in options.against or kinds:
        begun = time.monotonic()
        if kind == "session":
            found = run(options.count, options.seed, True)
        else:
            found = rpc_doors.run(kind, damaged, options.count, options.seed, True)
        print(
            *found,
            f"{kind}: {options.count} messages in {time.monotonic() - begun:.0f} s: {len(found)} finds",
            sep="\n",
        )
        wrong |= bool(found)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
