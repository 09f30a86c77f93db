"""Measurements on boards: machines with a server of remote calls (`rpc`), which a tracker hands out, or a single one.

Each session has a worker process here, so that a board that hangs is given up like a job that hangs.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

from tilewright.rpc import RPCSession, connect, connect_tracker
from tilewright.runtime import Module
from tilewright.support.errors import RPCError, TVMError
from tilewright.support.workers import Ending, Job, Options, Outcome, Worker
from tilewright.tuning.measure import Failure, Measured, Run, Runner, Signature
from tilewright.tuning.running.local import failed
from tilewright.tuning.running.measuring import Bench, Plan

TRIES = 2
"""Boards on which a candidate is tried when one is lost."""
NOTICED_IN = 1.0
"""Seconds in which a tracker notices that a board is gone."""
WORKER = Options(preload=(__name__,))


class Place(NamedTuple):
    """Where boards are: (host, port) of a tracker and the key of its servers, or of a server. session_timeout: seconds after which a
    server ends a session, and that a board is waited for. priority: higher ones get boards first. device: its kind. key_file, tls_ca: as
    `rpc.connect` takes them."""

    key: str
    tracker: tuple[str, int] | None
    server: tuple[str, int] | None
    session_timeout: int
    priority: int
    device: str
    key_file: str | None
    tls_ca: str | None

    def session(self) -> RPCSession:
        """A session with a free board. Raises RPCError."""
        if self.tracker is not None:
            found = connect_tracker(*self.tracker, self.key_file, self.tls_ca, up_in=5)
            return found.request(self.key, self.priority, self.session_timeout)
        assert self.server is not None
        return connect(*self.server, self.key, self.session_timeout, key_file=self.key_file, tls_ca=self.tls_ca)

    def boards(self) -> frozenset[tuple[str, int]]:
        """The addresses of the boards that are there, free or not. Raises RPCError where the tracker is lost."""
        if self.tracker is not None:
            tracker = connect_tracker(*self.tracker, self.key_file, self.tls_ca, up_in=5)
            servers = tracker.summary()["server_info"]
            tracker.close()
            return frozenset([tuple(s["addr"]) for s in servers if str(s["key"]).removeprefix("server:") == self.key])
        assert self.server is not None
        try:
            socket.create_connection(self.server, 5).close()
        except OSError:
            return frozenset()
        return frozenset([self.server])


class RPCRunner(Runner):
    """Measures on boards, several at once. Sessions are given back at the end of each `run`, so that others can use the boards.

    tracker, key: of the boards; or server, and its key. boards: sessions at once; by default as many as the tracker has boards. timeout:
    seconds of a candidate, and of the reference; those for uploading them count. The others are those of `Place` and of `LocalRunner`.
    Raises ValueError unless either a tracker or a server is given.
    """

    apart = True

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
        self.timeout, self._count = timeout, boards
        self.plan = plan if plan is not None else Plan(seconds=min(timeout / 2, 1.0))
        self._boards: list[_Board] = []

    def run(self, runs: Sequence[Run]) -> list[Measured]:
        """The times of each library, in the order of the libraries."""
        if not runs:
            return []
        try:
            there = len(self.place.boards())
        except (RPCError, OSError) as error:
            return [Measured((), (), Failure.LOST, str(error)) for _ in runs]
        # Without a board, one may come up while it is waited for.
        count = min(self._count or max(there, 1), len(runs))
        while len(self._boards) < count:
            self._boards.append(_Board(self.place, self.plan, self.timeout))
        work = _Work(runs)
        boards = self._boards[:count]
        threads = ThreadPoolExecutor(count, "tilewright-board")
        try:
            pending: set[Future[None]] = {threads.submit(board.serve, work) for board in boards}
            while pending:
                done, pending = wait(pending, 0.05, FIRST_COMPLETED)
                for future in done:
                    future.result()
                if work.is_done:
                    for board in boards:
                        board.stop_waiting()
        except BaseException:
            work.stop()
            for board in self._boards:
                board.end()
            self._boards = []
            raise
        finally:
            threads.shutdown()
        return work.results()

    def close(self) -> None:
        """Ends all sessions."""
        for board in self._boards:
            board.end()
        self._boards = []


class _Work:
    """Candidates that wait, and what became of the others."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._lock = threading.Lock()
        self._waiting = deque([(i, run, 1) for i, run in enumerate(runs)])
        self._found: dict[int, Measured] = {}
        self._stopped = False
        self._count = len(runs)
        self.why = ""
        """Why there is no board for what waits."""

    @property
    def waits(self) -> bool:
        """Whether there are candidates that wait."""
        with self._lock:
            return bool(self._waiting)

    def take(self) -> tuple[int, Run, int] | None:
        """A candidate: its place, its run, and which try this is."""
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def put_back(self, place: int, run: Run, tries: int) -> None:
        """A candidate that is to be tried on another board."""
        with self._lock:
            if not self._stopped:
                self._waiting.append((place, run, tries))

    def told(self, place: int, found: Measured) -> None:
        """What became of a candidate."""
        with self._lock:
            self._found[place] = found

    @property
    def is_done(self) -> bool:
        """Whether it is known what became of all."""
        with self._lock:
            return len(self._found) == self._count

    def stop(self) -> None:
        """Lets nothing wait any more."""
        with self._lock:
            self._stopped = True
            self._waiting.clear()

    def results(self) -> list[Measured]:
        """In the order of the candidates. What still waits is lost."""
        lost = Measured((), (), Failure.LOST, self.why)
        return [self._found.get(i, lost) for i in range(self._count)]


class _Board:
    """A session with a board at a time, in a worker process."""

    def __init__(self, place: Place, plan: Plan, timeout: float) -> None:
        self._place, self._plan, self._timeout = place, plan, timeout
        self._worker = Worker(WORKER)
        self._waits = False

    def serve(self, work: _Work) -> None:
        """Measures what waits, until nothing does or there is no board."""
        try:
            self._serve(work)
        except TVMError:
            if not self._worker.is_ended:
                raise

    def _serve(self, work: _Work) -> None:
        while work.waits:
            # A candidate is taken once there is a board, so that another one may take it meanwhile.
            try:
                before = self._place.boards()
                ready = self._opened()
            except (TVMError, OSError) as error:
                work.why = str(error)
                break
            if ready.ending is not Ending.DONE:
                work.why = ready.message.removeprefix("RPCError: ")
                break
            taken = work.take()
            if taken is None:
                break
            place, run, tries = taken
            used: bool = ready.value
            found = self._measured(run)
            if found.failure is Failure.LOST or found.failure is Failure.RUN_TIMEOUT:
                self._worker.kill()
                if tries < TRIES:
                    work.put_back(place, run, tries + 1)
                    continue
                found = self._blamed(found, before)
            elif found.failure in (Failure.RUN, Failure.WRONG):
                self._worker.kill()
                if used and tries < TRIES:
                    # Not what an earlier candidate did to the memory of the session decides.
                    work.put_back(place, run, tries + 1)
                    continue
            work.told(place, found)
        if self._worker.is_alive:
            self._worker.run(Job(_release, timeout=5))

    def _opened(self) -> Outcome:
        """A session; whether it has measured something already."""
        self._waits = True
        try:
            # Servers that a tracker hands out and that are gone are tried anew, which takes time as well.
            job = Job(_open, (self._place, self._plan, self._timeout), timeout=2 * self._place.session_timeout + 60)
            return self._worker.run(job)
        finally:
            self._waits = False

    def _measured(self, run: Run) -> Measured:
        ready = self._worker.run(Job(_prepare, (run.signature, run.reference), timeout=self._timeout))
        outcome = ready
        if ready.ending is Ending.DONE:
            outcome = self._worker.run(Job(_measure, (run,), timeout=self._timeout))
        if outcome.ending is Ending.DONE:
            found: Measured = outcome.value
            return found
        found = failed(
            outcome, "" if ready.ending is Ending.DONE else "the untuned kernel, with which it is compared: "
        )
        lost = isinstance(outcome.error, RPCError) or outcome.ending is Ending.DIED
        return found._replace(failure=Failure.LOST) if lost else found

    def _blamed(self, found: Measured, before: frozenset[tuple[str, int]]) -> Measured:
        """A session was lost for the second time: by the candidate, if all boards are still there."""
        ends = time.monotonic() + NOTICED_IN
        there = before
        while there and before <= there and time.monotonic() < ends:
            time.sleep(NOTICED_IN / 5)
            try:
                there = self._place.boards()
            except (RPCError, OSError):
                there = frozenset()
        if not there or not before <= there:
            return found._replace(failure=Failure.LOST)
        return found._replace(failure=Failure.RUN) if found.failure is Failure.LOST else found

    def stop_waiting(self) -> None:
        """Waits for no board any more."""
        if self._waits:
            self._worker.kill()

    def end(self) -> None:
        """Ends the session, for good."""
        self._worker.end()


class _Session:
    """In a worker: the session, and its bench."""

    def __init__(self, place: Place, plan: Plan) -> None:
        self.place, self.begun, self.used = place, time.monotonic(), False
        remote = place.session()
        self.bench = Bench(_loader(remote), remote.device(place.device), plan)


def _loader(remote: RPCSession) -> Callable[[Path], Module]:
    """What loads libraries of this machine in a session."""
    count = itertools.count()

    def load(path: Path) -> Module:
        name = f"kernel-{next(count)}{path.suffix}"
        remote.upload(path, name)
        found: Module = remote.load_module(name)
        return found

    return load


_session: _Session | None = None


def _open(place: Place, plan: Plan, timeout: float) -> bool:
    """Opens a session, if there is none that lasts. Whether it has measured something."""
    global _session
    if _session is not None and time.monotonic() - _session.begun + 2 * timeout > place.session_timeout:
        _session = None
    if _session is None:
        _session = _Session(place, plan)
    return _session.used


def _bench() -> Bench:
    if _session is None:
        raise RPCError("there is no session any more")
    _session.used = True
    return _session.bench


def _prepare(signature: Signature, reference: Path | None) -> None:
    _bench().prepare(signature, reference)


def _measure(run: Run) -> Measured:
    return _bench().measure(run)


def _release() -> None:
    global _session
    _session = None
