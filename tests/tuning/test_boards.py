"""Measurements on boards: servers of this machine, behind a tracker."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.test_workers import interrupted, until
from tests.tuning import kernels
from tilewright import rpc
from tilewright.support.errors import RPCError
from tilewright.tuning.building import LocalBuilder
from tilewright.tuning.measure import Failure, Measured, Run
from tilewright.tuning.running.board import Board
from tilewright.tuning.running.rpc import RPCRunner

HOST = "127.0.0.1"
NAMES = ("right", "wrong", "endless", "leave")


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    builder = LocalBuilder(2)
    built = builder.build([kernels.source(getattr(kernels, n)) for n in NAMES], tmp_path_factory.mktemp("libraries"))
    builder.close()
    return {name: b.path for name, b in zip(NAMES, built, strict=True) if b.path is not None}


@pytest.fixture
def tracker() -> Iterator[rpc.Tracker]:
    found = rpc.Tracker(HOST, 0, silent=True)
    yield found
    found.terminate()


def board(tracker: rpc.Tracker) -> rpc.Server:
    return rpc.Server(HOST, 0, key="board", tracker_addr=(HOST, tracker.port), silent=True)


def free(tracker: rpc.Tracker) -> int:
    client = rpc.connect_tracker(HOST, tracker.port)
    found: int = client.summary()["queue_info"].get("board", {}).get("free", 0)
    client.close()
    return found


def run(libraries: dict[str, Path], name: str) -> Run:
    return Run(libraries[name], kernels.SIGNATURE, libraries["right"], libraries["right"])


def test_a_single_board(libraries: dict[str, Path]) -> None:
    server = rpc.Server(HOST, 0, key="one", silent=True)
    runner = RPCRunner("one", server=(HOST, server.port), timeout=20)
    assert runner.apart
    right, wrong, leave, again = runner.run([run(libraries, n) for n in ("right", "wrong", "leave", "right")])
    assert right.failure is again.failure is None
    assert all([m.seconds and min(m.seconds) > 0 for m in (right, again)])
    assert wrong.failure is Failure.WRONG and "output 1" in wrong.message
    assert leave.failure is Failure.RUN and "the process of the session ended" in leave.message
    runner.close()
    server.terminate()


class Counted(Board):
    """Counts what it measures."""

    measured = 0

    def measure(self, run: Run) -> Measured:
        Counted.measured += 1
        return super().measure(run)


def test_what_a_board_refuses_is_told_at_once(libraries: dict[str, Path], tmp_path: Path) -> None:
    """The session lasts, so the board is not lost."""
    builder = LocalBuilder(1)
    source = kernels.source(kernels.right, "llvm -mtriple=riscv64-linux-gnu")
    (other,) = builder.build([source], tmp_path)
    builder.close()
    assert other.path is not None
    server = rpc.Server(HOST, 0, key="one", silent=True)
    runner = RPCRunner("one", server=(HOST, server.port), timeout=20)
    runner.board = Counted
    (found,) = runner.run([Run(other.path, kernels.SIGNATURE, libraries["right"])])
    assert found.failure is Failure.RUN and Counted.measured == 1
    assert found.message.startswith("ValueError: ") and "was made for riscv64, but this machine is " in found.message
    runner.close()
    server.terminate()


def test_all_boards_work_and_a_lost_one_is_replaced(tracker: rpc.Tracker, libraries: dict[str, Path]) -> None:
    servers = [board(tracker), board(tracker)]
    assert until(lambda: free(tracker) == 2)
    runner = RPCRunner("board", tracker=(HOST, tracker.port), timeout=20)
    used: list[int] = []

    def kill() -> None:
        until(lambda: free(tracker) == 0)
        used.append(free(tracker))
        servers[0].proc.kill()  # type: ignore[union-attr]

    killer = threading.Thread(target=kill)
    killer.start()
    begun = time.monotonic()
    found = runner.run([run(libraries, "right")] * 12)
    killer.join()
    assert used == [0]  # both at once
    assert [m.failure for m in found] == [None] * 12
    assert time.monotonic() - begun < 60
    # The session is given back, and the next round has the board that is left.
    assert until(lambda: free(tracker) == 1)
    assert runner.run([run(libraries, "right")])[0].failure is None
    runner.close()
    servers[1].terminate()


def test_candidates_that_hang_are_told_from_boards_that_are_lost(
    tracker: rpc.Tracker, libraries: dict[str, Path]
) -> None:
    server = board(tracker)
    assert until(lambda: free(tracker) == 1)
    runner = RPCRunner("board", tracker=(HOST, tracker.port), timeout=2, session_timeout=8)
    endless, right = runner.run([run(libraries, "endless"), run(libraries, "right")])
    assert endless.failure is Failure.RUN_TIMEOUT and endless.message == "it took longer than 2 s"
    assert right.failure is None
    server.proc.kill()  # type: ignore[union-attr]
    assert until(lambda: free(tracker) == 0)
    runner = RPCRunner("board", tracker=(HOST, tracker.port), timeout=2, session_timeout=1)
    where = f"with the key 'board' at the tracker {HOST}:{tracker.port}"
    with pytest.raises(RPCError, match=f"^there is no board {where}, and none came back in 1 s$"):
        runner.run([run(libraries, "right")] * 2)
    tracker.terminate()
    with pytest.raises(
        RPCError, match=f"^the tracker of the boards is lost: cannot connect to {HOST}:{tracker.port}: "
    ):
        runner.run([run(libraries, "right")])
    runner.close()


def test_the_last_board_is_lost(
    tracker: rpc.Tracker, libraries: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    """What was measured before is told, what was not waits for a board that comes back, and ends without one."""
    servers = [board(tracker), board(tracker)]
    assert until(lambda: free(tracker) == 2)
    runner = RPCRunner("board", tracker=(HOST, tracker.port), timeout=20, session_timeout=3)
    measured = runner.submit(run(libraries, "right"))
    assert measured.result().failure is None
    lost = [runner.submit(run(libraries, "endless")) for _ in range(3)]
    assert until(lambda: free(tracker) == 0)
    for server in servers:
        server.proc.kill()  # type: ignore[union-attr]
    addresses = "|".join([f"{HOST}:{a.port}, {HOST}:{b.port}" for a, b in (servers, servers[::-1])])
    for future in lost:
        with pytest.raises(RPCError, match=rf"any more \(lost: ({addresses})\), and none came back in 3 s$"):
            future.result()
    told = [record.getMessage() for record in caplog.records]
    assert sorted([text.partition(";")[0] for text in told]) == sorted(
        [f"the board {HOST}:{server.port} is lost" for server in servers]
    )
    assert told[-1].endswith("boards with the key 'board' that are left: 0")
    again = runner.submit(run(libraries, "right"))
    server = board(tracker)
    assert again.result().failure is None
    runner.close()
    server.terminate()


def test_where_boards_are_is_given_once() -> None:
    with pytest.raises(ValueError, match="give one of these"):
        RPCRunner("board")
    with pytest.raises(ValueError, match="give one of these"):
        RPCRunner("board", tracker=(HOST, 1), server=(HOST, 1))


def test_an_interrupt_ends_measurements_and_their_processes(tracker: rpc.Tracker, libraries: dict[str, Path]) -> None:
    server = board(tracker)
    assert until(lambda: free(tracker) == 1)
    runner = RPCRunner("board", tracker=(HOST, tracker.port), boards=2, timeout=60)
    with pytest.raises(KeyboardInterrupt), interrupted(lambda: free(tracker) == 0):
        runner.run([run(libraries, "endless")] * 3)
    assert until(lambda: free(tracker) == 1)
    assert runner.run([run(libraries, "right")])[0].failure is None
    runner.close()
    server.terminate()
