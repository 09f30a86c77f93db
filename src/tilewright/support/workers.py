"""Processes that run jobs one after the other, and are replaced when they hang or die.

A job is a function that can be imported, and its arguments. Its process is started once (not forked: this process may have threads), and
stays for the next job. What goes wrong in a job ends at most its own process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from typing import Any, NamedTuple, cast

from tilewright.support.errors import TVMError
from tilewright.support.job_process import Job, JobProcess, Options, seconds_left
from tilewright.support.preloading import EVERYWHERE
from tilewright.support.worker_process import DONE, MEMORY, Setup, send, send_bytes

STARTED_IN = 120.0
"""Seconds that a process has until it takes jobs; a loaded machine may be slow."""


class Ending(Enum):
    """How a job ended."""

    DONE = "done"
    RAISED = "raised"
    MEMORY = "memory"
    TIMEOUT = "timeout"
    DIED = "died"


class Outcome(NamedTuple):
    """What became of a job: its value, or what to say of its failure; the error that it raised, if that could be sent."""

    ending: Ending
    value: Any = None
    message: str = ""
    error: BaseException | None = None


class Worker:
    """A process for jobs. It is started by the first one, and anew after one that hung or died."""

    def __init__(self, options: Options | None = None) -> None:
        self.options = options if options is not None else Options()
        self._process: JobProcess | None = None
        self._sent: Job | None = None
        self._data = b""
        self._ends = float("inf")
        self._used = 0
        self.is_ended = False
        """Whether it is to have no process any more."""
        _workers.add(self)

    @property
    def pid(self) -> int | None:
        """The number of its process; None while there is none."""
        return self._process.popen.pid if self._process is not None else None

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.popen.poll() is None

    def run(self, job: Job) -> Outcome:
        """What becomes of a job. An exception here (Ctrl-C) ends the process."""
        try:
            self.send(job)
            return self.receive()
        except TVMError:
            raise
        except BaseException:
            self._sent = None
            self.kill()
            raise

    def send(self, job: Job) -> None:
        """Starts a job; its time begins when the process takes it. Raises TVMError for a job that cannot be sent, and where no process can
        be started."""
        if self._sent is not None:
            raise TVMError("a worker runs one job at a time: receive the last one's result first")
        self._data = _pickled(job)
        try:
            if self._used == self.options.uses or not self.is_alive:
                self._restart()
            self._give(job)
        except BaseException:
            self.kill()
            raise
        self._sent = job

    def _give(self, job: Job) -> None:
        process = cast(JobProcess, self._process)
        self._ends = time.monotonic() + job.timeout if job.timeout is not None else float("inf")
        self._used += 1
        process.channel.settimeout(seconds_left(self._ends))
        # A process that died, or hangs, is noticed by `receive`.
        with contextlib.suppress(OSError):
            send_bytes(process.channel, self._data)

    def receive(self) -> Outcome:
        """What became of the job that was sent."""
        job, process = self._sent, self._process
        if job is None:
            raise TVMError("a worker without a job has no result: send one first")
        self._sent = None
        if process is None:
            return Outcome(Ending.DIED, message="its process was ended")
        try:
            return self._outcome(process, job)
        except BaseException:
            self.kill()
            raise

    def _outcome(self, process: JobProcess, job: Job) -> Outcome:
        try:
            if not process.has_taken(self._ends):
                if self._process is not process:
                    return Outcome(Ending.DIED, message="its process was ended")
                # It died before this job, and nobody had noticed.
                process = self._restart()
                self._give(job)
                process.has_taken(self._ends)
            ending, value, message, error = pickle.loads(process.received(self._ends))
        except TimeoutError:
            self.kill()
            return Outcome(Ending.TIMEOUT, message=f"it took longer than {job.timeout:g} s")
        except (EOFError, OSError):
            message = process.death()
            self.kill()
            if any([word in message for word in ("bad_alloc", "MemoryError", "out of memory")]):
                return Outcome(Ending.MEMORY, message=f"{self._over_limit()}; {message}")
            return Outcome(Ending.DIED, message=message)
        process.forget_words()
        if ending == MEMORY:
            return Outcome(Ending.MEMORY, message=self._over_limit())
        return Outcome(Ending.DONE if ending == DONE else Ending.RAISED, value, message, error)

    def _over_limit(self) -> str:
        memory = self.options.memory
        return f"it took more memory than {'there is' if memory is None else f'its {memory / 2**20:g} MiB'}"

    def _restart(self) -> JobProcess:
        self.kill()
        options = self.options
        first = _pickled(options.initializer) if options.initializer is not None else b""
        self._used = 0
        self._process = process = JobProcess(options)
        if self.is_ended:
            self.kill()
            raise TVMError("the worker was ended")
        setup = Setup(_main_file(), (*EVERYWHERE, *options.preload), options.memory, first)
        ends = time.monotonic() + STARTED_IN
        try:
            process.channel.settimeout(seconds_left(ends))
            send(process.channel, tuple(setup))
            ending, _, message, cause = pickle.loads(process.received(ends))
        except TimeoutError as error:
            raise TVMError(f"a worker process does not start in {STARTED_IN:g} s; the machine is overloaded") from error
        except (EOFError, OSError) as error:
            raise TVMError(f"a worker process cannot start: {process.death()}") from error
        if ending != DONE:
            raise TVMError(f"a worker process cannot start: {message or self._over_limit()}") from cause
        return process

    def kill(self) -> None:
        """Ends its process at once. The next job starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.end()

    def end(self) -> None:
        """Ends its process at once, for good. Another thread's job fails."""
        self.is_ended = True
        self.kill()

    def wait(self, seconds: float | None = None) -> bool:
        """Lets its process end by itself, once it has done its job. Whether it did so within the seconds."""
        process = self._process
        if process is None:
            return True
        with contextlib.suppress(OSError):
            process.channel.shutdown(socket.SHUT_WR)
        try:
            process.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        self.kill()
        return True

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.kill()

    def forget(self) -> None:
        """In a process that was forked: the worker is its parent's."""
        process, self._process, self._sent = self._process, None, None
        if process is not None:
            process.forget()


class Pool:
    """Workers that do jobs at once. Its methods may be called by several threads. It ends with this object, and with this process."""

    def __init__(self, processes: int, options: Options | None = None) -> None:
        if processes < 1:
            raise ValueError(f"a pool has at least one process, but {processes} were asked for")
        self.processes = processes
        self.options = options if options is not None else Options()
        self._renew()
        _pools.add(self)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Worker] = []
        self._all: list[Worker] = []
        self._threads: ThreadPoolExecutor | None = None

    def submit(self, job: Job) -> Future[Outcome]:
        """Starts a job as soon as a worker is free. The future's result raises TVMError for a job that cannot be sent."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.processes, "tilewright-worker")
            return self._threads.submit(self._run, job)

    def run(self, jobs: Iterable[Job]) -> list[Outcome]:
        """What becomes of each job, in the order of the jobs. An exception here (Ctrl-C) ends the processes."""
        futures = [self.submit(job) for job in jobs]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            self.close()
            raise

    def _run(self, job: Job) -> Outcome:
        with self._lock:
            worker = self._idle.pop() if self._idle else Worker(self.options)
            if worker not in self._all:
                self._all.append(worker)
        try:
            return worker.run(job)
        except TVMError:
            if not worker.is_ended:
                raise
            return Outcome(Ending.DIED, message="its process was ended")
        finally:
            with self._lock:
                if worker in self._all:
                    self._idle.append(worker)

    @property
    def pids(self) -> list[int]:
        """The numbers of its processes."""
        with self._lock:
            return [pid for worker in self._all if (pid := worker.pid) is not None]

    def close(self, wait: bool = True) -> None:
        """Ends the processes, whatever they do: their jobs fail. Further jobs start new ones. wait: until their jobs have failed; not from
        inside a thread of the pool."""
        with self._lock:
            workers, self._all, self._idle = self._all, [], []
            threads, self._threads = self._threads, None
        for worker in workers:
            worker.end()
        if threads is not None:
            threads.shutdown(wait, cancel_futures=True)

    def forget(self) -> None:
        """In a process that was forked: the workers and the threads are its parent's."""
        self._renew()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _pickled(job: Job) -> bytes:
    try:
        return pickle.dumps((job.function, job.args, dict(job.kwargs or {})), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        name = getattr(job.function, "__qualname__", repr(job.function))
        raise TVMError(
            f"{name} cannot be sent to a worker process: {error}; a job"
            " is a function that can be imported, with arguments that can be pickled"
        ) from error


def _main_file() -> str | None:
    """The file of this process's program; None where it is run as a module or has none: then its functions are those of a module."""
    main = sys.modules.get("__main__")
    path = getattr(main, "__file__", None)
    return os.path.abspath(path) if path and os.path.isfile(path) else None


_workers: weakref.WeakSet[Worker] = weakref.WeakSet()
_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _forget() -> None:
    for worker in list(_workers):
        worker.forget()
    for pool in list(_pools):
        pool.forget()


def _end_all() -> None:
    for worker in list(_workers):
        worker.kill()


atexit.register(_end_all)
os.register_at_fork(after_in_child=_forget)

__all__ = ["Ending", "Job", "Options", "Outcome", "Pool", "Worker"]
