"""A board, as measurements have it: where it is, a session with it, and the worker process that holds the session."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tilewright.rpc import RPCSession, connect, connect_tracker
from tilewright.runtime import Module
from tilewright.support.errors import RPCError, said
from tilewright.support.workers import Ending, Job, Options, Outcome, Worker
from tilewright.tuning.measure import Failure, Measured, NoMachineError, Run, Signature
from tilewright.tuning.running.local import failed
from tilewright.tuning.running.measuring import Bench, Plan

NOTICED_IN = 1.0
"""Seconds in which a tracker notices that a board is gone."""
RAISED_THERE = "Error caught from RPC call:\n"
"""How messages of errors begin that a server raised."""
WORKER = Options(preload=(__name__,))


Address = tuple[str, int]


class Place(NamedTuple):
    """Where boards are: (host, port) of a tracker and the key of its servers, or of a server. session_timeout: seconds after which a
    server ends a session, and that a board is waited for. priority: higher ones get boards first. device: its kind. key_file, tls_ca: as
    `rpc.connect` takes them."""

    key: str
    tracker: Address | None
    server: Address | None
    session_timeout: int
    priority: int
    device: str
    key_file: str | None
    tls_ca: str | None

    def __str__(self) -> str:
        """`with the key 'pi' at the tracker farm:9190`."""
        where = "at the tracker" if self.tracker is not None else "at"
        host, port = self.tracker or self.server or ("", 0)
        return f"with the key {self.key!r} {where} {host}:{port}"

    def session(self) -> RPCSession:
        """A session with a free board. Raises RPCError."""
        if self.tracker is not None:
            found = connect_tracker(*self.tracker, self.key_file, self.tls_ca, up_in=5)
            return found.request(self.key, self.priority, self.session_timeout)
        assert self.server is not None
        return connect(*self.server, self.key, self.session_timeout, key_file=self.key_file, tls_ca=self.tls_ca)

    def boards(self) -> frozenset[Address]:
        """The addresses of the boards that are there, free or not. Raises NoMachineError where the tracker is lost."""
        if self.tracker is not None:
            try:
                tracker = connect_tracker(*self.tracker, self.key_file, self.tls_ca, up_in=5)
                servers = tracker.summary()["server_info"]
                tracker.close()
            except (RPCError, OSError) as error:
                raise NoMachineError(f"the tracker of the boards is lost: {said(error)}") from error
            return frozenset([tuple(s["addr"]) for s in servers if str(s["key"]).removeprefix("server:") == self.key])
        assert self.server is not None
        try:
            socket.create_connection(self.server, 5).close()
        except OSError:
            return frozenset()
        return frozenset([self.server])


class Board:
    """A session with a board at a time, in a worker process. A board that hangs is given up like a job that hangs."""

    def __init__(self, place: Place, plan: Plan, timeout: float) -> None:
        self.place, self._plan, self._timeout = place, plan, timeout
        self._worker = Worker(WORKER)
        self._waits = False

    @property
    def is_ended(self) -> bool:
        return self._worker.is_ended

    def open(self) -> Outcome:
        """A session, where there is none that lasts. The value: whether it has measured something already."""
        self._waits = True
        try:
            # Servers that a tracker hands out and that are gone are tried anew, which takes time as well.
            job = Job(_open, (self.place, self._plan, self._timeout), timeout=2 * self.place.session_timeout + 60)
            return self._worker.run(job)
        finally:
            self._waits = False

    def measure(self, run: Run) -> Measured:
        """The times of a library in the session; LOST if this went away."""
        ready = self._worker.run(Job(_prepare, (run.signature, run.reference), timeout=self._timeout))
        outcome = ready
        if ready.ending is Ending.DONE:
            outcome = self._worker.run(Job(_measure, (run,), timeout=self._timeout))
        if outcome.ending is Ending.DONE:
            found: Measured = outcome.value
            return found
        before = "" if ready.ending is Ending.DONE else "the untuned kernel, with which it is compared: "
        text = str(outcome.error) if isinstance(outcome.error, RPCError) else ""
        if text.startswith(RAISED_THERE):
            # The session lasts.
            return failed(outcome._replace(message=text.removeprefix(RAISED_THERE)), before)
        found = failed(outcome, before)
        lost = isinstance(outcome.error, RPCError) or outcome.ending is Ending.DIED
        return found._replace(failure=Failure.LOST) if lost else found

    def blamed(self, found: Measured, before: frozenset[Address], boards: Callable[[], frozenset[Address]]) -> Measured:
        """A session was lost for the second time: by the candidate, if all boards are still there. before: the boards that were there;
        boards: those that are there."""
        ends = time.monotonic() + NOTICED_IN
        there = before
        while there and before <= there and time.monotonic() < ends:
            time.sleep(NOTICED_IN / 5)
            try:
                there = boards()
            except RPCError:
                there = frozenset()
        if not there or not before <= there:
            return found._replace(failure=Failure.LOST)
        return found._replace(failure=Failure.RUN) if found.failure is Failure.LOST else found

    def give_up(self) -> None:
        """Ends the session with its process."""
        self._worker.kill()

    def give_back(self) -> None:
        """Ends the session; the process stays."""
        if self._worker.is_alive:
            self._worker.run(Job(_release, timeout=5))

    def stop_waiting(self) -> None:
        """Waits for no session any more."""
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
