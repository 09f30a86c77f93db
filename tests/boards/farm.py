"""Boards behind a tracker, as tuning has them: servers without Python, each for a processor of its own, run by QEMU."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

from tests.boards.boards import PATIENCE, Board
from tilewright import rpc

HOST = "127.0.0.1"


class Farm:
    """A tracker, and boards that are registered with it under the names of their processors. port: the tracker's."""

    def __init__(self) -> None:
        self._tracker = rpc.Tracker(HOST, 0, silent=True)
        self.port = self._tracker.port
        self._servers: list[subprocess.Popen[str]] = []

    @property
    def tracker(self) -> tuple[str, int]:
        """Its address."""
        return HOST, self.port

    def start(self, board: Board) -> str:
        """A board. Its address, once the tracker has it."""
        options = (f"--tracker={HOST}:{self.port}", f"--key={board.name}")
        environment = {**os.environ, "TVM_NUM_THREADS": "2", **dict(board.environment)}
        command = board.command("server", "--port=0", *options)
        # A group of its own, which can be killed with the processes of its sessions.
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
        self._servers.append(server)
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line.startswith("serving on "), line
        address = f"{HOST}:{line.rsplit(':', 1)[1].strip()}"
        until(lambda: address in self.addresses(board))
        return address

    def kill(self, number: int) -> None:
        """A board that was started, in this order, loses its power."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._servers[number].pid, signal.SIGKILL)
        self._servers[number].wait(PATIENCE)

    def kill_tracker(self) -> None:
        """The tracker ends; the boards stay."""
        self._tracker.terminate()

    def addresses(self, board: Board) -> list[str]:
        """The boards of a processor that the tracker has."""
        client = rpc.connect_tracker(*self.tracker)
        servers = client.summary()["server_info"]
        client.close()
        return [f"{s['addr'][0]}:{s['addr'][1]}" for s in servers if s["key"] == f"server:{board.name}"]

    def free(self, board: Board) -> int:
        """How many of them nobody uses."""
        client = rpc.connect_tracker(*self.tracker)
        queues = client.summary()["queue_info"]
        client.close()
        return int(queues.get(board.name, {}).get("free", 0))

    def session(self, board: Board) -> rpc.RPCSession:
        """A session with a free board of a processor."""
        return rpc.connect_tracker(*self.tracker).request(board.name, session_timeout=PATIENCE)

    def end(self) -> None:
        """Ends the boards and the tracker."""
        for number, server in enumerate(self._servers):
            self.kill(number)
            assert server.stdout is not None
            server.stdout.close()
        self._tracker.terminate()


def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Waits for it."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it did not happen in time"
        time.sleep(0.05)


@contextlib.contextmanager
def farm(*boards: Board) -> Iterator[Farm]:
    """A tracker and boards."""
    made = Farm()
    try:
        for board in boards:
            made.start(board)
        yield made
    finally:
        made.end()
