"""Measurements on boards: machines with a server of remote calls (`rpc`), which a tracker hands out, or a single one."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple

from tilewright.support.errors import RPCError, TVMError
from tilewright.support.workers import Ending, Outcome
from tilewright.tuning.measure import Failure, Measured, NoMachineError, Run, Runner
from tilewright.tuning.running.board import Address, Board, Place
from tilewright.tuning.running.measuring import Plan

TRIES = 2
"""Boards on which a candidate is tried when one is lost."""
COUNTED_FOR = 1.0
"""Seconds after which boards are counted again."""
POLLED = 0.2
"""Seconds between two questions whether there is a board."""
COMES_BACK = 60.0
"""Seconds that a board is waited for where there is none, at most: it may start anew."""
ENDED = Measured((), (), Failure.LOST, "the measurement was ended")

logger = logging.getLogger("tilewright.tuning")


class _Waiting(NamedTuple):
    """A library that waits for a board. tries: which try the next one is."""

    run: Run
    found: Future[Measured]
    tries: int = 1


class RPCRunner(Runner):
    """Measures on boards, several at once. Sessions are given back when nothing waits to be measured, so that others can use the boards.
    The log `tilewright.tuning` warns of each board that is lost.

    tracker, key: of the boards; or server, and its key. boards: sessions at once; by default as many as the tracker has boards. timeout:
    seconds of a candidate, and of the reference; those for uploading them count. The others are those of `Place` and of `LocalRunner`.
    Raises ValueError unless either a tracker or a server is given.
    """

    apart = True
    board = Board

    def __init__(
        self,
        key: str = "",
        tracker: tuple[str, int] | None = None,
        server: tuple[str, int] | None = None,
        boards: int | None = None,
        timeout: float = 30.0,
        session_timeout: int | None = None,
        priority: int = 1,
        plan: Plan | None = None,
        device: str = "cpu",
        key_file: str | os.PathLike[str] | None = None,
        tls_ca: str | os.PathLike[str] | None = None,
    ) -> None:
        if (tracker is None) == (server is None):
            raise ValueError(
                "boards are those of a tracker (tracker=, key=), or a single one (server=): give one of these"
            )
        files = [None if file is None else os.fspath(file) for file in (key_file, tls_ca)]
        ends = session_timeout if session_timeout is not None else int(max(300, 4 * timeout))
        self.place = Place(key, tracker, server, ends, priority, device, *files)
        self.timeout, self._most = timeout, boards
        self.plan = plan if plan is not None else Plan(seconds=min(timeout / 2, 1.0))
        self._lock, self._asking = threading.Lock(), threading.Lock()
        self._there: frozenset[Address] = frozenset()
        self._lost: list[Address] = []
        self._waiting: deque[_Waiting] = deque()
        self._open = 0
        self._idle: list[Board] = []
        self._busy: dict[Board, threading.Thread] = {}
        self._counted = (0, 0.0)

    def run(self, runs: Sequence[Run]) -> list[Measured]:
        """The times of each library, in the order of the libraries. Those that no board was left for are LOST. Raises NoMachineError
        where there was no board for any of them."""
        futures = [self.submit(run) for run in runs]
        found: list[Measured] = []
        errors: list[RPCError] = []
        try:
            for future in futures:
                try:
                    found.append(future.result())
                except RPCError as error:
                    errors.append(error)
                    found.append(Measured((), (), Failure.LOST, str(error)))
        except BaseException:
            self.close()
            raise
        with self._lock:
            ending = [] if self._open else list(self._busy.values())
        for thread in ending:
            thread.join()
        if errors and len(errors) == len(runs):
            raise errors[-1]
        return found

    def submit(self, run: Run) -> Future[Measured]:
        """The times of a library, once a board has measured it. The future raises NoMachineError without board or tracker."""
        found: Future[Measured] = Future()
        try:
            count = self._count()
        except RPCError as error:
            found.set_exception(error)
            return found
        with self._lock:
            self._open += 1
            self._waiting.append(_Waiting(run, found))
            if len(self._busy) < min(count, self._open):
                board = self._idle.pop() if self._idle else self.board(self.place, self.plan, self.timeout)
                thread = threading.Thread(target=self._serve, args=(board,), name="tilewright-board", daemon=True)
                self._busy[board] = thread
                thread.start()
        return found

    def close(self) -> None:
        """Ends all sessions. What waits, or is being measured, is lost."""
        with self._lock:
            waiting, self._waiting = list(self._waiting), deque()
            boards, threads = [*self._idle, *self._busy], list(self._busy.values())
        for one in waiting:
            self._told(one, ENDED)
        for board in boards:
            board.end()
        for thread in threads:
            thread.join()
        with self._lock:
            self._idle = [board for board in self._idle if not board.is_ended]

    def _count(self) -> int:
        """Sessions at once. Without a board, one may come up while it is waited for. Raises NoMachineError where the tracker is lost."""
        there, when = self._counted
        if self._most is not None and there:
            return self._most
        if not there or time.monotonic() - when > COUNTED_FOR:
            there = max(len(self._boards()), 1)
            self._counted = there, time.monotonic()
        return self._most or there

    def _boards(self) -> frozenset[Address]:
        """The boards that are there now. Tells which were lost since the last time. Raises NoMachineError where the tracker is lost."""
        with self._asking:
            there = self.place.boards()
            gone, self._there = sorted(self._there - there), there
            self._lost = [*[a for a in self._lost if a not in there], *gone]
        for host, port in gone:
            left = f"boards with the key {self.place.key!r} that are left: {len(there)}"
            logger.warning("the board %s:%d is lost; %s", host, port, left)
        return there

    def _wait_for_boards(self, board: Board) -> frozenset[Address]:
        """The boards that are there; where there are none, one may come back, as long as something is to be measured. Raises
        NoMachineError."""
        seconds = min(COMES_BACK, self.place.session_timeout)
        ends = time.monotonic() + seconds
        while not (there := self._boards()) and self._waiting:
            if time.monotonic() >= ends or board.is_ended:
                lost = ", ".join([f"{host}:{port}" for host, port in self._lost])
                gone = f" any more (lost: {lost})" if lost else ""
                raise NoMachineError(f"there is no board {self.place}{gone}, and none came back in {seconds:g} s")
            time.sleep(POLLED)
        return there

    def _opened(self, board: Board) -> Outcome:
        """A session, as `Board.open`. Whoever waits for one waits no more once the boards are lost that were there."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(COUNTED_FOR):
                try:
                    if self._boards():
                        continue
                except RPCError:
                    pass  # the tracker is lost
                board.stop_waiting()
                return

        threading.Thread(target=watch, name="tilewright-boards", daemon=True).start()
        try:
            return board.open()
        finally:
            over.set()

    def _serve(self, board: Board) -> None:
        """Measures what waits, in a thread of the board, until nothing does or there is no board."""
        while True:
            error: BaseException | None = None
            try:
                why = self._measure_all(board)
            except BaseException as raised:
                why = ENDED.message
                error = None if board.is_ended and isinstance(raised, TVMError) else raised
            with self._lock:
                if self._waiting and not why:
                    # It came while the session was given back.
                    continue
                del self._busy[board]
                if not board.is_ended:
                    self._idle.append(board)
                left: list[_Waiting] = []
                if not self._busy:
                    # Nobody is there to measure what waits.
                    left, self._waiting = list(self._waiting), deque()
            for one in left:
                self._told(one, ENDED, error if error is not None else NoMachineError(why))
            return

    def _measure_all(self, board: Board) -> str:
        """Measures until nothing waits, or returns why there is no board."""
        while self._waiting:
            # A candidate is taken once there is a board, so that another one may take it meanwhile.
            try:
                before = self._wait_for_boards(board)
                ready = self._opened(board)
            except (TVMError, OSError) as error:
                if board.is_ended:
                    raise
                return str(error)
            if ready.ending is Ending.DIED and not board.is_ended and not self._boards():
                continue
            if ready.ending is not Ending.DONE:
                return ready.message.removeprefix("RPCError: ")
            one = self._take()
            if one is None:
                break
            found = self._tried(board, one, ready.value, before)
            if found is not None:
                self._told(one, found)
        board.give_back()
        return ""

    def _tried(self, board: Board, one: _Waiting, used: bool, before: frozenset[tuple[str, int]]) -> Measured | None:
        """The result of a library; None if it is to be tried on another board. used: whether the session has measured others before."""
        try:
            found = board.measure(one.run)
        except BaseException as error:
            self._told(one, ENDED, None if isinstance(error, TVMError) else error)
            raise
        if found.failure in (None, Failure.BUILD, Failure.REFUSED):
            return found
        board.give_up()
        lost = found.failure in (Failure.LOST, Failure.RUN_TIMEOUT)
        # Not what an earlier candidate did to the memory of the session decides.
        if one.tries < TRIES and (lost or used):
            with self._lock:
                self._waiting.append(one._replace(tries=one.tries + 1))
            return None
        return board.blamed(found, before, self._boards) if lost else found

    def _take(self) -> _Waiting | None:
        """What waits longest."""
        with self._lock:
            while self._waiting:
                one = self._waiting.popleft()
                if _begins(one):
                    return one
                self._open -= 1
        return None

    def _told(self, one: _Waiting, found: Measured, error: BaseException | None = None) -> None:
        """What became of a library; or what went wrong here."""
        with self._lock:
            self._open -= 1
            idle = list(self._busy) if not self._open else []
        if _begins(one):
            if error is not None:
                one.found.set_exception(error)
            else:
                one.found.set_result(found)
        for board in idle:
            board.stop_waiting()


def _begins(one: _Waiting) -> bool:
    """Whether its measurement begins, or has begun; it may have been cancelled."""
    return one.found.running() or one.found.set_running_or_notify_cancel()
