"""Functions that run in processes of their own, each in its time (classic)."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.support.processors import usable_processors
from tilewright.support.workers import Ending, Job, Options, Outcome, Pool, Worker


class StatusKind(IntEnum):
    """How a call ended."""

    RUNNING = 0
    COMPLETE = 1
    EXCEPTION = 2
    TIMEOUT = 3


class MapResult(NamedTuple):
    """How a call ended, and its result; after an exception that exception, else None."""

    status: StatusKind
    value: Any


def kill_child_processes(pid: int) -> None:
    """Kills the processes that a process started, those that they started, and so on. Only where /proc tells them (Linux)."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    found = list(children.get(pid, []))
    for child in found:
        found += children.get(child, [])
    for child in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


class PopenWorker:
    """A process that runs one function after the other. It is started by the first one, and anew after one that took too long or died.

    initializer, initargs: a function that a process calls first. maximum_uses: calls until the process is replaced. stdout, stderr: as
    subprocess takes them; by default those of this process. Functions are found by their module and name in the process.
    """

    def __init__(
        self,
        initializer: Callable[..., Any] | None = None,
        initargs: Sequence[Any] = (),
        maximum_uses: int | None = None,
        stdout: Any = None,
        stderr: Any = None,
    ) -> None:
        self._worker = Worker(_options(initializer, initargs, maximum_uses, stdout, stderr))

    def send(
        self,
        fn: Callable[..., Any],
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Starts a call. timeout: seconds. Raises TVMError for what cannot be sent."""
        self._worker.send(Job(fn, tuple(args), kwargs, timeout))

    def recv(self) -> Any:
        """The result of the call. Raises what the function raised; TimeoutError; ChildProcessError where the process died."""
        return _value(self._worker.receive())

    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._worker.is_alive

    def join(self, timeout: float | None = None) -> None:
        """Waits for the process to end, after the call that it runs. timeout: seconds that this waits."""
        self._worker.wait(timeout)

    def kill(self) -> None:
        """Ends the process at once, with those that it started."""
        self._worker.kill()


class PopenPoolExecutor:
    """Calls in processes, several at once.

    max_workers: processes; by default the processors that may be used. timeout: seconds of a call. The others are those of PopenWorker.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        timeout: float | None = None,
        initializer: Callable[..., Any] | None = None,
        initargs: Sequence[Any] = (),
        maximum_process_uses: int | None = None,
        stdout: Any = None,
        stderr: Any = None,
    ) -> None:
        options = _options(initializer, initargs, maximum_process_uses, stdout, stderr)
        self._pool = Pool(max_workers if max_workers is not None else usable_processors(), options)
        self._timeout = timeout

    def submit(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        """The future of a call's result; it raises what `PopenWorker.recv` raises."""
        found: Future[Any] = Future()
        found.set_running_or_notify_cancel()

        def done(outcome: Future[Outcome]) -> None:
            try:
                found.set_result(_value(outcome.result()))
            except BaseException as error:
                found.set_exception(error)

        self._pool.submit(Job(fn, args, kwargs, self._timeout)).add_done_callback(done)
        return found

    def map_with_error_catching(self, fn: Callable[..., Any], iterator: Iterable[Any]) -> Iterator[MapResult]:
        """How the call with each element ended, in the order of the elements."""
        for future in [self.submit(fn, element) for element in iterator]:
            try:
                yield MapResult(StatusKind.COMPLETE, future.result())
            except TimeoutError:
                yield MapResult(StatusKind.TIMEOUT, None)
            except Exception as error:
                yield MapResult(StatusKind.EXCEPTION, error)

    def __del__(self) -> None:
        if hasattr(self, "_pool"):
            self._pool.close(wait=False)


def _options(
    initializer: Callable[..., Any] | None, initargs: Sequence[Any], uses: int | None, stdout: Any, stderr: Any
) -> Options:
    first = Job(initializer, tuple(initargs)) if initializer is not None else None
    # Numbers of files: a program may have replaced sys.stdout by what is no file.
    return Options(
        initializer=first,
        uses=uses,
        stdout=1 if stdout is None else stdout,
        stderr=2 if stderr is None else stderr,
    )


def _value(outcome: Outcome) -> Any:
    match outcome.ending:
        case Ending.DONE:
            return outcome.value
        case Ending.TIMEOUT:
            raise TimeoutError(outcome.message)
        case Ending.MEMORY:
            raise MemoryError(outcome.message)
        case Ending.DIED:
            raise ChildProcessError(outcome.message)
        case Ending.RAISED:
            raise outcome.error if outcome.error is not None else RuntimeError(outcome.message)
